//! Adapters that do not fit.

use onnx_export::bundle::Dtype;
use onnx_export::export::AdapterFile;
use onnx_export::models::Net;
use onnx_export::weights::file::FileDtype;

use crate::support::{Tensor, Tree, raw, read, write_raw};
use crate::{Case, LORA, PREFIX, check};

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
            says: &["2 keys (of 40) that fit no weight", "blocks.7.ffn.0.lora_A.weight"],
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
            says: &["1 keys (of 41) that fit no weight", "`step`"],
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
            what: "LoKr in place of LoRA",
            change: |tree| rename(tree, "lora_A.weight", "lokr_w1"),
            says: &["lokr_w1` of", "belongs to LoKr, which can't be merged"],
        },
        Case {
            what: "LoHa beside LoRA",
            change: |tree| add(tree, "lycoris_blocks_0_ffn_0.hada_w1_a", &[1]),
            says: &["lycoris_blocks_0_ffn_0.hada_w1_a", "LoHa"],
        },
        Case {
            what: "a full difference of a weight",
            change: |tree| add(tree, "model.diffusion_model.patch_embedding.diff", &[1]),
            says: &["patch_embedding.diff`", "full difference"],
        },
        Case {
            what: "a LoRA with biases",
            change: |tree| add(tree, "base_model.model.blocks.0.ffn.0.lora_B.bias", &[1]),
            says: &["lora_B.bias`", "a LoRA with biases"],
        },
        Case {
            what: "a LoRA of another model",
            change: |tree| rename(tree, "blocks.", "double_blocks."),
            says: &["40 keys (of 40) that fit no weight", "double_blocks", "made for Wan2.2 A14B"],
        },
        Case {
            what: "a LoRA of another model in kohya's style",
            change: |tree| {
                tree.edit(LORA, |tensors| {
                    let tensor = tensors.pop_first().unwrap().1;
                    tensors.insert("lora_unet_down_blocks_0_attn_q.lora_down.weight".into(), tensor);
                });
            },
            says: &["1 keys (of 40) that fit no weight", "lora_unet_down_blocks_0_attn_q"],
        },
        Case {
            what: "a LoRA for the text encoder as well",
            change: |tree| add(tree, "lora_te_text_model_encoder_layers_0_mlp_fc1.alpha", &[]),
            says: &["1 keys (of 41) that fit no weight", "lora_te_text_model"],
        },
        Case {
            what: "the low-noise half of a LoRA for both, given to the high-noise expert",
            change: |tree| {
                rename(tree, PREFIX, "transformer_2.");
                let path = tree.path(LORA);
                tree.options.adapters =
                    vec![AdapterFile { path, net: Net::TransformerHigh, rule: None, strength: 1.0 }];
            },
            says: &["is for the low-noise expert", "@low=STRENGTH"],
        },
        Case {
            what: "a factor in fp8",
            change: |tree| {
                let path = tree.path(LORA);
                let mut tensors = raw(Dtype::F32, &read(&path));
                let (dtype, shape, bytes) = tensors.first_entry().unwrap().into_mut();
                *dtype = FileDtype::F8_E4M3;
                bytes.truncate(shape.iter().product());
                write_raw(&path, &tensors, None);
            },
            says: &["lora_A.weight` of", "has type F8_E4M3", "F32, F16 or BF16"],
        },
        Case {
            what: "settings that ask for more than pairs",
            change: |tree| {
                let (path, text) = (tree.path(LORA), r#"{"transformer.r": 4, "transformer.use_dora": true}"#);
                let metadata = [("lora_adapter_metadata".to_owned(), text.to_owned())].into();
                write_raw(&path, &raw(Dtype::F32, &read(&path)), Some(metadata));
            },
            says: &["the settings of", "backbone_low_noise.safetensors` ask for DoRA"],
        },
        Case {
            what: "settings of another rank",
            change: |tree| {
                let (path, text) = (tree.path(LORA), r#"{"transformer.r": 8, "transformer.lora_alpha": 8}"#);
                let metadata = [("lora_adapter_metadata".to_owned(), text.to_owned())].into();
                write_raw(&path, &raw(Dtype::F32, &read(&path)), Some(metadata));
            },
            says: &["tell rank 8 for `blocks.", "whose factors have rank 4"],
        },
        Case {
            what: "an alpha of many numbers",
            change: |tree| add(tree, &format!("{PREFIX}blocks.0.self_attn.q.alpha"), &[2]),
            says: &["blocks.0.self_attn.q.alpha", "is NaN", "one positive and finite number"],
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

fn add(tree: &Tree, key: &str, shape: &[usize]) {
    tree.edit(LORA, |tensors| {
        let tensor = Tensor { shape: shape.to_vec(), values: vec![1.0; shape.iter().product()] };
        tensors.insert(key.into(), tensor);
    });
}

fn rename(tree: &Tree, from: &str, to: &str) {
    tree.edit(LORA, |tensors| {
        let renamed =
            std::mem::take(tensors).into_iter().map(|(key, tensor)| (key.replace(from, to), tensor));
        *tensors = renamed.collect();
    });
}
