//! A checkpoint tree with the names, shapes, types and files of Wan2.2-I2V-A14B and StoryMem.
//!
//! Files have their full length, but only what is asked for has values: the rest are holes, which take no room on the
//! disk and read as zeros. A tree of 142 GB then takes a few hundred kilobytes, and is all that is needed to see whether
//! headers are read right; with some blocks filled it is what exporting can be timed on.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use onnx_export::bundle::Nets;
use onnx_export::graph::WeightSpec;
use onnx_export::models::Net;
use onnx_export::models::umt5::Umt5Config;
use onnx_export::models::vae::VaeConfig;
use onnx_export::models::wan::WanConfig;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use serde_json::{Value, json};

use super::values;

/// Bytes after which Wan's checkpoints begin another shard.
const SHARD: u64 = 10_000_000_000;
/// Elements made and written at a time.
const STRETCH: usize = 1 << 22;
/// Rank and alpha of StoryMem's adapters.
pub const RANK: usize = 128;

/// What a tree is to be like.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Blocks of each expert: 40, or fewer for tests. Every other dimension is the real one.
    pub blocks: usize,
    /// Layers of the text encoder: 24, or fewer.
    pub text_layers: usize,
    /// Rows of the token embedding: 256,384, or fewer.
    pub vocabulary: usize,
    /// Blocks that have values.
    pub filled: Range<usize>,
    /// Whether everything outside the blocks, and the adapters, has values.
    pub fill_rest: bool,
    /// Whether the low-noise expert is made of links to the other's files.
    pub link_experts: bool,
}

impl Recipe {
    /// The real thing, all holes.
    pub fn full_size() -> Self {
        Self {
            blocks: 40,
            text_layers: 24,
            vocabulary: 256_384,
            filled: 0..0,
            fill_rest: false,
            link_experts: false,
        }
    }

    /// The dimensions of the nets.
    pub fn nets(&self) -> Nets {
        let text_encoder =
            Umt5Config { vocab_size: self.vocabulary, num_layers: self.text_layers, ..Umt5Config::xxl() };
        let transformer = WanConfig { num_layers: self.blocks, ..WanConfig::a14b(36) };
        let vae = VaeConfig { latents_mean: vec![0.0; 16], latents_std: vec![1.0; 16], ..VaeConfig::wan() };
        Nets { text_encoder, transformer, vae, clip: None }
    }

    /// The factors of an expert's adapter, under PEFT's names.
    pub fn adapter(&self) -> Vec<WeightSpec> {
        let weights = self.nets().weights(Net::TransformerHigh);
        let adapted =
            |name: &str| name.starts_with("blocks.") && name.ends_with(".weight") && !name.contains("norm");
        let factors = weights.iter().filter(|weight| adapted(&weight.name)).flat_map(|weight| {
            let module = weight.name.trim_end_matches(".weight");
            [("A", [RANK, weight.shape[1]]), ("B", [weight.shape[0], RANK])].map(|(factor, shape)| {
                WeightSpec {
                    name: format!("base_model.model.{module}.lora_{factor}.weight"),
                    shape: shape.to_vec(),
                }
            })
        });
        factors.collect()
    }

    /// Writes the tree, in the folders `base_i2v`, `base_i2v_diffusers` and `storymem`.
    pub fn write(&self, root: &Path) -> io::Result<()> {
        let nets = self.nets();
        let components = root.join("base_i2v_diffusers");
        let fill =
            |net: Net, name: &str| match name.strip_prefix("blocks.").and_then(|rest| rest.split_once('.')) {
                Some((block, _)) if net != Net::TextEncoder => {
                    block.parse().is_ok_and(|block| self.filled.contains(&block))
                }
                _ => self.fill_rest,
            };
        let (text, vae) = (components.join("text_encoder"), components.join("vae"));
        sharded(&text, "model", &nets.weights(Net::TextEncoder), &|name| fill(Net::TextEncoder, name))?;
        sharded(&vae, "diffusion_pytorch_model", &nets.weights(Net::Vae), &|name| fill(Net::Vae, name))?;
        write_json(&text.join("config.json"), &text_config(&nets.text_encoder))?;
        write_json(&vae.join("config.json"), &vae_config(&nets.vae))?;
        let tokenizer = json!({"model": {"type": "Unigram", "vocab": [["<pad>", 0.0], ["</s>", 0.0]]}});
        write_json(&components.join("tokenizer/tokenizer.json"), &tokenizer)?;
        let index = json!({"_class_name": "WanImageToVideoPipeline", "boundary_ratio": 0.9});
        write_json(&components.join("model_index.json"), &index)?;

        let adapters = root.join("storymem/Wan2.2-MI2V-A14B");
        let [high, low] =
            [("high", Net::TransformerHigh), ("low", Net::TransformerLow)].map(|(noise, net)| {
                (
                    root.join(format!("base_i2v/{noise}_noise_model")),
                    adapters.join(format!("backbone_{noise}_noise.safetensors")),
                    net,
                )
            });
        for (folder, adapter, net) in [&high, &low] {
            if self.link_experts && *net == Net::TransformerLow {
                link(&high.0, folder)?;
                fs::hard_link(&high.1, adapter)?;
                continue;
            }
            let weights = nets.weights(*net);
            sharded(folder, "diffusion_pytorch_model", &weights, &|name| fill(*net, name))?;
            write_json(&folder.join("config.json"), &expert_config(&nets.transformer))?;
            fs::create_dir_all(&adapters)?;
            file(adapter, &self.adapter(), &|_| self.fill_rest)?;
        }
        Ok(())
    }
}

