//! The operations a net's definition is written in.

use super::attribute::Attribute::{Int, Ints};
use super::{AttentionSpec, Builder, ConvSpec, DataType, Value};

/// Operations that a [`Lowering`](super::Lowering) decides on. Shapes and formulas are in its documentation.
impl Builder<'_> {
    /// See [`Lowering::linear`](super::Lowering::linear).
    pub fn linear(&mut self, x: &Value, weight: &Value, bias: Option<&Value>) -> Value {
        assert_eq!(x.shape().len(), 2, "linear takes [rows, width], not {:?}", x.shape());
        assert_eq!(x.dim(1), weight.dim(1), "linear of {:?} by {:?}", x.shape(), weight.shape());
        self.lowering.linear(self, x, weight, bias)
    }

    /// See [`Lowering::layer_norm`](super::Lowering::layer_norm).
    pub fn layer_norm(&mut self, x: &Value, affine: Option<(&Value, &Value)>, eps: f32) -> Value {
        self.lowering.layer_norm(self, x, affine, eps)
    }

    /// See [`Lowering::rms_norm`](super::Lowering::rms_norm).
    pub fn rms_norm(&mut self, x: &Value, weight: &Value, eps: f32) -> Value {
        assert_eq!(x.shape().last(), weight.shape().last(), "norm of {:?}", x.shape());
        self.lowering.rms_norm(self, x, weight, eps)
    }

    /// See [`Lowering::channel_norm`](super::Lowering::channel_norm).
    pub fn channel_norm(&mut self, x: &Value, gamma: &Value) -> Value {
        assert_eq!(x.dim(1), gamma.dim(0), "norm of {:?}", x.shape());
        self.lowering.channel_norm(self, x, gamma)
    }

    /// See [`Lowering::gelu_tanh`](super::Lowering::gelu_tanh).
    pub fn gelu_tanh(&mut self, x: &Value) -> Value {
        self.lowering.gelu_tanh(self, x)
    }

    /// See [`Lowering::quick_gelu`](super::Lowering::quick_gelu).
    pub fn quick_gelu(&mut self, x: &Value) -> Value {
        self.lowering.quick_gelu(self, x)
    }

    /// See [`Lowering::silu`](super::Lowering::silu).
    pub fn silu(&mut self, x: &Value) -> Value {
        self.lowering.silu(self, x)
    }

    /// See [`Lowering::rotary`](super::Lowering::rotary).
    pub fn rotary(&mut self, x: &Value, cos: &Value, sin: &Value, heads: usize) -> Value {
        let half = x.dim(1) / heads / 2;
        assert_eq!(cos.shape(), [x.dim(0), half], "rotary table for {:?}", x.shape());
        self.lowering.rotary(self, x, cos, sin, heads)
    }

    /// See [`Lowering::attention`](super::Lowering::attention).
    pub fn attention(&mut self, q: &Value, k: &Value, v: &Value, spec: AttentionSpec<'_>) -> Value {
        assert_eq!(k.shape(), v.shape(), "attention keys and values");
        assert_eq!((q.dim(0), q.dim(2)), (k.dim(0), k.dim(2)), "attention queries and keys");
        self.lowering.attention(self, q, k, v, spec)
    }

    /// See [`Lowering::conv`](super::Lowering::conv).
    pub fn conv(&mut self, x: &Value, weight: &Value, bias: &Value, spec: ConvSpec<'_>) -> Value {
        assert_eq!(x.shape().len(), weight.shape().len(), "convolution of {:?}", x.shape());
        assert_eq!(x.dim(1), weight.dim(1), "convolution of {:?} by {:?}", x.shape(), weight.shape());
        self.lowering.conv(self, x, weight, bias, spec)
    }
}

