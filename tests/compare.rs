//! `storymem compare` as a user types it: between bundles, and between the CPU and the emulated NPU.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/mod.rs"]
mod common;
#[path = "cann/emulator.rs"]
#[allow(dead_code, reason = "each test binary uses its own part")]
mod emulator;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{clip_folder, export};
use emulator::{Machine, stderr};
use serde_json::Value;
use tempfile::TempDir;

/// Bundles of one model, and what comparisons wrote.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A bundle of a tree.
    fn bundle(&self, name: &str, tree: &str, flags: &[&str]) -> PathBuf {
        export(tree, &self.path(name), "mi2v", true, flags);
        self.path(name)
    }

    fn command(&self, bundle: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_storymem"));
        command.arg("compare").arg("--bundle").arg(bundle).arg("--json").arg(self.path("report.json"));
        command
    }

    /// What was written last, which the table must agree with.
    fn report(&self, output: &Output) -> Report {
        let report: Value =
            serde_json::from_slice(&std::fs::read(self.path("report.json")).unwrap()).unwrap();
        assert_eq!(report["passed"], output.status.success(), "{}", stderr(output));
        let table = String::from_utf8_lossy(&output.stdout);
        let report = Report(report);
        for (net, part, error) in report.errors() {
            assert!(
                table.contains(&net) && table.contains(&part) && table.contains(&format!("{error:.2e}")),
                "{table}"
            );
        }
        report
    }
}

struct Report(Value);

impl Report {
    /// Net, part and relative error of every part.
    fn errors(&self) -> Vec<(String, String, f64)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let nets = self.0["nets"].as_array().unwrap();
        let parts =
            nets.iter().flat_map(|net| net["parts"].as_array().unwrap().iter().map(move |part| (net, part)));
        parts
            .map(|(net, part)| {
                (text(&net["net"]), text(&part["part"]), part["relative_error"].as_f64().unwrap())
            })
            .collect()
    }

    fn largest(&self) -> f64 {
        self.errors().iter().map(|(_, _, error)| *error).fold(0.0, f64::max)
    }
}

#[test]
fn rounding_to_f16_is_seen_and_within_the_threshold() {
    let folder = Folder::new();
    let clip = clip_folder("tiny");
    let [f16, f32] =
        ["f16", "f32"].map(|dtype| folder.bundle(dtype, "tiny", &["--dtype", dtype, "--clip", &clip]));
    let output = folder.command(&f16).arg("--against-bundle").arg(&f32).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let report = folder.report(&output);
    let nets: Vec<String> = report.errors().into_iter().map(|(net, _, _)| net).collect();
    for net in ["text_encoder", "transformer_high", "transformer_low", "vae", "clip"] {
        assert!(nets.iter().any(|found| found == net), "{net} is missing");
    }
    for (net, part, error) in report.errors() {
        // f16 has 11 bits: a weight is off by 2^-12 of itself at most, 1.4e-4 on average. Autoencoder and CLIP stay F32.
        let expected = if ["vae", "clip"].contains(&&*net) { 0.0..=0.0 } else { 1e-4..=5e-3 };
        assert!(expected.contains(&error), "{net}, {part}: {error:.1e}");
    }

    let strict = folder
        .command(&f16)
        .arg("--against-bundle")
        .arg(&f32)
        .args(["--threshold", "1e-3"])
        .output()
        .unwrap();
    assert_eq!(strict.status.code(), Some(1));
    folder.report(&strict);
    let errors = report.errors();
    let (net, part, _) = errors.iter().max_by(|a, b| a.2.total_cmp(&b.2)).unwrap();
    assert!(stderr(&strict).contains(&format!("the worst is `{net}`, {part}")), "{}", stderr(&strict));
}

#[test]
fn a_bundle_equals_itself() {
    let folder = Folder::new();
    let bundle = folder.bundle("bundle", "variant", &["--dtype", "f16"]);
    let output = folder.command(&bundle).args(["--threshold", "0", "--seed", "7"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(folder.report(&output).largest(), 0.0);
}

#[test]
fn a_wrong_scale_of_the_adapter_is_caught_and_placed() {
    let folder = Folder::new();
    let right = folder.bundle("right", "tiny", &[]);
    let wrong = folder.bundle("wrong", "tiny", &["--lora-scale", "plain"]);
    for isolate in [false, true] {
        let mut command = folder.command(&wrong);
        command.arg("--against-bundle").arg(&right).args(isolate.then_some("--isolate"));
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("`transformer_"), "{}", stderr(&output));
        for (net, part, error) in folder.report(&output).errors() {
            // Only the blocks are adapted. What comes after them is off as well, unless it is given what is right.
            let is_off = part.starts_with("block") || (part == "output" && !isolate);
            if net.starts_with("transformer") && is_off {
                assert!(error > 0.05, "{net}, {part}: {error:.1e}");
            } else {
                assert_eq!(error, 0.0, "{net}, {part}");
            }
        }
    }
}

#[test]
fn bundles_of_different_models_are_refused() {
    let folder = Folder::new();
    let (one, other) = (folder.bundle("one", "tiny", &[]), folder.bundle("other", "variant", &[]));
    let output = folder.command(&one).arg("--against-bundle").arg(&other).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("different dimensions"), "{}", stderr(&output));
    assert!(!folder.path("report.json").exists());
}

#[test]
fn the_npu_is_compared_with_the_cpu() {
    let folder = Folder::new();
    let bundle = folder.bundle("bundle", "tiny", &["--dtype", "f16"]);
    // Activations are rounded to f16 before each product; in f32 only the order of sums differs.
    for (precision, expected) in [("f16", 1e-4..=5e-3), ("f32", 1e-8..=1e-4)] {
        let machine = Machine::new();
        let mut command = folder.command(&bundle);
        command.args(["--device", "cann:0", "--precision", precision]);
        machine.adapt(&mut command);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{precision}: {}", stderr(&output));
        let largest = folder.report(&output).largest();
        assert!(expected.contains(&largest), "{precision}: {largest:.1e}");
        let log = machine.log();
        assert!(log.count("execute") > 0 && log.failures().is_empty(), "{precision}: {:?}", log.failures());
    }
}
