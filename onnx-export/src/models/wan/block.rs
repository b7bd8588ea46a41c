//! One transformer block, in the two graphs it is run as.

use super::{LatentGrid, WanConfig, linear, scale, shift};
use crate::graph::{AttentionSpec, Builder, DataType::F32, Graph, Value};

/// What precedes the weight names of one block's graphs.
pub fn block_prefix(layer: usize) -> String {
    format!("blocks.{layer}.")
}

/// What a block's self-attention attends to; weight names are relative to [`block_prefix`].
///
/// Inputs `hidden` `[tokens, dim]`, `time_modulation` `[6, dim]`, `cos` and `sin` `[tokens, head_dim / 2]` (see
/// [`rotary_table`](super::rotary_table)); outputs `keys` and `values` `[tokens, dim]` in the type of products.
pub fn keys(mut g: Builder<'_>, config: &WanConfig, grid: LatentGrid) -> Graph {
    let block = Block::inputs(&mut g, config, grid);
    let y = block.attending(&mut g);
    let (k, v) = (block.keys(&mut g, &y), block.values(&mut g, &y));
    g.output_rows("keys", &k, grid.tokens());
    g.output_rows("values", &v, grid.tokens());
    g.finish("wan_keys")
}

/// One transformer block; weight names are relative to [`block_prefix`].
///
/// Inputs as for [`keys`], then what those are, `keys` and `values` `[tokens, dim]`, and `context` `[text_len, dim]`;
/// output `hidden_out` `[tokens, dim]`.
pub fn block(mut g: Builder<'_>, config: &WanConfig, grid: LatentGrid) -> Graph {
    let block = Block::inputs(&mut g, config, grid);
    let all = [grid.tokens(), config.dim];
    let dtype = g.product_type(VALUE_WEIGHT);
    let (k, v) = (g.input("keys", dtype, &all), g.input("values", dtype, &all));
    let y = block.attending(&mut g);
    let q = block.queries(&mut g, &y);
    let x = block.attended(&mut g, &q, &k, &v);
    g.output_rows("hidden_out", &x, grid.tokens());
    g.finish("wan_block")
}

/// [`keys`] and [`block`] in one, for a model of one piece. Inputs as for [`keys`], then `context`; output `hidden_out`.
pub fn whole_block(mut g: Builder<'_>, config: &WanConfig, grid: LatentGrid) -> Graph {
    define_whole(&mut g, config, grid);
    g.finish("wan_block")
}

pub(super) fn define_whole(g: &mut Builder<'_>, config: &WanConfig, grid: LatentGrid) {
    let block = Block::inputs(g, config, grid);
    let y = block.attending(g);
    let q = block.queries(g, &y);
    let (k, v) = (block.keys(g, &y), block.values(g, &y));
    let x = block.attended(g, &q, &k, &v);
    g.output("hidden_out", &x);
}

/// In whose type keys and values are handed on.
const VALUE_WEIGHT: &str = "self_attn.v.weight";

/// What goes into a block, of as many tokens as are treated at a time.
struct Block<'c> {
    config: &'c WanConfig,
    /// `[rows, dim]`
    x: Value,
    /// Rows are shift, scale and gate of self-attention, then those of the feed-forward layers.
    modulation: Value,
    /// `[rows, head_dim / 2]`
    cos: Value,
    sin: Value,
}

impl<'c> Block<'c> {
    fn inputs(g: &mut Builder<'_>, config: &'c WanConfig, grid: LatentGrid) -> Self {
        let (dim, tokens) = (config.dim, grid.tokens());
        let rows = g.rows_at_a_time(tokens);
        let x = g.input_rows("hidden", F32, &[tokens, dim], rows);
        let time = g.input("time_modulation", F32, &[6, dim]);
        let table = [tokens, config.head_dim() / 2];
        let (cos, sin) = (g.input_rows("cos", F32, &table, rows), g.input_rows("sin", F32, &table, rows));
        let table = g.weight("modulation", &[1, 6, dim]);
        let modulation = g.add(&table, &time);
        Self { config, x, modulation, cos, sin }
    }

