//! The Wan transformer, in the five graphs it is run as.
//!
//! Reference: Wan2.2 `wan/modules/model.py` and diffusers 0.38 `WanTransformer3DModel`; names are the former's.
//! A denoising step is [`prologue`], then [`keys`] and [`block`](block()) for each layer with that layer's weights bound, then
//! [`epilogue`]; [`context`] is run once for each prompt. Splitting here makes the graphs of one block serve all
//! layers of both experts, and gives a place to stop between any two.
//!
//! Of a block only the keys and values of self-attention are needed of all tokens at once. So [`keys`] makes those, and
//! all the rest treats each token alike and is done for some of them at a time (see [`Rows`](crate::graph::Rows)): at
//! 832x480 with ten memory frames a block would otherwise take 8 GiB for what is inside it.
//!
//! Every token, memory or video, has the same scalar timestep, so the modulation is six vectors rather than six
//! vectors for each token (which would be 5.9 GB at 832x480 with ten memory frames).

mod block;

pub use block::{block, block_prefix, keys, whole_block};
use ndarray::{ArrayView, IxDyn};
use serde::{Deserialize, Serialize};

use crate::graph::{Builder, DataType::F32, Graph, Value, WeightSpec};

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
    /// An expert of Wan2.2-A14B (`wan/configs/wan_i2v_A14B.py`): 36 channels in for images and memory, 16 for text alone.
    pub fn a14b(in_dim: usize) -> Self {
        Self {
            dim: 5120,
            ffn_dim: 13_824,
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

/// Every weight of the transformer under its original Wan name, in the order of the reference's layers.
pub fn weights(config: &WanConfig) -> Vec<WeightSpec> {
    let grid = LatentGrid { frames: 1, height: PATCH, width: PATCH };
    let mut all = Builder::weights_of(|g| define_context(g, config));
    all.extend(Builder::weights_of(|g| define_prologue(g, config, grid)));
    let block = Builder::weights_of(|g| block::define_whole(g, config, grid));
    for layer in 0..config.num_layers {
        let prefix = block_prefix(layer);
        all.extend(block.iter().map(|w| WeightSpec { name: format!("{prefix}{}", w.name), ..w.clone() }));
    }
    all.extend(Builder::weights_of(|g| define_epilogue(g, config, grid)));
    all
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
    // The reference's convolution, whose steps are as wide as its kernel: a linear layer on each patch.
    let (rows, columns) = (height / PATCH, width / PATCH);
    let x = g.reshape(&x, &[config.in_dim, frames, rows, PATCH, columns, PATCH]);
    let x = g.transpose(&x, &[1, 2, 4, 0, 3, 5]); // [frames, rows, columns, in_dim, PATCH, PATCH]
    let patch = config.in_dim * PATCH * PATCH;
    let x = g.reshape(&x, &[grid.tokens(), patch]); // tokens in the order frame, row, column
    let weight = g.weight("patch_embedding.weight", &[dim, config.in_dim, 1, PATCH, PATCH]);
    let weight = g.reshape(&weight, &[dim, patch]);
    let bias = g.weight("patch_embedding.bias", &[dim]);
    let x = g.linear(&x, &weight, Some(&bias));
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

/// Tokens to the velocity, in patches.
///
/// Inputs `hidden` `[tokens, dim]` and `time` `[1, dim]`; output `patches` `[tokens, 4 * 16]`, which [`unpatchify`]
/// puts in their places.
pub fn epilogue(mut g: Builder<'_>, config: &WanConfig, grid: LatentGrid) -> Graph {
    define_epilogue(&mut g, config, grid);
    g.finish("wan_epilogue")
}

fn define_epilogue(g: &mut Builder<'_>, config: &WanConfig, grid: LatentGrid) {
    let tokens = grid.tokens();
    let rows = g.rows_at_a_time(tokens);
    let x = g.input_rows("hidden", F32, &[tokens, config.dim], rows);
    let time = g.input("time", F32, &[1, config.dim]);
    let table = g.weight("head.modulation", &[1, 2, config.dim]);
    let modulation = g.add(&table, &time);
    let (shift, scale) = (shift(g, &modulation, 0), scale(g, &modulation, 1));
    let x = g.layer_norm(&x, Some((&scale, &shift)), config.eps);
    let x = linear(g, "head.head", &x, PATCH * PATCH * config.out_dim);
    let x = g.cast(&x, F32);
    g.output_rows("patches", &x, tokens);
}

/// A shift or a gate: one row of the modulation `[1, rows, dim]`.
fn shift(g: &mut Builder<'_>, modulation: &Value, row: usize) -> Value {
    let dim = modulation.dim(2);
    let row = g.slice(modulation, 1, row, row + 1);
    g.reshape(&row, &[dim])
}

/// A scale: one row of the modulation, and the one that the layer norm's own would be.
fn scale(g: &mut Builder<'_>, modulation: &Value, row: usize) -> Value {
    let row = shift(g, modulation, row);
    let one = g.constant_f32(&[1.0], &[]);
    g.add(&row, &one)
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

/// The velocity `[16, frames, height, width]` whose patches `[tokens, 4 * 16]` are given: each is `[row, column, channel]`.
pub fn unpatchify(patches: &[f32], config: &WanConfig, grid: LatentGrid) -> Vec<f32> {
    let LatentGrid { frames, height, width } = grid;
    let (rows, columns, channels) = (height / PATCH, width / PATCH, config.out_dim);
    let shape = [frames, rows, columns, PATCH, PATCH, channels];
    let patches = ArrayView::from_shape(IxDyn(&shape), patches).expect("there is a patch for each token");
    patches.permuted_axes(IxDyn(&[5, 0, 1, 3, 2, 4])).iter().copied().collect()
}

/// Cosines and sines for [`keys`] and [`block`](block()), each `[tokens, head_dim / 2]`.
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
