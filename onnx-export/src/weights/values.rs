//! Element types: widening to f32 and rounding from it, once.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use rayon::prelude::*;

use crate::bundle::Dtype;

/// Elements converted by one task.
const TASK: usize = 1 << 16;

/// Why values can't be stored.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ValueError {
    /// A value is NaN or infinite.
    #[error("holds {0}")]
    NotFinite(f32),
    /// A finite value is too large for the type it should be stored as.
    #[error("holds {0}, too large")]
    Overflow(f32),
}

/// Widens little-endian elements to f32, exactly.
///
/// # Panics
/// When `bytes` does not hold as many elements as `out`.
pub fn widen(dtype: Dtype, bytes: &[u8], out: &mut [f32]) {
    let size = dtype.size();
    assert_eq!(bytes.len(), out.len() * size, "as many elements in as out");
    out.par_chunks_mut(TASK).zip(bytes.par_chunks(TASK * size)).for_each(|(out, bytes)| match dtype {
        Dtype::F32 => {
            for (value, bytes) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *value = f32::from_le_bytes(*bytes);
            }
        }
        // Old files align tensors to nothing: elements are gathered before the vectorised conversion.
        Dtype::F16 => halves(bytes, f16::from_bits).convert_to_f32_slice(out),
        Dtype::Bf16 => halves(bytes, bf16::from_bits).convert_to_f32_slice(out),
    });
}

/// Rounds f32 values to `dtype` (to nearest, ties to even) and writes them to `out`, little endian.
///
/// # Errors
/// When a value is not finite, or not finite any more once rounded.
///
/// # Panics
/// When `out` has not room for exactly the elements of `values`.
pub fn round(dtype: Dtype, values: &[f32], out: &mut [u8]) -> Result<(), ValueError> {
    let size = dtype.size();
    assert_eq!(out.len(), values.len() * size, "as many elements in as out");
    out.par_chunks_mut(TASK * size).zip(values.par_chunks(TASK)).try_for_each(|(out, values)| {
        if let Some(&value) = values.iter().find(|value| !value.is_finite()) {
            return Err(ValueError::NotFinite(value));
        }
        let overflow = match dtype {
            Dtype::F32 => {
                for (bytes, value) in out.as_chunks_mut::<4>().0.iter_mut().zip(values) {
                    *bytes = value.to_le_bytes();
                }
                None
            }
            Dtype::F16 => {
                let mut halves = vec![f16::ZERO; values.len()];
                halves.convert_from_f32_slice(values);
                store(&halves, out, f16::to_bits);
                halves.iter().position(|half| half.is_infinite())
            }
            Dtype::Bf16 => {
                let mut halves = vec![bf16::ZERO; values.len()];
                halves.convert_from_f32_slice(values);
                store(&halves, out, bf16::to_bits);
                halves.iter().position(|half| half.is_infinite())
            }
        };
        overflow.map_or(Ok(()), |at| Err(ValueError::Overflow(values[at])))
    })
}

fn halves<T>(bytes: &[u8], from_bits: impl Fn(u16) -> T) -> Vec<T> {
    bytes.as_chunks::<2>().0.iter().map(|bytes| from_bits(u16::from_le_bytes(*bytes))).collect()
}

fn store<T: Copy>(halves: &[T], out: &mut [u8], to_bits: impl Fn(T) -> u16) {
    for (bytes, half) in out.as_chunks_mut::<2>().0.iter_mut().zip(halves) {
        *bytes = to_bits(*half).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DTYPES: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::Bf16];

    fn round_trip(dtype: Dtype, values: &[f32]) -> Result<Vec<f32>, ValueError> {
        let mut bytes = vec![0; values.len() * dtype.size()];
        round(dtype, values, &mut bytes)?;
        let mut out = vec![0.0; values.len()];
        widen(dtype, &bytes, &mut out);
        Ok(out)
    }

    #[test]
    fn names_the_value_that_does_not_fit() {
        let mut values = vec![1.0; 3 * TASK];
        values[2 * TASK + 5] = 65520.0;
        assert_eq!(round_trip(Dtype::F16, &values), Err(ValueError::Overflow(65520.0)));
        assert_eq!(round_trip(Dtype::Bf16, &values).map(|v| v[2 * TASK + 5]), Ok(65536.0));
        values[7] = f32::INFINITY;
        for dtype in DTYPES {
            assert_eq!(round_trip(dtype, &values), Err(ValueError::NotFinite(f32::INFINITY)));
        }
        assert_eq!(round_trip(Dtype::Bf16, &[f32::MAX]), Err(ValueError::Overflow(f32::MAX)));
    }

    proptest! {
        #[test]
        fn rounds_as_each_type_does(values in prop::collection::vec(-6.0e4f32..6.0e4, 0..300), scale in -12i32..1) {
            let values: Vec<f32> = values.iter().map(|v| v * 10f32.powi(scale)).collect();
            prop_assert_eq!(&round_trip(Dtype::F32, &values)?, &values);
            let f16s: Vec<f32> = values.iter().map(|&v| f16::from_f32(v).to_f32()).collect();
            prop_assert_eq!(round_trip(Dtype::F16, &values)?, f16s);
            let bf16s: Vec<f32> = values.iter().map(|&v| bf16::from_f32(v).to_f32()).collect();
            prop_assert_eq!(round_trip(Dtype::Bf16, &values)?, bf16s);
        }
    }
}
