//! The Wan 2.1 video autoencoder, as four graphs that hand their caches on.
//!
//! Reference: Wan2.2 `wan/modules/vae2_1.py` and diffusers 0.38 `AutoencoderKLWan`; names are the latter's. A clip is
//! coded in chunks: one pixel frame is the first latent frame, and every four after it are the next. All
//! convolutions are causal in time and keep the last frames they saw as a cache, so that the chunks give exactly
//! what one convolution over the whole clip would; memory then depends on the size of a frame and not on the length
//! of the clip.
//!
//! The first chunk is a graph of its own. It has no past, so of each kernel only the last of the three taps in time
//! meets anything but zeros, and the layers that change the frame rate are passed over. Later chunks take every cache
//! as an input `cache_N` `[1, channels, 2, height, width]` (one frame for a temporal downsampling) and give its
//! successor as an output of the same name with `_out` behind it.

use serde::{Deserialize, Serialize};

use crate::graph::{AttentionSpec, Builder, ConvSpec, DataType::F32, Graph, Value, WeightSpec};

/// Pixels along each side of a latent pixel.
pub const SPATIAL: usize = 8;
/// Pixel frames to a latent frame after the first.
pub const TEMPORAL: usize = 4;

/// Dimensions of the autoencoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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

impl VaeConfig {
    /// The published dimensions of Wan2.1's autoencoder, which Wan2.2 A14B uses.
    pub fn wan21() -> Self {
        let latents_mean = [
            -0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508, 0.4134, -0.0715, 0.5517,
            -0.3632, -0.1922, -0.9497, 0.2503, -0.2921,
        ];
        let latents_std = [
            2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743, 3.2687, 2.1526, 2.8652, 1.5579,
            1.6382, 1.1253, 2.8251, 1.9160,
        ];
        Self {
            base_dim: 96,
            z_dim: 16,
            dim_mult: vec![1, 2, 4, 4],
            num_res_blocks: 2,
            temperal_downsample: vec![false, true, true],
            latents_mean: latents_mean.into(),
            latents_std: latents_std.into(),
        }
    }
}

/// Which chunk of a clip a graph codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Chunk {
    /// The first: one pixel frame, one latent frame, no past.
    First,
    /// Any later one: four pixel frames, one latent frame.
    Next,
}

impl Chunk {
    /// Pixel frames in the chunk.
    pub fn frames(self) -> usize {
        match self {
            Self::First => 1,
            Self::Next => TEMPORAL,
        }
    }
}

/// Every weight of the autoencoder under its diffusers name: the encoder's first, then the decoder's.
pub fn weights(config: &VaeConfig) -> Vec<WeightSpec> {
    let mut all = Builder::weights_of(|g| define_encode(g, config, Chunk::Next, 1, 1));
    all.extend(Builder::weights_of(|g| define_decode(g, config, Chunk::Next, 1, 1)));
    all
}

/// Pixels to normalised latents (the mode of the posterior).
///
/// Input `pixels` `[1, 3, 1 or 4, 8 rows, 8 columns]` in [-1, 1]; output `latents` `[1, z_dim, 1, rows, columns]`.
pub fn encode(mut g: Builder<'_>, config: &VaeConfig, chunk: Chunk, rows: usize, columns: usize) -> Graph {
    define_encode(&mut g, config, chunk, rows, columns);
    g.finish(match chunk {
        Chunk::First => "vae_encode_first",
        Chunk::Next => "vae_encode_next",
    })
}

