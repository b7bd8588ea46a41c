//! `storymem export` and `storymem generate` as a user types them, against the reference's whole pipelines.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::process::{Command, Output};

use common::{Comparison, export, facts, fixture, golden, load};
use ndarray::ArrayD;
use serde_json::Value;

/// Peak signal to noise in dB of frames in [-1, 1].
fn psnr(x: &ArrayD<f32>, reference: &ArrayD<f32>) -> f64 {
    let square: f64 = x.iter().zip(reference).map(|(&x, &r)| (f64::from(x) - f64::from(r)).powi(2)).sum();
    10.0 * (4.0 / (square / x.len() as f64)).log10()
}

/// Makes the pipeline that `facts` describe, known frames given as further flags.
fn generate(tree: &str, facts: &Value, pipeline: &Value, folder: &Path, known: &[&str]) -> Output {
    let input = |name: &str| fixture(tree).join("inputs").join(name).display().to_string();
    let number = |value: &Value| value.to_string();
    let memory = (0..pipeline["memory"].as_u64().unwrap()).map(|i| input(&format!("memory_{i}.png")));
    let guidance = match &facts["guidance"] {
        Value::Number(both) => both.to_string(),
        by_expert => format!("{},{}", by_expert["high"], by_expert["low"]),
    };
    // Where the shape follows an image, only the area of the size counts.
    let size = match pipeline["max_area"].as_u64() {
        Some(area) => format!("{}x64", area / 64),
        None => format!("{}x{}", pipeline["width"], pipeline["height"]),
    };
    let known = known.iter().map(|flag| if flag.starts_with('-') { (*flag).to_owned() } else { input(flag) });
    Command::new(env!("CARGO_BIN_EXE_storymem"))
        .args(["generate", "--prompt", pipeline["prompt"].as_str().unwrap()])
        .args(["--negative-prompt", facts["negative"].as_str().unwrap()])
        .arg("--memory")
        .args(memory)
        .args(known)
        .args(["--size", &size])
        .args(["--fit", pipeline["fit"].as_str().unwrap_or("reference")])
        .args(["--frames", &number(&pipeline["frames"]), "--steps", &number(&pipeline["steps"])])
        .args(["--seed", &number(&pipeline["seed"]), "--shift", &number(&facts["shift"])])
        .args(["--solver", pipeline["solver"].as_str().unwrap_or("unipc"), "--guidance", &guidance])
        .arg("--bundle")
        .arg(folder.join("bundle"))
        .arg("--out")
        .arg(folder.join("v.mp4"))
        .arg("--dump")
        .arg(folder.join("dump.safetensors"))
        .output()
        .unwrap()
}

#[test]
fn whole_pipelines_agree_with_the_reference() {
    let mut comparison = Comparison::default();
    let first = ["--first-frame", "first.png"].as_slice();
    let motion = ["--motion", "motion_0.png", "motion_1.png", "motion_2.png", "motion_3.png", "motion_4.png"]
        .as_slice();
    for (tree, name, known) in [
        ("tiny", "m2v", [].as_slice()),
        ("tiny", "mi2v", first),
        ("tiny", "mm2v", motion),
        ("variant", "mi2v", first),
        ("variant", "mi2v_dpmpp", first),
    ] {
        let facts = facts(tree);
        let pipeline = &facts["pipeline"][name];
        let folder = tempfile::tempdir().unwrap();
        let variant = pipeline["variant"].as_str().unwrap().to_lowercase();
        export(tree, &folder.path().join("bundle"), &variant, true, &[]);
        let output = generate(tree, &facts, pipeline, folder.path(), known);
        assert!(output.status.success(), "{tree} {name}: {}", String::from_utf8_lossy(&output.stderr));
        let kept = pipeline["frames"].as_u64().unwrap() - pipeline["drop_leading_frames"].as_u64().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(stdout.contains(&format!("{kept} frames")), "{tree} {name}: {stdout}");

        let dump = load(&folder.path().join("dump.safetensors"));
        for (stage, reference) in golden(tree, &format!("pipeline_{name}")) {
            let tolerance = match &*stage {
                "noise" => 1e-6,
                "condition" => 2e-5,
                _ => 1e-3,
            };
            assert_eq!(dump[&stage].shape(), reference.shape(), "{tree} {name} {stage}");
            comparison.check(&format!("{tree} {name} {stage}"), &dump[&stage], &reference, tolerance);
            if stage == "frames" {
                let psnr = psnr(&dump["frames"], &reference);
                assert!(psnr >= 50.0, "{tree} {name} frames: {psnr:.1} dB");
            }
        }
    }
    comparison.finish();
}
