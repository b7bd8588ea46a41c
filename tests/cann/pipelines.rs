//! Whole pipelines on the device, as a user types them.

use super::common::Comparison;
use super::common::pipelines::PIPELINES;
use super::emulator::Machine;

/// In f16 on a bundle in f16, as nets are meant to run.
///
/// A step's velocity is off by 6e-4 (see `nets`) besides what the last one was, and guidance multiplies the difference of
/// two of them by its scale: 2.1e-3 was measured. The solver averages over steps, so latents are off by less, 1.2e-3, and
/// frames by about as much, as the autoencoder is in f32. Three times the measured is allowed.
#[test]
fn in_f16_every_stage_agrees_with_the_reference() {
    let machine = Machine::new();
    let mut comparison = Comparison::default();
    for pipeline in PIPELINES {
        let tolerance = |stage: &str| match stage {
            "noise" => 1e-6,
            "condition" => 2e-5,
            _ => 6e-3,
        };
        let adapt = |command: &mut std::process::Command| {
            machine.adapt(command);
            command.args(["--device", "cann:0"]);
        };
        pipeline.check(&["--dtype", "f16"], adapt, tolerance, 50.0, &mut comparison);
    }
    comparison.finish();
}

/// The same path with nothing narrowed.
#[test]
fn in_f32_every_stage_agrees_with_the_reference() {
    let machine = Machine::new();
    let mut comparison = Comparison::default();
    for pipeline in PIPELINES {
        let tolerance = |stage: &str| match stage {
            "noise" => 1e-6,
            _ => 1e-4,
        };
        let adapt = |command: &mut std::process::Command| {
            machine.adapt(command);
            command.args(["--device", "cann:0", "--precision", "f32"]);
        };
        pipeline.check(&["--dtype", "f32"], adapt, tolerance, 50.0, &mut comparison);
    }
    comparison.finish();
}
