//! What the machine and the model do to a service: a full disk, a folder that can't be written, a damaged and a locked
//! database, weights that make no picture. Each is told in words, costs nothing that was promised, and is over when its
//! cause is.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod database;
mod disk;
mod weights;
