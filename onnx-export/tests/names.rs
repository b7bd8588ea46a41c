//! Names of tensors: each convention maps onto the other one to one, and back, for nets of any size.

use std::collections::{BTreeMap, BTreeSet};

use onnx_export::graph::WeightSpec;
use onnx_export::models::umt5::Umt5Config;
use onnx_export::models::vae::VaeConfig;
use onnx_export::models::wan::WanConfig;
use onnx_export::models::{umt5, vae, wan};
use onnx_export::weights::names::{NameTable, Naming};
use proptest::prelude::*;

fn check(naming: Naming, specs: &[WeightSpec]) -> Result<(), TestCaseError> {
    let table = NameTable::new(naming, specs);
    let mut others = BTreeSet::new();
    for (i, spec) in specs.iter().enumerate() {
        let other = naming.other(&spec.name);
        prop_assert_eq!(table.position(&spec.name), Some(i), "{}", &spec.name);
        prop_assert_eq!(table.position(&other), Some(i), "{} from {}", &spec.name, &other);
        prop_assert!(others.insert(other.clone()), "{} names two tensors", other);
        prop_assert_eq!(table.position(&format!("{other}.x")), None);
        prop_assert_eq!(table.position(&format!("x.{other}")), None);
        for packed in ["model.diffusion_model.", "diffusion_model.", "model."] {
            prop_assert_eq!(table.position(&format!("{packed}{other}")), Some(i), "{}{}", packed, other);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn transformer_names_go_there_and_back(num_layers in 1usize..45, in_dim in prop::sample::select(vec![16usize, 36])) {
        let specs = wan::weights(&WanConfig {
            dim: 12, ffn_dim: 8, freq_dim: 4, text_dim: 4, in_dim, out_dim: 16, num_heads: 2, num_layers,
            eps: 1e-6, text_len: 8,
        });
        prop_assert_eq!(specs.len(), 15 + 27 * num_layers);
        check(Naming::Transformer, &specs)?;
        // In each convention, the tensors are those and no others.
        for spec in &specs {
            let other = Naming::Transformer.other(&spec.name);
            let same = spec.name.starts_with("patch_embedding.");
            prop_assert_eq!(other == spec.name, same, "{}", &spec.name);
        }
        // Kohya's names have underscores for dots: no two names of either convention may become one by that.
        let mut flat = BTreeMap::new();
        for (i, spec) in specs.iter().enumerate() {
            for name in [spec.name.clone(), Naming::Transformer.other(&spec.name)] {
                let before = flat.insert(name.replace('.', "_"), i);
                prop_assert!(before.is_none_or(|before| before == i), "{} names two tensors", name);
            }
        }
    }

    #[test]
    fn text_encoder_names_go_there_and_back(num_layers in 1usize..30) {
        let specs = umt5::weights(&Umt5Config {
            vocab_size: 8, d_model: 4, d_kv: 2, d_ff: 4, num_heads: 2, num_layers,
            relative_attention_num_buckets: 32, relative_attention_max_distance: 128, layer_norm_epsilon: 1e-6,
        });
        check(Naming::TextEncoder, &specs)?;
        for spec in &specs {
            prop_assert_ne!(Naming::TextEncoder.other(&spec.name), spec.name.clone());
        }
    }

    #[test]
    fn autoencoder_names_go_there_and_back(num_res_blocks in 1usize..5) {
        let specs = vae::weights(&VaeConfig {
            base_dim: 4, z_dim: 16, dim_mult: vec![1, 2, 4, 4], num_res_blocks,
            temperal_downsample: vec![false, true, true], latents_mean: vec![0.0; 16], latents_std: vec![1.0; 16],
        });
        let naming = Naming::Vae { res_blocks: num_res_blocks };
        check(naming, &specs)?;
        for spec in &specs {
            let other = naming.other(&spec.name);
            // Wan's own names know no other words than these.
            let words = ["encoder", "decoder", "conv1", "conv2", "downsamples", "upsamples", "middle", "head",
                "residual", "shortcut", "resample", "time_conv", "norm", "to_qkv", "proj", "gamma", "weight", "bias"];
            let known = |word: &str| words.contains(&word) || word.parse::<usize>().is_ok();
            prop_assert!(other.split('.').all(known), "{other} from {}", &spec.name);
        }
    }
}
