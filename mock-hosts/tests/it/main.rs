//! The hosts at the wire: every rule and every fault, each with its positive and its refused
//! case. The SSE client is `reqwest-eventsource`, not ours.

mod app;
mod basics;
mod browser;
mod codes;
mod control;
mod durability;
mod faults;
mod grp_vectors;
mod joining;
mod life;
mod lists;
mod openapi;
mod personas;
mod stream_faults;
mod streams;
mod support;
