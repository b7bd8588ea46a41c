//! Any mutation of any file.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use proptest::prelude::*;

use crate::support::Tree;
use crate::{INDEX, LORA, SHARD_1, SHARD_2};

/// A file of each kind.
const FILES: [&str; 5] = [
    "base_i2v_diffusers/text_encoder/model.safetensors",
    "base_i2v_diffusers/vae/diffusion_pytorch_model.safetensors",
    SHARD_1,
    SHARD_2,
    LORA,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any single key lost, added, renamed or reshaped, in any file, is refused with its name.
    #[test]
    fn any_mutation_of_a_key_is_refused_by_name(file in 0usize..5, pick in any::<prop::sample::Index>(), kind in 0..4) {
        let tree = Tree::new();
        let mut touched = String::new();
        tree.edit(FILES[file], |tensors| {
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

    /// A file of weights cut anywhere, or with any bit of its header flipped, is refused by name or means the same.
    #[test]
    fn damaged_files_are_refused_or_mean_the_same(
        file in 0usize..5, cut in any::<prop::sample::Index>(), flip in any::<prop::sample::Index>(), bit in 0u8..8,
    ) {
        let (tree, file) = (Tree::new(), FILES[file]);
        let path = tree.path(file);
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..cut.index(whole.len())]).unwrap();
        prop_assert!(tree.refusal().contains(&name));
        let header = 8 + u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
        let mut flipped = whole;
        flipped[flip.index(header)] ^= 1 << bit;
        std::fs::write(&path, &flipped).unwrap();
        refused_or_the_same(&tree)?;
    }

    /// The same of the other files that decide what the tensors are.
    #[test]
    fn damaged_descriptions_never_panic(
        file in 0usize..5, cut in any::<prop::sample::Index>(), flip in any::<prop::sample::Index>(), bit in 0u8..8,
    ) {
        let files = [
            INDEX,
            "base_i2v/low_noise_model/config.json",
            "base_i2v_diffusers/text_encoder/config.json",
            "base_i2v_diffusers/vae/config.json",
            "base_i2v_diffusers/model_index.json",
        ];
        let (tree, file) = (Tree::new(), files[file]);
        let path = tree.path(file);
        let whole = std::fs::read(&path).unwrap();
        let kept = whole.trim_ascii_end().len();
        std::fs::write(&path, &whole[..cut.index(kept)]).unwrap();
        prop_assert!(tree.refusal().contains(&*path.file_name().unwrap().to_string_lossy()));
        let mut flipped = whole;
        let at = flip.index(flipped.len());
        flipped[at] ^= 1 << bit;
        std::fs::write(&path, &flipped).unwrap();
        if file == INDEX {
            refused_or_the_same(&tree)?;
        } else {
            // A flipped digit of an epsilon is another net of the same shape: all that can be asked is an answer.
            drop(tree.export());
        }
    }

    /// Any entry of an index lost, added, renamed, sent to another shard or given twice is refused.
    #[test]
    fn any_mutation_of_an_index_is_refused(pick in any::<prop::sample::Index>(), kind in 0..5) {
        let tree = Tree::new();
        let path = tree.path(INDEX);
        let mut index: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let map = index["weight_map"].as_object_mut().unwrap();
        let (name, shard) = map.iter().nth(pick.index(map.len())).map(|(k, v)| (k.clone(), v.clone())).unwrap();
        let other = map.values().find(|value| **value != shard).unwrap().clone();
        let mut twice = None;
        match kind {
            0 => drop(map.remove(&name)),
            1 => drop(map.insert(format!("{name}.more"), shard)),
            2 => drop(map.remove(&name).and_then(|shard| map.insert(format!("x{name}"), shard))),
            3 => drop(map.insert(name.clone(), other)),
            _ => twice = Some(format!("{{\"weight_map\":{{\"{name}\":{other},")),
        }
        let mut text = index.to_string();
        if let Some(twice) = twice {
            let at = text.find("\"weight_map\":{").unwrap() + "\"weight_map\":{".len();
            text = format!("{twice}{}", &text[at..]);
        }
        std::fs::write(&path, text).unwrap();
        let message = tree.refusal();
        prop_assert!(message.contains(&name), "{name} is not in: {message}");
    }
}

/// An export of a tree that was tampered with is refused, or makes what the whole tree makes.
fn refused_or_the_same(tree: &Tree) -> Result<(), TestCaseError> {
    static WHOLE: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| Tree::new().bundle_files());
    match tree.export() {
        Err(_) => prop_assert!(!tree.out().exists()),
        Ok(exported) => {
            let weights =
                exported.manifest.files.into_iter().filter(|file| file.path.starts_with("weights/"));
            prop_assert_eq!(
                &weights.map(|file| (file.path, file.sha256)).collect::<BTreeMap<_, _>>(),
                &*WHOLE
            );
        }
    }
    Ok(())
}
