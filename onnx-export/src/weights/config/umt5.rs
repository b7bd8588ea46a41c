//! The text encoder's config, in `transformers`' form.

use super::{ConfigError, Fields, all_sizes, some_layers};
use crate::models::umt5::Umt5Config;

const INSTEAD: &str = "the text encoder of Wan2.2 (UMT5-XXL)";

/// Reads the text encoder's config.
///
/// # Errors
/// When a field is missing or the net is not a gated UMT5 encoder.
pub fn umt5(fields: &Fields) -> Result<Umt5Config, ConfigError> {
    let kind: String = fields.required("model_type")?;
    if kind != "umt5" {
        // Plain T5 shares one position bias between its layers.
        return fields.refuse(format!("another net (`model_type` is `{kind}`)"), INSTEAD);
    }
    fields.only("feed_forward_proj", &"gated-gelu".to_owned(), INSTEAD)?;
    fields.only("is_gated_act", &true, INSTEAD)?;
    fields.only("dense_act_fn", &"gelu_new".to_owned(), INSTEAD)?;
    let config = Umt5Config {
        vocab_size: fields.size("vocab_size")?,
        d_model: fields.size("d_model")?,
        d_kv: fields.size("d_kv")?,
        d_ff: fields.size("d_ff")?,
        num_heads: fields.size("num_heads")?,
        num_layers: fields.size("num_layers")?,
        relative_attention_num_buckets: fields.size("relative_attention_num_buckets")?,
        relative_attention_max_distance: fields.size("relative_attention_max_distance")?,
        layer_norm_epsilon: fields.epsilon("layer_norm_epsilon")?,
    };
    check(&config).or_else(|found| fields.refuse(found, INSTEAD))?;
    Ok(config)
}

/// Says what is wrong with the dimensions, if they are not those of an encoder we implement.
pub(crate) fn check(config: &Umt5Config) -> Result<(), String> {
    let Umt5Config { vocab_size, d_model, d_kv, d_ff, num_heads, num_layers, .. } = *config;
    all_sizes(&[vocab_size, d_model, d_kv, d_ff, num_heads, num_layers])?;
    some_layers(num_layers)?;
    let (buckets, distance) = (config.relative_attention_num_buckets, config.relative_attention_max_distance);
    all_sizes(&[buckets, distance])?;
    if !buckets.is_multiple_of(4) || distance <= buckets / 4 {
        // Half of the buckets for each sign, half of these for single distances, the rest up to the largest.
        return Err(format!(
            "a position bias of {buckets} buckets up to distance {distance}, which don't divide"
        ));
    }
    Ok(())
}
