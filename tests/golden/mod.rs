//! Reads the reference outputs in `tests/fixtures/tiny/golden` and compares with them.

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ndarray::{ArrayD, IxDyn};
use safetensors::{Dtype, SafeTensors};

/// A file below `tests/fixtures`.
pub fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(path)
}

/// The f32 tensors of a golden file.
pub fn tensors(file: &str) -> BTreeMap<String, ArrayD<f32>> {
    let bytes = fs::read(fixture("tiny/golden").join(file)).unwrap();
    SafeTensors::deserialize(&bytes)
        .unwrap()
        .iter()
        .filter(|(_, view)| view.dtype() == Dtype::F32)
        .map(|(name, view)| {
            let values = view.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
            (name.to_owned(), ArrayD::from_shape_vec(IxDyn(view.shape()), values.collect()).unwrap())
        })
        .collect()
}

/// `golden.json`.
pub fn facts() -> serde_json::Value {
    serde_json::from_slice(&fs::read(fixture("tiny/golden/golden.json")).unwrap()).unwrap()
}

/// ‖found - expected‖ / ‖expected‖
pub fn relative_error<'a>(
    found: impl IntoIterator<Item = &'a f32>,
    expected: impl IntoIterator<Item = &'a f32>,
) -> f64 {
    let (mut found, mut expected) = (found.into_iter(), expected.into_iter());
    let (mut difference, mut norm) = (0.0, 0.0);
    loop {
        match (found.next(), expected.next()) {
            (Some(&f), Some(&e)) => {
                difference += (f64::from(f) - f64::from(e)).powi(2);
                norm += f64::from(e).powi(2);
            }
            (None, None) => return (difference / norm).sqrt(),
            _ => panic!("the lengths differ"),
        }
    }
}

/// The greatest |found - expected|.
pub fn max_error<'a>(
    found: impl IntoIterator<Item = &'a f32>,
    expected: impl IntoIterator<Item = &'a f32>,
) -> f32 {
    let (found, expected): (Vec<_>, Vec<_>) = (found.into_iter().collect(), expected.into_iter().collect());
    assert_eq!(found.len(), expected.len());
    // `max` would drop a NaN.
    found.iter().zip(&expected).map(|(f, e)| (*f - *e).abs()).fold(0.0, |a, b| if b <= a { a } else { b })
}
