//! Whole pipelines on the device, as a user types them.

use super::common::Comparison;
use super::common::pipelines::PIPELINES;
use super::emulator::Machine;

/// In f16 on a bundle in f16, as nets are meant to run.
///
/// A step's velocity is off by some 1e-3 (see `nets`), guidance multiplies the difference of two of them by its scale, and the
/// solver adds steps up; the reference's experts are tiny and random, so they do not draw latents back to anything.
/// Frames are the autoencoder's, in f32, of what the latents have become. The condition never meets f16.
#[test]
fn in_f16_every_stage_agrees_with_the_reference() {
    let machine = Machine::new();
    let mut comparison = Comparison::default();
    for pipeline in PIPELINES {
        let tolerance = |stage: &str| match stage {
            "noise" => 1e-6,
            "condition" => 1e-4,
            "prompt_embeds" | "negative_prompt_embeds" => 6e-3,
            _ => 1e-2,
        };
        let adapt = |command: &mut std::process::Command| {
            machine.adapt(command);
            command.args(["--device", "cann:0"]);
        };
        pipeline.check(&["--dtype", "f16"], adapt, tolerance, 40.0, &mut comparison);
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
            "prompt_embeds" | "negative_prompt_embeds" | "condition" => 1e-4,
            // As on the CPU: a step's error is multiplied by guidance and carried on by the solver.
            _ => 1e-3,
        };
        let adapt = |command: &mut std::process::Command| {
            machine.adapt(command);
            command.args(["--device", "cann:0", "--precision", "f32"]);
        };
        pipeline.check(&["--dtype", "f32"], adapt, tolerance, 50.0, &mut comparison);
    }
    comparison.finish();
}
