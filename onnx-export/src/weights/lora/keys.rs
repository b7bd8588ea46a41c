//! How trainers name the tensors of an adapter.
//!
//! A key is a prefix, the module it changes and a form that says which factor it is. Nothing is guessed: a prefix or
//! form that is not listed here makes a key unknown, and kinds of adapters that a pair of factors can't express are
//! refused by name.

use std::collections::HashMap;

use crate::models::Net;
use crate::weights::names::NameTable;

/// What stands before a module's name; several may stand one behind the other.
const PREFIXES: &[&str] =
    &["base_model.model.", "diffusion_model.", "model.", "transformer.", LOW_NOISE, "unet.", "pipe.dit."];

/// Diffusers' name of the low-noise expert, in files that are for both.
const LOW_NOISE: &str = "transformer_2.";

/// Diffusers' name of the only expert, or of the high-noise one in files that are for both.
const HIGH_NOISE: &str = "transformer.";

/// What stands before names in kohya's style, in which underscores stand for dots: for all of them, or only for the
/// first (`lora_unet_blocks_22.self_attn.k`).
const FLAT_PREFIXES: &[&str] = &["lora_unet__", "lora_unet_", "lycoris_"];

/// What names a factor, between its module and `.weight`.
const FACTORS: &[(&str, Role)] = &[
    (".lora_A", Role::Down),
    (".lora_B", Role::Up),
    (".lora_down", Role::Down),
    (".lora_up", Role::Up),
    (".lora.down", Role::Down),
    (".lora.up", Role::Up),
    (".lora_linear_layer.down", Role::Down),
    (".lora_linear_layer.up", Role::Up),
];

/// Segments of keys that betray adapters of other kinds; those that end in an underscore are beginnings.
const OTHER_KINDS: &[(&str, &str)] = &[
    ("dora_scale", "DoRA"),
    ("lora_magnitude_vector", "DoRA"),
    ("magnitude_vector", "DoRA"),
    ("lokr_", "LoKr"),
    ("hada_", "LoHa"),
    ("oft_", "OFT"),
    ("boft_", "BOFT"),
    ("vera_", "VeRA"),
    ("randlora_", "RandLoRA"),
    ("ia3_", "IA3"),
    ("on_input", "IA3"),
    ("a1", "GLoRA"),
    ("a2", "GLoRA"),
    ("b1", "GLoRA"),
    ("b2", "GLoRA"),
    ("lora_mid", "a CP-decomposed LoRA"),
    ("lora_embedding_", "an embedding LoRA"),
    ("reshape_weight", "a LoRA that reshapes weights"),
    ("diff", "a full difference of weights"),
    ("diff_", "a full difference of weights"),
    ("set_weight", "a replaced weight"),
    ("w_norm", "a trained norm"),
    ("b_norm", "a trained norm"),
    ("modules_to_save", "a fully trained module"),
];

/// Parts of modules with which Wan2.1's image-to-video transformers attend to an image, and which Wan2.2 has not.
const IMAGE_BRANCH: &[&str] = &[
    "k_img",
    "v_img",
    "norm_k_img",
    "img_emb",
    "add_k_proj",
    "add_v_proj",
    "norm_added_k",
    "image_embedder",
];

/// What a key of an adapter holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The factor applied first, `[rank, in]`.
    Down,
    /// The factor applied second, `[out, rank]`.
    Up,
    /// The scalar alpha.
    Alpha,
}

/// A key taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key<'a> {
    /// What stands before the module.
    pub(super) prefix: &'a str,
    /// The module, dotted unless the prefix is one of kohya's.
    pub(super) module: &'a str,
    /// What stands behind it.
    pub(super) form: &'a str,
    pub(super) role: Role,
}

impl<'a> Key<'a> {
    /// Takes `key` apart, if it has a form that we know.
    pub(super) fn parse(key: &'a str) -> Option<Self> {
        let (stem, role) = split(key)?;
        let module = match FLAT_PREFIXES.iter().find_map(|prefix| stem.strip_prefix(prefix)) {
            Some(module) => module,
            None => dotted_module(stem),
        };
        let (prefix, form) = (&stem[..stem.len() - module.len()], &key[stem.len()..]);
        (!module.is_empty()).then_some(Self { prefix, module, form, role })
    }