fn define_encode(g: &mut Builder<'_>, config: &VaeConfig, chunk: Chunk, rows: usize, columns: usize) {
    let pixels = [1, 3, chunk.frames(), rows * SPATIAL, columns * SPATIAL];
    let x = g.input("pixels", F32, &pixels);
    let mut net = Coder { g, chunk, slots: 0 };
    let mut x = net.causal_conv("encoder.conv_in", &x, config.base_dim);
    let mut index = 0;
    let mut block = || {
        index += 1;
        format!("encoder.down_blocks.{}", index - 1)
    };
    for (level, mult) in config.dim_mult.iter().enumerate() {
        let channels = config.base_dim * mult;
        for _ in 0..config.num_res_blocks {
            x = net.residual_block(&block(), &x, channels);
        }
        if let Some(&temporal) = config.temperal_downsample.get(level) {
            x = net.downsample(&block(), &x, temporal);
        }
    }
    let x = net.mid_block("encoder.mid_block", &x);
    let x = net.head("encoder", &x, 2 * config.z_dim);
    let moments = net.pointwise_conv("quant_conv", &x, 2 * config.z_dim);
    let mode = g.slice(&moments, 1, 0, config.z_dim);

    let per_channel = [1, config.z_dim, 1, 1, 1];
    let minus_mean: Vec<_> = config.latents_mean.iter().map(|m| -m).collect();
    let minus_mean = g.constant_f32(&minus_mean, &per_channel);
    let inverse_std: Vec<_> = config.latents_std.iter().map(|s| 1.0 / s).collect();
    let inverse_std = g.constant_f32(&inverse_std, &per_channel);
    let centred = g.add(&mode, &minus_mean);
    let latents = g.mul(&centred, &inverse_std);
    g.output("latents", &latents);
}

/// Normalised latents to pixels.
///
/// Input `latents` `[1, z_dim, 1, rows, columns]`; output `pixels` `[1, 3, 1 or 4, 8 rows, 8 columns]`, clamped to
/// [-1, 1].
pub fn decode(mut g: Builder<'_>, config: &VaeConfig, chunk: Chunk, rows: usize, columns: usize) -> Graph {
    define_decode(&mut g, config, chunk, rows, columns);
    g.finish(match chunk {
        Chunk::First => "vae_decode_first",
        Chunk::Next => "vae_decode_next",
    })
}

fn define_decode(g: &mut Builder<'_>, config: &VaeConfig, chunk: Chunk, rows: usize, columns: usize) {
    let z = g.input("latents", F32, &[1, config.z_dim, 1, rows, columns]);
    let per_channel = [1, config.z_dim, 1, 1, 1];
    let mean = g.constant_f32(&config.latents_mean, &per_channel);
    let std = g.constant_f32(&config.latents_std, &per_channel);
    let z = g.mul(&z, &std);
    let z = g.add(&z, &mean);

    let mut net = Coder { g, chunk, slots: 0 };
    let x = net.pointwise_conv("post_quant_conv", &z, config.z_dim);
    let widths: Vec<_> = config.dim_mult.iter().rev().map(|mult| config.base_dim * mult).collect();
    let x = net.causal_conv("decoder.conv_in", &x, widths[0]);
    let mut x = net.mid_block("decoder.mid_block", &x);
    for (level, &channels) in widths.iter().enumerate() {
        let block = format!("decoder.up_blocks.{level}");
        for i in 0..=config.num_res_blocks {
            x = net.residual_block(&format!("{block}.resnets.{i}"), &x, channels);
        }
        if let Some(&temporal) = config.temperal_downsample.iter().rev().nth(level) {
            x = net.upsample(&format!("{block}.upsamplers.0"), &x, temporal);
        }
    }
    let x = net.head("decoder", &x, 3);
    let pixels = g.clamp(&x, -1.0, 1.0);
    g.output("pixels", &pixels);
}

/// Builds the layers of one chunk and numbers their caches.
struct Coder<'g, 'b> {
    g: &'g mut Builder<'b>,
    chunk: Chunk,
    slots: usize,
}

impl Coder<'_, '_> {
    /// A 3x3x3 convolution, causal in time.
    fn causal_conv(&mut self, name: &str, x: &Value, out: usize) -> Value {
        let (weight, bias) = self.conv_weights(name, &[out, x.dim(1), 3, 3, 3]);
        let (x, weight) = self.with_past(x, &weight);
        self.g.conv(&x, &weight, &bias, ConvSpec { strides: &[1, 1, 1], pads: &[0, 1, 1, 0, 1, 1] })
    }

