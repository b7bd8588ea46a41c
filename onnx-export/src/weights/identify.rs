//! What a checkpoint is, judged by the names and shapes of its tensors alone.
//!
//! Files are renamed, put into the wrong folder or beside another model's config. The names and shapes of their tensors
//! can't be mistaken, and a message that says "these are the weights of Wan2.2-TI2V-5B" is worth more than one that
//! lists a thousand keys.

use serde::Serialize;

use super::file::RawTensor;
use super::lora::is_adapter_key;
use super::names::unwrapped;

/// What kind of net a checkpoint holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A Wan transformer.
    Transformer,
    /// A T5 encoder.
    TextEncoder,
    /// A Wan autoencoder.
    Vae,
    /// A LoRA adapter.
    Adapter,
    /// A net of another family or task.
    Other,
    /// Nothing that its names tell.
    Unknown,
}

/// What a checkpoint is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The kind of net.
    pub kind: Kind,
    /// The same in words, with its article.
    pub what: String,
    /// Whether it is of an architecture that we implement.
    pub supported: bool,
}

/// Segments of names that only nets have which we do not implement.
const OTHERS: &[(&str, &str)] = &[
    ("vace_blocks", "a Wan VACE transformer"),
    ("vace_patch_embedding", "a Wan VACE transformer"),
    ("face_adapter", "the transformer of Wan2.2-Animate-14B"),
    ("pose_patch_embedding", "the transformer of Wan2.2-Animate-14B"),
    ("audio_injector", "the transformer of Wan2.2-S2V-14B"),
    ("casual_audio_encoder", "the transformer of Wan2.2-S2V-14B"),
    ("control_adapter", "a Wan Fun transformer with camera control"),
    ("ref_conv", "a Wan Fun transformer with control"),
    ("k_img", "a Wan2.1 image-to-video transformer"),
    ("img_emb", "a Wan2.1 image-to-video transformer"),
    ("add_k_proj", "a Wan2.1 image-to-video transformer"),
    ("image_embedder", "a Wan2.1 image-to-video transformer"),
    ("double_blocks", "a transformer of Flux or HunyuanVideo"),
    ("transformer_blocks", "a transformer of another family"),
    ("input_blocks", "a Stable Diffusion model"),
    ("text_model", "a CLIP model"),
    ("vision_model", "a CLIP model"),
];

/// Judges the checkpoint that consists of `tensors`.
pub fn identify<'a>(tensors: impl Iterator<Item = RawTensor<'a>> + Clone) -> Identity {
    let identity = |kind, what: &str, supported| Identity { kind, what: what.into(), supported };
    if tensors.clone().any(|tensor| is_adapter_key(tensor.name)) {
        return identity(Kind::Adapter, "a LoRA adapter", true);
    }
    let has_part = |name: &str, part: &str| name.split('.').any(|segment| segment == part);
    let other = OTHERS.iter().find_map(|(part, what)| {
        let tensor = tensors.clone().find(|tensor| has_part(tensor.name, part))?;
        Some(format!("{what} (by `{}`)", tensor.name))
    });
    if let Some(what) = other {
        return identity(Kind::Other, &what, false);
    }
    let shape = |names: &[&str]| {
        let tensor = tensors.clone().find(|tensor| names.contains(&unwrapped(tensor.name)))?;
        Some(tensor.shape)
    };
    if let Some(&[dim, channels, ..]) = shape(&["patch_embedding.weight"]) {
        return transformer(dim, channels);
    }
    if shape(&["shared.weight", "token_embedding.weight", "encoder.embed_tokens.weight"]).is_some() {
        return text_encoder(tensors);
    }
    if let Some(&[channels, ..]) = shape(&["post_quant_conv.weight", "conv2.weight"]) {
        return match channels {
            16 => identity(Kind::Vae, "the Wan2.1 autoencoder, which Wan2.2 A14B uses", true),
            48 => identity(Kind::Vae, "the autoencoder of Wan2.2-TI2V-5B (48 latent channels)", false),
            _ => identity(Kind::Vae, &format!("an autoencoder of {channels} latent channels"), false),
        };
    }
    identity(Kind::Unknown, "a net that we do not know", false)
}

fn transformer(dim: usize, channels: usize) -> Identity {
    let what = match (dim, channels) {
        (_, 48) => "the transformer of Wan2.2-TI2V-5B (48 latent channels)".into(),
        (5120, 36) => "an expert of Wan2.2-I2V-A14B".into(),
        (5120, 16) => "an expert of Wan2.2-T2V-A14B, or Wan2.1-T2V-14B".into(),
        (1536, _) => "the transformer of Wan2.1 1.3B".into(),
        _ => format!("a Wan transformer {dim} wide with {channels} input channels"),
    };
    Identity { kind: Kind::Transformer, what, supported: matches!(channels, 16 | 36) && dim != 1536 }
}