/// Operations that are written the same way everywhere.
impl Builder<'_> {
    /// `a + b`, broadcast; see [`Lowering::arithmetic_type`](super::Lowering::arithmetic_type) for the type.
    pub fn add(&mut self, a: &Value, b: &Value) -> Value {
        self.elementwise("Add", a, b)
    }

    /// `a * b`, broadcast; see [`Lowering::arithmetic_type`](super::Lowering::arithmetic_type) for the type.
    pub fn mul(&mut self, a: &Value, b: &Value) -> Value {
        self.elementwise("Mul", a, b)
    }

    fn elementwise(&mut self, op: &str, a: &Value, b: &Value) -> Value {
        let dtype = self.lowering.arithmetic_type(a.dtype(), b.dtype());
        let (a, b) = (self.cast(a, dtype), self.cast(b, dtype));
        let shape = broadcast(a.shape(), b.shape())
            .unwrap_or_else(|| panic!("{op} of {:?} and {:?}", a.shape(), b.shape()));
        self.node(op, &[&a, &b], &[], dtype, &shape)
    }

    /// `x` in another type; nothing where it has that type already.
    pub fn cast(&mut self, x: &Value, dtype: DataType) -> Value {
        if x.dtype() == dtype {
            return x.clone();
        }
        self.node("Cast", &[x], &[("to", Int(i64::from(dtype.onnx())))], dtype, x.shape())
    }

    /// The same elements in another shape.
    pub fn reshape(&mut self, x: &Value, shape: &[usize]) -> Value {
        if x.shape() == shape {
            return x.clone();
        }
        assert_eq!(
            x.shape().iter().product::<usize>(),
            shape.iter().product::<usize>(),
            "reshape of {:?} to {shape:?}",
            x.shape()
        );
        let target: Vec<_> = shape.iter().map(|&d| d as i64).collect();
        let target = self.constant_i64(&target, &[shape.len()]);
        self.node("Reshape", &[x, &target], &[], x.dtype(), shape)
    }

    /// Axes in another order: axis `i` of the result is axis `order[i]` of `x`.
    pub fn transpose(&mut self, x: &Value, order: &[usize]) -> Value {
        let shape: Vec<_> = order.iter().map(|&axis| x.dim(axis)).collect();
        let perm = Ints(order.iter().map(|&axis| axis as i64).collect());
        self.node("Transpose", &[x], &[("perm", perm)], x.dtype(), &shape)
    }

    /// `x[start..end]` on one axis.
    pub fn slice(&mut self, x: &Value, axis: usize, start: usize, end: usize) -> Value {
        assert!(start < end && end <= x.dim(axis), "slice {start}..{end} of {:?} on {axis}", x.shape());
        if end - start == x.dim(axis) {
            return x.clone();
        }
        let mut shape = x.shape().to_vec();
        shape[axis] = end - start;
        let bounds = [start, end, axis].map(|v| self.constant_i64(&[v as i64], &[1]));
        self.node("Slice", &[x, &bounds[0], &bounds[1], &bounds[2]], &[], x.dtype(), &shape)
    }

    /// The last `count` entries on one axis.
    pub fn last(&mut self, x: &Value, axis: usize, count: usize) -> Value {
        self.slice(x, axis, x.dim(axis) - count, x.dim(axis))
    }

    /// Values of one type, one after the other on `axis`.
    pub fn concat(&mut self, values: &[&Value], axis: usize) -> Value {
        let first = values[0];
        let mut shape = first.shape().to_vec();
        shape[axis] = values.iter().map(|v| v.dim(axis)).sum();
        for v in values {
            let same = (0..shape.len()).all(|i| i == axis || v.dim(i) == first.dim(i));
            assert!(same && v.dtype() == first.dtype(), "concat of {:?} and {:?}", first, v);
        }
        self.node("Concat", values, &[("axis", Int(axis as i64))], first.dtype(), &shape)
    }

    /// Rows `indices` of `table` `[rows, …]`: `[indices…, …]`.
    pub fn gather_rows(&mut self, table: &Value, indices: &Value) -> Value {
        let shape: Vec<_> = indices.shape().iter().chain(&table.shape()[1..]).copied().collect();
        self.node("Gather", &[table, indices], &[("axis", Int(0))], table.dtype(), &shape)
    }

    /// `x` with each element brought into [low, high].
    pub fn clamp(&mut self, x: &Value, low: f32, high: f32) -> Value {
        let (low, high) = (self.constant_f32(&[low], &[]), self.constant_f32(&[high], &[]));
        let x = self.cast(x, DataType::F32);
        self.node("Clip", &[&x, &low, &high], &[], DataType::F32, x.shape())
    }

    /// `count` entries of zeros before those on `axis`.
    pub fn pad_front(&mut self, x: &Value, axis: usize, count: usize) -> Value {
        let mut shape = x.shape().to_vec();
        shape[axis] += count;
        let mut pads = vec![0; 2 * shape.len()];
        pads[axis] = count as i64;
        let pads = self.constant_i64(&pads, &[pads.len()]);
        self.node("Pad", &[x, &pads], &[], x.dtype(), &shape)
    }

    /// Zeros in f32, made when the graph runs and not stored in it.
    pub fn zeros(&mut self, shape: &[usize]) -> Value {
        let zero = self.constant_f32(&[0.0], &[]);
        let dims: Vec<_> = shape.iter().map(|&d| d as i64).collect();
        let dims = self.constant_i64(&dims, &[shape.len()]);
        self.node("Expand", &[&zero, &dims], &[], DataType::F32, shape)
    }

    /// Every pixel of the two trailing axes of `[1, channels, time, height, width]` doubled both ways.
    pub fn upsample_nearest(&mut self, x: &Value) -> Value {
        // Repeating by broadcast is exact and every provider has it; Resize comes in too many flavours.
        let [n, c, t, h, w] = *x.shape() else { panic!("upsample of {:?}", x.shape()) };
        let spread = self.reshape(x, &[n * c * t, h, 1, w, 1]);
        let target = [n * c * t, h, 2, w, 2];
        let dims = self.constant_i64(&target.map(|d| d as i64), &[5]);
        let doubled = self.node("Expand", &[&spread, &dims], &[], x.dtype(), &target);
        self.reshape(&doubled, &[n, c, t, 2 * h, 2 * w])
    }
}

/// The shape two shapes broadcast to.
fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let at = |shape: &[usize], i: usize| (i + shape.len()).checked_sub(rank).map_or(1, |i| shape[i]);
    (0..rank)
        .map(|i| match (at(a, i), at(b, i)) {
            (x, y) if x == y => Some(x),
            (1, y) => Some(y),
            (x, 1) => Some(x),
            _ => None,
        })
        .collect()
}