    /// What a kernel of three taps in time meets: two past frames before `x`, or the last tap alone where there is no
    /// past.
    fn with_past(&mut self, x: &Value, weight: &Value) -> (Value, Value) {
        let mut cache = x.shape().to_vec();
        cache[2] = 2;
        match self.chunk {
            Chunk::First => {
                let next = self.g.pad_front(x, 2, 1); // the two frames are zeros and `x`
                self.hand_on(&next);
                (x.clone(), self.g.last(weight, 2, 1))
            }
            Chunk::Next => {
                let past = self.past(&cache);
                let x = self.g.concat(&[&past, x], 2);
                let next = self.g.last(&x, 2, 2);
                self.hand_on(&next);
                (x, weight.clone())
            }
        }
    }

    fn past(&mut self, shape: &[usize]) -> Value {
        self.g.input(&format!("cache_{}", self.slots), F32, shape)
    }

    fn hand_on(&mut self, cache: &Value) {
        self.g.output(&format!("cache_{}_out", self.slots), cache);
        self.slots += 1;
    }

    fn residual_block(&mut self, name: &str, x: &Value, out: usize) -> Value {
        let shortcut = if x.dim(1) == out {
            x.clone()
        } else {
            self.pointwise_conv(&format!("{name}.conv_shortcut"), x, out)
        };
        let y = self.norm_silu(&format!("{name}.norm1"), x);
        let y = self.causal_conv(&format!("{name}.conv1"), &y, out);
        let y = self.norm_silu(&format!("{name}.norm2"), &y);
        let y = self.causal_conv(&format!("{name}.conv2"), &y, out);
        self.g.add(&y, &shortcut)
    }

    fn mid_block(&mut self, name: &str, x: &Value) -> Value {
        let channels = x.dim(1);
        let x = self.residual_block(&format!("{name}.resnets.0"), x, channels);
        let x = self.attention(&format!("{name}.attentions.0"), &x);
        self.residual_block(&format!("{name}.resnets.1"), &x, channels)
    }

    /// Attention of one head over the pixels of each frame.
    fn attention(&mut self, name: &str, x: &Value) -> Value {
        let [_, channels, frames, rows, columns] = *x.shape() else {
            unreachable!("tensors here have five axes")
        };
        let pixels = rows * columns;
        let g = &mut *self.g;
        let gamma = g.weight(&format!("{name}.norm.gamma"), &[channels, 1, 1]);
        let gamma = g.reshape(&gamma, &[channels, 1, 1, 1]);
        let y = g.channel_norm(x, &gamma);
        let y = g.transpose(&y, &[0, 2, 3, 4, 1]);
        let y = g.reshape(&y, &[frames * pixels, channels]);
        let y = pixel_linear(g, &format!("{name}.to_qkv"), &y, 3 * channels);
        let y = g.reshape(&y, &[frames, pixels, 3 * channels]);
        let [q, k, v] = [0, 1, 2].map(|i| g.slice(&y, 2, i * channels, (i + 1) * channels));
        let scale = 1.0 / (channels as f32).sqrt();
        let y = g.attention(&q, &k, &v, AttentionSpec { heads: 1, scale, bias: None });
        let y = g.reshape(&y, &[frames * pixels, channels]);
        let y = pixel_linear(g, &format!("{name}.proj"), &y, channels);
        let y = g.reshape(&y, &[1, frames, rows, columns, channels]);
        let y = g.transpose(&y, &[0, 4, 1, 2, 3]);
        g.add(x, &y)
    }

    fn downsample(&mut self, name: &str, x: &Value, temporal: bool) -> Value {
        let channels = x.dim(1);
        // The zeros lie to the right and below only.
        let halve = ConvSpec { strides: &[1, 2, 2], pads: &[0, 0, 0, 0, 1, 1] };
        let x = self.frame_conv(&format!("{name}.resample.1"), x, channels, halve);
        if !temporal {
            return x;
        }
        let mut cache = x.shape().to_vec();
        cache[2] = 1;
        let past = (self.chunk == Chunk::Next).then(|| self.past(&cache));
        let newest = self.g.last(&x, 2, 1);
        self.hand_on(&newest);
        let Some(past) = past else { return x };
        let (weight, bias) = self.conv_weights(&format!("{name}.time_conv"), &[channels, channels, 3, 1, 1]);
        let x = self.g.concat(&[&past, &x], 2);
        self.g.conv(&x, &weight, &bias, ConvSpec { strides: &[2, 1, 1], pads: &[0; 6] })
    }

