//! Whole-model ONNX files, checked and run by ONNX's own tools.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

mod support;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use onnx_export::bundle::{Bundle, Dtype, Manifest};
use onnx_export::export::Plan;
use onnx_export::models::Net;
use onnx_export::models::wan::LatentGrid;
use onnx_export::standalone::{Profile, decode, encode, text_encoder, transformer};
use safetensors::SafeTensors;
use serde::Deserialize;
use serde_json::{Value, json};
use support::{fixture, options};

/// Relative error of arithmetic in f32, as for the service's own graphs.
const F32: f64 = 2e-5;
/// With weights rounded to f16; see tests/lowerings/nets.rs.
const F16: f64 = 4e-3;

#[derive(Debug, Deserialize)]
struct Found {
    error: f64,
    domains: Vec<String>,
    external: u64,
    own: u64,
}

/// A bundle, and the checks that are to be run on models put into it.
struct Checks {
    bundle: Bundle,
    golden: PathBuf,
    cases: Vec<Value>,
    _folder: tempfile::TempDir,
}

impl Checks {
    fn new(tree: &str, dtype: Dtype) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options(&fixture(tree));
        options.dtype = dtype;
        let out = folder.path().join("bundle");
        Plan::check(&options).unwrap().write(&out, &mut |_| {}, &false.into()).unwrap();
        let (bundle, golden) = (Bundle::open(&out).unwrap(), fixture(tree).join("golden"));
        Self { bundle, golden, cases: Vec::new(), _folder: folder }
    }

    fn manifest(&self) -> &Manifest {
        self.bundle.manifest()
    }

    /// A tensor of a golden file.
    fn golden(&self, file: &str, tensor: &str) -> Value {
        json!({"file": self.file(file), "tensor": tensor})
    }

    fn file(&self, name: &str) -> PathBuf {
        self.golden.join(format!("{name}.safetensors"))
    }

    /// The shape of a golden tensor, if there is one of this name.
    fn shape(&self, file: &str, tensor: &str) -> Option<Vec<usize>> {
        let bytes = std::fs::read(self.file(file)).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        Some(file.tensor(tensor).ok()?.shape().to_vec())
    }

    fn add(&mut self, model: Vec<u8>, inputs: Value, output: &str, expected: Value) {
        let path = self.bundle.path().join(format!("case_{}.onnx", self.cases.len()));
        std::fs::write(&path, model).unwrap();
        self.cases.push(json!({"model": path, "inputs": inputs, "output": output, "expected": expected}));
    }

    fn run(&self, tolerance: f64) {
        let mut failures = Vec::new();
        for (case, found) in self.cases.iter().zip(check(&self.cases)) {
            println!("{}: {:.1e}", case["expected"], found.error);
            if found.error.is_nan() || found.error > tolerance {
                failures.push(format!("{}: {:.1e} > {tolerance:.0e}", case["expected"], found.error));
            }
            assert_eq!(found.domains, [""], "operators that not every tool has");
            assert!(found.external > 0 && found.own < 8 << 20, "{found:?}");
        }
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }

    fn text(&mut self) {
        let facts: Value =
            serde_json::from_slice(&std::fs::read(self.golden.join("golden.json")).unwrap()).unwrap();
        let model = text_encoder(self.manifest()).unwrap();
        for i in 0..2 {
            let mut ids: Vec<i64> = serde_json::from_value(facts["prompts"][i]["ids"].clone()).unwrap();
            ids.truncate(512);
            let mut attended = vec![1; ids.len()];
            ids.resize(512, 0);
            attended.resize(512, 0);
            let inputs = json!({
                "input_ids": {"values": ids, "dtype": "I64"}, "attention_mask": {"values": attended, "dtype": "I64"}
            });
            let expected = self.golden("text_encoder", &format!("prompt_{i}"));
            self.add(model.clone(), inputs, "prompt_embeds", expected);
        }
    }

    fn steps(&mut self, cases: &[&str]) {
        for case in cases {
            let shape = self.shape("transformer", &format!("{case}_x")).unwrap();
            let [_, _, frames, height, width] = *shape else { panic!("{shape:?}") };
            let memory = support::read_i64(&self.file("transformer"), &format!("{case}_memory"));
            let positions: Vec<i64> =
                (0..frames as i64).map(|j| if j < memory { -5 * (memory - j) } else { j - memory }).collect();
            for (expert, net) in [("high", Net::TransformerHigh), ("low", Net::TransformerLow)] {
                let model = transformer(self.manifest(), net, LatentGrid { frames, height, width }).unwrap();
                let inputs = json!({
                    "hidden_states": self.golden("transformer", &format!("{case}_x")),
                    "timestep": self.golden("transformer", &format!("{case}_t")),
                    "frame_positions": {"values": positions, "dtype": "I64"},
                    "encoder_hidden_states": self.golden("transformer", "encoder_hidden_states"),
                });
                let expected = self.golden("transformer", &format!("{case}_{expert}_rslora"));
                self.add(model, inputs, "velocity", expected);
            }
        }
    }

    fn videos(&mut self, frames: &[usize]) {
        for &frames in frames {
            let latent = (frames - 1) / 4 + 1;
            let shape = self.shape("vae", &format!("latents_{frames}")).unwrap();
            let (rows, columns) = (shape[3], shape[4]);
            let model = encode(self.manifest(), latent, rows, columns).unwrap();
            let inputs = json!({"pixels": self.golden("vae", &format!("video_{frames}"))});
            self.add(model, inputs, "latents", self.golden("vae", &format!("latents_{frames}")));
            if self.shape("vae", &format!("z_{latent}")).is_some() {
                let model = decode(self.manifest(), latent, rows, columns).unwrap();
                let inputs = json!({"latents": self.golden("vae", &format!("z_{latent}"))});
                self.add(model, inputs, "pixels", self.golden("vae", &format!("decoded_{latent}")));
            }
        }
    }
}

