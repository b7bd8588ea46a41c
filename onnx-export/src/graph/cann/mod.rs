//! The lowering for CANN, the provider of Ascend NPUs.
//!
//! The provider hands a whole graph to CANN's ONNX front end, which knows an operator by the exact key
//! `ai.onnx::<opset>::<operator>`. At opset 16, and at no other, it knows both `NPUPromptFlashAttention` and all
//! that the nets need besides; it has no fused norms, GELU or rotary embedding there, so those are written in
//! elementary operators. The provider drops every operator set but the default one, so all nodes are in that.
//! [`provider_report`] checks a graph against all of this.
//!
//! # Precision
//!
//! A matrix product is computed in the type in which its weights are stored: in f16 for f16, and in f32 for f32
//! (the autoencoder, the text encoder's `wo`, whose products leave f16's range). bf16 means that f32's range is
//! wanted, and no CPU could check products in bf16, so those are widened to f32 as well: right, but slow; a bundle
//! for NPUs is exported in f16. So are products of a single row: they are bound by reading the weights, so f32 costs
//! nothing, and they are the timestep's modulation, whose every error is an error of all tokens.
//!
//! Norms, softmax, rotary embedding, modulation and the residual stream are in f32 throughout; GELU is in the type of
//! the product it follows, the largest activation there is. Whoever runs these graphs has to ask CANN for
//! `must_keep_origin_dtype`: by default it narrows all of this to f16.

mod attention;
mod norms;
mod ops;
mod report;
mod rotary;

use std::fmt;

use super::attribute::Attribute::{Int, Ints};
use super::lowering::even_parts;
use super::{AttentionSpec, Builder, ConvSpec, DataType, Lowering, QUICK_GELU, Value};

pub use ops::{FLASH_ATTENTION, OPSET, is_registered};
pub use report::{Problem, provider_report};

/// Lowers to what CANN's ONNX front end takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CannLowering {
    /// In which types the nets are computed.
    pub precision: Precision,
    /// How attention is written.
    pub attention: Attention,
    /// Most rows of a sequence that a graph takes at a time, where each is treated alike; see [`Rows`](super::Rows).
    pub rows: usize,
}

impl CannLowering {
    /// Enough rows that reading a block's weights once more for each part does not count: 12 times 0.7 GB are some 5 ms
    /// where a block of the full-size model computes for a third of a second. Few enough that what is inside a graph takes
    /// little beside the tokens themselves.
    pub const ROWS: usize = 4096;
}

impl Default for CannLowering {
    fn default() -> Self {
        Self { precision: Precision::default(), attention: Attention::default(), rows: Self::ROWS }
    }
}

/// In which types the nets are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Products in the type of their weights, which is f16 for most; nearly everything else in f32.
    #[default]
    F16,
    /// Everything in f32, for comparisons.
    F32,
}

/// How attention is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Attention {
    /// `NPUPromptFlashAttention` wherever it can be used. It takes f16 alone and no bias in f32, so attention in f32
    /// (all of it at [`Precision::F32`], and the autoencoder's) and the text encoder's, which has a bias, are
    /// [`Chunked`](Self::Chunked) with no other limit than the memory that entails.
    #[default]
    Flash,
    /// Plain operators over some queries at a time, so that the scores of all never exist together.
    Chunked {
        /// Most queries at a time; fewer where their scores in f32 would take more than 1 GiB.
        queries: usize,
    },
}

impl CannLowering {
    /// Whether there may be `NPUPromptFlashAttention` in the graphs: whoever runs them then needs a kernel for it.
    pub fn uses_flash_attention(&self) -> bool {
        matches!((self.precision, self.attention), (Precision::F16, Attention::Flash))
    }
}

/// A name that says what tells the graphs of two lowerings apart, beside their shapes: part of what identifies compiled
/// ones.
impl fmt::Display for CannLowering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.precision {
            Precision::F16 => "cann-f16",
            Precision::F32 => "cann-f32",
        })?;
        match self.attention {
            Attention::Flash if self.uses_flash_attention() => f.write_str("-flash"),
            Attention::Flash => f.write_str("-chunked"),
            Attention::Chunked { queries } => write!(f, "-chunked-{queries}"),
        }
    }
}

