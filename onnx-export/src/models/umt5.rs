//! The UMT5 text encoder.

use serde::{Deserialize, Serialize};

use crate::graph::WeightSpec;

/// Dimensions of a UMT5 encoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Umt5Config {
    /// Rows of the token embedding.
    pub vocab_size: usize,
    /// Width of a token.
    pub d_model: usize,
    /// Width of one attention head.
    pub d_kv: usize,
    /// Inner width of the feed-forward layers.
    pub d_ff: usize,
    /// Attention heads.
    pub num_heads: usize,
    /// Layers.
    pub num_layers: usize,
    /// Buckets of the relative position bias, both signs together.
    pub relative_attention_num_buckets: usize,
    /// Distance from which on all positions share the last bucket.
    pub relative_attention_max_distance: usize,
    /// Epsilon of every norm.
    pub layer_norm_epsilon: f32,
}

/// Every weight of the encoder under its `transformers` name, in the order in which they are used.
pub fn weights(_config: &Umt5Config) -> Vec<WeightSpec> {
    Vec::new()
}
