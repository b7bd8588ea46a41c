//! The pair of factors that changes one weight.

use std::path::PathBuf;

use ndarray::Array2;
use safetensors::Dtype as FileDtype;

use super::settings::{Settings, positive};
use super::{LoraError, LoraGroup};
use crate::weights::file::{RawTensor, TensorFile, TensorView};
use crate::weights::merge::LowRank;
use crate::weights::values;

/// The keys that name one module, as they are found.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// The module, as the file calls it.
    pub(super) module: String,
    pub(super) down: Option<String>,
    pub(super) up: Option<String>,
    pub(super) alpha: Option<String>,
}

/// The factors of one weight.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pair {
    down: String,
    up: String,
    group: LoraGroup,
}

impl Pair {
    /// The pair that `keys` name, for a weight of shape `weight`; `scale` makes the scale of an alpha and a rank.
    pub(super) fn new(
        file: &TensorFile,
        keys: Keys,
        weight: &[usize],
        settings: Option<&Settings>,
        scale: impl Fn(Option<f64>, usize) -> f64,
    ) -> Result<Self, LoraError> {
        let path = || file.path().to_owned();
        let (down, up) = match (keys.down, keys.up, keys.alpha.as_ref()) {
            (Some(down), Some(up), _) => (down, up),
            (Some(key), None, _) | (None, Some(key), _) => {
                return Err(LoraError::HalfPair { path: path(), key });
            }
            (None, None, alpha) => {
                return Err(LoraError::HalfPair { path: path(), key: alpha.cloned().unwrap_or_default() });
            }
        };
        let rank = rank(file, &down, &up, weight)?;
        let alpha = match (&keys.alpha, settings) {
            (Some(key), _) => Some(alpha(file, key)?),
            (None, None) => None,
            (None, Some(settings)) => settings
                .alpha(&keys.module, rank)
                .map_err(|problem| LoraError::Settings { path: path(), problem })?,
        };
        let scale = scale(alpha, rank);
        if !(scale as f32).is_finite() {
            return Err(LoraError::Scale { path: path(), key: down, scale });
        }
        Ok(Self { down, up, group: LoraGroup { rank, alpha, scale } })
    }

    pub(super) fn group(&self) -> LoraGroup {
        self.group
    }

    /// Reads both factors.
    pub(super) fn read(&self, file: &TensorFile) -> Result<LowRank, LoraError> {
        let matrix = |key: &str| {
            let tensor = file.tensor(key).expect("a pair is made of factors that the file holds");
            let values = read(tensor);
            match values.iter().find(|value| !value.is_finite()) {
                Some(&value) => {
                    Err(LoraError::NotFinite { path: file.path().to_owned(), key: key.to_owned(), value })
                }
                None => Ok(Array2::from_shape_vec((tensor.shape[0], tensor.shape[1]), values)
                    .expect("a pair's factors are matrices")),
            }
        };
        Ok(LowRank { a: matrix(&self.down)?, b: matrix(&self.up)?, scale: self.group.scale as f32 })
    }
}

/// The rank of a pair of factors; checks that they are of a type that we read and fit each other and the weight.
fn rank(file: &TensorFile, down: &str, up: &str, weight: &[usize]) -> Result<usize, LoraError> {
    let shape = |key: &str| match file.tensor(key) {
        Some(tensor) => Ok(tensor.shape.to_vec()),
        None => Err(file.unsupported(key)),
    };
    let misfit = |key: &str, shape: Vec<usize>, expected: String| {
        let (path, key, weight): (PathBuf, _, _) = (file.path().into(), key.into(), weight.to_vec());
        Err(LoraError::Shape { path, key, shape, weight, expected })
    };
    let (a, b) = (shape(down)?, shape(up)?);
    let [rows, columns] = weight else {
        return misfit(down, a, "no LoRA: only matrices have one".into());
    };
    let rank = match a.as_slice() {
        [rank, inner] if inner == columns && *rank > 0 => *rank,
        _ => return misfit(down, a, format!("[rank, {columns}]")),
    };
    if b != [*rows, rank] {
        return misfit(up, b, format!("[{rows}, {rank}] beside its other half of rank {rank}"));
    }
    Ok(rank)
}

fn alpha(file: &TensorFile, key: &str) -> Result<f64, LoraError> {
    let tensor = file.raw_tensor(key).expect("the key is one of the file's");
    match scalar(&tensor) {
        Some(alpha) if positive(alpha) => Ok(alpha),
        other => {
            let value = other.unwrap_or(f64::NAN);
            Err(LoraError::Alpha { path: file.path().into(), key: key.into(), value })
        }
    }
}

/// The only element of `tensor`, whatever number type and shape it has: trainers store alpha as any of them.
fn scalar(tensor: &RawTensor<'_>) -> Option<f64> {
    if tensor.elements() != 1 {
        return None;
    }
    fn bytes<const N: usize>(tensor: &RawTensor<'_>) -> Option<[u8; N]> {
        tensor.bytes.try_into().ok()
    }
    Some(match tensor.dtype {
        FileDtype::F64 => f64::from_le_bytes(bytes(tensor)?),
        FileDtype::F32 => f32::from_le_bytes(bytes(tensor)?).into(),
        FileDtype::F16 => half::f16::from_le_bytes(bytes(tensor)?).into(),
        FileDtype::BF16 => half::bf16::from_le_bytes(bytes(tensor)?).into(),
        FileDtype::I64 => i64::from_le_bytes(bytes(tensor)?) as f64,
        FileDtype::U64 => u64::from_le_bytes(bytes(tensor)?) as f64,
        FileDtype::I32 => i32::from_le_bytes(bytes(tensor)?).into(),
        FileDtype::U32 => u32::from_le_bytes(bytes(tensor)?).into(),
        FileDtype::I16 => i16::from_le_bytes(bytes(tensor)?).into(),
        FileDtype::U16 => u16::from_le_bytes(bytes(tensor)?).into(),
        FileDtype::I8 => i8::from_le_bytes(bytes(tensor)?).into(),
        FileDtype::U8 => u8::from_le_bytes(bytes(tensor)?).into(),
        _ => return None,
    })
}

fn read(tensor: TensorView<'_>) -> Vec<f32> {
    let mut values = vec![0.0; tensor.shape.iter().product()];
    values::widen(tensor.dtype, tensor.bytes, &mut values);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alpha_is_read_from_whatever_number_holds_it() {
        let of = |dtype, shape: &[usize], bytes: &[u8]| {
            scalar(&RawTensor { name: "x.alpha", dtype, shape, bytes })
        };
        for (dtype, bytes) in [
            (FileDtype::F64, 16f64.to_le_bytes().to_vec()),
            (FileDtype::F32, 16f32.to_le_bytes().to_vec()),
            (FileDtype::F16, half::f16::from_f32(16.0).to_le_bytes().to_vec()),
            (FileDtype::BF16, half::bf16::from_f32(16.0).to_le_bytes().to_vec()),
            (FileDtype::I64, 16i64.to_le_bytes().to_vec()),
            (FileDtype::I32, 16i32.to_le_bytes().to_vec()),
            (FileDtype::U8, vec![16]),
        ] {
            assert_eq!(of(dtype, &[], &bytes), Some(16.0), "{dtype}");
            assert_eq!(of(dtype, &[1], &bytes), Some(16.0), "{dtype}");
        }
        assert_eq!(of(FileDtype::F32, &[2], &[0; 8]), None);
        assert_eq!(of(FileDtype::F8_E4M3, &[], &[0]), None);
    }
}