impl Lowering for CannLowering {
    fn opsets(&self) -> &'static [(&'static str, i64)] {
        &[("", OPSET)]
    }

    fn arithmetic_type(&self, a: DataType, b: DataType) -> DataType {
        match a.promote(b) {
            DataType::I64 => DataType::I64,
            // Of the residual stream, the modulation and gates whose products leave f16's range.
            DataType::F16 | DataType::Bf16 | DataType::F32 => DataType::F32,
        }
    }

    fn product_type(&self, stored: DataType) -> DataType {
        match (self.precision, stored) {
            (Precision::F16, DataType::F16) => DataType::F16,
            _ => DataType::F32,
        }
    }

    fn rows_at_a_time(&self, all: usize) -> usize {
        even_parts(all, self.rows)
    }

    /// As `Gemm` with `transB`: CANN makes it one product that reads the weights as they lie. For `MatMul` they would
    /// have to be transposed at each run, being inputs.
    fn linear(&self, g: &mut Builder<'_>, x: &Value, weight: &Value, bias: Option<&Value>) -> Value {
        let dtype = if x.dim(0) == 1 { DataType::F32 } else { self.product_type(weight.dtype()) };
        let [x, weight] = [x, weight].map(|v| g.cast(v, dtype));
        let bias = bias.map(|b| g.cast(b, dtype));
        let inputs: Vec<_> = [&x, &weight].into_iter().chain(&bias).collect();
        g.node("Gemm", &inputs, &[("transB", Int(1))], dtype, &[x.dim(0), weight.dim(0)])
    }

    fn layer_norm(
        &self,
        g: &mut Builder<'_>,
        x: &Value,
        affine: Option<(&Value, &Value)>,
        eps: f32,
    ) -> Value {
        norms::layer_norm(g, x, affine, eps)
    }

    fn rms_norm(&self, g: &mut Builder<'_>, x: &Value, weight: &Value, eps: f32) -> Value {
        norms::rms_norm(g, x, weight, eps)
    }

    fn channel_norm(&self, g: &mut Builder<'_>, x: &Value, gamma: &Value) -> Value {
        norms::channel_norm(g, x, gamma)
    }

    /// `0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`, node by node as CANN's `GeluFusionPass` looks for it to
    /// make it one operator (so with `Pow`, in this order). In the type of `x`: the fused operator computes in f32
    /// inside, and unfused an overflow of the cube ends in a tanh of exactly 1.
    fn gelu_tanh(&self, g: &mut Builder<'_>, x: &Value) -> Value {
        let cube = with_scalar(g, "Pow", x, 3.0);
        let cube = with_scalar(g, "Mul", &cube, 0.044_715);
        let inner = g.node("Add", &[x, &cube], &[], x.dtype(), x.shape());
        let inner = with_scalar(g, "Mul", &inner, (2.0 / std::f32::consts::PI).sqrt());
        let tanh = g.node("Tanh", &[&inner], &[], x.dtype(), x.shape());
        let gate = with_scalar(g, "Add", &tanh, 1.0);
        let gate = with_scalar(g, "Mul", &gate, 0.5);
        g.node("Mul", &[x, &gate], &[], x.dtype(), x.shape())
    }

    /// In f32, as all of the nets that have it.
    fn quick_gelu(&self, g: &mut Builder<'_>, x: &Value) -> Value {
        let x = g.cast(x, DataType::F32);
        let inner = with_scalar(g, "Mul", &x, QUICK_GELU);
        let gate = g.node("Sigmoid", &[&inner], &[], DataType::F32, x.shape());
        g.mul(&x, &gate)
    }

    fn silu(&self, g: &mut Builder<'_>, x: &Value) -> Value {
        let x = g.cast(x, DataType::F32);
        let gate = g.node("Sigmoid", &[&x], &[], DataType::F32, x.shape());
        g.mul(&x, &gate)
    }

    fn rotary(&self, g: &mut Builder<'_>, x: &Value, cos: &Value, sin: &Value, heads: usize) -> Value {
        rotary::rotary(g, x, cos, sin, heads)
    }

    fn attention(
        &self,
        g: &mut Builder<'_>,
        q: &Value,
        k: &Value,
        v: &Value,
        spec: AttentionSpec<'_>,
    ) -> Value {
        attention::attention(self, g, q, k, v, spec)
    }

    /// With every attribute: CANN tells three dimensions from two by them.
    fn conv(
        &self,
        g: &mut Builder<'_>,
        x: &Value,
        weight: &Value,
        bias: &Value,
        spec: ConvSpec<'_>,
    ) -> Value {
        let dtype = self.product_type(weight.dtype());
        let [x, weight, bias] = [x, weight, bias].map(|v| g.cast(v, dtype));
        let dilations = Ints(vec![1; spec.strides.len()]);
        let mut attributes = spec.attributes(weight.shape());
        attributes.extend([("dilations", dilations), ("group", Int(1))]);
        let shape = spec.output_shape(x.shape(), weight.shape());
        g.node("Conv", &[&x, &weight, &bias], &attributes, dtype, &shape)
    }
}

/// `op` of `x` and a number, in the type of `x`.
fn with_scalar(g: &mut Builder<'_>, op: &str, x: &Value, number: f32) -> Value {
    let number = g.scalar(x.dtype(), number);
    g.node(op, &[x, &number], &[], x.dtype(), x.shape())
}
