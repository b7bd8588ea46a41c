//! Norms in elementary operators, in f32.
//!
//! What is as large as the activations is read and written as rarely as can be: reciprocals are taken of the norms,
//! one number for each row, and the rows are multiplied. (CANN's `NPURmsNorm` is no way out: its front end sets the
//! epsilon to 1e-6, whatever the node says.)

use super::super::attribute::Attribute::{Int, Ints};
use super::super::{Builder, DataType::F32, Value};
use super::with_scalar;

/// See [`Lowering::layer_norm`](super::Lowering::layer_norm).
pub(super) fn layer_norm(
    g: &mut Builder<'_>,
    x: &Value,
    affine: Option<(&Value, &Value)>,
    eps: f32,
) -> Value {
    let x = g.cast(x, F32);
    let mean = mean(g, &x);
    let centred = g.node("Sub", &[&x, &mean], &[], F32, x.shape());
    let y = normalised(g, &centred, eps);
    match affine {
        None => y,
        Some((scale, shift)) => {
            let y = g.mul(&y, scale);
            g.add(&y, shift)
        }
    }
}

/// See [`Lowering::rms_norm`](super::Lowering::rms_norm).
pub(super) fn rms_norm(g: &mut Builder<'_>, x: &Value, weight: &Value, eps: f32) -> Value {
    let x = g.cast(x, F32);
    let y = normalised(g, &x, eps);
    g.mul(&y, weight)
}

/// See [`Lowering::channel_norm`](super::Lowering::channel_norm).
pub(super) fn channel_norm(g: &mut Builder<'_>, x: &Value, gamma: &Value) -> Value {
    let x = g.cast(x, F32);
    let mut reduced = x.shape().to_vec();
    reduced[1] = 1;
    let squares = g.mul(&x, &x);
    let axes = g.constant_i64(&[1], &[1]);
    // Not `ReduceL2`: CANN takes it in a form that ONNX gave up with opset 18, this one from opset 13 on.
    let sum = g.node("ReduceSum", &[&squares, &axes], &[("keepdims", Int(1))], F32, &reduced);
    let norm = g.node("Sqrt", &[&sum], &[], F32, &reduced);
    let norm = with_scalar(g, "Max", &norm, 1e-12);
    let root = g.scalar(F32, (x.dim(1) as f32).sqrt());
    let factor = g.node("Div", &[&root, &norm], &[], F32, &reduced);
    let y = g.mul(&x, &factor);
    g.mul(&y, gamma)
}

/// `x / sqrt(mean(x^2) + eps)` over the last axis.
fn normalised(g: &mut Builder<'_>, x: &Value, eps: f32) -> Value {
    let squares = g.mul(x, x);
    let mean = mean(g, &squares);
    let mean = with_scalar(g, "Add", &mean, eps);
    let root = g.node("Sqrt", &[&mean], &[], F32, mean.shape());
    let factor = g.node("Reciprocal", &[&root], &[], F32, root.shape());
    g.mul(x, &factor)
}

/// The mean over the last axis, which stays with size one.
fn mean(g: &mut Builder<'_>, x: &Value) -> Value {
    let last = x.shape().len() - 1;
    let mut shape = x.shape().to_vec();
    shape[last] = 1;
    // The axes are an attribute up to opset 17.
    let attributes = [("axes", Ints(vec![last as i64])), ("keepdims", Int(1))];
    g.node("ReduceMean", &[x], &attributes, F32, &shape)
}
