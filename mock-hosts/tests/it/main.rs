//! The hosts at the wire: every rule and every fault, each with its positive and its refused
//! case. The SSE client is `reqwest-eventsource`, not ours.
// In a test an unwrap is an assertion, in helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod app;
mod basics;
mod browser;
mod chromium;
mod codes;
mod control;
mod durability;
mod faults;
mod grp_durable;
mod grp_faults;
mod grp_lab;
mod grp_openapi;
mod grp_page;
mod grp_push;
mod grp_replay;
mod grp_support;
mod grp_vectors;
mod grp_wait;
mod joining;
mod life;
mod lists;
mod openapi;
mod personas;
mod stream_faults;
mod streams;
mod support;
