//! The queue's promises under fire: the real programs, really killed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod breakpoints;
mod chaos;
mod drain;
mod hang;
mod poison;
mod stale;
