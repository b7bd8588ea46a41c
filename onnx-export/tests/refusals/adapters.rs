//! Adapters that do not fit.

use crate::support::{Tensor, Tree};
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

fn rename(tree: &Tree, from: &str, to: &str) {
    tree.edit(LORA, |tensors| {
        let renamed =
            std::mem::take(tensors).into_iter().map(|(key, tensor)| (key.replace(from, to), tensor));
        *tensors = renamed.collect();
    });
}
