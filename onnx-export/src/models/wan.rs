//! The Wan transformer, in the four graphs it is run as.
//!
//! Reference: Wan2.2 `wan/modules/model.py` and diffusers 0.38 `WanTransformer3DModel`; names are the former's.
//! A denoising step is [`prologue`], then [`block`] once for each layer with that layer's weights bound, then
//! [`epilogue`]; [`context`] is run once for each prompt. Splitting here makes the graph of one block serve all
//! layers of both experts, and gives a place to stop between any two.
//!
//! Every token, memory or video, has the same scalar timestep, so the modulation is six vectors rather than six
//! vectors for each token (which would be 5.9 GB at 832x480 with ten memory frames).

use serde::{Deserialize, Serialize};

use crate::graph::{AttentionSpec, Builder, ConvSpec, DataType::F32, Graph, Value, WeightSpec};

/// Pixels of the latent grid a token covers, by height and by width.
pub const PATCH: usize = 2;

/// Dimensions of a Wan transformer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WanConfig {
    /// Width of a token.
    pub dim: usize,
    /// Inner width of the feed-forward layers.
    pub ffn_dim: usize,
    /// Width of the sinusoidal timestep embedding.
    pub freq_dim: usize,
    /// Width of the text encoder's output.
    pub text_dim: usize,
    /// Channels in: 36 with condition (16 noise, 4 mask, 16 condition), 16 without.
    pub in_dim: usize,
    /// Channels out.
    pub out_dim: usize,
    /// Attention heads; `dim / num_heads` is even.
    pub num_heads: usize,
    /// Blocks.
    pub num_layers: usize,
    /// Epsilon of every norm.
    pub eps: f32,
    /// Text tokens attended to; shorter prompts are padded with zeros, which are attended to like the rest.
    pub text_len: usize,
}

impl WanConfig {
    /// The published dimensions of Wan2.2's A14B experts: `in_dim` is 36 for I2V, 16 for T2V.
    pub fn a14b(in_dim: usize) -> Self {
        Self {
            dim: 5120,
            ffn_dim: 13824,
            freq_dim: 256,
            text_dim: 4096,
            in_dim,
            out_dim: 16,
            num_heads: 40,
            num_layers: 40,
            eps: 1e-6,
            text_len: 512,
        }
    }

    /// Width of one attention head.
    pub fn head_dim(&self) -> usize {
        self.dim / self.num_heads
    }

    /// Channels of the condition (mask and encoded frames) beside the noise.
    pub fn condition_channels(&self) -> usize {
        self.in_dim - self.out_dim
    }
}

/// A latent grid: what decides the shape of a transformer's graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LatentGrid {
    /// Latent frames, memory included.
    pub frames: usize,
    /// Rows, even.
    pub height: usize,
    /// Columns, even.
    pub width: usize,
}

impl LatentGrid {
    /// Tokens the grid is cut into.
    pub fn tokens(&self) -> usize {
        self.frames * (self.height / PATCH) * (self.width / PATCH)
    }
}

/// Every weight of the transformer under its original Wan name, in the order in which a step uses them.
pub fn weights(config: &WanConfig) -> Vec<WeightSpec> {
    let grid = LatentGrid { frames: 1, height: PATCH, width: PATCH };
    let mut all = Builder::weights_of(|g| define_context(g, config));
    all.extend(Builder::weights_of(|g| define_prologue(g, config, grid)));
    let block = Builder::weights_of(|g| define_block(g, config, grid));
    for layer in 0..config.num_layers {
        let prefix = block_prefix(layer);
        all.extend(block.iter().map(|w| WeightSpec { name: format!("{prefix}{}", w.name), ..w.clone() }));
    }
    all.extend(Builder::weights_of(|g| define_epilogue(g, config, grid)));
    all
}

/// What precedes the weight names of one block's graph.
pub fn block_prefix(layer: usize) -> String {
    format!("blocks.{layer}.")
}

/// Prompt embeddings to what cross-attention attends to.
///
/// Input `prompt` `[text_len, text_dim]`, rows past the prompt zero; output `context` `[text_len, dim]`.
pub fn context(mut g: Builder<'_>, config: &WanConfig) -> Graph {
    define_context(&mut g, config);
    g.finish("wan_context")
}

fn define_context(g: &mut Builder<'_>, config: &WanConfig) {
    let prompt = g.input("prompt", F32, &[config.text_len, config.text_dim]);
    let x = linear(g, "text_embedding.0", &prompt, config.dim);
    let x = g.gelu_tanh(&x);
    let x = linear(g, "text_embedding.2", &x, config.dim);
    g.output("context", &x);
}

/// Latents to tokens, timestep to modulation.
///
/// Inputs `latents` `[16, frames, height, width]`, `condition` `[20, …]` (absent at 16 input channels) and
/// `timestep` `[1, freq_dim]` (see [`timestep_embedding`]); outputs `hidden` `[tokens, dim]`, `time` `[1, dim]`
/// and `time_modulation` `[6, dim]`.
pub fn prologue(mut g: Builder<'_>, config: &WanConfig, grid: LatentGrid) -> Graph {
    define_prologue(&mut g, config, grid);
    g.finish("wan_prologue")
}

