//! The lowering for any ONNX tool: operators of the default domain alone, f32 throughout.
//!
//! As the CPU's, of whose operators two are ONNX Runtime's own. `ai.onnx` Attention says the same as theirs; how much memory
//! it takes is up to whoever runs it.

use super::attribute::Attribute::{Float, Int};
use super::{AttentionSpec, Builder, ConvSpec, CpuLowering, DataType, Lowering, QUICK_GELU, Value};

/// Lowers to operators of `ai.onnx` 23.
#[derive(Clone, Copy, Debug, Default)]
pub struct StandardLowering;

impl Lowering for StandardLowering {
    fn opsets(&self) -> &'static [(&'static str, i64)] {
        &[("", 23)]
    }

    fn linear(&self, g: &mut Builder<'_>, x: &Value, weight: &Value, bias: Option<&Value>) -> Value {
        CpuLowering.linear(g, x, weight, bias)
    }

    fn layer_norm(
        &self,
        g: &mut Builder<'_>,
        x: &Value,
        affine: Option<(&Value, &Value)>,
        eps: f32,
    ) -> Value {
        CpuLowering.layer_norm(g, x, affine, eps)
    }

    fn rms_norm(&self, g: &mut Builder<'_>, x: &Value, weight: &Value, eps: f32) -> Value {
        CpuLowering.rms_norm(g, x, weight, eps)
    }

    fn channel_norm(&self, g: &mut Builder<'_>, x: &Value, gamma: &Value) -> Value {
        CpuLowering.channel_norm(g, x, gamma)
    }

    fn gelu_tanh(&self, g: &mut Builder<'_>, x: &Value) -> Value {
        CpuLowering.gelu_tanh(g, x)
    }

    fn quick_gelu(&self, g: &mut Builder<'_>, x: &Value) -> Value {
        let alpha = g.constant_f32(&[QUICK_GELU], &[]);
        let inner = g.mul(x, &alpha);
        let gate = g.node("Sigmoid", &[&inner], &[], DataType::F32, x.shape());
        g.mul(x, &gate)
    }

    fn silu(&self, g: &mut Builder<'_>, x: &Value) -> Value {
        let gate = g.node("Sigmoid", &[x], &[], DataType::F32, x.shape());
        g.mul(x, &gate)
    }

    fn rotary(&self, g: &mut Builder<'_>, x: &Value, cos: &Value, sin: &Value, heads: usize) -> Value {
        CpuLowering.rotary(g, x, cos, sin, heads)
    }

    fn attention(
        &self,
        g: &mut Builder<'_>,
        q: &Value,
        k: &Value,
        v: &Value,
        spec: AttentionSpec<'_>,
    ) -> Value {
        let heads = Int(spec.heads as i64);
        let attributes =
            [("q_num_heads", heads), ("kv_num_heads", Int(spec.heads as i64)), ("scale", Float(spec.scale))];
        let inputs: Vec<_> = [q, k, v].into_iter().chain(spec.bias).collect();
        g.node("Attention", &inputs, &attributes, DataType::F32, q.shape())
    }

    fn conv(
        &self,
        g: &mut Builder<'_>,
        x: &Value,
        weight: &Value,
        bias: &Value,
        spec: ConvSpec<'_>,
    ) -> Value {
        CpuLowering.conv(g, x, weight, bias, spec)
    }
}
