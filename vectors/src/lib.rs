//! Known answers for the Agent Protocols, and what is done with them.
//!
//! [`case`] is the file format, [`answer`] this project's answers, [`generate`] writes the
//! files, [`drive`] feeds them to any implementation that speaks the line protocol. Nothing
//! here talks to a network.
#![warn(missing_docs)]

pub mod answer;
pub mod case;
pub mod drive;
pub mod generate;
