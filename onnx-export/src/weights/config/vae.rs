//! The autoencoder's config, in diffusers' form.

use super::{ConfigError, Fields};
use crate::models::vae::VaeConfig;

const INSTEAD: &str = "the Wan2.1 autoencoder, which Wan2.2 A14B uses (16 channels, 8x8x4)";

/// Channels of a latent.
const LATENT: usize = 16;

/// Reads the autoencoder's config.
///
/// # Errors
/// When a field is missing or the net is not Wan 2.1's autoencoder.
pub fn vae(fields: &Fields) -> Result<VaeConfig, ConfigError> {
    fields.only("_class_name", &"AutoencoderKLWan".to_owned(), INSTEAD)?;
    let z_dim = fields.size("z_dim")?;
    if fields.optional("is_residual")? == Some(true) || fields.has("patch_size") || z_dim == 48 {
        return fields.refuse("the autoencoder of Wan2.2-TI2V-5B".into(), INSTEAD);
    }
    if z_dim != LATENT {
        return fields.refuse(format!("an autoencoder of {z_dim} latent channels"), INSTEAD);
    }
    fields.only("attn_scales", &Vec::<f32>::new(), INSTEAD)?;
    fields.only("in_channels", &3usize, INSTEAD)?;
    fields.only("out_channels", &3usize, INSTEAD)?;
    fields.only("scale_factor_spatial", &8usize, INSTEAD)?;
    fields.only("scale_factor_temporal", &4usize, INSTEAD)?;
    let config = VaeConfig {
        base_dim: fields.size("base_dim")?,
        z_dim,
        dim_mult: fields.required("dim_mult")?,
        num_res_blocks: fields.size("num_res_blocks")?,
        temperal_downsample: fields.required("temperal_downsample")?,
        latents_mean: fields.required("latents_mean")?,
        latents_std: fields.required("latents_std")?,
    };
    fields.only("decoder_base_dim", &config.base_dim, INSTEAD)?;
    check(fields, &config)?;
    Ok(config)
}

fn check(fields: &Fields, config: &VaeConfig) -> Result<(), ConfigError> {
    // Space is halved between the four resolutions, time at the last two of these steps.
    if config.temperal_downsample != [false, true, true] {
        return fields.refuse_field("temperal_downsample", INSTEAD);
    }
    if config.dim_mult.len() != 4 || config.dim_mult.iter().any(|m| !(1..=64).contains(m)) {
        return fields.refuse_field("dim_mult", INSTEAD);
    }
    // The decoder halves the channels where it doubles the resolution.
    if config.base_dim % 2 != 0 {
        return fields.refuse_field("base_dim", INSTEAD);
    }
    let finite = |values: &[f32]| values.len() == LATENT && values.iter().all(|v| v.is_finite());
    if !finite(&config.latents_mean) {
        return Err(fields.problem("latents_mean", "is not 16 numbers".into()));
    }
    if !finite(&config.latents_std) || config.latents_std.iter().any(|&std| std <= 0.0) {
        return Err(fields.problem("latents_std", "is not 16 positive numbers".into()));
    }
    Ok(())
}