fn text_encoder<'a>(tensors: impl Iterator<Item = RawTensor<'a>> + Clone) -> Identity {
    let names = || tensors.clone().map(|tensor| unwrapped(tensor.name));
    // UMT5 has a table of position biases in each layer, T5 one for all of them.
    let tables = names().filter(|name| {
        name.contains("relative_attention_bias") || name.ends_with("pos_embedding.embedding.weight")
    });
    let layers = names()
        .filter(|name| name.ends_with("layer.0.SelfAttention.q.weight") || name.ends_with("attn.q.weight"));
    let (what, supported) = if names().any(|name| name.starts_with("decoder.")) {
        ("a T5 encoder with its decoder", false)
    } else if tables.count() <= 1 && layers.count() > 1 {
        ("a T5 encoder that is not UMT5", false)
    } else {
        ("a UMT5 encoder", true)
    };
    Identity { kind: Kind::TextEncoder, what: what.into(), supported }
}

#[cfg(test)]
mod tests {
    use safetensors::Dtype;

    use super::*;

    #[test]
    fn nets_are_known_by_their_tensors() {
        let of = |tensors: &[(&str, &[usize])]| {
            let raw =
                tensors.iter().map(|(name, shape)| RawTensor { name, shape, dtype: Dtype::F32, bytes: &[] });
            let Identity { kind, what, supported } = identify(raw);
            (kind, what, supported)
        };
        let patch = "patch_embedding.weight";
        for (tensors, kind, says, supported) in [
            (&[(patch, [5120usize, 36, 1, 2, 2].as_slice())][..], Kind::Transformer, "Wan2.2-I2V-A14B", true),
            (&[(patch, &[5120, 16, 1, 2, 2])], Kind::Transformer, "Wan2.2-T2V-A14B", true),
            (
                &[("model.diffusion_model.patch_embedding.weight", &[3072, 48, 1, 2, 2])],
                Kind::Transformer,
                "TI2V-5B",
                false,
            ),
            (&[(patch, &[1536, 16, 1, 2, 2])], Kind::Transformer, "1.3B", false),
            (&[(patch, &[64, 36, 1, 2, 2])], Kind::Transformer, "64 wide", true),
            (
                &[(patch, &[5120, 36, 1, 2, 2]), ("blocks.0.cross_attn.k_img.weight", &[1])],
                Kind::Other,
                "Wan2.1 image",
                false,
            ),
            (
                &[(patch, &[5120, 16, 1, 2, 2]), ("vace_blocks.0.ffn.0.weight", &[1])],
                Kind::Other,
                "VACE",
                false,
            ),
            (
                &[(patch, &[5120, 36, 1, 2, 2]), ("face_adapter.fuser_blocks.0.q.weight", &[1])],
                Kind::Other,
                "Animate",
                false,
            ),
            (&[("conv2.weight", &[16, 16, 1, 1, 1])], Kind::Vae, "Wan2.1 autoencoder", true),
            (&[("model.conv2.weight", &[48, 48, 1, 1, 1])], Kind::Vae, "TI2V-5B", false),
            (&[("post_quant_conv.weight", &[4, 4, 1, 1])], Kind::Vae, "4 latent channels", false),
            (
                &[
                    ("token_embedding.weight", &[1, 1]),
                    ("blocks.0.attn.q.weight", &[1, 1]),
                    ("blocks.0.pos_embedding.embedding.weight", &[32, 1]),
                ],
                Kind::TextEncoder,
                "a UMT5 encoder",
                true,
            ),
            (
                &[
                    ("shared.weight", &[1, 1]),
                    ("encoder.block.0.layer.0.SelfAttention.q.weight", &[1, 1]),
                    ("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", &[32, 1]),
                    ("encoder.block.1.layer.0.SelfAttention.q.weight", &[1, 1]),
                ],
                Kind::TextEncoder,
                "not UMT5",
                false,
            ),
            (&[("lora_unet_blocks_0_ffn_0.lora_down.weight", &[1, 1])], Kind::Adapter, "LoRA", true),
            (&[("lycoris_blocks_0_ffn_0.lokr_w1", &[1, 1])], Kind::Adapter, "LoRA", true),
            (&[("something", &[1])], Kind::Unknown, "do not know", false),
        ] {
            let (found, what, is_supported) = of(tensors);
            assert!(
                found == kind && what.contains(says) && is_supported == supported,
                "{tensors:?}: {found:?} {what}"
            );
        }
    }
}
