//! The Wan 2.1 video autoencoder.

use serde::{Deserialize, Serialize};

use crate::graph::WeightSpec;

/// Dimensions of the autoencoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VaeConfig {
    /// Channels of the widest-resolution layers.
    pub base_dim: usize,
    /// Latent channels.
    pub z_dim: usize,
    /// Channel multiplier of each resolution.
    pub dim_mult: Vec<usize>,
    /// Residual blocks for each resolution of the encoder; the decoder has one more.
    pub num_res_blocks: usize,
    /// Which of the encoder's downsamplings halve time as well.
    pub temperal_downsample: Vec<bool>,
    /// Mean of each latent channel.
    pub latents_mean: Vec<f32>,
    /// Standard deviation of each latent channel.
    pub latents_std: Vec<f32>,
}

/// Every weight of the autoencoder under its diffusers name: the encoder's first, then the decoder's.
pub fn weights(_config: &VaeConfig) -> Vec<WeightSpec> {
    Vec::new()
}
