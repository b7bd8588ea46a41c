//! What an NPU is given, checked on the CPU: what it computes, and that CANN would take it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod flash_attention;
mod nets;
mod provider;

use onnx_export::graph::CannLowering;
use onnx_export::graph::cann::{Attention, Precision};

/// The nets in f16 as they are meant to run.
const FLASH: CannLowering =
    CannLowering { precision: Precision::F16, attention: Attention::Flash, rows: CannLowering::ROWS };
/// The same without the vendor's operator, in chunks and parts that don't divide anything.
const CHUNKED: CannLowering =
    CannLowering { precision: Precision::F16, attention: Attention::Chunked { queries: 7 }, rows: 20 };
/// The same graphs as `CHUNKED`, in f32.
const EXACT: CannLowering =
    CannLowering { precision: Precision::F32, attention: Attention::Chunked { queries: 7 }, rows: 20 };
