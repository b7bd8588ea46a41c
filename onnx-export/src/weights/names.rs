//! The names under which a tensor may be found.
//!
//! A bundle has one name for each tensor, the *canonical* one: the transformers' original Wan names, the text
//! encoder's `transformers` names, the autoencoder's diffusers names. Checkpoints come in the other convention as
//! well. Each table below turns a canonical name into that other one; the way back is a lookup among the names of
//! the tensors a net really has ([`NameTable`]), so no name is ever guessed.
//!
//! Programs that pack several nets into one file put a prefix before all names of each; it is passed over.
//!
//! A row replaces a run of whole dotted segments, once; rows apply from top to bottom.

use std::collections::HashMap;

use crate::graph::WeightSpec;

/// Original Wan names to diffusers' (`WanTransformer3DModel`).
const TRANSFORMER: &[(&str, &str)] = &[
    (".time_embedding.0.", ".condition_embedder.time_embedder.linear_1."),
    (".time_embedding.2.", ".condition_embedder.time_embedder.linear_2."),
    (".time_projection.1.", ".condition_embedder.time_proj."),
    (".text_embedding.0.", ".condition_embedder.text_embedder.linear_1."),
    (".text_embedding.2.", ".condition_embedder.text_embedder.linear_2."),
    (".self_attn.", ".attn1."),
    (".cross_attn.", ".attn2."),
    (".q.", ".to_q."),
    (".k.", ".to_k."),
    (".v.", ".to_v."),
    (".o.", ".to_out.0."),
    (".ffn.0.", ".ffn.net.0.proj."),
    (".ffn.2.", ".ffn.net.2."),
    (".norm3.", ".norm2."),
    (".head.head.", ".proj_out."),
    (".head.modulation.", ".scale_shift_table."),
    (".modulation.", ".scale_shift_table."),
];

/// `transformers`' names (`UMT5EncoderModel`) to those of Wan's own encoder (`wan/modules/t5.py`).
const TEXT_ENCODER: &[(&str, &str)] = &[
    (".shared.", ".token_embedding."),
    (".encoder.final_layer_norm.", ".norm."),
    (".encoder.block.", ".blocks."),
    (".layer.0.SelfAttention.relative_attention_bias.", ".pos_embedding.embedding."),
    (".layer.0.SelfAttention.", ".attn."),
    (".layer.0.layer_norm.", ".norm1."),
    (".layer.1.layer_norm.", ".norm2."),
    (".layer.1.DenseReluDense.wi_0.", ".ffn.gate.0."),
    (".layer.1.DenseReluDense.wi_1.", ".ffn.fc1."),
    (".layer.1.DenseReluDense.wo.", ".ffn.fc2."),
];

/// Diffusers' names (`AutoencoderKLWan`) to those of Wan's own autoencoder (`wan/modules/vae2_1.py`), once
/// [`flatten_up_blocks`] has numbered the decoder's layers. A block's `conv1` must be renamed before the stems'.
const VAE: &[(&str, &str)] = &[
    (".down_blocks.", ".downsamples."),
    (".mid_block.resnets.0.", ".middle.0."),
    (".mid_block.attentions.0.", ".middle.1."),
    (".mid_block.resnets.1.", ".middle.2."),
    (".norm1.", ".residual.0."),
    (".conv1.", ".residual.2."),
    (".norm2.", ".residual.3."),
    (".conv2.", ".residual.6."),
    (".conv_shortcut.", ".shortcut."),
    (".norm_out.", ".head.0."),
    (".conv_out.", ".head.2."),
    (".conv_in.", ".conv1."),
    (".quant_conv.", ".conv1."),
    (".post_quant_conv.", ".conv2."),
];

/// What programs that pack several nets into a file put before a net's names.
const WRAPPERS: &[&str] = &["model.diffusion_model.", "diffusion_model.", "model."];

/// Second names of tied tensors: a checkpoint may hold both, with equal content.
const TIED: &[(&str, &str)] = &[("shared.weight", "encoder.embed_tokens.weight")];

/// The convention of a net's canonical names, with what translating them needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// A transformer.
    Transformer,
    /// The text encoder.
    TextEncoder,
    /// The autoencoder.
    Vae {
        /// Residual blocks for each resolution of the encoder; the decoder has one more.
        res_blocks: usize,
    },
}

impl Naming {
    /// The name of the tensor `canonical` in the net's other convention.
    pub fn other(self, canonical: &str) -> String {
        match self {
            Self::Transformer => rename(canonical, TRANSFORMER),
            Self::TextEncoder => rename(canonical, TEXT_ENCODER),
            Self::Vae { res_blocks } => rename(&flatten_up_blocks(canonical, res_blocks), VAE),
        }
    }
}

/// Finds the tensors of a net by any of their names.
#[derive(Clone, Debug)]
pub struct NameTable {
    positions: HashMap<String, usize>,
    tied: HashMap<&'static str, usize>,
}

impl NameTable {
    /// The table for the tensors `specs`, which have canonical names.
    pub fn new(naming: Naming, specs: &[WeightSpec]) -> Self {
        let mut positions = HashMap::new();
        for (i, spec) in specs.iter().enumerate() {
            positions.insert(naming.other(&spec.name), i);
        }
        for (i, spec) in specs.iter().enumerate() {
            positions.insert(spec.name.clone(), i);
        }
        let tied = TIED.iter().filter_map(|(name, second)| Some((*second, *positions.get(*name)?))).collect();
        Self { positions, tied }
    }

