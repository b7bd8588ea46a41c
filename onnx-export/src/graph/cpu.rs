//! The lowering for ONNX Runtime's CPU provider: fused operators, f32 throughout.
//!
//! Weights may be stored in 16 bits; each is widened where it is used, so that a bundle needs no more memory than
//! its file plus one layer. `com.microsoft.MultiHeadAttention` never materialises the scores (`ai.onnx` Attention
//! does: 800 MB at 4096 tokens and 12 heads), and opset 23 brings fused RMS norms and rotary embeddings.

use super::attribute::Attribute::{Float, Int, Text};
use super::lowering::even_parts;
use super::{AttentionSpec, Builder, ConvSpec, DataType, Lowering, QUICK_GELU, Value};

const CONTRIB: &str = "com.microsoft";

/// Most rows of a sequence at a time. So many that what is done once for each part, such as laying out the keys for
/// attention, does not count.
const ROWS: usize = 8192;

/// Lowers to what ONNX Runtime's CPU provider runs best.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuLowering;

impl Lowering for CpuLowering {
    fn opsets(&self) -> &'static [(&'static str, i64)] {
        &[("", 23), (CONTRIB, 1)]
    }

    fn rows_at_a_time(&self, all: usize) -> usize {
        even_parts(all, ROWS)
    }

    fn linear(&self, g: &mut Builder<'_>, x: &Value, weight: &Value, bias: Option<&Value>) -> Value {
        let weight = g.cast(weight, DataType::F32);
        let bias = bias.map(|b| g.cast(b, DataType::F32));
        let inputs: Vec<_> = [x, &weight].into_iter().chain(&bias).collect();
        g.node("Gemm", &inputs, &[("transB", Int(1))], DataType::F32, &[x.dim(0), weight.dim(0)])
    }

    fn layer_norm(
        &self,
        g: &mut Builder<'_>,
        x: &Value,
        affine: Option<(&Value, &Value)>,
        eps: f32,
    ) -> Value {
        let width = x.dim(x.shape().len() - 1);
        let (scale, shift) = match affine {
            Some((scale, shift)) => (g.cast(scale, DataType::F32), Some(g.cast(shift, DataType::F32))),
            None => (g.constant_f32(&vec![1.0; width], &[width]), None),
        };
        let inputs: Vec<_> = [x, &scale].into_iter().chain(&shift).collect();
        g.node("LayerNormalization", &inputs, &[("epsilon", Float(eps))], DataType::F32, x.shape())
    }

    fn rms_norm(&self, g: &mut Builder<'_>, x: &Value, weight: &Value, eps: f32) -> Value {
        let weight = g.cast(weight, DataType::F32);
        g.node("RMSNormalization", &[x, &weight], &[("epsilon", Float(eps))], DataType::F32, x.shape())
    }

    fn channel_norm(&self, g: &mut Builder<'_>, x: &Value, gamma: &Value) -> Value {
        let channels = x.dim(1);
        let mut reduced = x.shape().to_vec();
        reduced[1] = 1;
        let axes = g.constant_i64(&[1], &[1]);
        let norm = g.node("ReduceL2", &[x, &axes], &[("keepdims", Int(1))], DataType::F32, &reduced);
        let floor = g.constant_f32(&[1e-12], &[]);
        let norm = g.node("Max", &[&norm, &floor], &[], DataType::F32, &reduced);
        let x = g.node("Div", &[x, &norm], &[], DataType::F32, x.shape());
        let gamma = g.cast(gamma, DataType::F32);
        let root = g.constant_f32(&[(channels as f32).sqrt()], &[]);
        let gamma = g.mul(&gamma, &root);
        g.mul(&x, &gamma)
    }

    fn gelu_tanh(&self, g: &mut Builder<'_>, x: &Value) -> Value {
        g.node("Gelu", &[x], &[("approximate", Text("tanh"))], DataType::F32, x.shape())
    }

    fn quick_gelu(&self, g: &mut Builder<'_>, x: &Value) -> Value {
        sigmoid_gated(g, x, QUICK_GELU)
    }

    fn silu(&self, g: &mut Builder<'_>, x: &Value) -> Value {
        sigmoid_gated(g, x, 1.0)
    }

    fn rotary(&self, g: &mut Builder<'_>, x: &Value, cos: &Value, sin: &Value, heads: usize) -> Value {
        let (tokens, width) = (x.dim(0), x.dim(1));
        let batched = g.reshape(x, &[1, tokens, width]);
        let half = cos.dim(1);
        let (cos, sin) = (g.reshape(cos, &[1, tokens, half]), g.reshape(sin, &[1, tokens, half]));
        let attributes = [("interleaved", Int(1)), ("num_heads", Int(heads as i64))];
        let rotated = g.node(
            "RotaryEmbedding",
            &[&batched, &cos, &sin],
            &attributes,
            DataType::F32,
            &[1, tokens, width],
        );
        g.reshape(&rotated, &[tokens, width])
    }

    fn attention(
        &self,
        g: &mut Builder<'_>,
        q: &Value,
        k: &Value,
        v: &Value,
        spec: AttentionSpec<'_>,
    ) -> Value {
        let inputs = [Some(q), Some(k), Some(v), None, None, spec.bias];
        let inputs = if spec.bias.is_some() { &inputs[..] } else { &inputs[..3] };
        let attributes = [("num_heads", Int(spec.heads as i64)), ("scale", Float(spec.scale))];
        g.node_in(CONTRIB, "MultiHeadAttention", inputs, &attributes, DataType::F32, q.shape())
    }

    fn conv(
        &self,
        g: &mut Builder<'_>,
        x: &Value,
        weight: &Value,
        bias: &Value,
        spec: ConvSpec<'_>,
    ) -> Value {
        let (weight, bias) = (g.cast(weight, DataType::F32), g.cast(bias, DataType::F32));
        let shape = spec.output_shape(x.shape(), weight.shape());
        let attributes = spec.attributes(weight.shape());
        g.node("Conv", &[x, &weight, &bias], &attributes, DataType::F32, &shape)
    }
}

/// `x * sigmoid(alpha x)`.
fn sigmoid_gated(g: &mut Builder<'_>, x: &Value, alpha: f32) -> Value {
    g.node_in(CONTRIB, "QuickGelu", &[Some(x)], &[("alpha", Float(alpha))], DataType::F32, x.shape())
}
