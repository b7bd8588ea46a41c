//! `storymem export` and `storymem generate` as a user types them, against the reference's whole pipelines.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::process::{Command, Output};

use common::pipelines::PIPELINES;
use common::{Comparison, fixture};

#[test]
fn whole_pipelines_agree_with_the_reference() {
    let mut comparison = Comparison::default();
    for pipeline in PIPELINES {
        let tolerance = |stage: &str| match stage {
            "noise" => 1e-6,
            "condition" => 2e-5,
            _ => 1e-3,
        };
        pipeline.check(&["--dtype", "f32"], |_| {}, tolerance, 50.0, &mut comparison);
    }
    comparison.finish();
}

#[test]
fn a_demo_for_text_alone_takes_a_prompt_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("t2v");
    let made = storymem(&["demo", "--variant", "t2v", "--out", bundle.to_str().unwrap()]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let video = folder.path().join("v.mp4");
    let generate = |flags: &[&str]| {
        let [bundle, video] = [&bundle, &video].map(|path| path.to_str().unwrap());
        let shot =
            ["generate", "--bundle", bundle, "--prompt", "A lighthouse", "--seed", "5", "--out", video];
        storymem(&[&shot, flags].concat())
    };

    let output = generate(&[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("9 frames of 96x64") && said.contains("seed 5"), "{said}");
    std::fs::remove_file(&video).unwrap();

    let image = fixture("tiny/inputs/first.png");
    let image = image.to_str().unwrap();
    for (flags, says) in [
        (&["--memory", image][..], "makes video from text alone; leave out memory and known frames"),
        (&["--first-frame", image], "makes video from text alone; leave out memory and known frames"),
        (&["--fit", "reference"], "needs an image to take the shape from"),
    ] {
        let output = generate(flags);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(says), "{flags:?}: {said}");
        assert!(!video.exists(), "{flags:?}");
    }
}

fn storymem(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_storymem")).args(arguments).output().unwrap()
}
