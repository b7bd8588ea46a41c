//! Any mutation of any file.

use proptest::prelude::*;

use crate::support::Tree;
use crate::{LORA, SHARD_1, SHARD_2};

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