/// Writes `tensors` to `folder`, with an index if they need more than one shard.
fn sharded(folder: &Path, stem: &str, tensors: &[WeightSpec], fill: &dyn Fn(&str) -> bool) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let (mut shards, mut bytes) = (vec![Vec::new()], 0);
    for tensor in tensors {
        let size = 4 * tensor.shape.iter().product::<usize>() as u64;
        if bytes + size > SHARD && bytes > 0 {
            shards.push(Vec::new());
            bytes = 0;
        }
        bytes += size;
        shards.last_mut().expect("there is one from the beginning").push(tensor.clone());
    }
    let count = shards.len();
    if count == 1 {
        return file(&folder.join(format!("{stem}.safetensors")), tensors, fill);
    }
    let mut map = BTreeMap::new();
    for (i, shard) in shards.iter().enumerate() {
        let name = format!("{stem}-{:05}-of-{count:05}.safetensors", i + 1);
        file(&folder.join(&name), shard, fill)?;
        map.extend(shard.iter().map(|tensor| (tensor.name.clone(), name.clone())));
    }
    let index = json!({"metadata": {}, "weight_map": map});
    write_json(&folder.join(format!("{stem}.safetensors.index.json")), &index)
}

/// Writes one file of F32 tensors, which are sorted by name as safetensors' Python library does.
fn file(path: &Path, tensors: &[WeightSpec], fill: &dyn Fn(&str) -> bool) -> io::Result<()> {
    let mut sorted: Vec<&WeightSpec> = tensors.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let (mut infos, mut offset) = (Vec::new(), 0);
    for tensor in &sorted {
        let end = offset + 4 * tensor.shape.iter().product::<usize>();
        let info = TensorInfo { dtype: Dtype::F32, shape: tensor.shape.clone(), data_offsets: (offset, end) };
        infos.push((tensor.name.clone(), info));
        offset = end;
    }
    let metadata = Metadata::new(None, infos).map_err(io::Error::other)?;
    let mut header = serde_json::to_vec(&metadata)?;
    header.resize(header.len().next_multiple_of(8), b' ');
    let begin = 8 + header.len();

    let file = File::create(path)?;
    file.set_len((begin + offset) as u64)?;
    file.write_all_at(&(header.len() as u64).to_le_bytes(), 0)?;
    file.write_all_at(&header, 8)?;
    let mut at = begin as u64;
    for tensor in &sorted {
        let count: usize = tensor.shape.iter().product();
        if fill(&tensor.name) {
            write_values(&file, at, tensor, count)?;
        }
        at += 4 * count as u64;
    }
    Ok(())
}

fn write_values(file: &File, at: u64, tensor: &WeightSpec, count: usize) -> io::Result<()> {
    let mut stretch = vec![0.0; STRETCH.min(count)];
    for first in (0..count).step_by(STRETCH) {
        let values = &mut stretch[..STRETCH.min(count - first)];
        values::fill(&tensor.name, &tensor.shape, first, values);
        file.write_all_at(bytemuck::cast_slice(values), at + 4 * first as u64)?;
    }
    Ok(())
}

fn link(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::hard_link(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

fn write_json(path: &Path, json: &Value) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, serde_json::to_vec_pretty(json)?)
}

fn expert_config(c: &WanConfig) -> Value {
    json!({
        "_class_name": "WanModel", "model_type": "i2v", "dim": c.dim, "ffn_dim": c.ffn_dim, "freq_dim": c.freq_dim,
        "in_dim": c.in_dim, "out_dim": c.out_dim, "text_len": c.text_len, "num_heads": c.num_heads,
        "num_layers": c.num_layers, "eps": c.eps,
    })
}

fn text_config(c: &Umt5Config) -> Value {
    json!({
        "architectures": ["UMT5EncoderModel"], "model_type": "umt5", "vocab_size": c.vocab_size, "d_model": c.d_model,
        "d_kv": c.d_kv, "d_ff": c.d_ff, "num_heads": c.num_heads, "num_layers": c.num_layers,
        "relative_attention_num_buckets": c.relative_attention_num_buckets,
        "relative_attention_max_distance": c.relative_attention_max_distance,
        "layer_norm_epsilon": c.layer_norm_epsilon, "feed_forward_proj": "gated-gelu",
    })
}

fn vae_config(c: &VaeConfig) -> Value {
    json!({
        "_class_name": "AutoencoderKLWan", "base_dim": c.base_dim, "z_dim": c.z_dim, "dim_mult": c.dim_mult,
        "num_res_blocks": c.num_res_blocks, "temperal_downsample": c.temperal_downsample, "attn_scales": [],
        "dropout": 0.0, "latents_mean": c.latents_mean, "latents_std": c.latents_std,
    })
}
