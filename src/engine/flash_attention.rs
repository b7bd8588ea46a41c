//! `NPUPromptFlashAttention` on the CPU.
//!
//! The operator is CANN's; ONNX Runtime has to know it to take a graph that uses it, whoever runs the graph. Its kernel
//! here is the reference for what the NPU computes: inputs and result in f16, everything between in f32. Queries are
//! worked on in blocks, and for each block the keys; softmax is kept as its running maximum and sum, so memory does not
//! depend on the number of either (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018).

use half::f16;
use half::slice::HalfFloatSliceExt;
use ndarray::linalg::general_mat_mul;
use ndarray::{Array1, Array2, ArrayViewMut2, Axis, Zip, s};
use onnx_export::graph::cann::FLASH_ATTENTION;
use ort::operator::{
    ComputeContext, Kernel, KernelContext, Operator, OperatorDomain, OperatorInput, OperatorOutput,
    ShapeInferenceContext,
};
use ort::value::TensorElementType;
use rayon::prelude::*;

/// Queries in a block: the more, the less often keys and values are widened and packed.
const QUERY_BLOCK: usize = 256;
/// Keys in a block. Its scores (half a megabyte) stay in a core's cache.
const KEY_BLOCK: usize = 512;

/// The operator, in the domain in which CANN looks for it.
pub(super) fn domain() -> Result<OperatorDomain, ort::Error> {
    OperatorDomain::new("")?.add(FlashAttention)
}

struct FlashAttention;

impl Operator for FlashAttention {
    type Kernel<'attr> = FlashAttentionKernel;

    fn name(&self) -> &str {
        FLASH_ATTENTION
    }

    fn inputs(&self) -> impl IntoIterator<Item = OperatorInput> {
        [const { OperatorInput::required(TensorElementType::Float16) }; 3]
    }

    fn outputs(&self) -> impl IntoIterator<Item = OperatorOutput> {
        [OperatorOutput::required(TensorElementType::Float16)]
    }

    fn infer_shape(&self, context: &mut ShapeInferenceContext) -> Result<(), ort::Error> {
        match &context.inputs()[..] {
            [query, ..] => context.set_output(0, query),
            [] => Err(refusal("it has no inputs")),
        }
    }

    fn create_kernel(&self, context: &KernelContext<'_>) -> Result<FlashAttentionKernel, ort::Error> {
        let int = |name: &str| context.get::<i64>(name);
        let heads = int("num_heads").and_then(|heads| usize::try_from(heads).ok()).filter(|&heads| heads > 0);
        let heads = heads.ok_or_else(|| refusal("`num_heads` has to be given"))?;
        if context.get::<String>("input_layout").as_deref() != Some("BSH") {
            return Err(refusal("`input_layout` has to be `BSH` on the CPU"));
        }
        // What would keep some queries from some keys, or share keys among heads, is not implemented, and CANN's
        // defaults for tokens do keep them.
        let everything = i64::from(i32::MAX);
        for (name, allowed) in [
            ("pre_tokens", [everything, everything]),
            ("next_tokens", [everything, everything]),
            ("num_key_value_heads", [0, heads as i64]),
            ("sparse_mode", [0, 0]),
        ] {
            if !allowed.contains(&int(name).unwrap_or(0)) {
                return Err(refusal(&format!("`{name}` has to be {} on the CPU", allowed[0])));
            }
        }
        Ok(FlashAttentionKernel { heads, scale: context.get::<f32>("scale_value").unwrap_or(1.0) })
    }
}

struct FlashAttentionKernel {
    heads: usize,
    scale: f32,
}

impl Kernel for FlashAttentionKernel {
    fn compute(&mut self, context: &ComputeContext) -> Result<(), ort::Error> {
        let input = |index: usize| {
            let value = context.input(index)?;
            value.ok_or_else(|| refusal("it takes query, key and value"))
        };
        let (q, k, v) = (input(0)?, input(1)?, input(2)?);
        let (q_shape, q) = q.try_extract_tensor::<f16>()?;
        let (k_shape, k) = k.try_extract_tensor::<f16>()?;
        let (v_shape, v) = v.try_extract_tensor::<f16>()?;
        let dims = Dims::of(q_shape, k_shape, v_shape, self.heads)
            .ok_or_else(|| refusal("query, key and value don't fit together"))?;
        let out = context.output(0, q_shape.to_vec())?;
        let mut out = out.ok_or_else(|| refusal("it has a result"))?;
        let (_, out) = out.try_extract_tensor_mut::<f16>()?;
        attend(dims, self.scale, [q, k, v], out);
        Ok(())
    }
}

fn refusal(reason: &str) -> ort::Error {
    ort::Error::new(format!("`{FLASH_ATTENTION}`: {reason}"))
}

/// What is attended to what. None of it is zero.
#[derive(Clone, Copy)]
struct Dims {
    queries: usize,
    keys: usize,
    heads: usize,
    head_dim: usize,
}

impl Dims {
    /// Of query `[batch, queries, width]` and key and value `[batch, keys, width]`, if they are that.
    fn of(q: &[i64], k: &[i64], v: &[i64], heads: usize) -> Option<Self> {
        let (&[batch, queries, width], &[key_batch, keys, key_width]) = (q, k) else { return None };
        let size = |size: i64| usize::try_from(size).ok().filter(|&size| size > 0);
        let head_dim = size(width).filter(|width| width.is_multiple_of(heads))? / heads;
        let fit = k == v && batch == key_batch && width == key_width;
        size(batch).filter(|_| fit)?;
        Some(Self { queries: size(queries)?, keys: size(keys)?, heads, head_dim })
    }