fn define_prologue(g: &mut Builder<'_>, config: &WanConfig, grid: LatentGrid) {
    let LatentGrid { frames, height, width } = grid;
    let dim = config.dim;
    let mut x = g.input("latents", F32, &[config.out_dim, frames, height, width]);
    if config.condition_channels() > 0 {
        let condition = g.input("condition", F32, &[config.condition_channels(), frames, height, width]);
        x = g.concat(&[&x, &condition], 0);
    }
    let x = g.reshape(&x, &[1, config.in_dim, frames, height, width]);
    let weight = g.weight("patch_embedding.weight", &[dim, config.in_dim, 1, PATCH, PATCH]);
    let bias = g.weight("patch_embedding.bias", &[dim]);
    let patches = ConvSpec { strides: &[1, PATCH, PATCH], pads: &[0; 6] };
    let x = g.conv(&x, &weight, &bias, patches);
    let x = g.reshape(&x, &[dim, grid.tokens()]);
    let x = g.transpose(&x, &[1, 0]); // tokens in the order frame, row, column
    g.output("hidden", &x);

    let t = g.input("timestep", F32, &[1, config.freq_dim]);
    let t = linear(g, "time_embedding.0", &t, dim);
    let t = g.silu(&t);
    let t = linear(g, "time_embedding.2", &t, dim);
    g.output("time", &t);
    let m = g.silu(&t);
    let m = linear(g, "time_projection.1", &m, 6 * dim);
    let m = g.reshape(&m, &[6, dim]);
    g.output("time_modulation", &m);
}

/// One transformer block; weight names are relative to [`block_prefix`].
///
/// Inputs `hidden` `[tokens, dim]`, `time_modulation` `[6, dim]`, `context` `[text_len, dim]`, `cos` and `sin`
/// `[tokens, head_dim / 2]` (see [`rotary_table`]); output `hidden_out` `[tokens, dim]`.
pub fn block(mut g: Builder<'_>, config: &WanConfig, grid: LatentGrid) -> Graph {
    define_block(&mut g, config, grid);
    g.finish("wan_block")
}

fn define_block(g: &mut Builder<'_>, config: &WanConfig, grid: LatentGrid) {
    let (dim, tokens, eps) = (config.dim, grid.tokens(), config.eps);
    let x = g.input("hidden", F32, &[tokens, dim]);
    let time = g.input("time_modulation", F32, &[6, dim]);
    let context = g.input("context", F32, &[config.text_len, dim]);
    let half = config.head_dim() / 2;
    let (cos, sin) = (g.input("cos", F32, &[tokens, half]), g.input("sin", F32, &[tokens, half]));

    let table = g.weight("modulation", &[1, 6, dim]);
    let [shift1, scale1, gate1, shift2, scale2, gate2] = modulation(g, &table, &time);

    let y = g.layer_norm(&x, Some((&scale1, &shift1)), eps);
    let q = normed_linear(g, config, "self_attn.q", "self_attn.norm_q", &y);
    let k = normed_linear(g, config, "self_attn.k", "self_attn.norm_k", &y);
    let v = linear(g, "self_attn.v", &y, dim);
    let q = g.rotary(&q, &cos, &sin, config.num_heads);
    let k = g.rotary(&k, &cos, &sin, config.num_heads);
    let y = attention(g, config, &q, &k, &v);
    let y = linear(g, "self_attn.o", &y, dim);
    let y = g.mul(&y, &gate1);
    let x = g.add(&x, &y);

    let (weight, bias) = (g.weight("norm3.weight", &[dim]), g.weight("norm3.bias", &[dim]));
    let y = g.layer_norm(&x, Some((&weight, &bias)), eps);
    let q = normed_linear(g, config, "cross_attn.q", "cross_attn.norm_q", &y);
    let k = normed_linear(g, config, "cross_attn.k", "cross_attn.norm_k", &context);
    let v = linear(g, "cross_attn.v", &context, dim);
    let y = attention(g, config, &q, &k, &v); // no mask: the zero padding is attended to
    let y = linear(g, "cross_attn.o", &y, dim);
    let x = g.add(&x, &y);

    let y = g.layer_norm(&x, Some((&scale2, &shift2)), eps);
    let y = linear(g, "ffn.0", &y, config.ffn_dim);
    let y = g.gelu_tanh(&y);
    let y = linear(g, "ffn.2", &y, dim);
    let y = g.mul(&y, &gate2);
    let x = g.add(&x, &y);
    g.output("hidden_out", &x);
}

