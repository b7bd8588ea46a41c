//! Whatever is wrong with a checkpoint is refused by name, before anything is written, and nothing is left behind.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

mod support;

use std::path::PathBuf;

use onnx_export::bundle::{BundleVariant, Dtype};
use proptest::prelude::*;
use serde_json::{Value, json};
use support::{Tensor, Tree, read};

const HIGH: &str = "base_i2v/high_noise_model";
const SHARD_1: &str = "base_i2v/high_noise_model/diffusion_pytorch_model-00001-of-00002.safetensors";
const SHARD_2: &str = "base_i2v/high_noise_model/diffusion_pytorch_model-00002-of-00002.safetensors";
const INDEX: &str = "base_i2v/high_noise_model/diffusion_pytorch_model.safetensors.index.json";
const TEXT: &str = "base_i2v_diffusers/text_encoder";
const VAE: &str = "base_i2v_diffusers/vae";
const LORA: &str = "storymem/Wan2.2-MI2V-A14B/backbone_low_noise.safetensors";
const PREFIX: &str = "base_model.model.";

/// A change to a tree, and what the refusal must say.
struct Case {
    what: &'static str,
    change: fn(&mut Tree),
    says: &'static [&'static str],
}

/// Runs every case and reports all that fail.
fn check(cases: &[Case]) {
    let mut failures = Vec::new();
    for Case { what, change, says } in cases {
        let mut tree = Tree::new();
        change(&mut tree);
        let message = tree.refusal();
        let missing: Vec<_> = says.iter().filter(|part| !message.contains(*part)).collect();
        if !missing.is_empty() {
            failures.push(format!("{what}: no {missing:?} in: {message}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn files_that_do_not_make_a_checkpoint() {
    check(&[
        Case {
            what: "a missing shard",
            change: |tree| std::fs::remove_file(tree.path(SHARD_2)).unwrap(),
            says: &[
                "index.json` names the shard `diffusion_pytorch_model-00002-of-00002.safetensors`",
                "missing",
            ],
        },
        Case {
            what: "a truncated shard",
            change: |tree| truncate(tree.path(SHARD_2), |len| len - 1),
            says: &["00002-of-00002.safetensors` is not a whole safetensors file", "again"],
        },
        Case {
            what: "a shard cut within its header",
            change: |tree| truncate(tree.path(SHARD_1), |_| 100),
            says: &["00001-of-00002.safetensors` is not a whole safetensors file"],
        },
        Case {
            what: "an empty shard",
            change: |tree| truncate(tree.path(SHARD_1), |_| 0),
            says: &["00001-of-00002.safetensors"],
        },
        Case {
            what: "data past the end",
            change: |tree| append(tree.path(SHARD_1), b"more"),
            says: &["00001-of-00002.safetensors` is not a whole safetensors file"],
        },
        Case {
            what: "a header that is no JSON",
            change: |tree| overwrite(tree.path(SHARD_1), 8, b"not json"),
            says: &["00001-of-00002.safetensors` is not a whole safetensors file"],
        },
        Case {
            what: "a header longer than the file",
            change: |tree| overwrite(tree.path(SHARD_1), 0, &u64::MAX.to_le_bytes()),
            says: &["00001-of-00002.safetensors` is not a whole safetensors file"],
        },
        Case {
            what: "a tensor in the index alone",
            change: |tree| {
                tree.edit(SHARD_1, |tensors| {
                    tensors.remove("blocks.0.cross_attn.k.bias");
                });
            },
            says: &["00001-of-00002.safetensors` does not hold tensor `blocks.0.cross_attn.k.bias`", "index"],
        },
        Case {
            what: "a tensor in its shard alone",
            change: |tree| {
                tree.edit(SHARD_1, |tensors| {
                    tensors.insert("surplus".into(), Tensor { shape: vec![1], values: vec![0.0] });
                });
            },
            says: &["00001-of-00002.safetensors` holds tensor `surplus`, which the index does not list"],
        },
        Case {
            what: "a tensor in two shards",
            change: |tree| {
                let (name, tensor) = read(&tree.path(SHARD_1)).pop_first().unwrap();
                tree.edit(SHARD_2, |tensors| {
                    tensors.insert(name, tensor);
                });
            },
            says: &[
                "tensor `blocks.0.cross_attn.k.bias` is in",
                "00001-of-00002",
                "and in",
                "00002-of-00002",
            ],
        },
        Case {
            what: "a stray file beside an index",
            change: |tree| {
                std::fs::copy(tree.path(SHARD_1), tree.path(HIGH).join("model.safetensors")).unwrap();
            },
            says: &["model.safetensors` is not named by", "index.json", "move it"],
        },
        Case {
            what: "two files without an index",
            change: |tree| std::fs::remove_file(tree.path(INDEX)).unwrap(),
            says: &["high_noise_model` holds", "00001-of-00002.safetensors`, `diffusion", "with its index"],
        },
        Case {
            what: "two indexes",
            change: |tree| {
                std::fs::copy(tree.path(INDEX), tree.path(HIGH).join("other.safetensors.index.json"))
                    .unwrap();
            },
            says: &["high_noise_model` holds", "other.safetensors.index.json"],
        },
        Case {
            what: "an index that is no JSON",
            change: |tree| std::fs::write(tree.path(INDEX), "{").unwrap(),
            says: &["index.json` is not an index of shards"],
        },
        Case {
            what: "an index that leaves its folder",
            change: |tree| {
                let text = std::fs::read_to_string(tree.path(INDEX)).unwrap();
                let text = text.replace("diffusion_pytorch_model-00001", "../low_noise_model/x");
                std::fs::write(tree.path(INDEX), text).unwrap();
            },
            says: &["index.json` is not an index of shards (`../low_noise_model/x-of-00002.safetensors`"],
        },
        Case {
            what: "pickles only",
            change: |tree| {
                let folder = tree.path(VAE);
                std::fs::remove_file(folder.join("diffusion_pytorch_model.safetensors")).unwrap();
                std::fs::write(folder.join("Wan2.1_VAE.pth"), "").unwrap();
            },
            says: &["vae` holds no .safetensors file", "convert"],
        },
        Case {
            what: "a missing folder",
            change: |tree| tree.options.components = tree.path("nowhere"),
            says: &["nowhere"],
        },
        Case {
            what: "no experts",
            change: |tree| tree.options.transformer = tree.path(VAE),
            says: &["holds no experts", "`high_noise_model` and `low_noise_model`", "`transformer_2`"],
        },
        Case {
            what: "one expert",
            change: |tree| std::fs::remove_dir_all(tree.path("base_i2v/low_noise_model")).unwrap(),
            says: &["low_noise_model"],
        },
        Case {
            what: "a quantised tensor",
            change: |tree| {
                let path = tree.path(TEXT).join("model.safetensors");
                let text = std::fs::read(&path).unwrap();
                let at = find(&text, br#""dtype":"F32","shape":[32]"#);
                let mut text = text;
                // The same number of bytes in another type.
                text.splice(at..at + 26, *br#""dtype":"I32","shape":[32]"#);
                std::fs::write(&path, text).unwrap();
            },
            says: &["tensor `encoder.", "model.safetensors` has type I32", "F32, F16 or BF16"],
        },
    ]);
}

#[test]
fn keys_that_are_missing_unexpected_or_unfit() {
    check(&[
        Case {
            what: "a missing key",
            change: |tree| {
                tree.rewrite(HIGH, Dtype::F32, |mut tensors| {
                    tensors.remove("blocks.1.ffn.2.bias");
                    tensors
                });
            },
            says: &["transformer_high: 68 mapped", "1 missing", "missing: `blocks.1.ffn.2.bias`"],
        },
        Case {
            what: "an unexpected key",
            change: |tree| {
                tree.rewrite(TEXT, Dtype::F32, |mut tensors| {
                    tensors.insert("lm_head.weight".into(), Tensor { shape: vec![1], values: vec![0.0] });
                    tensors
                });
            },
            says: &["text_encoder: 22 mapped", "1 unexpected", "unexpected: `lm_head.weight`"],
        },
        Case {
            what: "another shape",
            change: |tree| {
                tree.rewrite(VAE, Dtype::F32, |mut tensors| {
                    tensors.get_mut("encoder.conv_in.weight").unwrap().shape = vec![8, 3, 27];
                    tensors
                });
            },
            says: &[
                "vae: 193 mapped",
                "`encoder.conv_in.weight` (has shape [8, 3, 27], needs [8, 3, 3, 3, 3])",
            ],
        },
        Case {
            what: "a tensor under both its names",
            change: |tree| {
                tree.rewrite(HIGH, Dtype::F32, |mut tensors| {
                    tensors.insert("proj_out.bias".into(), tensors["head.head.bias"].clone());
                    tensors
                });
            },
            says: &["`proj_out.bias` and `head.head.bias`", "two names"],
        },
        Case {
            what: "more than a message can hold, in two nets",
            change: |tree| {
                for folder in [HIGH, TEXT] {
                    tree.rewrite(folder, Dtype::F32, |mut tensors| {
                        tensors.retain(|name, _| !name.contains("1"));
                        tensors
                    });
                }
            },
            says: &["text_encoder: 8 mapped", "and 4 more", "transformer_high: 40 mapped", "and 19 more"],
        },
        Case {
            what: "fewer layers than the config says",
            change: |tree| {
                for expert in support::EXPERTS {
                    tree.edit_json(&format!("base_i2v/{expert}/config.json"), json!({"num_layers": 3}));
                }
            },
            says: &["transformer_high: 69 mapped", "27 missing", "transformer_low", "`blocks.2.modulation`"],
        },
    ]);
}

#[test]
fn nets_of_other_architectures() {
    const TRANSFORMER: &str = "base_i2v/low_noise_model/config.json";
    fn wan(tree: &Tree, fields: Value) {
        tree.edit_json(TRANSFORMER, fields);
    }
    fn diffusers(tree: &Tree, fields: Value) {
        let config = tree.path("base_i2v_diffusers/transformer_2/config.json");
        std::fs::copy(config, tree.path(TRANSFORMER)).unwrap();
        tree.edit_json(TRANSFORMER, fields);
    }
    fn text(tree: &Tree, fields: Value) {
        tree.edit_json("base_i2v_diffusers/text_encoder/config.json", fields);
    }
    fn vae(tree: &Tree, fields: Value) {
        tree.edit_json("base_i2v_diffusers/vae/config.json", fields);
    }
    check(&[
        Case {
            what: "the 5B model",
            change: |tree| wan(tree, json!({"model_type": "ti2v", "in_dim": 48})),
            says: &[
                "low_noise_model/config.json` describes Wan2.2-TI2V-5B",
                "use a transformer of Wan2.2-I2V-A14B",
            ],
        },
        Case {
            what: "the 5B model under another type",
            change: |tree| wan(tree, json!({"in_dim": 48, "out_dim": 48})),
            says: &["Wan2.2-TI2V-5B"],
        },
        Case {
            what: "the 5B model in diffusers' form",
            change: |tree| diffusers(tree, json!({"in_channels": 48, "out_channels": 48})),
            says: &["Wan2.2-TI2V-5B"],
        },
        Case {
            what: "VACE",
            change: |tree| wan(tree, json!({"model_type": "vace", "_class_name": "VaceWanModel"})),
            says: &["describes another net", "VaceWanModel"],
        },
        Case {
            what: "Wan2.1 I2V in diffusers' form",
            change: |tree| diffusers(tree, json!({"image_dim": 1280})),
            says: &["Wan2.1 image-to-video", "image_dim"],
        },
        Case {
            what: "Wan2.1 I2V with added projections",
            change: |tree| diffusers(tree, json!({"added_kv_proj_dim": 5120})),
            says: &["Wan2.1 image-to-video", "added_kv_proj_dim"],
        },
        Case {
            what: "Wan2.1 I2V in Wan's form",
            change: |tree| {
                tree.rewrite("base_i2v/low_noise_model", Dtype::F32, |mut tensors| {
                    let tensor = tensors["blocks.0.cross_attn.k.weight"].clone();
                    tensors.insert("blocks.0.cross_attn.k_img.weight".into(), tensor);
                    tensors
                });
            },
            says: &["Wan2.1 image-to-video", "blocks.0.cross_attn.k_img.weight"],
        },
        Case {
            what: "norms by head",
            change: |tree| diffusers(tree, json!({"qk_norm": "rms_norm"})),
            says: &["`qk_norm` is `\"rms_norm\"`"],
        },
        Case {
            what: "other patches",
            change: |tree| diffusers(tree, json!({"patch_size": [1, 1, 1]})),
            says: &["`patch_size` is `[1,1,1]`"],
        },
        Case {
            what: "cross-attention without norm",
            change: |tree| diffusers(tree, json!({"cross_attn_norm": false})),
            says: &["`cross_attn_norm` is `false`"],
        },
        Case {
            what: "other input channels",
            change: |tree| wan(tree, json!({"in_dim": 32})),
            says: &["32 input channels (not 16 or 36)"],
        },
        Case {
            what: "heads that do not divide",
            change: |tree| wan(tree, json!({"num_heads": 3})),
            says: &["64 wide with 3 heads"],
        },
        Case {
            what: "no heads",
            change: |tree| wan(tree, json!({"num_heads": 0})),
            says: &["`num_heads` in", "is 0"],
        },
        Case {
            what: "more layers than memory",
            change: |tree| wan(tree, json!({"num_layers": 4_000_000_000_000u64})),
            says: &["`num_layers` in", "no sensible size"],
        },
        Case {
            what: "a missing field",
            change: |tree| wan(tree, json!({"ffn_dim": null})),
            says: &["`ffn_dim` in", "low_noise_model/config.json` is missing"],
        },
        Case {
            what: "a field of another type",
            change: |tree| wan(tree, json!({"dim": "wide"})),
            says: &["`dim` in", "is `\"wide\"`"],
        },
        Case {
            what: "experts that differ",
            change: |tree| wan(tree, json!({"eps": 1e-5})),
            says: &["low-noise expert of other dimensions"],
        },
        Case {
            what: "plain T5",
            change: |tree| text(tree, json!({"model_type": "t5"})),
            says: &["text_encoder/config.json` describes another net (`model_type` is `t5`)", "UMT5-XXL"],
        },
        Case {
            what: "a T5 without gates",
            change: |tree| text(tree, json!({"feed_forward_proj": "relu"})),
            says: &["`feed_forward_proj` is `\"relu\"`"],
        },
        Case {
            what: "a text encoder of another width",
            change: |tree| text(tree, json!({"d_model": 64})),
            says: &["the text encoder is 64 wide, the transformers take text 32 wide"],
        },
        Case {
            what: "the autoencoder of 5B",
            change: |tree| vae(tree, json!({"is_residual": true, "z_dim": 48})),
            says: &["vae/config.json` describes the autoencoder of Wan2.2-TI2V-5B", "Wan2.1 autoencoder"],
        },
        Case {
            what: "an autoencoder of patches",
            change: |tree| vae(tree, json!({"patch_size": 2})),
            says: &["Wan2.2-TI2V-5B"],
        },
        Case {
            what: "an autoencoder of other channels",
            change: |tree| vae(tree, json!({"z_dim": 8})),
            says: &["8 latent channels"],
        },
        Case {
            what: "an autoencoder with attention at a resolution",
            change: |tree| vae(tree, json!({"attn_scales": [0.5]})),
            says: &["`attn_scales` is `[0.5]`"],
        },
        Case {
            what: "an autoencoder that halves time once",
            change: |tree| vae(tree, json!({"temperal_downsample": [false, false, true]})),
            says: &["`temperal_downsample`"],
        },
        Case {
            what: "an autoencoder without statistics",
            change: |tree| vae(tree, json!({"latents_std": [1.0]})),
            says: &["`latents_std`", "16 positive numbers"],
        },
        Case {
            what: "a variant the transformers can't make",
            change: |tree| {
                tree.options.variant = BundleVariant::T2v;
                tree.options.lora = None;
            },
            says: &["variant `t2v` needs transformers of 16 input channels, these have 36"],
        },
        Case {
            what: "StoryMem's LoRA on text alone",
            change: |tree| tree.options.variant = BundleVariant::T2v,
            says: &["`t2v` takes no StoryMem LoRA", "Wan2.2-MI2V-A14B"],
        },
        Case {
            what: "another text encoder's tokenizer",
            change: |tree| {
                let path = tree.path("base_i2v_diffusers/tokenizer/tokenizer.json");
                let text = std::fs::read_to_string(&path).unwrap();
                std::fs::write(&path, text.replacen("\"id\": 3", "\"id\": 300", 1)).unwrap();
            },
            says: &["tokenizer.json` has 301 tokens", "only 189"],
        },
        Case {
            what: "a damaged tokenizer",
            change: |tree| truncate(tree.path("base_i2v_diffusers/tokenizer/tokenizer.json"), |len| len / 2),
            says: &["tokenizer.json` is damaged"],
        },
    ]);
}

#[test]
fn adapters_that_do_not_fit() {
    check(&[
        Case {
            what: "a half pair",
            change: |tree| {
                tree.edit(LORA, |tensors| {
                    tensors.remove(&format!("{PREFIX}blocks.1.ffn.0.lora_B.weight"));
                });
            },
            says: &["backbone_low_noise", "blocks.1.ffn.0.lora_A.weight` but not its other half"],
        },
        Case {
            what: "an unknown module",
            change: |tree| rename(tree, "blocks.1.ffn.0", "blocks.7.ffn.0"),
            says: &["2 keys that fit no weight", "blocks.7.ffn.0.lora_A.weight"],
        },
        Case {
            what: "a module that is no matrix",
            change: |tree| rename(tree, "blocks.1.ffn.0", "blocks.1.norm3"),
            says: &["blocks.1.norm3.lora_A", "only matrices"],
        },
        Case {
            what: "a key of another meaning",
            change: |tree| {
                tree.edit(LORA, |tensors| {
                    tensors.insert("step".into(), Tensor { shape: vec![], values: vec![1.0] });
                });
            },
            says: &["1 keys that fit no weight", "`step`"],
        },
        Case {
            what: "ranks that differ within a pair",
            change: |tree| {
                tree.edit(LORA, |tensors| {
                    let key = format!("{PREFIX}blocks.0.self_attn.q.lora_B.weight");
                    tensors.insert(key, Tensor { shape: vec![64, 2], values: vec![0.0; 128] });
                });
            },
            says: &["blocks.0.self_attn.q.lora_B.weight", "shape [64, 2]", "[64, 4]"],
        },
        Case {
            what: "a LoRA for another width",
            change: |tree| {
                tree.edit(LORA, |tensors| {
                    let key = format!("{PREFIX}blocks.0.self_attn.q.lora_A.weight");
                    tensors.insert(key, Tensor { shape: vec![4, 32], values: vec![0.0; 128] });
                });
            },
            says: &["blocks.0.self_attn.q.lora_A.weight", "shape [4, 32]", "[rank, 64]"],
        },
        Case {
            what: "the same factor twice",
            change: |tree| {
                tree.edit(LORA, |tensors| {
                    let tensor = tensors[&format!("{PREFIX}blocks.0.self_attn.q.lora_A.weight")].clone();
                    tensors.insert("blocks.0.attn1.to_q.lora_down.weight".into(), tensor);
                });
            },
            says: &["are the same factor", "`blocks.0.attn1.to_q.lora_down.weight`"],
        },
        Case {
            what: "DoRA",
            change: |tree| {
                tree.edit(LORA, |tensors| {
                    let tensor = Tensor { shape: vec![64], values: vec![1.0; 64] };
                    tensors.insert(format!("{PREFIX}blocks.0.self_attn.q.dora_scale"), tensor);
                });
            },
            says: &["blocks.0.self_attn.q.dora_scale", "DoRA"],
        },
        Case {
            what: "a full difference",
            change: |tree| {
                tree.edit(LORA, |tensors| {
                    let tensor = Tensor { shape: vec![64], values: vec![1.0; 64] };
                    tensors.insert("diffusion_model.blocks.0.norm3.diff_b".into(), tensor);
                });
            },
            says: &["blocks.0.norm3.diff_b", "full difference"],
        },
        Case {
            what: "an alpha of zero",
            change: |tree| {
                tree.edit(LORA, |tensors| {
                    let alpha = Tensor { shape: vec![], values: vec![0.0] };
                    tensors.insert(format!("{PREFIX}blocks.0.self_attn.q.alpha"), alpha);
                });
            },
            says: &["blocks.0.self_attn.q.alpha", "is 0", "positive"],
        },
        Case {
            what: "an alpha without a pair",
            change: |tree| {
                tree.edit(LORA, |tensors| {
                    tensors.retain(|key, _| !key.contains("blocks.0.self_attn.q."));
                    let alpha = Tensor { shape: vec![], values: vec![1.0] };
                    tensors.insert(format!("{PREFIX}blocks.0.self_attn.q.alpha"), alpha);
                });
            },
            says: &["blocks.0.self_attn.q.alpha", "other half"],
        },
        Case {
            what: "no pairs at all",
            change: |tree| tree.edit(LORA, std::collections::BTreeMap::clear),
            says: &["backbone_low_noise.safetensors` holds no LoRA pair"],
        },
        Case {
            what: "a missing adapter",
            change: |tree| std::fs::remove_file(tree.path(LORA)).unwrap(),
            says: &["backbone_low_noise.safetensors"],
        },
    ]);
}

#[test]
fn values_that_can_not_be_stored() {
    check(&[
        Case {
            what: "NaN in a checkpoint",
            change: |tree| {
                set(
                    tree,
                    "base_i2v_diffusers/vae/diffusion_pytorch_model.safetensors",
                    "quant_conv.bias",
                    f32::NAN,
                )
            },
            says: &["tensor `quant_conv.bias` of `vae` holds NaN"],
        },
        Case {
            what: "infinity in a merged weight",
            change: |tree| {
                set(tree, LORA, "base_model.model.blocks.1.cross_attn.o.lora_B.weight", f32::INFINITY);
            },
            says: &["tensor `blocks.1.cross_attn.o.weight` of `transformer_low` holds"],
        },
        Case {
            what: "overflow of f16",
            change: |tree| {
                tree.options.dtype = Dtype::F16;
                set(tree, "base_i2v_diffusers/text_encoder/model.safetensors", "shared.weight", 1e5);
            },
            says: &[
                "tensor `shared.weight` of `text_encoder` holds 100000, too large for F16",
                "--dtype bf16",
                "f32",
            ],
        },
        Case {
            what: "overflow of bf16",
            change: |tree| {
                tree.options.dtype = Dtype::Bf16;
                set(tree, "base_i2v_diffusers/text_encoder/model.safetensors", "shared.weight", f32::MAX);
            },
            says: &[
                "tensor `shared.weight` of `text_encoder` holds",
                "too large for BF16; use `--dtype f32`",
            ],
        },
    ]);
}

#[test]
fn the_same_value_is_fine_where_it_fits() {
    let mut tree = Tree::new();
    set(&tree, "base_i2v_diffusers/text_encoder/model.safetensors", "shared.weight", 1e5);
    tree.options.dtype = Dtype::Bf16;
    tree.export().unwrap();
    // `wo` is kept in F32 beside F16, just because its values may be large.
    let mut tree = Tree::new();
    let wo = "encoder.block.0.layer.1.DenseReluDense.wo.weight";
    set(&tree, "base_i2v_diffusers/text_encoder/model.safetensors", wo, 1e5);
    tree.options.dtype = Dtype::F16;
    tree.export().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any single key lost, added, renamed or reshaped, in any file, is refused with its name.
    #[test]
    fn any_mutation_of_a_key_is_refused_by_name(file in 0usize..5, pick in any::<prop::sample::Index>(), kind in 0..4) {
        let files = [
            "base_i2v_diffusers/text_encoder/model.safetensors",
            "base_i2v_diffusers/vae/diffusion_pytorch_model.safetensors",
            SHARD_1,
            SHARD_2,
            LORA,
        ];
        let tree = Tree::new();
        let mut touched = String::new();
        tree.edit(files[file], |tensors| {
            let name = tensors.keys().nth(pick.index(tensors.len())).unwrap().clone();
            match kind {
                0 => drop(tensors.remove(&name)),
                1 => drop(tensors.insert(format!("{name}.more"), tensors[&name].clone())),
                2 => {
                    let tensor = tensors.remove(&name).unwrap();
                    tensors.insert(format!("x{name}"), tensor);
                }
                _ => {
                    let tensor = tensors.get_mut(&name).unwrap();
                    tensor.shape.push(2);
                    tensor.values.extend_from_within(..);
                }
            }
            // A factor that lost its partner is named in its stead.
            touched = name.replace("lora_A.weight", "").replace("lora_B.weight", "");
        });
        let message = tree.refusal();
        prop_assert!(message.contains(&touched), "{touched} is not in: {message}");
    }

    /// A file cut anywhere, or with any byte of its header flipped, is refused or means the same; it never panics.
    #[test]
    fn damaged_files_never_panic(cut in any::<prop::sample::Index>(), flip in any::<prop::sample::Index>(), bit in 0u8..8) {
        let tree = Tree::new();
        let path = tree.path(LORA);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..cut.index(whole.len())]).unwrap();
        prop_assert!(tree.refusal().contains("backbone_low_noise.safetensors"));
        let header = 8 + u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
        let mut flipped = whole;
        flipped[flip.index(header)] ^= 1 << bit;
        std::fs::write(&path, &flipped).unwrap();
        if let Err(error) = tree.export() {
            prop_assert!(error.to_string().contains("backbone_low_noise.safetensors"), "{error}");
        }
    }
}

fn set(tree: &Tree, file: &str, name: &str, value: f32) {
    tree.edit(file, |tensors| *tensors.get_mut(name).unwrap().values.last_mut().unwrap() = value);
}

fn rename(tree: &Tree, from: &str, to: &str) {
    tree.edit(LORA, |tensors| {
        let renamed =
            std::mem::take(tensors).into_iter().map(|(key, tensor)| (key.replace(from, to), tensor));
        *tensors = renamed.collect();
    });
}

fn truncate(path: PathBuf, len: impl Fn(usize) -> usize) {
    let content = std::fs::read(&path).unwrap();
    std::fs::write(&path, &content[..len(content.len())]).unwrap();
}

fn append(path: PathBuf, more: &[u8]) {
    let content = std::fs::read(&path).unwrap();
    std::fs::write(&path, [&content, more].concat()).unwrap();
}

fn overwrite(path: PathBuf, at: usize, with: &[u8]) {
    let mut content = std::fs::read(&path).unwrap();
    content[at..at + with.len()].copy_from_slice(with);
    std::fs::write(&path, content).unwrap();
}

fn find(content: &[u8], part: &[u8]) -> usize {
    content.windows(part.len()).position(|window| window == part).unwrap()
}
