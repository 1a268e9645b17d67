//! The vectors against this project's own answers, the driver against answers that are wrong.

mod answers;
mod driver;
mod files;
