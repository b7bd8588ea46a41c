//! The NPU's whole path where there is no NPU: the real CANN provider, over libraries that stand in for Ascend's
//! (`tests/cann-emulator`). `make test` builds them and fetches the provider.
//!
//! A process has one device and one precision, so each test runs the program, or a part of this one, in processes of
//! its own; see [`emulator`].
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod cache;
mod emulator;
mod faults;
mod memory;
mod nets;
mod pipelines;
mod serve;
