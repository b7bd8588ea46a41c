//! The transformer's config, in original Wan or in diffusers form.

use std::path::Path;

use super::{ConfigError, Fields, all_sizes, some_layers};
use crate::models::wan::WanConfig;
use crate::weights::checkpoint::Checkpoint;
use crate::weights::identify::{Identity, Kind, identify};
use crate::weights::names::{Naming, unwrapped};

const INSTEAD: &str = "a transformer of Wan2.2-I2V-A14B (or Wan2.2-T2V-A14B with `--variant t2v`)";

/// Text tokens attended to; diffusers' form does not carry it.
const TEXT_LEN: usize = 512;

/// Most text tokens we take for real: the text encoder's position table grows with the square.
const LONGEST_TEXT: usize = 4096;

/// Channels of the latent video, in and out.
const LATENT: usize = 16;

/// Channels in with condition: noise, mask (4) and encoded condition.
const CONDITIONED: usize = 2 * LATENT + 4;

/// Reads a transformer's config. `checkpoint` holds its weights: the original form does not say how wide the text
/// embeddings are, the shape of their projection does.
///
/// # Errors
/// When a field is missing or the transformer is not one of Wan's A14B architecture.
pub fn wan(fields: &Fields, checkpoint: &Checkpoint) -> Result<WanConfig, ConfigError> {
    let diffusers = fields.has("num_attention_heads");
    fields.only("_class_name", &class(diffusers).to_owned(), INSTEAD)?;
    fields.only("patch_size", &[1usize, 2, 2], INSTEAD)?;
    fields.only("cross_attn_norm", &true, INSTEAD)?;
    for image in ["image_dim", "added_kv_proj_dim", "pos_embed_seq_len"] {
        if fields.has(image) {
            return fields.refuse(format!("a Wan2.1 image-to-video transformer (`{image}` is set)"), INSTEAD);
        }
    }
    refuse_other_nets(checkpoint)?;
    let config = if diffusers { diffusers_form(fields)? } else { original_form(fields, checkpoint)? };
    check(&config).or_else(|found| fields.refuse(found, INSTEAD))?;
    Ok(config)
}

/// Refuses weights that are of another net, whatever the config beside them says.
fn refuse_other_nets(checkpoint: &Checkpoint) -> Result<(), ConfigError> {
    let Identity { kind, what, supported } = identify(checkpoint.raw());
    match kind {
        // What misses the tensor that would tell is refused for that.
        Kind::Unknown => Ok(()),
        Kind::Transformer if supported => Ok(()),
        _ => Err(ConfigError::Weights { path: checkpoint.path().into(), found: what, instead: INSTEAD }),
    }
}

fn class(diffusers: bool) -> &'static str {
    if diffusers { "WanTransformer3DModel" } else { "WanModel" }
}

fn original_form(fields: &Fields, checkpoint: &Checkpoint) -> Result<WanConfig, ConfigError> {
    match fields.required::<String>("model_type")?.as_str() {
        "i2v" | "t2v" => {}
        "ti2v" => return fields.refuse("Wan2.2-TI2V-5B (`model_type` is `ti2v`)".into(), INSTEAD),
        other => return fields.refuse(format!("another net (`model_type` is `{other}`)"), INSTEAD),
    }
    fields.only("qk_norm", &true, INSTEAD)?;
    fields.only("window_size", &[-1i64, -1], INSTEAD)?;
    Ok(WanConfig {
        dim: fields.size("dim")?,
        ffn_dim: fields.size("ffn_dim")?,
        freq_dim: fields.size("freq_dim")?,
        text_dim: text_dim(fields, checkpoint)?,
        in_dim: fields.size("in_dim")?,
        out_dim: fields.size("out_dim")?,
        num_heads: fields.size("num_heads")?,
        num_layers: fields.size("num_layers")?,
        eps: fields.epsilon("eps")?,
        text_len: fields.size("text_len")?,
    })
}

fn diffusers_form(fields: &Fields) -> Result<WanConfig, ConfigError> {
    fields.only("qk_norm", &"rms_norm_across_heads".to_owned(), INSTEAD)?;
    let num_heads = fields.size("num_attention_heads")?;
    Ok(WanConfig {
        dim: num_heads * fields.size("attention_head_dim")?,
        ffn_dim: fields.size("ffn_dim")?,
        freq_dim: fields.size("freq_dim")?,
        text_dim: fields.size("text_dim")?,
        in_dim: fields.size("in_channels")?,
        out_dim: fields.size("out_channels")?,
        num_heads,
        num_layers: fields.size("num_layers")?,
        eps: fields.epsilon("eps")?,
        text_len: TEXT_LEN,
    })
}

fn text_dim(fields: &Fields, checkpoint: &Checkpoint) -> Result<usize, ConfigError> {
    let name = "text_embedding.0.weight";
    let other = Naming::Transformer.other(name);
    let found = checkpoint.raw().find(|tensor| [name, &other].contains(&unwrapped(tensor.name)));
    match found.map(|tensor| tensor.shape) {
        Some(&[_, text_dim]) => Ok(text_dim),
        _ if fields.has("text_dim") => fields.size("text_dim"),
        _ => {
            Err(fields.problem("text_dim", format!("is missing, and the checkpoint has no matrix `{name}`")))
        }
    }
}

/// Says what is wrong with the dimensions, if they are not those of a transformer we implement.
pub(crate) fn check(config: &WanConfig) -> Result<(), String> {
    let WanConfig { dim, num_heads, freq_dim, in_dim, out_dim, text_len, .. } = *config;
    all_sizes(&[dim, config.ffn_dim, freq_dim, config.text_dim, num_heads, config.num_layers])?;
    some_layers(config.num_layers)?;
    if in_dim == 48 || out_dim == 48 {
        return Err("Wan2.2-TI2V-5B (48 latent channels)".into());
    }
    if in_dim != LATENT && in_dim != CONDITIONED {
        return Err(format!("a transformer with {in_dim} input channels (not {LATENT} or {CONDITIONED})"));
    }
    if out_dim != LATENT {
        return Err(format!("a transformer with {out_dim} output channels (not {LATENT})"));
    }
    let head = dim / num_heads;
    if !dim.is_multiple_of(num_heads) || !head.is_multiple_of(2) || head < 6 {
        // The rotary embedding turns pairs of dimensions, and gives each of three axes at least one pair.
        return Err(format!("a transformer {dim} wide with {num_heads} heads, which don't divide it evenly"));
    }
    if !freq_dim.is_multiple_of(2) {
        return Err(format!("a timestep embedding of odd width {freq_dim}"));
    }
    if !(1..=LONGEST_TEXT).contains(&text_len) {
        return Err(format!("a transformer that attends to {text_len} text tokens"));
    }
    Ok(())
}

/// Refuses experts of different dimensions; `path` is the second's config.
pub(crate) fn same_experts(high: &WanConfig, low: &WanConfig, path: &Path) -> Result<(), ConfigError> {
    if high == low {
        return Ok(());
    }
    let (path, found) =
        (path.into(), "a low-noise expert of other dimensions than the high-noise one".into());
    Err(ConfigError::Unsupported { path, found, instead: "two experts of the same release" })
}