    /// Tokens as self-attention is given them.
    fn attending(&self, g: &mut Builder<'_>) -> Value {
        let (shift, scale) = (shift(g, &self.modulation, 0), scale(g, &self.modulation, 1));
        g.layer_norm(&self.x, Some((&scale, &shift)), self.config.eps)
    }

    fn queries(&self, g: &mut Builder<'_>, y: &Value) -> Value {
        let q = normed_linear(g, self.config, "self_attn.q", "self_attn.norm_q", y);
        g.rotary(&q, &self.cos, &self.sin, self.config.num_heads)
    }

    fn keys(&self, g: &mut Builder<'_>, y: &Value) -> Value {
        let k = normed_linear(g, self.config, "self_attn.k", "self_attn.norm_k", y);
        let k = g.rotary(&k, &self.cos, &self.sin, self.config.num_heads);
        let dtype = g.product_type(VALUE_WEIGHT);
        g.cast(&k, dtype)
    }

    fn values(&self, g: &mut Builder<'_>, y: &Value) -> Value {
        let v = linear(g, "self_attn.v", y, self.config.dim);
        let dtype = g.product_type(VALUE_WEIGHT);
        g.cast(&v, dtype)
    }

    /// What becomes of the tokens: self-attention by `q` `[rows, dim]` over `k` and `v` `[tokens, dim]`, attention to
    /// the prompt, feed-forward layers.
    fn attended(&self, g: &mut Builder<'_>, q: &Value, k: &Value, v: &Value) -> Value {
        let (config, dim, eps) = (self.config, self.config.dim, self.config.eps);
        let context = g.input("context", F32, &[config.text_len, dim]);
        let y = attention(g, config, q, k, v);
        let y = linear(g, "self_attn.o", &y, dim);
        let gate = shift(g, &self.modulation, 2);
        let y = g.mul(&y, &gate);
        let x = g.add(&self.x, &y);

        let (weight, bias) = (g.weight("norm3.weight", &[dim]), g.weight("norm3.bias", &[dim]));
        let y = g.layer_norm(&x, Some((&weight, &bias)), eps);
        let q = normed_linear(g, config, "cross_attn.q", "cross_attn.norm_q", &y);
        let k = normed_linear(g, config, "cross_attn.k", "cross_attn.norm_k", &context);
        let v = linear(g, "cross_attn.v", &context, dim);
        let y = attention(g, config, &q, &k, &v); // no mask: the zero padding is attended to
        let y = linear(g, "cross_attn.o", &y, dim);
        let x = g.add(&x, &y);

        let (shift2, scale2) = (shift(g, &self.modulation, 3), scale(g, &self.modulation, 4));
        let y = g.layer_norm(&x, Some((&scale2, &shift2)), eps);
        let y = linear(g, "ffn.0", &y, config.ffn_dim);
        let y = g.gelu_tanh(&y);
        let y = linear(g, "ffn.2", &y, dim);
        let gate = shift(g, &self.modulation, 5);
        let y = g.mul(&y, &gate);
        g.add(&x, &y)
    }
}

fn attention(g: &mut Builder<'_>, config: &WanConfig, q: &Value, k: &Value, v: &Value) -> Value {
    let [q, k, v] = [q, k, v].map(|x| g.reshape(x, &[1, x.dim(0), config.dim]));
    let scale = 1.0 / (config.head_dim() as f32).sqrt();
    let y = g.attention(&q, &k, &v, AttentionSpec { heads: config.num_heads, scale, bias: None });
    g.reshape(&y, &[q.dim(1), config.dim])
}

/// A linear layer and an RMS norm over all heads together.
fn normed_linear(g: &mut Builder<'_>, config: &WanConfig, name: &str, norm: &str, x: &Value) -> Value {
    let x = linear(g, name, x, config.dim);
    let weight = g.weight(&format!("{norm}.weight"), &[config.dim]);
    g.rms_norm(&x, &weight, config.eps)
}
