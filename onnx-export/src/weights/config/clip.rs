//! The config of CLIP or of its vision tower alone, in `transformers`' form.
//!
//! `transformers` leaves out of a whole CLIP's config what is as by default, which is ViT-B/32.

use super::{ConfigError, Fields, all_sizes};
use crate::models::clip::ClipConfig;

const INSTEAD: &str = "OpenAI's CLIP ViT-B/32 (`clip-vit-base-patch32`) or another of its vision towers";

/// Reads the config of a vision tower with a projection.
///
/// # Errors
/// When a field is damaged or the net is not CLIP's.
pub fn clip(fields: &Fields) -> Result<ClipConfig, ConfigError> {
    let kind: String = fields.required("model_type")?;
    let vision = match kind.as_str() {
        "clip_vision_model" => None,
        "clip" => fields.within("vision_config")?,
        _ => return fields.refuse(format!("another net (`model_type` is `{kind}`)"), INSTEAD),
    };
    let vision = vision.as_ref().unwrap_or(fields);
    vision.only("hidden_act", &"quick_gelu".to_owned(), INSTEAD)?;
    vision.only("num_channels", &3usize, INSTEAD)?;
    let config = ClipConfig {
        hidden_size: vision.size_or("hidden_size", 768)?,
        intermediate_size: vision.size_or("intermediate_size", 3072)?,
        num_hidden_layers: vision.size_or("num_hidden_layers", 12)?,
        num_attention_heads: vision.size_or("num_attention_heads", 12)?,
        image_size: vision.size_or("image_size", 224)?,
        patch_size: vision.size_or("patch_size", 32)?,
        // A whole CLIP has one projection width for both towers, at the top.
        projection_dim: fields.size_or("projection_dim", 512)?,
        layer_norm_eps: if vision.has("layer_norm_eps") { vision.epsilon("layer_norm_eps")? } else { 1e-5 },
    };
    check(&config).or_else(|found| fields.refuse(found, INSTEAD))?;
    Ok(config)
}

/// Says what is wrong with the dimensions, if they are not those of a tower we implement.
pub(crate) fn check(config: &ClipConfig) -> Result<(), String> {
    let ClipConfig { hidden_size, num_attention_heads: heads, image_size, patch_size, .. } = *config;
    all_sizes(&[hidden_size, config.intermediate_size, config.num_hidden_layers, heads])?;
    all_sizes(&[image_size, patch_size, config.projection_dim])?;
    if !hidden_size.is_multiple_of(heads) {
        return Err(format!("a net of {hidden_size} dimensions in {heads} heads, which don't divide"));
    }
    // Larger ones are none, and their tokens would overflow.
    if !image_size.is_multiple_of(patch_size) || image_size > 4096 {
        return Err(format!("patches of {patch_size} pixels in images of {image_size}, which don't divide"));
    }
    Ok(())
}
