//! Values that can not be stored.

use onnx_export::bundle::Dtype;
use onnx_export::weights::lora::LoraScale;

use crate::support::Tree;
use crate::{Case, LORA, check};

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
            what: "infinity in an adapter",
            change: |tree| {
                set(tree, LORA, "base_model.model.blocks.1.cross_attn.o.lora_B.weight", f32::INFINITY);
            },
            says: &[
                "`base_model.model.blocks.1.cross_attn.o.lora_B.weight` of",
                "backbone_low_noise.safetensors` holds inf",
                "the adapter is damaged",
            ],
        },
        Case {
            what: "infinity in a checkpoint, in the last net that is written",
            change: |tree| {
                let name = "decoder.conv_out.bias";
                set(tree, "base_i2v_diffusers/vae/diffusion_pytorch_model.safetensors", name, f32::INFINITY);
            },
            says: &["tensor `decoder.conv_out.bias` of `vae` holds inf"],
        },
        Case {
            what: "a scale beyond f32",
            change: |tree| tree.options.lora_scale = LoraScale::Fixed(1e300),
            says: &["the scale of `base_model.model.blocks", "smaller strength"],
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

fn set(tree: &Tree, file: &str, name: &str, value: f32) {
    tree.edit(file, |tensors| *tensors.get_mut(name).unwrap().values.last_mut().unwrap() = value);
}