    /// The expert that the prefix names, in a file whose prefixes name both.
    pub(super) fn expert(&self) -> Option<Net> {
        if self.prefix.ends_with(LOW_NOISE) {
            Some(Net::TransformerLow)
        } else if self.prefix.ends_with(HIGH_NOISE) {
            Some(Net::TransformerHigh)
        } else {
            None
        }
    }

    /// Whether the module belongs to the image branch that Wan2.2 has not.
    pub(super) fn is_image_branch(&self) -> bool {
        let is_part = |part: &&str| {
            self.module.split('.').any(|segment| {
                segment == *part
                    || (self.is_flat() && segment.strip_suffix(part).is_some_and(|rest| rest.ends_with('_')))
                    || (self.is_flat() && segment.starts_with(&format!("{part}_")))
            })
        };
        IMAGE_BRANCH.iter().any(is_part)
    }

    /// The pattern the key follows.
    pub(super) fn pattern(&self) -> String {
        format!("{}MODULE{}", self.prefix, self.form)
    }

    fn is_flat(&self) -> bool {
        FLAT_PREFIXES.contains(&self.prefix)
    }
}

fn dotted_module(stem: &str) -> &str {
    let mut module = stem;
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| module.strip_prefix(prefix)) {
        module = rest;
    }
    module
}

/// Splits off what names the factor.
fn split(key: &str) -> Option<(&str, Role)> {
    if let Some(stem) = key.strip_suffix(".alpha") {
        return Some((stem, Role::Alpha));
    }
    let stem = key.strip_suffix(".weight")?;
    let factor = |stem: &'_ str, role_of: &[(&str, Role)]| {
        role_of.iter().find_map(|(end, role)| Some((stem.strip_suffix(end)?.len(), *role)))
    };
    // PEFT's own training checkpoints have the adapter's name behind the factor: `lora_A.default.weight`.
    let unnamed = stem.rsplit_once('.').map(|(stem, _)| stem);
    let (length, role) =
        factor(stem, FACTORS).or_else(|| unnamed.and_then(|stem| factor(stem, &FACTORS[..2])))?;
    Some((&stem[..length], role))
}

/// The kind of adapter `key` belongs to, if it is one that we can't merge.
pub(super) fn other_kind(key: &str) -> Option<&'static str> {
    if key.ends_with(".bias") && key.contains(".lora") {
        return Some("a LoRA with biases");
    }
    let is_of = |part: &str| {
        key.split('.').any(|segment| match part.strip_suffix('_') {
            Some(_) => segment.starts_with(part),
            None => segment == part,
        })
    };
    OTHER_KINDS.iter().find(|(part, _)| is_of(part)).map(|(_, kind)| *kind)
}

/// The modules of a net, by whatever adapters call them.
pub(super) struct Modules<'a> {
    names: &'a NameTable,
    flat: HashMap<String, usize>,
}

impl<'a> Modules<'a> {
    pub(super) fn new(names: &'a NameTable) -> Self {
        let matrices = names.iter().filter_map(|(name, i)| Some((name.strip_suffix(".weight")?, i)));
        Self { names, flat: matrices.map(|(module, i)| (module.replace('.', "_"), i)).collect() }
    }