/// What Python's `onnx` and `onnxruntime` say of the cases.
fn check(cases: &[Value]) -> Vec<Found> {
    let python = std::env::var_os("STORYMEM_PYTHON").expect(
        "`STORYMEM_PYTHON` is not set; run `make test`, which sets it to a Python with tests/python/requirements.txt",
    );
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/python/check_standalone.py");
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("`STORYMEM_PYTHON` can be run");
    child.stdin.take().unwrap().write_all(&serde_json::to_vec(cases).unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "see the traceback above");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn whole_models_agree_with_the_reference() {
    let mut checks = Checks::new("tiny", Dtype::F32);
    checks.text();
    checks.steps(&["a", "b", "d"]);
    checks.videos(&[1, 5, 9]);
    checks.run(F32);

    let mut checks = Checks::new("variant", Dtype::F32);
    checks.text();
    checks.steps(&["a"]);
    checks.videos(&[1, 5]);
    checks.run(F32);
}

#[test]
fn weights_in_16_bits_are_widened_where_they_are_used() {
    let mut checks = Checks::new("tiny", Dtype::F16);
    checks.text();
    checks.steps(&["a"]);
    checks.videos(&[5]);
    checks.run(F16);
}

#[test]
fn an_export_writes_them_at_the_profile_asked_for() {
    let files = |at: Option<Profile>| {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options(&fixture("tiny"));
        options.standalone = Some(at);
        let out = folder.path().join("bundle");
        let written = Plan::check(&options).unwrap().write(&out, &mut |_| {}, &false.into()).unwrap();
        let listed = written
            .manifest
            .files
            .iter()
            .filter(|file| file.path.ends_with(".onnx") && !file.path.contains('/'));
        let names: Vec<_> = listed.map(|file| file.path.clone()).collect();
        (names, std::fs::read(out.join("transformer_low.onnx")).unwrap(), Bundle::open(&out).unwrap())
    };
    let (names, small, bundle) = files(Some("64x48x5+3".parse().unwrap()));
    let all = [
        "text_encoder.onnx",
        "transformer_high.onnx",
        "transformer_low.onnx",
        "vae_encode_image.onnx",
        "vae_encode_clip.onnx",
        "vae_decode_clip.onnx",
    ];
    assert_eq!(names, all);
    let grid = LatentGrid { frames: 5, height: 6, width: 8 };
    assert_eq!(small, transformer(bundle.manifest(), Net::TransformerLow, grid).unwrap());
    let (_, default, bundle) = files(None);
    let grid = Profile { width: 832, height: 480, frames: 81, memory: 10 }.grid();
    assert_eq!(default, transformer(bundle.manifest(), Net::TransformerLow, grid).unwrap());
}
