#!/bin/sh
# A foreign connector as the suite sees it: any command that speaks MCP on stdio.
# This one wraps ap-connector. Try it:
#
#   cargo build --workspace
#   target/debug/conformance run --connector 'sh features/examples/wrapped-connector.sh {config}'
#
# The suite writes the provisioning document, puts its path where {config} stands (and into
# AP_CONFORMANCE_CONFIG), and starts the command anew for every scenario.
config=${1:-$AP_CONFORMANCE_CONFIG}
exec "${AP_CONNECTOR:-ap-connector}" serve --provision "$config"
