//! Files that do not make a checkpoint.

use std::path::PathBuf;

use onnx_export::bundle::Dtype;
use onnx_export::weights::file::FileDtype;

use crate::support::{Tensor, Tree, raw, read, write_raw};
use crate::{Case, HIGH, INDEX, LORA, SHARD_1, SHARD_2, TEXT, VAE, check, truncate};

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
            what: "an index that lists a tensor twice",
            change: |tree| {
                let text = std::fs::read_to_string(tree.path(INDEX)).unwrap();
                let entry = r#""blocks.0.ffn.0.bias": "diffusion_pytorch_model-00002-of-00002.safetensors","#;
                std::fs::write(tree.path(INDEX), text.replacen("\"blocks.", &format!("{entry}\"blocks."), 1))
                    .unwrap();
            },
            says: &["index.json` is not an index of shards", "`blocks.0.ffn.0.bias` comes twice"],
        },
        Case {
            what: "a header that lists a tensor twice",
            change: |tree| {
                let path = tree.path(SHARD_1);
                let content = std::fs::read(&path).unwrap();
                let header = 8 + u64::from_le_bytes(content[..8].try_into().unwrap()) as usize;
                let text = std::str::from_utf8(&content[8..header]).unwrap();
                let at = text.find("\"blocks.0.ffn.0.bias\"").unwrap();
                let entry = &text[at..at + text[at..].find('}').unwrap() + 1];
                let twice = text.replacen(entry, &format!("{entry},{entry}"), 1);
                let length = (twice.len() as u64).to_le_bytes();
                std::fs::write(&path, [&length[..], twice.as_bytes(), &content[header..]].concat()).unwrap();
            },
            says: &["00001-of-00002.safetensors` is not a whole", "`blocks.0.ffn.0.bias` comes twice"],
        },
        Case {
            what: "pickles only",
            change: |tree| replace(tree, "Wan2.1_VAE.pth", b"PK\x03\x04"),
            says: &[
                "vae` holds no .safetensors file, only `Wan2.1_VAE.pth`, a PyTorch pickle",
                "convert it as docs/weights.md",
            ],
        },
        Case {
            what: "a GGUF file only",
            change: |tree| replace(tree, "vae-Q8_0.gguf", b"GGUF"),
            says: &["only `vae-Q8_0.gguf`, a GGUF file; take the release in F32, F16 or BF16 safetensors"],
        },
        Case {
            what: "a pickle called safetensors",
            change: |tree| replace(tree, "model.safetensors", b"PK\x03\x04\x00\x00\x08\x08model/data.pkl"),
            says: &["vae/model.safetensors` is a PyTorch pickle", "docs/weights.md"],
        },
        Case {
            what: "an older pickle called safetensors",
            change: |tree| replace(tree, "model.safetensors", b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."),
            says: &["vae/model.safetensors` is a PyTorch pickle"],
        },
        Case {
            what: "a Git LFS pointer",
            change: |tree| {
                replace(tree, "model.safetensors", b"version https://git-lfs.example/spec/v1\noid sha256:0")
            },
            says: &["vae/model.safetensors` is a Git LFS pointer", "`git lfs pull`"],
        },
        Case {
            what: "a web page",
            change: |tree| replace(tree, "model.safetensors", b"<!DOCTYPE html><title>Sign in</title>"),
            says: &["vae/model.safetensors` is a web page", "download it again"],
        },
        Case {
            what: "an adapter that is there as a pickle",
            change: |tree| {
                std::fs::rename(tree.path(LORA), tree.path(LORA).with_extension("pth")).unwrap();
            },
            says: &["backbone_low_noise.pth` is a PyTorch pickle", "docs/weights.md"],
        },
        Case {
            what: "the folder above StoryMem's variants",
            change: |tree| tree.options.lora = Some(tree.path("storymem")),
            says: &[
                "storymem` holds neither `backbone_high_noise.safetensors` nor",
                "such as `Wan2.2-MI2V-A14B`",
            ],
        },
        Case {
            what: "Wan's own release for the components",
            change: |tree| {
                std::fs::write(tree.path("base_i2v/Wan2.1_VAE.pth"), "").unwrap();
                tree.options.components = tree.path("base_i2v");
            },
            says: &["base_i2v` is Wan's own release", "PyTorch pickles", "diffusers' format"],
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
            what: "a tensor of integers",
            change: |tree| quantise(tree, FileDtype::I32, 4, 1, false),
            says: &[
                "tensor `encoder.",
                "model.safetensors` has type I32; use a checkpoint in F32, F16 or BF16",
            ],
        },
        Case {
            what: "fp8 without scales",
            change: |tree| quantise(tree, FileDtype::F8_E4M3, 1, usize::MAX, false),
            says: &["has type F8_E4M3, as have 16 in all, without scales beside them", "F32, F16 or BF16"],
        },
        Case {
            what: "fp8 with scales",
            change: |tree| quantise(tree, FileDtype::F8_E4M3, 1, usize::MAX, true),
            says: &["has type F8_E4M3, as have 16 in all, with 16 scales beside them", "F32, F16 or BF16"],
        },
        Case {
            what: "scales that were left behind when the weights were widened",
            change: |tree| {
                tree.rewrite(TEXT, Dtype::F32, |mut tensors| {
                    let scale = Tensor { shape: vec![], values: vec![0.5] };
                    tensors.insert("encoder.block.0.layer.0.SelfAttention.q.scale_weight".into(), scale);
                    tensors
                });
            },
            says: &["1 unexpected", "`encoder.block.0.layer.0.SelfAttention.q.scale_weight`"],
        },
    ]);
}

/// Replaces the autoencoder's weights by a file of this name and content.
fn replace(tree: &mut Tree, name: &str, content: &[u8]) {
    let folder = tree.path(VAE);
    std::fs::remove_file(folder.join("diffusion_pytorch_model.safetensors")).unwrap();
    std::fs::write(folder.join(name), content).unwrap();
}

/// Stores the first `most` matrices of the text encoder's layers in a type of `size` bytes.
fn quantise(tree: &mut Tree, dtype: FileDtype, size: usize, most: usize, scaled: bool) {
    let path = tree.path(TEXT).join("model.safetensors");
    let mut tensors = raw(Dtype::F32, &read(&path));
    let is_matrix = |name: &&String| name.starts_with("encoder.block") && !name.contains("norm");
    let names: Vec<String> = tensors.keys().filter(is_matrix).take(most).cloned().collect();
    for name in names {
        let (was, shape, bytes) = tensors.get_mut(&name).unwrap();
        *was = dtype;
        bytes.truncate(shape.iter().product::<usize>() * size);
        if scaled {
            let scale = (FileDtype::F32, vec![], 0.5f32.to_le_bytes().to_vec());
            tensors.insert(name.replace(".weight", ".scale_weight"), scale);
        }
    }
    write_raw(&path, &tensors, None);
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
