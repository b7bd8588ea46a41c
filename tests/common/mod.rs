//! What the tests share: fixtures, goldens, a loaded runtime.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod nets;
pub mod pipelines;
pub mod queue;
pub mod service;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use ndarray::{ArrayD, IxDyn};
use onnx_export::bundle::Bundle;
use safetensors::SafeTensors;
use storymem::engine::{Runtime, RuntimeOptions};
use tempfile::TempDir;

/// A folder of `tests/fixtures`.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// ONNX Runtime, as `make setup` leaves it.
pub fn runtime() -> Runtime {
    Runtime::load(&RuntimeOptions::default()).expect("`make setup` fetches ONNX Runtime")
}

/// The f32, u8 and i64 tensors of a safetensors file, as f32.
pub fn load(path: &Path) -> BTreeMap<String, ArrayD<f32>> {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let file = SafeTensors::deserialize(&bytes).unwrap();
    file.iter()
        .map(|(name, tensor)| {
            let data = tensor.data();
            let values: Vec<f32> = match tensor.dtype() {
                safetensors::Dtype::F32 => {
                    data.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
                }
                safetensors::Dtype::U8 => data.iter().copied().map(f32::from).collect(),
                safetensors::Dtype::I64 => {
                    data.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b) as f32).collect()
                }
                other => panic!("{name} is {other:?}"),
            };
            (name.to_owned(), ArrayD::from_shape_vec(IxDyn(tensor.shape()), values).unwrap())
        })
        .collect()
}

/// ‖x − reference‖ / ‖reference‖, in f64.
pub fn relative_error<'a>(
    x: impl IntoIterator<Item = &'a f32>,
    reference: impl IntoIterator<Item = &'a f32>,
) -> f64 {
    let (mut difference, mut norm) = (0.0, 0.0);
    let (mut x, mut reference) = (x.into_iter(), reference.into_iter());
    loop {
        match (x.next(), reference.next()) {
            (Some(&x), Some(&r)) => {
                difference += (f64::from(x) - f64::from(r)).powi(2);
                norm += f64::from(r).powi(2);
            }
            (None, None) => return (difference / norm).sqrt(),
            _ => panic!("arrays of different lengths"),
        }
    }
}

/// The greatest |x − reference|.
pub fn max_error<'a>(
    x: impl IntoIterator<Item = &'a f32>,
    reference: impl IntoIterator<Item = &'a f32>,
) -> f32 {
    let (x, reference): (Vec<_>, Vec<_>) = (x.into_iter().collect(), reference.into_iter().collect());
    assert_eq!(x.len(), reference.len());
    // `max` would drop a NaN.
    x.iter().zip(&reference).map(|(x, r)| (*x - *r).abs()).fold(0.0, |a, b| if b <= a { a } else { b })
}

/// The checkpoint trees with golden outputs: one as users download it, and one that differs from it in every
/// dimension, naming, type and number of shards.
pub const TREES: [&str; 2] = ["tiny", "variant"];

/// A golden file of a tree.
pub fn golden(tree: &str, name: &str) -> BTreeMap<String, ArrayD<f32>> {
    load(&fixture(tree).join("golden").join(format!("{name}.safetensors")))
}

/// `golden.json` of a tree.
pub fn facts(tree: &str) -> serde_json::Value {
    let json = std::fs::read(fixture(tree).join("golden/golden.json")).unwrap();
    serde_json::from_slice(&json).unwrap()
}

/// CLIP of a tree, as `--clip` takes it.
pub fn clip_folder(tree: &str) -> String {
    fixture(tree).join("clip").display().to_string()
}

/// `storymem export` of a tree, in f32 unless the flags say otherwise, with the adapter for `variant` or without one.
pub fn export(tree: &str, out: &Path, variant: &str, adapter: bool, flags: &[&str]) {
    let tree = fixture(tree);
    let mut command = Command::new(env!("CARGO_BIN_EXE_storymem"));
    command.args(["export", "--variant", variant]).args(flags);
    if !flags.contains(&"--dtype") {
        command.args(["--dtype", "f32"]);
    }
    command.arg("--components").arg(tree.join("base_i2v_diffusers"));
    let experts = if variant == "t2v" { "base_t2v" } else { "base_i2v" };
    command.arg("--transformer").arg(tree.join(experts));
    if adapter {
        command.arg("--lora").arg(tree.join(format!("storymem/Wan2.2-{}-A14B", variant.to_uppercase())));
    }
    let output = command.arg("--out").arg(out).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A bundle of a tree for MI2V, made by the command; and the folder it lives in.
pub fn exported(tree: &str, adapter: bool, flags: &[&str]) -> (Bundle, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bundle");
    export(tree, &path, "mi2v", adapter, flags);
    (Bundle::open(&path).unwrap(), folder)
}

/// Compares arrays with references and keeps what is too far off, so that a test reports every failure at once.
#[derive(Default)]
pub struct Comparison(Vec<String>);

impl Comparison {
    /// Compares a net's results with their references.
    pub fn check_all(&mut self, outputs: &[nets::Output], tolerance: f64) {
        for nets::Output { what, value, reference } in outputs {
            self.check(what, value, reference, tolerance);
        }
    }

    /// Compares one array, up to a relative error.
    pub fn check(&mut self, what: &str, x: &ArrayD<f32>, reference: &ArrayD<f32>, tolerance: f64) {
        assert_eq!(x.len(), reference.len(), "{what}: {:?} against {:?}", x.shape(), reference.shape());
        let error = relative_error(x, reference);
        println!("{what}: {error:.1e}");
        if error.is_nan() || error > tolerance {
            self.0.push(format!("{what}: relative error {error:.1e} > {tolerance:.0e}"));
        }
    }

    /// Fails if anything was too far off.
    pub fn finish(self) {
        assert!(self.0.is_empty(), "{:#?}", self.0);
    }
}
