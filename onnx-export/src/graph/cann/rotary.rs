//! Rotary embedding of consecutive pairs by the matrix unit.
//!
//! Rotating a pair needs its other half, the neighbour in memory, and each angle twice. Slices of every second
//! element are what a vector unit does worst, so both are products with a constant matrix of ones, minus ones and
//! zeros instead: exact, contiguous, and a thousandth of a block's arithmetic. (CANN's `NPURotaryMul` rotates the
//! halves of a head and not pairs.)

use super::super::{Builder, DataType::F32, Value};

/// See [`Lowering::rotary`](super::Lowering::rotary): `x cos + turn(x) sin`, where `turn` makes `(-b, a)` of a
/// pair `(a, b)`.
pub(super) fn rotary(g: &mut Builder<'_>, x: &Value, cos: &Value, sin: &Value, heads: usize) -> Value {
    let (tokens, width) = (x.dim(0), x.dim(1));
    let head_dim = width / heads;
    let x = g.cast(x, F32);
    let by_head = g.reshape(&x, &[tokens * heads, head_dim]);
    let turn = matrix(g, head_dim, head_dim, |row, column| match (row, column) {
        _ if row ^ 1 != column => 0.0,
        _ if row % 2 == 0 => 1.0,
        _ => -1.0,
    });
    let turned = product(g, &by_head, &turn);
    let [x, turned] = [x, turned].map(|v| g.reshape(&v, &[tokens, heads, head_dim]));

    let spread = matrix(g, head_dim / 2, head_dim, |pair, column| f32::from(u8::from(column / 2 == pair)));
    let [cos, sin] = [cos, sin].map(|table| {
        let table = product(g, table, &spread);
        g.reshape(&table, &[tokens, 1, head_dim])
    });
    let (x, turned) = (g.mul(&x, &cos), g.mul(&turned, &sin));
    let y = g.add(&x, &turned);
    g.reshape(&y, &[tokens, width])
}

fn product(g: &mut Builder<'_>, a: &Value, b: &Value) -> Value {
    g.node("MatMul", &[a, b], &[], F32, &[a.dim(0), b.dim(1)])
}

fn matrix(g: &mut Builder<'_>, rows: usize, columns: usize, at: impl Fn(usize, usize) -> f32) -> Value {
    let at = &at;
    let values: Vec<_> = (0..rows).flat_map(|row| (0..columns).map(move |column| at(row, column))).collect();
    g.constant_f32(&values, &[rows, columns])
}
