//! Every net on the device against the reference.

use onnx_export::graph::CannLowering;
use onnx_export::graph::cann::{Attention, Precision};
use storymem::engine::{DeviceOptions, Engine};

use super::common::Comparison;
use super::common::nets::{Output, autoencoder, clip, text_encoder, transformer};
use super::emulator::{Machine, engine};

type Net = fn(&Engine, &[&str]) -> Vec<Output>;

/// Checks every net, each with its tolerance, on a bundle of that type.
fn check(precision: Precision, attention: Attention, dtype: &str, tolerances: [f64; 4]) {
    // Parts that don't divide the tokens.
    let lowering = CannLowering { precision, attention, rows: 20 };
    let engine = engine(DeviceOptions { lowering, ..DeviceOptions::default() });
    let mut comparison = Comparison::default();
    let nets: [Net; 4] = [text_encoder, autoencoder, transformer, clip];
    for (net, tolerance) in nets.into_iter().zip(tolerances) {
        comparison.check_all(&net(&engine, &["--dtype", dtype]), tolerance);
    }
    comparison.finish();
}

/// Text encoder, autoencoder, transformer, CLIP, as `tests/lowerings/nets.rs` explains them: the autoencoder and CLIP are in
/// f32 in any case; of the others 2.7e-3 and 6e-4 were measured, where what is between operators is rounded to f16 too.
const F16: [f64; 4] = [6e-3, 2e-5, 1.5e-3, 2e-5];

#[test]
#[ignore = "runs on the emulator, started by the test below"]
fn part_flash() {
    check(Precision::F16, Attention::Flash, "f16", F16);
}

#[test]
#[ignore = "runs on the emulator, started by the test below"]
fn part_chunked() {
    check(Precision::F16, Attention::Chunked { queries: 7 }, "f16", F16);
}

#[test]
#[ignore = "runs on the emulator, started by the test below"]
fn part_f32() {
    check(Precision::F32, Attention::Flash, "f32", [2e-5; 4]);
}

#[test]
fn every_net_agrees_with_the_reference_in_every_lowering() {
    for part in ["part_flash", "part_chunked", "part_f32"] {
        let machine = Machine::new();
        println!("{}", machine.run_part(&format!("nets::{part}"), &[]));
        let log = machine.log();
        assert_eq!(log.failures(), [] as [&serde_json::Value; 0]);
        assert!(log.count("execute") > 0);
        // Between graphs nothing is copied, neither within the device nor by the provider.
        assert_eq!(log.count("aclrtMemcpyAsync"), 0);
        assert_eq!(log.copied("aclrtMemcpy", "device_to_device"), 0);
    }
}
