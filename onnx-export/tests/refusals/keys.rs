//! Keys that are missing, unexpected or unfit.

use onnx_export::bundle::Dtype;
use serde_json::json;

use crate::support::{self, Tensor};
use crate::{Case, HIGH, TEXT, VAE, check};

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
