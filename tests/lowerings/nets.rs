//! Every net under every lowering against the reference.
//!
//! The tolerances for f16 follow from its rounding, 2^-11 of a value at most and some 2e-4 in the mean square. A block
//! rounds the inputs and the result of each product, and sums of many terms average it, so a net of few blocks is off by
//! a few roundings: 3e-4 was measured for the velocity and 1.1e-3 for the embeddings, whose last norm follows
//! products without a residual to dominate them. Three times the measured is allowed. The reference itself has
//! weights in f32; rounding those costs as much again, on any device.
//!
//! ONNX Runtime's CPU provider has few kernels in f16 and leaves values in f32 from one operator to the next where it can,
//! so this is less than an NPU rounds, and nothing overflows; that shows where the emulator of CANN rounds (6e-4).

use onnx_export::graph::CannLowering;
use storymem::engine::{Device, Engine};

use super::common::nets::{Output, autoencoder, clip, text_encoder, transformer};
use super::common::{Comparison, runtime};
use super::{CHUNKED, EXACT, FLASH};

type Net = fn(&Engine, &[&str]) -> Vec<Output>;

/// Relative error of arithmetic in f32, as for the CPU's own lowering.
const F32: f64 = 2e-5;

const F16_BUNDLE: &[&str] = &["--dtype", "f16"];

fn cpu(net: Net, flags: &[&str]) -> Vec<Output> {
    net(&Engine::open(runtime(), Device::Cpu).unwrap(), flags)
}

fn run(lowering: CannLowering, net: Net, flags: &[&str]) -> Vec<Output> {
    net(&Engine::with_lowering(runtime(), lowering), flags)
}

/// The same results, to be compared with those of another run.
fn against(outputs: Vec<Output>, others: &[Output]) -> Vec<Output> {
    let pair = |(output, other): (Output, &Output)| {
        assert_eq!(output.what, other.what);
        Output { reference: other.value.clone(), ..output }
    };
    outputs.into_iter().zip(others).map(pair).collect()
}

#[test]
fn in_f32_every_net_agrees_with_the_reference() {
    let mut comparison = Comparison::default();
    for net in [text_encoder, autoencoder, transformer, clip] {
        comparison.check_all(&run(EXACT, net, &[]), F32);
    }
    comparison.finish();
}

#[test]
fn at_precision_f32_flash_attention_is_chunked_and_bundles_of_any_type_are_computed_in_f32() {
    let lowering = CannLowering { attention: FLASH.attention, ..EXACT };
    assert!(!lowering.uses_flash_attention());
    assert_eq!(lowering.to_string(), "cann-f32-chunked");
    let mut comparison = Comparison::default();
    for net in [text_encoder, transformer] {
        let same = against(run(lowering, net, F16_BUNDLE), &cpu(net, F16_BUNDLE));
        comparison.check_all(&same, F32);
    }
    comparison.finish();
}

#[test]
fn in_f16_every_net_agrees_with_the_reference() {
    let mut comparison = Comparison::default();
    for (net, arithmetic, weights_too) in [
        (text_encoder as Net, 3e-3, 6e-3),
        (transformer, 1e-3, 1.5e-3),
        (autoencoder, F32, F32),
        (clip, F32, F32),
    ] {
        let reference = cpu(net, F16_BUNDLE);
        for lowering in [FLASH, CHUNKED] {
            let outputs = run(lowering, net, F16_BUNDLE);
            comparison.check_all(&outputs, weights_too);
            comparison.check_all(&against(outputs, &reference), arithmetic);
        }
    }
    comparison.finish();
}

#[test]
fn flash_and_chunked_attention_agree() {
    let mut comparison = Comparison::default();
    let chunked = run(CHUNKED, transformer, F16_BUNDLE);
    // They differ in where they round: of chunks, the scores and the probabilities are rounded to f16 as well. 2.5e-4
    // was measured.
    comparison.check_all(&against(run(FLASH, transformer, F16_BUNDLE), &chunked), 6e-4);
    comparison.finish();
}

#[test]
fn weights_stored_in_bf16_or_f32_are_computed_in_f32() {
    let mut comparison = Comparison::default();
    for flags in [["--dtype", "bf16"], ["--dtype", "f32"]] {
        for net in [text_encoder, transformer] {
            comparison.check_all(&against(run(FLASH, net, &flags), &cpu(net, &flags)), F32);
        }
    }
    comparison.finish();
}
