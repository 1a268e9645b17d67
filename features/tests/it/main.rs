//! The command as a person or a pipeline meets it: arguments in, exit code and reports out.

mod closed_output;
mod exit_codes;
mod fixture;
mod grp_url;
mod hosts;
mod reference;
