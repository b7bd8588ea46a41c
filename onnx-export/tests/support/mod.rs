//! Checkpoint trees to export: the reference's tiny one, and what tests make of it.

#![allow(dead_code, reason = "each test target uses a part")]

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use onnx_export::bundle::{Bundle, BundleVariant, Dtype};
use onnx_export::export::{ExportError, ExportOptions, Exported, Plan};
use onnx_export::weights::file::TensorFile;
use onnx_export::weights::lora::LoraScale;
use onnx_export::weights::values;
use safetensors::tensor::{Dtype as FileDtype, TensorView};
use tempfile::TempDir;

/// Names and values of a file's tensors.
pub type Tensors = BTreeMap<String, Tensor>;

/// The experts' folders in the tiny tree.
pub const EXPERTS: [&str; 2] = ["high_noise_model", "low_noise_model"];

/// A tensor's shape and values.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub shape: Vec<usize>,
    pub values: Vec<f32>,
}

/// The reference tree that comes with the repository.
pub fn tiny() -> PathBuf {
    fixture("tiny")
}

/// A folder of the repository's fixtures.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(name)
}

/// How a tree at `root` is exported, unless a test has it otherwise.
pub fn options(root: &Path) -> ExportOptions {
    ExportOptions {
        components: root.join("base_i2v_diffusers"),
        transformer: root.join("base_i2v"),
        clip: None,
        lora: Some(root.join("storymem/Wan2.2-MI2V-A14B")),
        lora_scale: LoraScale::RankStabilised,
        adapters: Vec::new(),
        variant: BundleVariant::Mi2v,
        dtype: Dtype::F32,
        standalone: None,
    }
}

/// A copy of the tiny tree that a test may change, and room for a bundle next to it.
pub struct Tree {
    root: TempDir,
    pub options: ExportOptions,
}

impl Tree {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for part in ["base_i2v", "base_i2v_diffusers", "storymem", "clip"] {
            copy(&tiny().join(part), &root.path().join(part));
        }
        let options = options(root.path());
        Self { root, options }
    }

    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.path().join(relative)
    }

    pub fn out(&self) -> PathBuf {
        self.path("out/bundle")
    }

    pub fn export(&self) -> Result<Exported, ExportError> {
        Plan::check(&self.options)?.write(&self.out(), &mut |_| {}, &AtomicBool::new(false))
    }

    pub fn bundle(&self) -> Bundle {
        self.export().unwrap();
        Bundle::open(&self.out()).unwrap()
    }

    /// Digests of the weight files an export of this tree makes.
    pub fn bundle_files(&self) -> BTreeMap<String, String> {
        let files = self.export().unwrap().manifest.files.into_iter();
        files.filter(|file| file.path.starts_with("weights/")).map(|file| (file.path, file.sha256)).collect()
    }

    /// The message with which an export fails; checks that it leaves nothing behind.
    pub fn refusal(&self) -> String {
        let message = self.export().expect_err("the export must be refused").to_string();
        let left: Vec<PathBuf> = match std::fs::read_dir(self.path("out")) {
            Ok(entries) => entries.map(|entry| entry.unwrap().path()).collect(),
            Err(_) => Vec::new(),
        };
        assert_eq!(left, Vec::<PathBuf>::new(), "left behind after: {message}");
        message
    }

    /// Replaces the weights in `folder` by what `change` makes of them, in one file of `dtype`.
    pub fn rewrite(&self, folder: &str, dtype: Dtype, change: impl FnOnce(Tensors) -> Tensors) {
        let folder = self.path(folder);
        let mut tensors = Tensors::new();
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "safetensors") {
                tensors.extend(read(&path));
                std::fs::remove_file(&path).unwrap();
            } else if path.to_string_lossy().ends_with(".index.json") {
                std::fs::remove_file(&path).unwrap();
            }
        }
        write(&folder.join("model.safetensors"), dtype, &change(tensors));
    }

    /// Changes a tensor file in place.
    pub fn edit(&self, file: &str, change: impl FnOnce(&mut Tensors)) {
        let path = self.path(file);
        let mut tensors = read(&path);
        change(&mut tensors);
        write(&path, Dtype::F32, &tensors);
    }

    /// Changes fields of a JSON file; null removes one.
    pub fn edit_json(&self, file: &str, fields: serde_json::Value) {
        let path = self.path(file);
        let mut json: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        for (name, value) in fields.as_object().unwrap() {
            match value {
                serde_json::Value::Null => json.remove(name),
                value => json.insert(name.clone(), value.clone()),
            };
        }
        std::fs::write(&path, serde_json::to_vec(&json).unwrap()).unwrap();
    }
}

pub fn read(path: &Path) -> Tensors {
    tensors(&TensorFile::open(path).unwrap())
}

/// A whole number of a file that holds types a checkpoint may not have.
pub fn read_i64(path: &Path, name: &str) -> i64 {
    let bytes = std::fs::read(path).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    i64::from_le_bytes(file.tensor(name).unwrap().data().try_into().unwrap())
}

pub fn tensors(file: &TensorFile) -> Tensors {
    file.iter()
        .map(|tensor| {
            let mut values = vec![0.0; tensor.shape.iter().product()];
            values::widen(tensor.dtype, tensor.bytes, &mut values);
            (tensor.name.to_owned(), Tensor { shape: tensor.shape.to_vec(), values })
        })
        .collect()
}

pub fn write(path: &Path, dtype: Dtype, tensors: &Tensors) {
    write_raw(path, &raw(dtype, tensors), None);
}

/// A tensor as it lies in a file: its element type, shape and bytes.
pub type RawTensor = (FileDtype, Vec<usize>, Vec<u8>);

/// The tensors as they are stored in `dtype`.
pub fn raw(dtype: Dtype, tensors: &Tensors) -> BTreeMap<String, RawTensor> {
    let file_dtype = match dtype {
        Dtype::F16 => FileDtype::F16,
        Dtype::Bf16 => FileDtype::BF16,
        Dtype::F32 => FileDtype::F32,
    };
    let store = |Tensor { shape, values }: &Tensor| {
        let mut bytes = vec![0; values.len() * dtype.size()];
        match dtype {
            // `round` refuses what some tests store on purpose.
            Dtype::F32 => bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            _ => values::round(dtype, values, &mut bytes).unwrap(),
        }
        (file_dtype, shape.clone(), bytes)
    };
    tensors.iter().map(|(name, tensor)| (name.clone(), store(tensor))).collect()
}

pub fn write_raw(
    path: &Path,
    tensors: &BTreeMap<String, RawTensor>,
    metadata: Option<HashMap<String, String>>,
) {
    let views = tensors
        .iter()
        .map(|(name, (dtype, shape, bytes))| (name, TensorView::new(*dtype, shape.clone(), bytes).unwrap()));
    std::fs::write(path, safetensors::serialize(views, metadata).unwrap()).unwrap();
}

pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::write(&target, std::fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}

/// `‖x - reference‖ / ‖reference‖`.
pub fn relative_error(x: &[f32], reference: &[f32]) -> f64 {
    assert_eq!(x.len(), reference.len());
    let square = |v: f64| v * v;
    let error: f64 = x.iter().zip(reference).map(|(a, b)| square(f64::from(*a) - f64::from(*b))).sum();
    let norm: f64 = reference.iter().map(|b| square(f64::from(*b))).sum();
    (error / norm).sqrt()
}
