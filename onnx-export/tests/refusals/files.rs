//! Files that do not make a checkpoint.

use std::path::PathBuf;

use crate::support::{Tensor, read};
use crate::{Case, HIGH, INDEX, SHARD_1, SHARD_2, TEXT, VAE, check, truncate};

#[test]
fn files_that_do_not_make_a_checkpoint() {
    check(&[
        Case {
            what: "a missing shard",
            change: |tree| std::fs::remove_file(tree.path(SHARD_2)).unwrap(),
            says: &[
                "index.json` names the shard `diffusion_pytorch_model-00002-of-00002.safetensors`",
                "missing",
            ],
        },
        Case {
            what: "a truncated shard",
            change: |tree| truncate(tree.path(SHARD_2), |len| len - 1),
            says: &["00002-of-00002.safetensors` is not a whole safetensors file", "again"],
        },
        Case {
            what: "a shard cut within its header",
            change: |tree| truncate(tree.path(SHARD_1), |_| 100),
            says: &["00001-of-00002.safetensors` is not a whole safetensors file"],
        },
        Case {
            what: "an empty shard",
            change: |tree| truncate(tree.path(SHARD_1), |_| 0),
            says: &["00001-of-00002.safetensors"],
        },
        Case {
            what: "data past the end",
            change: |tree| append(tree.path(SHARD_1), b"more"),
            says: &["00001-of-00002.safetensors` is not a whole safetensors file"],
        },
        Case {
            what: "a header that is no JSON",
            change: |tree| overwrite(tree.path(SHARD_1), 8, b"not json"),
            says: &["00001-of-00002.safetensors` is not a whole safetensors file"],
        },
        Case {
            what: "a header longer than the file",
            change: |tree| overwrite(tree.path(SHARD_1), 0, &u64::MAX.to_le_bytes()),
            says: &["00001-of-00002.safetensors` is not a whole safetensors file"],
        },
        Case {
            what: "a tensor in the index alone",
            change: |tree| {
                tree.edit(SHARD_1, |tensors| {
                    tensors.remove("blocks.0.cross_attn.k.bias");
                });
            },
            says: &["00001-of-00002.safetensors` does not hold tensor `blocks.0.cross_attn.k.bias`", "index"],
        },
        Case {
            what: "a tensor in its shard alone",
            change: |tree| {
                tree.edit(SHARD_1, |tensors| {
                    tensors.insert("surplus".into(), Tensor { shape: vec![1], values: vec![0.0] });
                });
            },
            says: &["00001-of-00002.safetensors` holds tensor `surplus`, which the index does not list"],
        },
        Case {
            what: "a tensor in two shards",
            change: |tree| {
                let (name, tensor) = read(&tree.path(SHARD_1)).pop_first().unwrap();
                tree.edit(SHARD_2, |tensors| {
                    tensors.insert(name, tensor);
                });
            },
            says: &[
                "tensor `blocks.0.cross_attn.k.bias` is in",
                "00001-of-00002",
                "and in",
                "00002-of-00002",
            ],
        },
        Case {
            what: "a stray file beside an index",
            change: |tree| {
                std::fs::copy(tree.path(SHARD_1), tree.path(HIGH).join("model.safetensors")).unwrap();
            },
            says: &["model.safetensors` is not named by", "index.json", "move it"],
        },
        Case {
            what: "two files without an index",
            change: |tree| std::fs::remove_file(tree.path(INDEX)).unwrap(),
            says: &["high_noise_model` holds", "00001-of-00002.safetensors`, `diffusion", "with its index"],
        },
        Case {
            what: "two indexes",
            change: |tree| {
                std::fs::copy(tree.path(INDEX), tree.path(HIGH).join("other.safetensors.index.json"))
                    .unwrap();
            },
            says: &["high_noise_model` holds", "other.safetensors.index.json"],
        },
        Case {
            what: "an index that is no JSON",
            change: |tree| std::fs::write(tree.path(INDEX), "{").unwrap(),
            says: &["index.json` is not an index of shards"],
        },
        Case {
            what: "an index that leaves its folder",
            change: |tree| {
                let text = std::fs::read_to_string(tree.path(INDEX)).unwrap();
                let text = text.replace("diffusion_pytorch_model-00001", "../low_noise_model/x");
                std::fs::write(tree.path(INDEX), text).unwrap();
            },
            says: &["index.json` is not an index of shards (`../low_noise_model/x-of-00002.safetensors`"],
        },
        Case {
            what: "pickles only",
            change: |tree| {
                let folder = tree.path(VAE);
                std::fs::remove_file(folder.join("diffusion_pytorch_model.safetensors")).unwrap();
                std::fs::write(folder.join("Wan2.1_VAE.pth"), "").unwrap();
            },
            says: &["vae` holds no .safetensors file", "convert"],
        },
        Case {
            what: "a missing folder",
            change: |tree| tree.options.components = tree.path("nowhere"),
            says: &["nowhere"],
        },
        Case {
            what: "no experts",
            change: |tree| tree.options.transformer = tree.path(VAE),
            says: &["holds no experts", "`high_noise_model` and `low_noise_model`", "`transformer_2`"],
        },
        Case {
            what: "one expert",
            change: |tree| std::fs::remove_dir_all(tree.path("base_i2v/low_noise_model")).unwrap(),
            says: &["low_noise_model"],
        },
        Case {
            what: "a quantised tensor",
            change: |tree| {
                let path = tree.path(TEXT).join("model.safetensors");
                let text = std::fs::read(&path).unwrap();
                let at = find(&text, br#""dtype":"F32","shape":[32]"#);
                let mut text = text;
                // The same number of bytes in another type.
                text.splice(at..at + 26, *br#""dtype":"I32","shape":[32]"#);
                std::fs::write(&path, text).unwrap();
            },
            says: &["tensor `encoder.", "model.safetensors` has type I32", "F32, F16 or BF16"],
        },
    ]);
}

fn append(path: PathBuf, more: &[u8]) {
    let content = std::fs::read(&path).unwrap();
    std::fs::write(&path, [&content, more].concat()).unwrap();
}

fn overwrite(path: PathBuf, at: usize, with: &[u8]) {
    let mut content = std::fs::read(&path).unwrap();
    content[at..at + with.len()].copy_from_slice(with);
    std::fs::write(&path, content).unwrap();
}

fn find(content: &[u8], part: &[u8]) -> usize {
    content.windows(part.len()).position(|window| window == part).unwrap()
}