    /// The position among the net's specs of the weight that `key` is about.
    pub(super) fn position(&self, key: &Key<'_>) -> Option<usize> {
        if key.is_flat() {
            return self.flat.get(&key.module.replace('.', "_")).copied();
        }
        self.names.position(&format!("{}.weight", key.module))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_a_module_whoever_wrote_them() {
        for (key, prefix, module, role) in [
            (
                "base_model.model.blocks.0.self_attn.q.lora_A.weight",
                "base_model.model.",
                "blocks.0.self_attn.q",
                Role::Down,
            ),
            (
                "base_model.model.blocks.0.ffn.0.lora_B.default.weight",
                "base_model.model.",
                "blocks.0.ffn.0",
                Role::Up,
            ),
            ("blocks.0.ffn.0.lora_A.high_noise.weight", "", "blocks.0.ffn.0", Role::Down),
            (
                "diffusion_model.blocks.1.ffn.2.lora_down.weight",
                "diffusion_model.",
                "blocks.1.ffn.2",
                Role::Down,
            ),
            (
                "model.diffusion_model.blocks.1.ffn.2.alpha",
                "model.diffusion_model.",
                "blocks.1.ffn.2",
                Role::Alpha,
            ),
            (
                "transformer.blocks.1.attn1.to_out.0.lora_up.weight",
                "transformer.",
                "blocks.1.attn1.to_out.0",
                Role::Up,
            ),
            (
                "transformer_2.blocks.1.attn2.to_q.lora.up.weight",
                "transformer_2.",
                "blocks.1.attn2.to_q",
                Role::Up,
            ),
            (
                "pipe.dit.blocks.1.ffn.2.lora_linear_layer.down.weight",
                "pipe.dit.",
                "blocks.1.ffn.2",
                Role::Down,
            ),
            ("blocks.1.ffn.2.alpha", "", "blocks.1.ffn.2", Role::Alpha),
            (
                "lora_unet_blocks_0_self_attn_q.lora_down.weight",
                "lora_unet_",
                "blocks_0_self_attn_q",
                Role::Down,
            ),
            ("lora_unet__blocks_0_ffn_0.lora_up.weight", "lora_unet__", "blocks_0_ffn_0", Role::Up),
            ("lora_unet_blocks_22.self_attn.k.alpha", "lora_unet_", "blocks_22.self_attn.k", Role::Alpha),
        ] {
            let form = key.strip_prefix(&format!("{prefix}{module}")).unwrap();
            assert_eq!(Key::parse(key), Some(Key { prefix, module, form, role }), "{key}");
            assert_eq!(other_kind(key), None, "{key}");
        }
        for key in
            ["blocks.1.ffn.2.weight", "step", "lora_A.weight", "lora_unet_.alpha", "blocks.0.q.lora_C.weight"]
        {
            assert_eq!(Key::parse(key), None, "{key}");
        }
    }

    #[test]
    fn other_kinds_have_names() {
        for (key, kind) in [
            ("base_model.model.blocks.0.ffn.0.lora_magnitude_vector.default.weight", "DoRA"),
            ("lora_unet_blocks_0_ffn_0.dora_scale", "DoRA"),
            ("lycoris_blocks_0_ffn_0.lokr_w1", "LoKr"),
            ("diffusion_model.blocks.0.ffn.0.hada_w1_a", "LoHa"),
            ("model.diffusion_model.blocks.0.norm3.diff_b", "a full difference of weights"),
            ("diffusion_model.blocks.0.diff_m", "a full difference of weights"),
            ("diffusion_model.patch_embedding.diff", "a full difference of weights"),
            ("base_model.model.blocks.0.ffn.0.lora_B.bias", "a LoRA with biases"),
            ("lora_unet_blocks_0_ffn_0.lora_mid.weight", "a CP-decomposed LoRA"),
            ("lycoris_blocks_0_norm3.w_norm", "a trained norm"),
        ] {
            assert_eq!(other_kind(key), Some(kind), "{key}");
        }
    }

    #[test]
    fn the_image_branch_is_told_from_the_rest() {
        let is_image = |key: &str| Key::parse(key).unwrap().is_image_branch();
        for key in [
            "diffusion_model.blocks.0.cross_attn.k_img.lora_A.weight",
            "lora_unet_blocks_0_cross_attn_v_img.lora_down.weight",
            "lora_unet_img_emb_proj_1.alpha",
            "diffusion_model.img_emb.proj.1.lora_up.weight",
            "transformer.blocks.0.attn2.add_k_proj.lora_A.weight",
        ] {
            assert!(is_image(key), "{key}");
        }
        for key in ["diffusion_model.blocks.0.cross_attn.k.lora_A.weight", "lora_unet_blocks_0_ffn_0.alpha"] {
            assert!(!is_image(key), "{key}");
        }
    }
}
