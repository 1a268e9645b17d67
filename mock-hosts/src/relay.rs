//! A place between the clients and one host, for those who study what a client sends: a request
//! can be changed, repeated or sent elsewhere before the host sees it.
//!
//! It knows no rules; the journal shows what came out of it.

use bytes::Bytes;
use futures::future::BoxFuture;
use http::Request;

/// Stands before a host ([`crate::Host::set_relay`]).
pub trait Relay: Send + Sync {
    /// The requests that reach the host in place of `request`, one after the other. The client
    /// gets the answer to the first; without any, status 502.
    fn pass(&self, request: Request<Bytes>) -> BoxFuture<'_, Vec<Request<Bytes>>>;
}
