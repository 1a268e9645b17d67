//! How MCP clients reach the connector over HTTP: a guard in front, the MCP service behind it.
//! Being on the same machine is no permission: everything is refused that does not prove
//! itself with the token.

pub mod guard;
pub mod http;
