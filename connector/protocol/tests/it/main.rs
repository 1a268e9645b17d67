//! The kernel against other implementations, published data and random input.
//!
//! Cases with fixed input live in `vectors/`; here is what needs a second implementation,
//! a generator of inputs, or a long run.
#![allow(clippy::unwrap_used)] // in a test a panic is the report

mod archive;
mod canonical;
mod evidence;
mod interop;
mod invariants;
mod json_text;
mod limits;
mod replay;
mod round_trip;
mod signatures;
mod sse;
mod support;
