//! Nets that we do not implement, and parts that do not fit each other.

use onnx_export::bundle::{BundleVariant, Dtype};
use serde_json::{Value, json};

use crate::support::{Tensor, Tree};
use crate::{Case, HIGH, LORA, TEXT, VAE, check, truncate};

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
            what: "more layers than any net has",
            change: |tree| wan(tree, json!({"num_layers": 100_000})),
            says: &["a net of 100000 layers"],
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
fn weights_of_another_net_beside_the_right_config() {
    fn reshape(tree: &Tree, folder: &str, key: &str, shape: &[usize]) {
        tree.rewrite(folder, Dtype::F32, |mut tensors| {
            let values = vec![0.0; shape.iter().product()];
            tensors.insert(key.into(), Tensor { shape: shape.to_vec(), values });
            tensors
        });
    }
    check(&[
        Case {
            what: "the 5B model",
            change: |tree| reshape(tree, HIGH, "patch_embedding.weight", &[64, 48, 1, 2, 2]),
            says: &[
                "high_noise_model/model.safetensors` holds the transformer of Wan2.2-TI2V-5B",
                "use a transformer of Wan2.2-I2V-A14B",
            ],
        },
        Case {
            what: "VACE",
            change: |tree| reshape(tree, HIGH, "vace_blocks.0.after_proj.weight", &[1]),
            says: &[
                "high_noise_model/model.safetensors` holds a Wan VACE transformer (by `vace_blocks.0.after_proj.weight`)",
            ],
        },
        Case {
            what: "Animate",
            change: |tree| reshape(tree, HIGH, "face_adapter.fuser_blocks.0.linear1_q.weight", &[1]),
            says: &[
                "high_noise_model/model.safetensors` holds the transformer of Wan2.2-Animate-14B",
                "use a transformer",
            ],
        },
        Case {
            what: "the autoencoder of 5B",
            change: |tree| reshape(tree, VAE, "post_quant_conv.weight", &[48, 48, 1, 1, 1]),
            says: &["vae: 193 mapped", "these are the weights of the autoencoder of Wan2.2-TI2V-5B"],
        },
        Case {
            what: "a T5 that shares its position biases",
            change: |tree| {
                tree.rewrite(TEXT, Dtype::F32, |mut tensors| {
                    tensors.retain(|key, _| !key.contains("block.1.layer.0.SelfAttention.relative"));
                    tensors
                });
            },
            says: &["1 missing", "these are the weights of a T5 encoder that is not UMT5"],
        },
        Case {
            what: "an adapter in the place of an expert",
            change: |tree| {
                let adapter = std::fs::read(tree.path(LORA)).unwrap();
                tree.rewrite(HIGH, Dtype::F32, |tensors| tensors);
                std::fs::write(tree.path(HIGH).join("model.safetensors"), adapter).unwrap();
            },
            says: &["high_noise_model/model.safetensors` holds a LoRA adapter", "use a transformer"],
        },
    ]);
}
