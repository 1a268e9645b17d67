//! The hosts at the wire: every rule and every fault, each with its positive and its refused
//! case. The SSE client is `reqwest-eventsource`, not ours.

mod basics;
mod grp_vectors;
mod support;
