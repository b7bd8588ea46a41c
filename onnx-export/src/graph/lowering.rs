//! The seam between what a net computes and how a provider likes it written.

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
