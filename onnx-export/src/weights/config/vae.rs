//! The autoencoder's config, in diffusers' form.

use super::{ConfigError, Fields, all_sizes};
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
    check(&config).or_else(|found| fields.refuse(found, INSTEAD))?;
    Ok(config)
}

/// Says what is wrong with the dimensions, if they are not those of an autoencoder we implement.
pub(crate) fn check(config: &VaeConfig) -> Result<(), String> {
    let VaeConfig { base_dim, z_dim, dim_mult, num_res_blocks, temperal_downsample, .. } = config;
    all_sizes(&[*base_dim, *num_res_blocks])?;
    if *z_dim != LATENT {
        return Err(format!("an autoencoder of {z_dim} latent channels"));
    }
    // Space is halved at each of the three steps between the four resolutions, time at two of them.
    let halvings = temperal_downsample.iter().filter(|&&temporal| temporal).count();
    if temperal_downsample.len() != 3 || halvings != 2 {
        return Err(format!("another net (`temperal_downsample` is {temperal_downsample:?})"));
    }
    if dim_mult.len() != 4 || dim_mult.iter().any(|mult| !(1..=64).contains(mult)) {
        return Err(format!("another net (`dim_mult` is {dim_mult:?})"));
    }
    // The decoder halves the channels where it doubles the resolution.
    if !base_dim.is_multiple_of(2) {
        return Err(format!("another net (`base_dim` is {base_dim}, which is odd)"));
    }
    let finite = |values: &[f32]| values.len() == LATENT && values.iter().all(|v| v.is_finite());
    if !finite(&config.latents_mean) {
        return Err("an autoencoder whose `latents_mean` is not 16 numbers".into());
    }
    if !finite(&config.latents_std) || config.latents_std.iter().any(|&std| std <= 0.0) {
        return Err("an autoencoder whose `latents_std` is not 16 positive numbers".into());
    }
    Ok(())
}
