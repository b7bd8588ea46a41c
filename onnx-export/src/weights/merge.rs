//! Adding a low-rank update to a weight: `W' = W + scale * (B A)`, in f32.
//!
//! The sum is rounded to the bundle's type once, by whoever stores it: merging in 16 bits loses small updates.

use std::ops::Range;

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayViewMut2, s};
use rayon::prelude::*;

/// Rows of the weight updated by one task: many enough that packing `a` for the product is a small part of it.
const TASK_ROWS: usize = 128;

/// The factors of an update, in f32.
#[derive(Clone, Debug, PartialEq)]
pub struct LowRank {
    /// `[rank, in]`.
    pub a: Array2<f32>,
    /// `[out, rank]`.
    pub b: Array2<f32>,
    /// What the product is multiplied with.
    pub scale: f32,
}

impl LowRank {
    /// Adds rows `rows` of the update to `weight`, which holds just these rows of the weight, each `in` long.
    ///
    /// # Panics
    /// When `rows` reaches past `b` or `weight` has not the size of these rows.
    pub fn add(&self, rows: Range<usize>, weight: &mut [f32]) {
        let columns = self.a.ncols();
        assert_eq!(weight.len(), rows.len() * columns, "the rows are whole");
        let b = self.b.slice(s![rows, ..]);
        weight.par_chunks_mut(TASK_ROWS * columns).enumerate().for_each(|(i, weight)| {
            let count = weight.len() / columns;
            let first = i * TASK_ROWS;
            let mut weight = ArrayViewMut2::from_shape((count, columns), weight)
                .expect("a chunk is a whole number of rows");
            general_mat_mul(self.scale, &b.slice(s![first..first + count, ..]), &self.a, 1.0, &mut weight);
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Values that f32 sums exactly, so that the definition can be compared for equality in any order.
    fn small(len: usize) -> impl Strategy<Value = Vec<f32>> {
        prop::collection::vec((-8i8..=8).prop_map(|v| f32::from(v) / 4.0), len)
    }

    fn case() -> impl Strategy<Value = (LowRank, Vec<f32>, usize)> {
        (1usize..300, 1usize..24, 1usize..9, prop::sample::select(vec![0.0f32, 0.25, 1.0, -2.0]))
            .prop_flat_map(|(out, inner, rank, scale)| {
                (small(rank * inner), small(out * rank), small(out * inner), 0..=out).prop_map(
                    move |(a, b, weight, split)| {
                        let a = Array2::from_shape_vec((rank, inner), a).unwrap();
                        let b = Array2::from_shape_vec((out, rank), b).unwrap();
                        (LowRank { a, b, scale }, weight, split)
                    },
                )
            })
    }

    proptest! {
        #[test]
        fn equals_the_definition_whatever_the_rows((update, weight, split) in case()) {
            let (out, inner) = (update.b.nrows(), update.a.ncols());
            let mut merged = weight.clone();
            let (top, bottom) = merged.split_at_mut(split * inner);
            update.add(0..split, top);
            update.add(split..out, bottom);
            for row in 0..out {
                for column in 0..inner {
                    let product: f32 = (0..update.a.nrows()).map(|k| update.b[[row, k]] * update.a[[k, column]]).sum();
                    let at = row * inner + column;
                    prop_assert_eq!(merged[at], weight[at] + update.scale * product);
                }
            }
        }
    }
}
