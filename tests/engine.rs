//! The engine's promises: a run can be stopped, and what is missing is said in words.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;

use common::{exported, fixture, runtime};
use ndarray::{Array2, Array4};
use onnx_export::models::Net;
use onnx_export::models::wan::LatentGrid;
use storymem::engine::{Device, Engine, EngineError, StopToken, Weights};
use storymem::pipeline::{
    Conditioning, Denoiser, Fit, Generator, Guidance, Observer, PipelineError, Progress, Sampling,
    ShotPipeline, ShotRequest, Size, SolverKind, Stage,
};

fn request(size: Size, frames: usize) -> ShotRequest {
    let memory = image::open(fixture("tiny/inputs/memory_0.png")).unwrap().into_rgb8();
    ShotRequest {
        prompt: "A quiet room".into(),
        negative_prompt: String::new(),
        memory: vec![memory],
        conditioning: Conditioning::None,
        sampling: Sampling {
            size,
            fit: Fit::Size,
            frames,
            steps: 4,
            shift: 4.0,
            guidance: Guidance { high: 3.5, low: 3.5 },
            solver: SolverKind::UniPc,
            seed: 1,
        },
    }
}

const SMALL: Size = Size { width: 32, height: 32 };

/// Stops the run when it reaches a stage, and counts what is reported after that.
struct StopAt {
    stage: Stage,
    step: usize,
    stop: StopToken,
    after: usize,
}

impl Observer for StopAt {
    fn progress(&mut self, Progress { stage, step, .. }: Progress) {
        if self.stop.is_stopped() {
            self.after += 1;
        }
        if (stage, step) == (self.stage, self.step) {
            self.stop.stop();
        }
    }
}

#[test]
fn a_run_stops_at_every_stage_and_the_next_one_is_whole() {
    let (bundle, _folder) = exported("tiny", true, &[]);
    let mut pipeline = ShotPipeline::open(bundle.path(), runtime(), Device::Cpu).unwrap();
    let undisturbed = pipeline.generate(&request(SMALL, 5), None, &mut (), &StopToken::default()).unwrap();
    for (stage, step) in [
        (Stage::Text, 0),
        (Stage::Encode, 0),
        (Stage::Encode, 1),
        (Stage::Denoise, 0),
        (Stage::Denoise, 2),
        (Stage::Decode, 1),
    ] {
        let stop = StopToken::default();
        let mut observer = StopAt { stage, step, stop: stop.clone(), after: 0 };
        let result = pipeline.generate(&request(SMALL, 5), None, &mut observer, &stop);
        assert!(matches!(result, Err(PipelineError::Stopped)), "{stage:?} {step}: {:?}", result.err());
        assert_eq!(observer.after, 0, "nothing is done after {stage:?} {step}");
    }
    let again = pipeline.generate(&request(SMALL, 5), None, &mut (), &StopToken::default()).unwrap();
    assert!(again.frames == undisturbed.frames, "the same request gives the same frames, bit for bit");
}

#[test]
fn a_graph_that_runs_is_ended_from_another_thread() {
    let (bundle, _folder) = exported("tiny", true, &[]);
    let weights = Weights::new(bundle.weights(Net::TransformerHigh).unwrap());
    let config = bundle.manifest().nets.transformer.clone();
    let stop = StopToken::default();
    let (started, has_started) = mpsc::channel();
    let run = std::thread::spawn({
        let stop = stop.clone();
        move || {
            let engine = Engine::open(runtime(), Device::Cpu).unwrap();
            // 25,600 tokens: the attention of a single block takes many seconds.
            let grid = LatentGrid { frames: 1, height: 320, width: 320 };
            let condition = Array4::zeros([20, 1, 320, 320]);
            let mut denoiser =
                Denoiser::new(&engine, &config, &weights, grid, &[0], Some(condition.view())).unwrap();
            let prompt = Array2::zeros([512, config.text_dim]);
            let mut expert = denoiser.expert(&weights, &prompt, &prompt, &stop).unwrap();
            started.send(()).unwrap();
            denoiser.velocity(&mut expert, &Array4::zeros([16, 1, 320, 320]), 999, 3.5, &stop)
        }
    });
    has_started.recv().unwrap();
    stop.stop();
    assert!(matches!(run.join().unwrap(), Err(PipelineError::Stopped)));
}

/// What `storymem generate` says when ONNX Runtime is looked for at `library`.
fn complaint(library: &Path) -> String {
    let (bundle, folder) = exported("tiny", true, &[]);
    let output = Command::new(env!("CARGO_BIN_EXE_storymem"))
        .env("ORT_DYLIB_PATH", library)
        .args(["generate", "--prompt", "x", "--memory"])
        .arg(fixture("tiny/inputs/memory_0.png"))
        .arg("--bundle")
        .arg(bundle.path())
        .arg("--out")
        .arg(folder.path().join("v.mp4"))
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(!folder.path().join("v.mp4").exists());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_missing_or_wrong_library_is_named_with_the_remedy() {
    let missing = complaint(Path::new("/nowhere/libonnxruntime.so"));
    assert!(missing.contains("/nowhere/libonnxruntime.so") && missing.contains("make setup"), "{missing}");

    let no_library = complaint(&fixture("tiny/golden/golden.json"));
    assert!(no_library.contains("golden.json") && no_library.contains("make setup"), "{no_library}");

    let another_library = complaint(Path::new("libc.so.6"));
    assert!(
        another_library.contains("libc.so.6") && another_library.contains("make setup"),
        "{another_library}"
    );
}

#[test]
fn a_device_that_is_not_there_is_refused() {
    let result = Engine::open(runtime(), Device::Cann(0));
    let Err(error @ EngineError::Device { .. }) = result else { panic!("cann:0 was opened") };
    assert!(error.to_string().contains("cann:0"), "{error}");
}

#[test]
fn latents_that_are_not_finite_end_the_run_by_name() {
    let (bundle, _folder) = exported("tiny", true, &[]);
    let weights = bundle.weights(Net::TransformerHigh).unwrap();
    let bias = weights.tensor("head.head.bias").unwrap();
    let offset = bias.bytes.as_ptr().addr() - weights.map().as_ptr().addr();
    let mut file = File::options().write(true).open(weights.path()).unwrap();
    file.seek(SeekFrom::Start(offset as u64)).unwrap();
    file.write_all(&f32::NAN.to_le_bytes()).unwrap();

    let mut pipeline = ShotPipeline::open(bundle.path(), runtime(), Device::Cpu).unwrap();
    let result = pipeline.generate(&request(SMALL, 5), None, &mut (), &StopToken::default());
    let Err(error) = result else { panic!("the run succeeded") };
    assert!(matches!(error, PipelineError::NanLatents { step: 1, steps: 4 }), "{error}");
    assert_eq!(error.code(), "nan_latents");
}
