//! Attention, as one operator or in chunks of queries.

use super::super::attribute::Attribute::{Float, Int, Text};
use super::super::lowering::even_parts;
use super::super::{AttentionSpec, Builder, DataType, Lowering as _, Value};
use super::ops::FLASH_ATTENTION;
use super::{Attention, CannLowering};

/// Most bytes that the scores of one chunk take in f32. Some three times as much exists at once, with the scores as
/// the product gives them and the probabilities.
const SCORES_LIMIT: usize = 1 << 30;

/// What `NPUPromptFlashAttention` takes on an Atlas A2 (aclnnPromptFlashAttentionV3, "Constraints"): so many heads,
/// so wide a head, and a token narrower than this.
const MOST_HEADS: usize = 256;
const WIDEST_HEAD: usize = 512;
const TOO_WIDE: usize = 65_535;

/// See [`Lowering::attention`](super::Lowering::attention).
///
/// Computed in the type of the value, which is what its weights made it: queries and keys have been through norms,
/// which hand on f32. With a bias it is in f32: only the text encoder has one, it does not scale its scores, so f16 would
/// round them coarsely, and at the length of a prompt f32 costs nothing.
pub(super) fn attention(
    lowering: &CannLowering,
    g: &mut Builder<'_>,
    q: &Value,
    k: &Value,
    v: &Value,
    spec: AttentionSpec<'_>,
) -> Value {
    let dtype = match spec.bias {
        Some(_) => DataType::F32,
        None => lowering.product_type(v.dtype()),
    };
    match lowering.attention {
        Attention::Flash if dtype == DataType::F16 && fits_flash(q.dim(2), spec.heads) => {
            flash(g, q, k, v, spec)
        }
        Attention::Flash => chunked(g, q, k, v, spec, dtype, usize::MAX),
        Attention::Chunked { queries } => chunked(g, q, k, v, spec, dtype, queries),
    }
}

fn fits_flash(width: usize, heads: usize) -> bool {
    heads <= MOST_HEADS && width / heads <= WIDEST_HEAD && width < TOO_WIDE
}

/// One node that never materialises the scores.
fn flash(g: &mut Builder<'_>, q: &Value, k: &Value, v: &Value, spec: AttentionSpec<'_>) -> Value {
    let [q, k, v] = [q, k, v].map(|x| g.cast(x, DataType::F16));
    let attributes = [
        ("num_heads", Int(spec.heads as i64)),
        ("input_layout", Text("BSH")),
        ("scale_value", Float(spec.scale)),
        // No query is kept from any key. The front end's default for both is 0, its own token alone.
        ("pre_tokens", Int(i64::from(i32::MAX))),
        ("next_tokens", Int(i64::from(i32::MAX))),
        ("num_key_value_heads", Int(0)), // as many as queries have
        ("sparse_mode", Int(0)),
        ("inner_precise", Int(0)), // softmax in f32; the front end's default is 1, f16
    ];
    g.node(FLASH_ATTENTION, &[&q, &k, &v], &attributes, DataType::F16, q.shape())
}

/// Plain operators, unrolled over chunks of at most `most` queries; softmax in f32.
fn chunked(
    g: &mut Builder<'_>,
    q: &Value,
    k: &Value,
    v: &Value,
    spec: AttentionSpec<'_>,
    dtype: DataType,
    most: usize,
) -> Value {
    let AttentionSpec { heads, scale, bias } = spec;
    let (batch, queries, width) = (q.dim(0), q.dim(1), q.dim(2));
    let (keys, head_dim) = (k.dim(1), width / heads);

    // The queries are scaled, of which there are fewer than scores.
    let q = if scale == 1.0 { q.clone() } else { scaled(g, q, scale) };
    let mut by_head = |x: &Value, order: [usize; 4]| {
        let x = g.cast(x, dtype);
        let x = g.reshape(&x, &[batch, x.dim(1), heads, head_dim]);
        g.transpose(&x, &order)
    };
    let q = by_head(&q, [0, 2, 1, 3]); // [batch, heads, queries, head_dim]
    let k = by_head(k, [0, 2, 3, 1]); // [batch, heads, head_dim, keys]
    let v = by_head(v, [0, 2, 1, 3]); // [batch, heads, keys, head_dim]

    let size = chunk_size(queries, most, batch * heads * keys * size_of::<f32>());
    let mut chunks = Vec::with_capacity(queries.div_ceil(size));
    for start in (0..queries).step_by(size) {
        let end = (start + size).min(queries);
        let q = g.slice(&q, 2, start, end);
        let shape = [batch, heads, end - start, keys];
        let mut scores = g.node("MatMul", &[&q, &k], &[], dtype, &shape);
        if let Some(bias) = bias {
            let bias = g.slice(bias, 2, start, end);
            scores = g.add(&scores, &bias);
        }
        let scores = g.cast(&scores, DataType::F32);
        let weights = g.node("Softmax", &[&scores], &[("axis", Int(3))], DataType::F32, &shape);
        let weights = g.cast(&weights, dtype);
        let shape = [batch, heads, end - start, head_dim];
        chunks.push(g.node("MatMul", &[&weights, &v], &[], dtype, &shape));
    }
    let y = match &chunks[..] {
        [one] => one.clone(),
        _ => g.concat(&chunks.iter().collect::<Vec<_>>(), 2),
    };
    let y = g.transpose(&y, &[0, 2, 1, 3]);
    g.reshape(&y, &[batch, queries, width])
}

fn scaled(g: &mut Builder<'_>, q: &Value, scale: f32) -> Value {
    let scale = g.scalar(DataType::F32, scale);
    g.mul(q, &scale)
}

/// Queries in each chunk but the last, within both limits.
fn chunk_size(queries: usize, most: usize, bytes_per_query: usize) -> usize {
    even_parts(queries, most.min(SCORES_LIMIT / bytes_per_query))
}

#[cfg(test)]
mod tests {
    use super::chunk_size;

    #[test]
    fn chunks_are_within_both_limits() {
        assert_eq!(chunk_size(96, usize::MAX, 1), 96);
        assert_eq!(chunk_size(96, 95, 1), 48);
        // 40 heads over 37,440 keys: 6 MB a query, so at most 179.
        assert_eq!(chunk_size(37_440, usize::MAX, 40 * 37_440 * 4), 176);
        assert_eq!(chunk_size(3, usize::MAX, usize::MAX), 1);
    }
}
