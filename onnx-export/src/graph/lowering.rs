//! The seam between what a net computes and how a provider likes it written.

use super::attribute::Attribute::{self, Ints};
use super::{Builder, DataType, Value};

/// What attention is to compute.
#[derive(Clone, Copy, Debug)]
pub struct AttentionSpec<'a> {
    /// Heads; the last axis of query, key and value is split among them.
    pub heads: usize,
    /// Factor on the scores before the softmax.
    pub scale: f32,
    /// Added to the scores: `[1, heads, queries, keys]`, f32.
    pub bias: Option<&'a Value>,
}

/// A convolution over the trailing axes of `[batch, channels, …]`.
#[derive(Clone, Copy, Debug)]
pub struct ConvSpec<'a> {
    /// Step on each axis.
    pub strides: &'a [usize],
    /// Zeros before each axis, then after each axis.
    pub pads: &'a [usize],
}

impl ConvSpec<'_> {
    /// Shape of the result for `x` `[batch, in, …]` and `weight` `[out, in, …]`.
    pub(super) fn output_shape(&self, x: &[usize], weight: &[usize]) -> Vec<usize> {
        let kernel = &weight[2..];
        let axes = kernel.len();
        let spatial = (0..axes)
            .map(|i| (x[2 + i] + self.pads[i] + self.pads[axes + i] - kernel[i]) / self.strides[i] + 1);
        [x[0], weight[0]].into_iter().chain(spatial).collect()
    }

    /// The attributes that every provider wants, for `weight` `[out, in, …]`.
    pub(super) fn attributes(&self, weight: &[usize]) -> Vec<(&'static str, Attribute)> {
        let ints = |values: &[usize]| Ints(values.iter().map(|&value| value as i64).collect());
        vec![("kernel_shape", ints(&weight[2..])), ("strides", ints(self.strides)), ("pads", ints(self.pads))]
    }
}

/// How a provider likes the operations that can be written in more than one way.
///
/// Everything else (shapes, element-wise arithmetic) is the same everywhere and lives in the builder. A lowering
/// also decides precision: it may compute in any type, and norms and residuals are only ever handed on in f32.
pub trait Lowering {
    /// The operator sets the graph's nodes come from: domain and version.
    fn opsets(&self) -> &'static [(&'static str, i64)];

    /// The type in which values of these types are added or multiplied, and that of the result; by default the
    /// wider one, where f16 and bf16 meet in f32.
    fn arithmetic_type(&self, a: DataType, b: DataType) -> DataType {
        a.promote(b)
    }

    /// The type of a product with weights that are stored as said; by default f32.
    fn product_type(&self, _stored: DataType) -> DataType {
        DataType::F32
    }

    /// How many rows of a sequence of `all`, at most that, a graph takes at a time; by default all. See
    /// [`Rows`](super::Rows).
    fn rows_at_a_time(&self, all: usize) -> usize {
        all
    }

    /// `x W^T + b` for `x` `[rows, in]` and `W` `[out, in]`; the result is `[rows, out]`.
    fn linear(&self, g: &mut Builder<'_>, x: &Value, weight: &Value, bias: Option<&Value>) -> Value;

    /// `(x - mean) / sqrt(variance + eps) * scale + shift` over the last axis, in f32; `scale` and `shift` are
    /// `[width]`.
    fn layer_norm(&self, g: &mut Builder<'_>, x: &Value, affine: Option<(&Value, &Value)>, eps: f32)
    -> Value;

    /// `x / sqrt(mean(x^2) + eps) * weight` over the last axis, in f32.
    fn rms_norm(&self, g: &mut Builder<'_>, x: &Value, weight: &Value, eps: f32) -> Value;

    /// `x / max(||x||, 1e-12) * sqrt(channels) * gamma` over the channels of `[1, channels, …]`, in f32.
    fn channel_norm(&self, g: &mut Builder<'_>, x: &Value, gamma: &Value) -> Value;

    /// GELU, tanh form.
    fn gelu_tanh(&self, g: &mut Builder<'_>, x: &Value) -> Value;

    /// GELU in CLIP's form, `x * sigmoid(1.702 x)`.
    fn quick_gelu(&self, g: &mut Builder<'_>, x: &Value) -> Value;

    /// `x * sigmoid(x)`.
    fn silu(&self, g: &mut Builder<'_>, x: &Value) -> Value;

    /// Rotates consecutive pairs of each head of `x` `[tokens, heads * head_dim]` by angles whose cosines and
    /// sines are `[tokens, head_dim / 2]`.
    fn rotary(&self, g: &mut Builder<'_>, x: &Value, cos: &Value, sin: &Value, heads: usize) -> Value;

    /// `softmax(scale * q k^T + bias) v` by head; query `[batch, queries, heads * head_dim]`, key and value
    /// `[batch, keys, heads * head_dim]`.
    fn attention(
        &self,
        g: &mut Builder<'_>,
        q: &Value,
        k: &Value,
        v: &Value,
        spec: AttentionSpec<'_>,
    ) -> Value;

    /// A convolution with `weight` `[out, in, …]` and `bias` `[out]`.
    fn conv(&self, g: &mut Builder<'_>, x: &Value, weight: &Value, bias: &Value, spec: ConvSpec<'_>)
    -> Value;
}

/// Rows of each part of `rows` when there are as few parts as `most` rows in each allow: as even as can be, in whole
/// steps of what a matrix unit takes at a time.
pub(super) fn even_parts(rows: usize, most: usize) -> usize {
    if rows <= most {
        return rows;
    }
    let most = most.max(1);
    let whole_steps = Some(most / MATRIX_ROWS * MATRIX_ROWS).filter(|&whole| whole > 0);
    let parts = rows.div_ceil(whole_steps.unwrap_or(most));
    rows.div_ceil(parts).next_multiple_of(MATRIX_ROWS).min(most)
}

/// Rows an Ascend NPU's matrix unit takes at a time; a multiple of what a CPU's registers do.
const MATRIX_ROWS: usize = 16;

#[cfg(test)]
mod tests {
    use super::even_parts;

    #[test]
    fn parts_are_even_and_within_the_limit() {
        assert_eq!(even_parts(100, usize::MAX), 100);
        assert_eq!(even_parts(100, 100), 100);
        assert_eq!(even_parts(96, 95), 48);
        assert_eq!(even_parts(100, 99), 64); // two of 50, in steps of 16
        assert_eq!(even_parts(100, 7), 7);
        assert_eq!(even_parts(100, 0), 1);
        assert_eq!(even_parts(48_360, 4096), 4032); // twelve of 4030
    }
}