    /// The position among the specs of the tensor called `name` in either convention, with or without what packing
    /// programs put before it.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.positions.get(unwrapped(name)).copied()
    }

    /// Every name in either convention, with the position of its tensor among the specs.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, usize)> {
        self.positions.iter().map(|(name, &i)| (name.as_str(), i))
    }

    /// The position among the specs of the tensor of which `name` is a tied duplicate.
    pub fn tied(&self, name: &str) -> Option<usize> {
        self.tied.get(unwrapped(name)).copied()
    }
}

/// `name` without what packing programs put before it; no canonical name begins so.
pub(super) fn unwrapped(name: &str) -> &str {
    WRAPPERS.iter().find_map(|wrapper| name.strip_prefix(wrapper)).unwrap_or(name)
}

fn rename(name: &str, table: &[(&str, &str)]) -> String {
    let dotted = format!(".{name}.");
    let renamed = table.iter().fold(dotted, |name, (from, to)| name.replacen(from, to, 1));
    renamed.trim_matches('.').to_owned()
}

/// `decoder.up_blocks.I.{resnets.J,upsamplers.0}` to `decoder.upsamples.N`: Wan numbers the layers of all
/// resolutions in one row, `res_blocks + 1` residual blocks and an upsampler for each.
fn flatten_up_blocks(name: &str, res_blocks: usize) -> String {
    let flatten = || {
        let (block, rest) = name.strip_prefix("decoder.up_blocks.")?.split_once('.')?;
        let (kind, rest) = rest.split_once('.')?;
        let (index, rest) = rest.split_once('.')?;
        let within = match kind {
            "resnets" => index.parse::<usize>().ok()?,
            "upsamplers" => res_blocks + 1,
            _ => return None,
        };
        let layer = block.parse::<usize>().ok()? * (res_blocks + 2) + within;
        Some(format!("decoder.upsamples.{layer}.{rest}"))
    };
    flatten().unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_names_are_the_other_convention() {
        let vae = Naming::Vae { res_blocks: 2 };
        for (naming, canonical, other) in [
            (Naming::Transformer, "patch_embedding.weight", "patch_embedding.weight"),
            (Naming::Transformer, "time_embedding.2.bias", "condition_embedder.time_embedder.linear_2.bias"),
            (Naming::Transformer, "blocks.7.self_attn.o.weight", "blocks.7.attn1.to_out.0.weight"),
            (Naming::Transformer, "blocks.7.cross_attn.norm_k.weight", "blocks.7.attn2.norm_k.weight"),
            (Naming::Transformer, "blocks.10.ffn.0.bias", "blocks.10.ffn.net.0.proj.bias"),
            (Naming::Transformer, "blocks.10.norm3.bias", "blocks.10.norm2.bias"),
            (Naming::Transformer, "blocks.10.modulation", "blocks.10.scale_shift_table"),
            (Naming::Transformer, "head.modulation", "scale_shift_table"),
            (Naming::Transformer, "head.head.weight", "proj_out.weight"),
            (Naming::TextEncoder, "shared.weight", "token_embedding.weight"),
            (Naming::TextEncoder, "encoder.final_layer_norm.weight", "norm.weight"),
            (Naming::TextEncoder, "encoder.block.3.layer.0.SelfAttention.o.weight", "blocks.3.attn.o.weight"),
            (
                Naming::TextEncoder,
                "encoder.block.3.layer.0.SelfAttention.relative_attention_bias.weight",
                "blocks.3.pos_embedding.embedding.weight",
            ),
            (Naming::TextEncoder, "encoder.block.3.layer.1.layer_norm.weight", "blocks.3.norm2.weight"),
            (
                Naming::TextEncoder,
                "encoder.block.3.layer.1.DenseReluDense.wi_0.weight",
                "blocks.3.ffn.gate.0.weight",
            ),
            (vae, "quant_conv.weight", "conv1.weight"),
            (vae, "post_quant_conv.bias", "conv2.bias"),
            (vae, "encoder.conv_in.weight", "encoder.conv1.weight"),
            (vae, "encoder.down_blocks.10.conv1.weight", "encoder.downsamples.10.residual.2.weight"),
            (vae, "encoder.down_blocks.5.time_conv.bias", "encoder.downsamples.5.time_conv.bias"),
            (vae, "encoder.down_blocks.5.resample.1.bias", "encoder.downsamples.5.resample.1.bias"),
            (vae, "encoder.mid_block.attentions.0.to_qkv.weight", "encoder.middle.1.to_qkv.weight"),
            (vae, "decoder.mid_block.resnets.1.norm2.gamma", "decoder.middle.2.residual.3.gamma"),
            (vae, "decoder.up_blocks.0.upsamplers.0.time_conv.bias", "decoder.upsamples.3.time_conv.bias"),
            (vae, "decoder.up_blocks.2.upsamplers.0.resample.1.bias", "decoder.upsamples.11.resample.1.bias"),
            (
                vae,
                "decoder.up_blocks.1.resnets.0.conv_shortcut.weight",
                "decoder.upsamples.4.shortcut.weight",
            ),
            (vae, "decoder.up_blocks.3.resnets.2.conv2.weight", "decoder.upsamples.14.residual.6.weight"),
            (vae, "decoder.norm_out.gamma", "decoder.head.0.gamma"),
            (vae, "decoder.conv_out.bias", "decoder.head.2.bias"),
        ] {
            assert_eq!(naming.other(canonical), other, "{canonical}");
        }
    }
}
