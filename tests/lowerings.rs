//! What an NPU is given, checked on the CPU.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::nets::{Output, autoencoder, text_encoder, transformer};
use common::{Comparison, runtime};
use onnx_export::graph::CannLowering;
use onnx_export::graph::cann::{Attention, Precision};
use storymem::engine::Engine;

fn run(lowering: CannLowering, net: fn(&Engine, &[&str]) -> Vec<Output>, flags: &[&str]) -> Vec<Output> {
    net(&Engine::with_lowering(runtime(), lowering), flags)
}

#[test]
fn measure() {
    for (precision, attention) in [
        (Precision::F32, Attention::Chunked { queries: 7 }),
        (Precision::F16, Attention::Flash),
        (Precision::F16, Attention::Chunked { queries: 7 }),
    ] {
        let lowering = CannLowering { precision, attention };
        let dtype = if precision == Precision::F32 { "f32" } else { "f16" };
        println!("### {lowering}");
        let mut c = Comparison::default();
        c.check_all(&run(lowering, text_encoder, &["--dtype", dtype]), 1.0);
        c.check_all(&run(lowering, autoencoder, &["--dtype", dtype]), 1.0);
        c.check_all(&run(lowering, transformer, &["--dtype", dtype]), 1.0);
        c.finish();
    }
    let cpu = Engine::open(runtime(), storymem::engine::Device::Cpu).unwrap();
    println!("### cpu on f16");
    let mut c = Comparison::default();
    c.check_all(&text_encoder(&cpu, &["--dtype", "f16"]), 1.0);
    c.check_all(&transformer(&cpu, &["--dtype", "f16"]), 1.0);
    c.finish();
}