    fn upsample(&mut self, name: &str, x: &Value, temporal: bool) -> Value {
        let channels = x.dim(1);
        let x = if temporal { self.double_frames(&format!("{name}.time_conv"), x) } else { x.clone() };
        let x = self.g.upsample_nearest(&x);
        let same = ConvSpec { strides: &[1, 1, 1], pads: &[0, 1, 1, 0, 1, 1] };
        self.frame_conv(&format!("{name}.resample.1"), &x, channels / 2, same)
    }

    fn double_frames(&mut self, name: &str, x: &Value) -> Value {
        let [_, channels, frames, rows, columns] = *x.shape() else {
            unreachable!("tensors here have five axes")
        };
        if self.chunk == Chunk::First {
            // The first frame is passed over and not remembered either.
            let nothing = self.g.zeros(&[1, channels, 2, rows, columns]);
            self.hand_on(&nothing);
            return x.clone();
        }
        let (weight, bias) = self.conv_weights(name, &[2 * channels, channels, 3, 1, 1]);
        let (x, weight) = self.with_past(x, &weight);
        let x = self.g.conv(&x, &weight, &bias, ConvSpec { strides: &[1, 1, 1], pads: &[0; 6] });
        // The halves of the channels are the even and the odd frames.
        let x = self.g.reshape(&x, &[2, channels, frames, rows, columns]);
        let x = self.g.transpose(&x, &[1, 2, 0, 3, 4]);
        self.g.reshape(&x, &[1, channels, 2 * frames, rows, columns])
    }

    fn head(&mut self, name: &str, x: &Value, out: usize) -> Value {
        let x = self.norm_silu(&format!("{name}.norm_out"), x);
        self.causal_conv(&format!("{name}.conv_out"), &x, out)
    }

    fn norm_silu(&mut self, name: &str, x: &Value) -> Value {
        let gamma = self.g.weight(&format!("{name}.gamma"), &[x.dim(1), 1, 1, 1]);
        let x = self.g.channel_norm(x, &gamma);
        self.g.silu(&x)
    }

    /// A 1x1x1 convolution.
    fn pointwise_conv(&mut self, name: &str, x: &Value, out: usize) -> Value {
        let (weight, bias) = self.conv_weights(name, &[out, x.dim(1), 1, 1, 1]);
        self.g.conv(x, &weight, &bias, ConvSpec { strides: &[1, 1, 1], pads: &[0; 6] })
    }

    /// A 3x3 convolution on each frame.
    fn frame_conv(&mut self, name: &str, x: &Value, out: usize, spec: ConvSpec<'_>) -> Value {
        let (weight, bias) = self.conv_weights(name, &[out, x.dim(1), 3, 3]);
        let weight = self.g.reshape(&weight, &[out, x.dim(1), 1, 3, 3]);
        self.g.conv(x, &weight, &bias, spec)
    }

    fn conv_weights(&mut self, name: &str, shape: &[usize]) -> (Value, Value) {
        let weight = self.g.weight(&format!("{name}.weight"), shape);
        (weight, self.g.weight(&format!("{name}.bias"), &shape[..1]))
    }
}

/// A 1x1 convolution on pixels laid out as rows `[pixels, channels]`.
fn pixel_linear(g: &mut Builder<'_>, name: &str, x: &Value, out: usize) -> Value {
    let weight = g.weight(&format!("{name}.weight"), &[out, x.dim(1), 1, 1]);
    let weight = g.reshape(&weight, &[out, x.dim(1)]);
    let bias = g.weight(&format!("{name}.bias"), &[out]);
    g.linear(x, &weight, Some(&bias))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_size_autoencoder_has_the_published_inventory() {
        let all = weights(&VaeConfig::wan21());
        assert_eq!(all.len(), 194);
        assert_eq!(all.iter().map(|w| w.shape.iter().product::<usize>()).sum::<usize>(), 126_892_531);
    }
}
