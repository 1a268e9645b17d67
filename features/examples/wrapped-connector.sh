#!/bin/sh
# A foreign connector as the suite sees it: any command that speaks MCP on stdio.
# This one wraps ap-connector, or whatever command AP_CONNECTOR names:
#
#   cargo build --workspace
#   PATH=$PWD/target/debug:$PATH conformance run --connector 'sh features/examples/wrapped-connector.sh {config}'
#
# The suite writes a provisioning document, puts its path where {config} stands (and into
# AP_CONFORMANCE_CONFIG), and starts the command anew for every scenario.
exec ${AP_CONNECTOR:-ap-connector} serve --provision "${1:-$AP_CONFORMANCE_CONFIG}"