/// Tokens to the velocity.
///
/// Inputs `hidden` `[tokens, dim]` and `time` `[1, dim]`; output `velocity` `[16, frames, height, width]`.
pub fn epilogue(mut g: Builder<'_>, config: &WanConfig, grid: LatentGrid) -> Graph {
    define_epilogue(&mut g, config, grid);
    g.finish("wan_epilogue")
}

fn define_epilogue(g: &mut Builder<'_>, config: &WanConfig, grid: LatentGrid) {
    let LatentGrid { frames, height, width } = grid;
    let (rows, columns, channels) = (height / PATCH, width / PATCH, config.out_dim);
    let x = g.input("hidden", F32, &[grid.tokens(), config.dim]);
    let time = g.input("time", F32, &[1, config.dim]);
    let table = g.weight("head.modulation", &[1, 2, config.dim]);
    let [shift, scale] = modulation(g, &table, &time);
    let x = g.layer_norm(&x, Some((&scale, &shift)), config.eps);
    let x = linear(g, "head.head", &x, PATCH * PATCH * channels);
    let x = g.reshape(&x, &[frames, rows, columns, PATCH, PATCH, channels]);
    let x = g.transpose(&x, &[5, 0, 1, 3, 2, 4]); // [channels, frames, rows, PATCH, columns, PATCH]
    let x = g.reshape(&x, &[channels, frames, height, width]);
    g.output("velocity", &x);
}

/// `table + time` as its rows; those at odd places are scales, to which the layer norm's one is added.
fn modulation<const N: usize>(g: &mut Builder<'_>, table: &Value, time: &Value) -> [Value; N] {
    let dim = table.dim(2);
    let sum = g.add(table, time);
    std::array::from_fn(|i| {
        let row = g.slice(&sum, 1, i, i + 1);
        let row = g.reshape(&row, &[dim]);
        if i % 3 != 1 {
            return row; // shift or gate
        }
        let one = g.constant_f32(&[1.0], &[]);
        g.add(&row, &one)
    })
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

fn linear(g: &mut Builder<'_>, name: &str, x: &Value, out: usize) -> Value {
    let weight = g.weight(&format!("{name}.weight"), &[out, x.dim(1)]);
    let bias = g.weight(&format!("{name}.bias"), &[out]);
    g.linear(x, &weight, Some(&bias))
}

/// The sinusoidal embedding of a timestep, `[cos…, sin…]`: angles are `t * 10000^(-i / (freq_dim / 2))`, in f64.
pub fn timestep_embedding(timestep: i64, freq_dim: usize) -> Vec<f32> {
    let half = freq_dim / 2;
    let angle = |i: usize| timestep as f64 * 10000f64.powf(-(i as f64) / half as f64);
    let cos = (0..half).map(|i| angle(i).cos() as f32);
    cos.chain((0..half).map(|i| angle(i).sin() as f32)).collect()
}

/// Cosines and sines for [`block`], each `[tokens, head_dim / 2]`.
///
/// A head's pairs are split among the axes: `head_dim / 6` for rows, as many for columns, the rest for time. `times`
/// holds the temporal position of each latent frame, which may be negative (memory frames lie before the clip).
pub fn rotary_table(config: &WanConfig, grid: LatentGrid, times: &[i64]) -> (Vec<f32>, Vec<f32>) {
    assert_eq!(times.len(), grid.frames, "one temporal position for each latent frame");
    let spatial = 2 * (config.head_dim() / 6);
    let temporal = config.head_dim() - 2 * spatial;
    let frequencies = |dim: usize| (0..dim / 2).map(move |i| 10000f64.powf(-2.0 * i as f64 / dim as f64));
    let mut angles = Vec::with_capacity(grid.tokens() * config.head_dim() / 2);
    for &time in times {
        for row in 0..grid.height / PATCH {
            for column in 0..grid.width / PATCH {
                angles.extend(frequencies(temporal).map(|f| time as f64 * f));
                angles.extend(frequencies(spatial).map(|f| row as f64 * f));
                angles.extend(frequencies(spatial).map(|f| column as f64 * f));
            }
        }
    }
    (angles.iter().map(|a| a.cos() as f32).collect(), angles.iter().map(|a| a.sin() as f32).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_size_model_has_the_published_inventory() {
        for (in_dim, parameters) in [(36, 14_288_901_184), (16, 14_288_491_584)] {
            let all = weights(&WanConfig::a14b(in_dim));
            assert_eq!(all.len(), 1095);
            let total: usize = all.iter().map(|w| w.shape.iter().product::<usize>()).sum();
            assert_eq!(total, parameters);
        }
    }

    #[test]
    fn rotary_angles_follow_the_given_times() {
        let grid = LatentGrid { frames: 2, height: 2, width: 2 };
        let (cos, sin) = rotary_table(&WanConfig::a14b(36), grid, &[-5, 0]);
        assert_eq!(cos.len(), 2 * 64);
        assert_eq!((cos[0], sin[0]), ((-5f64).cos() as f32, (-5f64).sin() as f32));
        assert_eq!((cos[64], sin[64]), (1.0, 0.0));
    }
}
