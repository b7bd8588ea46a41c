//! Merging adapters of any rank, scale and type into checkpoints of any type, by the definition.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

mod support;

use std::collections::BTreeMap;

use onnx_export::bundle::Dtype;
use onnx_export::models::Net;
use onnx_export::weights::file::FileDtype;
use onnx_export::weights::lora::LoraScale;
use proptest::prelude::*;
use support::{RawTensor, Tensor, Tensors, Tree, raw, read, tensors, write, write_raw};

const MODULES: [&str; 3] = ["blocks.0.self_attn.q", "blocks.1.ffn.0", "blocks.1.ffn.2"];
const FILE: &str = "storymem/Wan2.2-MI2V-A14B/backbone_low_noise.safetensors";

fn dtype() -> impl Strategy<Value = Dtype> {
    prop::sample::select(vec![Dtype::F16, Dtype::Bf16, Dtype::F32])
}

/// An alpha, and the tensor that holds it: any number type, with or without a dimension.
fn alpha() -> impl Strategy<Value = (f64, RawTensor)> {
    let shape = || prop::sample::select(vec![vec![], vec![1]]);
    let float = (0.25f32..8.0, shape())
        .prop_map(|(alpha, shape)| (f64::from(alpha), (FileDtype::F32, shape, alpha.to_le_bytes().to_vec())));
    // The upper half of an f32's bits is a bf16.
    let bf16 = (0.25f32..8.0, shape()).prop_map(|(alpha, shape)| {
        let bits = alpha.to_bits() >> 16;
        (
            f64::from(f32::from_bits(bits << 16)),
            (FileDtype::BF16, shape, (bits as u16).to_le_bytes().to_vec()),
        )
    });
    let integer = (1i64..64, shape())
        .prop_map(|(alpha, shape)| (alpha as f64, (FileDtype::I64, shape, alpha.to_le_bytes().to_vec())));
    prop_oneof![float, bf16, integer]
}

/// Numbers of about unit scale that follow from `seed`.
fn numbers(seed: u64, len: usize) -> Vec<f32> {
    (0..len as u64).map(|i| ((seed + i) as f32 * 12.9898).sin() * 0.5).collect()
}

/// Half of the distance between neighbouring numbers, relative to their size.
fn half_step(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F16 => 2f64.powi(-11),
        Dtype::Bf16 => 2f64.powi(-8),
        Dtype::F32 => 2f64.powi(-24),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn merging_is_the_definition_rounded_once(
        (source, adapter, target) in (dtype(), dtype(), dtype()),
        kinds in prop::collection::vec((1usize..20, prop::option::of(alpha())), MODULES.len()),
        scale in prop_oneof![
            Just(LoraScale::RankStabilised), Just(LoraScale::Plain), (-2.0f64..2.0).prop_map(LoraScale::Fixed),
        ],
        seed in 0u64..1000,
    ) {
        let mut tree = Tree::new();
        tree.rewrite("base_i2v/low_noise_model", source, |tensors| tensors);
        let weights = read(&tree.path("base_i2v/low_noise_model/model.safetensors"));
        let mut pairs = Tensors::new();
        let mut alphas = BTreeMap::new();
        for (i, (module, (rank, alpha))) in MODULES.iter().zip(&kinds).enumerate() {
            let rank = *rank;
            let shape = &weights[&format!("{module}.weight")].shape;
            let seed = seed + 100_000 * i as u64;
            let a = Tensor { shape: vec![rank, shape[1]], values: numbers(seed, rank * shape[1]) };
            let b = Tensor { shape: vec![shape[0], rank], values: numbers(seed + 50_000, shape[0] * rank) };
            pairs.insert(format!("{module}.lora_A.weight"), a);
            pairs.insert(format!("{module}.lora_B.weight"), b);
            if let Some((_, alpha)) = alpha {
                alphas.insert(format!("{module}.alpha"), alpha.clone());
            }
        }
        write(&tree.path(FILE), adapter, &pairs);
        let pairs = read(&tree.path(FILE));
        let stored = raw(adapter, &pairs).into_iter().chain(alphas).collect();
        write_raw(&tree.path(FILE), &stored, None);
        tree.options.dtype = target;
        tree.options.lora_scale = scale;
        let bundle = tree.bundle();
        let merged = tensors(&bundle.weights(Net::TransformerLow).unwrap());

        for (module, (rank, alpha)) in MODULES.iter().zip(&kinds) {
            let rank = *rank;
            let name = format!("{module}.weight");
            let (a, b) = (&pairs[&format!("{module}.lora_A.weight")], &pairs[&format!("{module}.lora_B.weight")]);
            let alpha = alpha.as_ref().map_or(rank as f64, |(alpha, _)| *alpha);
            let scale = match scale {
                LoraScale::RankStabilised => alpha / (rank as f64).sqrt(),
                LoraScale::Plain => alpha / rank as f64,
                LoraScale::Fixed(scale) => scale,
            };
            let columns = a.shape[1];
            for (at, (got, weight)) in merged[&name].values.iter().zip(&weights[&name].values).enumerate() {
                let (row, column) = (at / columns, at % columns);
                let terms = (0..rank)
                    .map(|k| f64::from(b.values[row * rank + k]) * f64::from(a.values[k * columns + column]));
                let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term: f64| (sum + term, size + term.abs()));
                let exact = f64::from(*weight) + scale * sum;
                // One rounding to the target, and f32 sums before it.
                let f32_error = 2f64.powi(-20) * (f64::from(*weight).abs() + scale.abs() * size);
                let tolerance = half_step(target) * exact.abs() + f32_error + 2f64.powi(-25);
                prop_assert!((f64::from(*got) - exact).abs() <= tolerance, "{name}[{at}]: {got} is not {exact}");
            }
        }
        let untouched = "blocks.0.self_attn.k.bias";
        prop_assert_eq!(&merged[untouched], &weights[untouched]);
    }
}
