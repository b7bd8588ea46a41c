//! The UMT5 text encoder, one graph for all layers.
//!
//! Reference: transformers 4.57 `UMT5EncoderModel` (and Wan2.2 `wan/modules/t5.py`); names are the former's. The
//! token embedding is no part of any graph: 256,384 rows of 8 KB are looked up in the mapped file instead of being
//! loaded. Attention scores are not scaled, and each layer has its own table of relative position biases.

use serde::{Deserialize, Serialize};

use crate::graph::{AttentionSpec, Builder, DataType::F32, Graph, Value, WeightSpec};

/// Name of the token embedding, `[vocab_size, d_model]`.
pub const EMBEDDING: &str = "shared.weight";

/// Dimensions of a UMT5 encoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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

impl Umt5Config {
    /// The published dimensions of UMT5-XXL, which Wan uses.
    pub fn xxl() -> Self {
        Self {
            vocab_size: 256_384,
            d_model: 4096,
            d_kv: 64,
            d_ff: 10_240,
            num_heads: 64,
            num_layers: 24,
            relative_attention_num_buckets: 32,
            relative_attention_max_distance: 128,
            layer_norm_epsilon: 1e-6,
        }
    }
}

/// Every weight of the encoder under its `transformers` name, in the order in which they are used.
pub fn weights(config: &Umt5Config) -> Vec<WeightSpec> {
    let embedding = WeightSpec { name: EMBEDDING.into(), shape: vec![config.vocab_size, config.d_model] };
    let layer = Builder::weights_of(|g| define_layer(g, config, 1));
    let layers = (0..config.num_layers).flat_map(|i| {
        let prefix = layer_prefix(i);
        layer.iter().map(move |w| WeightSpec { name: format!("{prefix}{}", w.name), ..w.clone() })
    });
    let last = Builder::weights_of(|g| define_final_norm(g, config, 1));
    [embedding].into_iter().chain(layers).chain(last).collect()
}

/// What precedes the weight names of one layer's graph.
pub fn layer_prefix(layer: usize) -> String {
    format!("encoder.block.{layer}.")
}

/// One encoder layer over `tokens` tokens; weight names are relative to [`layer_prefix`].
///
/// Inputs `hidden` `[tokens, d_model]` and `mask` `[1, 1, 1, tokens]`, which is added to the scores: zero for the
/// prompt's tokens and a large negative number for padding; output `hidden_out`.
pub fn layer(mut g: Builder<'_>, config: &Umt5Config, tokens: usize) -> Graph {
    define_layer(&mut g, config, tokens);
    g.finish("umt5_layer")
}

fn define_layer(g: &mut Builder<'_>, config: &Umt5Config, tokens: usize) {
    let x = g.input("hidden", F32, &[tokens, config.d_model]);
    let mask = g.input("mask", F32, &[1, 1, 1, tokens]);
    let inner = config.num_heads * config.d_kv;

    let y = norm(g, config, "layer.0.layer_norm.weight", &x);
    let [q, k, v] = ["q", "k", "v"].map(|name| {
        let x = linear(g, &format!("layer.0.SelfAttention.{name}.weight"), &y, inner);
        g.reshape(&x, &[1, tokens, inner])
    });
    let bias = position_bias(g, config, tokens);
    let bias = g.add(&bias, &mask);
    let y = g.attention(&q, &k, &v, AttentionSpec { heads: config.num_heads, scale: 1.0, bias: Some(&bias) });
    let y = g.reshape(&y, &[tokens, inner]);
    let y = linear(g, "layer.0.SelfAttention.o.weight", &y, config.d_model);
    let x = g.add(&x, &y);

    let y = norm(g, config, "layer.1.layer_norm.weight", &x);
    let gate = linear(g, "layer.1.DenseReluDense.wi_0.weight", &y, config.d_ff);
    let gate = g.gelu_tanh(&gate);
    let up = linear(g, "layer.1.DenseReluDense.wi_1.weight", &y, config.d_ff);
    let y = g.mul(&gate, &up);
    let y = linear(g, "layer.1.DenseReluDense.wo.weight", &y, config.d_model);
    let x = g.add(&x, &y);
    g.output("hidden_out", &x);
}

/// The norm after the last layer: input `hidden`, output `hidden_out`, both `[tokens, d_model]`.
pub fn final_norm(mut g: Builder<'_>, config: &Umt5Config, tokens: usize) -> Graph {
    define_final_norm(&mut g, config, tokens);
    g.finish("umt5_final_norm")
}

fn define_final_norm(g: &mut Builder<'_>, config: &Umt5Config, tokens: usize) {
    let x = g.input("hidden", F32, &[tokens, config.d_model]);
    let x = norm(g, config, "encoder.final_layer_norm.weight", &x);
    g.output("hidden_out", &x);
}

/// `[1, heads, queries, keys]` from the layer's table `[buckets, heads]`.
fn position_bias(g: &mut Builder<'_>, config: &Umt5Config, tokens: usize) -> Value {
    let (buckets, heads) = (config.relative_attention_num_buckets, config.num_heads);
    let table = g.weight("layer.0.SelfAttention.relative_attention_bias.weight", &[buckets, heads]);
    let indices: Vec<i64> = (0..tokens)
        .flat_map(|query| (0..tokens).map(move |key| key as i64 - query as i64))
        .map(|distance| bucket(config, distance))
        .collect();
    let indices = g.constant_i64(&indices, &[tokens, tokens]);
    let bias = g.gather_rows(&table, &indices);
    let bias = g.transpose(&bias, &[2, 0, 1]);
    let bias = g.cast(&bias, F32);
    g.reshape(&bias, &[1, heads, tokens, tokens])
}

/// The bucket of a relative position (key minus query): the first half of each sign's buckets are exact, the rest
/// grow logarithmically up to the maximum distance.
fn bucket(config: &Umt5Config, distance: i64) -> i64 {
    let of_sign = (config.relative_attention_num_buckets / 2) as i64;
    let (exact, max_distance) = (of_sign / 2, config.relative_attention_max_distance as f32);
    let magnitude = distance.abs();
    let within = if magnitude < exact {
        magnitude
    } else {
        // In f32 and truncated, as in transformers: the rounding decides the bucket at exact powers.
        let log = (magnitude as f32 / exact as f32).ln() / (max_distance / exact as f32).ln();
        (exact + (log * (of_sign - exact) as f32) as i64).min(of_sign - 1)
    };
    if distance > 0 { of_sign + within } else { within }
}

fn norm(g: &mut Builder<'_>, config: &Umt5Config, name: &str, x: &Value) -> Value {
    let weight = g.weight(name, &[config.d_model]);
    g.rms_norm(x, &weight, config.layer_norm_epsilon)
}

fn linear(g: &mut Builder<'_>, name: &str, x: &Value, out: usize) -> Value {
    let weight = g.weight(name, &[out, x.dim(1)]);
    g.linear(x, &weight, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_size_encoder_has_the_published_inventory() {
        let all = weights(&Umt5Config::xxl());
        assert_eq!(all.len(), 242);
        assert_eq!(all.iter().map(|w| w.shape.iter().product::<usize>()).sum::<usize>(), 5_680_910_336);
    }

    #[test]
    fn buckets_are_exact_up_to_eight_and_cap_at_the_maximum_distance() {
        let config = Umt5Config::xxl();
        let of = |distance| bucket(&config, distance);
        assert_eq!([0, -1, -7, -8, -15, -16, -127, -128, -500].map(of), [0, 1, 7, 8, 9, 10, 15, 15, 15]);
        assert_eq!([1, 7, 8, 128].map(of), [17, 23, 24, 31]);
    }
}
