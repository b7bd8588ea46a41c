//! What the tests share: fixtures, goldens, a loaded runtime.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ndarray::{ArrayD, IxDyn};
use safetensors::SafeTensors;
use storymem::engine::{Runtime, RuntimeOptions};

/// A folder of `tests/fixtures`.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// ONNX Runtime, as `make setup` leaves it.
pub fn runtime() -> Runtime {
    Runtime::load(&RuntimeOptions::default()).expect("`make setup` fetches ONNX Runtime")
}

/// The f32 and i64 tensors of a safetensors file, as f32.
pub fn load(path: &Path) -> BTreeMap<String, ArrayD<f32>> {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let file = SafeTensors::deserialize(&bytes).unwrap();
    file.iter()
        .map(|(name, tensor)| {
            let data = tensor.data();
            let values: Vec<f32> = match tensor.dtype() {
                safetensors::Dtype::F32 => data.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
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