    fn width(self) -> usize {
        self.heads * self.head_dim
    }
}

/// `softmax(scale * q k^T) v` by head.
fn attend(dims: Dims, scale: f32, [q, k, v]: [&[f16]; 3], out: &mut [f16]) {
    let (queries, keys) = (dims.queries * dims.width(), dims.keys * dims.width());
    let block = QUERY_BLOCK * dims.width();
    let inputs = q.par_chunks(queries).zip(k.par_chunks(keys)).zip(v.par_chunks(keys));
    out.par_chunks_mut(queries).zip(inputs).for_each(|(out, ((q, k), v))| {
        out.par_chunks_mut(block).zip(q.par_chunks(block)).for_each_init(
            || Block::new(dims),
            |scratch, (out, q)| {
                for head in 0..dims.heads {
                    scratch.attend(head, scale, [q, k, v], out);
                }
            },
        );
    });
}

/// Memory for one block of queries of one head.
struct Block {
    dims: Dims,
    q: Array2<f32>,
    k: Array2<f32>,
    v: Array2<f32>,
    /// Scores, then their exponentials.
    scores: Array2<f32>,
    /// Of each query: the greatest score so far, the sum of the exponentials, and of the values weighted by them; the
    /// exponentials are taken after the greatest score was subtracted.
    maximum: Array1<f32>,
    sum: Array1<f32>,
    weighted: Array2<f32>,
}

impl Block {
    fn new(dims: Dims) -> Self {
        let (queries, keys) = (QUERY_BLOCK.min(dims.queries), KEY_BLOCK.min(dims.keys));
        Self {
            dims,
            q: Array2::zeros([queries, dims.head_dim]),
            k: Array2::zeros([keys, dims.head_dim]),
            v: Array2::zeros([keys, dims.head_dim]),
            scores: Array2::zeros([queries, keys]),
            maximum: Array1::zeros(queries),
            sum: Array1::zeros(queries),
            weighted: Array2::zeros([queries, dims.head_dim]),
        }
    }

    /// Attention of `head` for the rows of `q`, into those of `out`.
    fn attend(&mut self, head: usize, scale: f32, [q, k, v]: [&[f16]; 3], out: &mut [f16]) {
        let (width, head_dim) = (self.dims.width(), self.dims.head_dim);
        let columns = head * head_dim..(head + 1) * head_dim;
        let rows = q.len() / width;
        widen(q, width, columns.start, self.q.slice_mut(s![..rows, ..]));
        self.maximum.fill(f32::NEG_INFINITY);
        self.sum.fill(0.0);
        self.weighted.fill(0.0);
        for (k, v) in k.chunks(KEY_BLOCK * width).zip(v.chunks(KEY_BLOCK * width)) {
            let keys = k.len() / width;
            widen(k, width, columns.start, self.k.slice_mut(s![..keys, ..]));
            widen(v, width, columns.start, self.v.slice_mut(s![..keys, ..]));
            self.add(rows, keys, scale);
        }
        for (row, out) in out.chunks_exact_mut(width).enumerate() {
            let mut weighted = self.weighted.row_mut(row);
            weighted /= self.sum[row];
            let weighted = weighted.into_slice().expect("a row of an owned matrix is contiguous");
            out[columns.clone()].convert_from_f32_slice(weighted);
        }
    }

    /// Takes the keys and values at hand into account.
    fn add(&mut self, rows: usize, keys: usize, scale: f32) {
        let (k, v) = (self.k.slice(s![..keys, ..]), self.v.slice(s![..keys, ..]));
        let mut scores = self.scores.slice_mut(s![..rows, ..keys]);
        general_mat_mul(scale, &self.q.slice(s![..rows, ..]), &k.t(), 0.0, &mut scores);
        let mut weighted = self.weighted.slice_mut(s![..rows, ..]);
        Zip::from(scores.rows_mut())
            .and(weighted.rows_mut())
            .and(self.maximum.slice_mut(s![..rows]))
            .and(self.sum.slice_mut(s![..rows]))
            .for_each(|mut scores, mut weighted, maximum, sum| {
                let greatest = scores.iter().copied().fold(*maximum, f32::max);
                scores.mapv_inplace(|score| (score - greatest).exp());
                // Zero at first, when the maximum so far is minus infinity.
                let kept = (*maximum - greatest).exp();
                *sum = *sum * kept + scores.sum();
                weighted *= kept;
                *maximum = greatest;
            });
        general_mat_mul(1.0, &scores, &v, 1.0, &mut weighted);
    }
}

/// Widens the columns from `start` on of a matrix `width` wide.
fn widen(from: &[f16], width: usize, start: usize, mut to: ArrayViewMut2<'_, f32>) {
    let columns = to.len_of(Axis(1));
    for (from, mut to) in from.chunks_exact(width).zip(to.rows_mut()) {
        let to = to.as_slice_mut().expect("a row of a row-major matrix is contiguous");
        from[start..start + columns].convert_to_f32_slice(to);
    }
}
