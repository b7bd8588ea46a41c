//! A run that goes on from any step makes the same video, bit for bit; and results that are no picture are refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use image::{Rgb, RgbImage};
use onnx_export::bundle::Guidance;
use storymem::engine::Device;
use storymem::pipeline::{
    Checkpoint, CheckpointView, Conditioning, Fit, Generator, Observer, PipelineError, Progress, Sampling,
    Shot, ShotPipeline, ShotRequest, Size, SolverKind, Stage, StopToken,
};
use tempfile::TempDir;

const STEPS: usize = 6;

fn demo() -> (TempDir, ShotPipeline) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bundle");
    onnx_export::demo::write(&path).unwrap();
    let pipeline = ShotPipeline::open(&path, common::runtime(), Device::Cpu).unwrap();
    (folder, pipeline)
}

fn request(solver: SolverKind) -> ShotRequest {
    let memory = RgbImage::from_fn(40, 30, |x, y| Rgb([x as u8 * 6, y as u8 * 8, 90]));
    ShotRequest {
        prompt: "A lighthouse at dusk".to_owned(),
        negative_prompt: "blur".to_owned(),
        memory: vec![memory.clone()],
        conditioning: Conditioning::FirstFrame(memory),
        sampling: Sampling {
            size: Size { width: 64, height: 48 },
            fit: Fit::Size,
            frames: 9,
            steps: STEPS,
            shift: 4.0,
            guidance: Guidance { high: 3.5, low: 2.5 },
            solver,
            seed: 42,
        },
    }
}

/// Keeps every step, and can stop the run at one of them.
#[derive(Default)]
struct Watch {
    steps: Vec<Checkpoint>,
    stopped: Option<Checkpoint>,
    denoised: Vec<usize>,
    stop_at: Option<(Stage, usize, StopToken)>,
}

impl Observer for Watch {
    fn progress(&mut self, Progress { stage, step, .. }: Progress) {
        if stage == Stage::Denoise {
            self.denoised.push(step);
        }
        if let Some((at, of, stop)) = &self.stop_at
            && (stage, step) == (*at, *of)
        {
            stop.stop();
        }
    }

    fn step_done(&mut self, at: CheckpointView<'_>) {
        self.steps.push(at.to_owned());
    }

    fn stopped(&mut self, at: CheckpointView<'_>) {
        self.stopped = Some(at.to_owned());
    }
}

fn run(pipeline: &mut ShotPipeline, solver: SolverKind, resume: Option<Checkpoint>) -> (Shot, Watch) {
    let mut watch = Watch::default();
    let shot = pipeline.generate(&request(solver), resume, &mut watch, &StopToken::default()).unwrap();
    (shot, watch)
}

#[test]
fn a_run_goes_on_from_any_step_to_the_same_bits() {
    let (_folder, mut pipeline) = demo();
    for solver in [SolverKind::UniPc, SolverKind::DpmPlusPlus] {
        let (whole, watch) = run(&mut pipeline, solver, None);
        assert_eq!(watch.steps.len(), STEPS);
        for (n, checkpoint) in watch.steps.iter().enumerate() {
            let (resumed, rest) = run(&mut pipeline, solver, Some(checkpoint.clone()));
            assert_eq!(rest.denoised, (n + 1..=STEPS).collect::<Vec<_>>(), "progress begins at its step");
            assert!(rest.steps[..] == watch.steps[n + 1..], "{solver:?} from step {}", n + 1);
            assert!(resumed.frames == whole.frames, "{solver:?} from step {}", n + 1);
            assert_eq!(resumed.effective, whole.effective);
        }
    }
}

#[test]
fn a_stopped_run_offers_its_last_whole_step() {
    let (_folder, mut pipeline) = demo();
    let solver = SolverKind::UniPc;
    let (_, whole) = run(&mut pipeline, solver, None);
    for (at, expected) in [
        ((Stage::Encode, 1), None),
        ((Stage::Denoise, 0), None),
        ((Stage::Denoise, 1), Some(&whole.steps[0])),
        ((Stage::Denoise, 4), Some(&whole.steps[3])),
        ((Stage::Decode, 1), Some(&whole.steps[STEPS - 1])),
    ] {
        let stop = StopToken::default();
        let mut watch = Watch { stop_at: Some((at.0, at.1, stop.clone())), ..Watch::default() };
        let error = pipeline.generate(&request(solver), None, &mut watch, &stop).unwrap_err();
        assert!(matches!(error, PipelineError::Stopped), "{error}");
        assert!(watch.stopped.as_ref() == expected, "{at:?}");
    }
}

#[test]
fn a_checkpoint_that_does_not_fit_is_left_alone() {
    let (_folder, mut pipeline) = demo();
    let solver = SolverKind::DpmPlusPlus;
    let (whole, watch) = run(&mut pipeline, solver, None);
    let good = &watch.steps[2];
    let mut short = good.clone();
    short.latents.pop();
    let mut shorter = short.clone();
    shorter.solver.last_sample.pop();
    let mut no_history = good.clone();
    no_history.solver.x0[0].clear();
    let mut too_far = good.clone();
    too_far.solver.step = STEPS + 1;
    let mut not_begun = good.clone();
    not_begun.solver.step = 0;
    let mut nan = good.clone();
    nan.latents[3] = f32::NAN;
    for (what, bad) in [
        ("short", short),
        ("shorter", shorter),
        ("without history", no_history),
        ("too far", too_far),
        ("not begun", not_begun),
        ("not finite", nan),
    ] {
        let (shot, rest) = run(&mut pipeline, solver, Some(bad));
        assert_eq!(rest.denoised[0], 0, "{what}");
        assert!(shot.frames == whole.frames, "{what}");
    }
}
