//! The Wan transformer.

use serde::{Deserialize, Serialize};

use crate::graph::WeightSpec;

/// Dimensions of a Wan transformer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Text tokens attended to; shorter prompts are padded with zeros.
    pub text_len: usize,
}

/// Every weight of the transformer under its original Wan name, in the order in which a step uses them.
pub fn weights(_config: &WanConfig) -> Vec<WeightSpec> {
    Vec::new()
}
