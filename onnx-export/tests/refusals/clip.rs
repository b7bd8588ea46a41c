//! What is not CLIP's vision tower, or not all of it.

use onnx_export::bundle::Dtype;
use serde_json::{Value, json};

use crate::support::{Tensor, Tensors, Tree};
use crate::{Case, check, truncate};

fn config(tree: &mut Tree, fields: Value) {
    tree.options.clip = Some(tree.path("clip"));
    tree.edit_json("clip/config.json", fields);
}

fn weights(tree: &mut Tree, change: impl FnOnce(&mut Tensors)) {
    tree.options.clip = Some(tree.path("clip"));
    tree.rewrite("clip", Dtype::F32, |mut tensors| {
        change(&mut tensors);
        tensors
    });
}

#[test]
fn towers_of_other_architectures() {
    check(&[
        Case {
            what: "SigLIP",
            change: |tree| config(tree, json!({"model_type": "siglip"})),
            says: &["clip/config.json` describes another net (`model_type` is `siglip`)", "CLIP ViT-B/32"],
        },
        Case {
            what: "CLIP's text tower",
            change: |tree| config(tree, json!({"model_type": "clip_text_model"})),
            says: &["`model_type` is `clip_text_model`"],
        },
        Case {
            what: "a config of nothing",
            change: |tree| config(tree, json!({"model_type": null})),
            says: &["`model_type` in", "clip/config.json` is missing"],
        },
        Case {
            what: "another activation",
            change: |tree| config(tree, json!({"hidden_act": "gelu"})),
            says: &["`hidden_act` is `\"gelu\"`"],
        },
        Case {
            what: "another activation within a whole CLIP",
            change: |tree| {
                config(tree, json!({"model_type": "clip", "vision_config": {"hidden_act": "gelu"}}))
            },
            says: &["`hidden_act` is `\"gelu\"`"],
        },
        Case {
            what: "a vision tower that is no object",
            change: |tree| config(tree, json!({"model_type": "clip", "vision_config": 3})),
            says: &["`vision_config` in", "is `3`"],
        },
        Case {
            what: "grey images",
            change: |tree| config(tree, json!({"num_channels": 1})),
            says: &["`num_channels` is `1`"],
        },
        Case {
            what: "heads that do not divide",
            change: |tree| config(tree, json!({"num_attention_heads": 5})),
            says: &["a net of 32 dimensions in 5 heads"],
        },
        Case {
            what: "no heads",
            change: |tree| config(tree, json!({"num_attention_heads": 0})),
            says: &["`num_attention_heads` in", "is 0"],
        },
        Case {
            what: "patches that do not divide",
            change: |tree| config(tree, json!({"patch_size": 30})),
            says: &["patches of 30 pixels in images of 224"],
        },
        Case {
            what: "images larger than any",
            change: |tree| config(tree, json!({"image_size": 1_048_576, "patch_size": 1})),
            says: &["images of 1048576"],
        },
        Case {
            what: "an epsilon that is none",
            change: |tree| config(tree, json!({"layer_norm_eps": 0.0})),
            says: &["`layer_norm_eps` in", "no sensible epsilon"],
        },
    ]);
}

#[test]
fn keys_that_are_missing_unexpected_or_unfit() {
    check(&[
        Case {
            what: "a missing key",
            change: |tree| {
                weights(tree, |tensors| {
                    tensors.remove("vision_model.encoder.layers.1.mlp.fc2.bias");
                });
            },
            says: &["clip: 39 mapped", "missing: `vision_model.encoder.layers.1.mlp.fc2.bias`"],
        },
        Case {
            what: "a tower without its projection",
            change: |tree| {
                weights(tree, |tensors| {
                    tensors.remove("visual_projection.weight");
                });
            },
            says: &["missing: `visual_projection.weight`"],
        },
        Case {
            what: "a key of something else",
            change: |tree| {
                weights(tree, |tensors| {
                    tensors.insert("classifier.weight".into(), Tensor { shape: vec![1], values: vec![0.0] });
                });
            },
            says: &["clip: 40 mapped", "unexpected: `classifier.weight`"],
        },
        Case {
            what: "more layers than the config says",
            change: |tree| config(tree, json!({"num_hidden_layers": 1})),
            says: &["clip: 24 mapped", "16 unexpected", "`vision_model.encoder.layers.1."],
        },
        Case {
            what: "another projection",
            change: |tree| config(tree, json!({"projection_dim": 8})),
            says: &["`visual_projection.weight` (has shape [16, 32], needs [8, 32])"],
        },
        Case {
            what: "a value that is no number",
            change: |tree| {
                weights(tree, |tensors| {
                    tensors.get_mut("visual_projection.weight").unwrap().values[3] = f32::NAN;
                });
            },
            says: &["visual_projection.weight"],
        },
    ]);
}

#[test]
fn files_that_are_missing_or_damaged() {
    check(&[
        Case {
            what: "no folder",
            change: |tree| tree.options.clip = Some(tree.path("nowhere")),
            says: &["nowhere/config.json"],
        },
        Case {
            what: "no weights",
            change: |tree| {
                config(tree, json!({}));
                std::fs::remove_file(tree.path("clip/model.safetensors")).unwrap();
            },
            says: &["/clip`"],
        },
        Case {
            what: "weights of PyTorch alone",
            change: |tree| {
                config(tree, json!({}));
                let weights = tree.path("clip/model.safetensors");
                std::fs::rename(&weights, weights.with_file_name("pytorch_model.bin")).unwrap();
            },
            says: &["/clip`", "safetensors"],
        },
        Case {
            what: "half a file",
            change: |tree| {
                config(tree, json!({}));
                truncate(tree.path("clip/model.safetensors"), |len| len / 2);
            },
            says: &["clip/model.safetensors`"],
        },
        Case {
            what: "a damaged config",
            change: |tree| {
                config(tree, json!({}));
                truncate(tree.path("clip/config.json"), |len| len / 2);
            },
            says: &["clip/config.json` is not a JSON object"],
        },
    ]);
}
