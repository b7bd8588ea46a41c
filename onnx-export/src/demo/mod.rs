//! A bundle of tiny nets with random weights: every part of the service at work, on any machine, within seconds.
//!
//! Weights are drawn so that activations stay near unit scale, as in trained nets; the videos are coloured noise. They
//! follow from a fixed seed and each tensor's name alone, so two demo bundles are equal byte for byte.

mod random;
mod tokenizer;

use std::path::Path;

use random::Normal;

use crate::bundle::{
    BundleVariant, BundleWriter, Dtype, Manifest, Nets, SamplingDefaults, StoredTensor, WriteError,
};
use crate::models::Net;
use crate::models::umt5::Umt5Config;
use crate::models::vae::VaeConfig;
use crate::models::wan::WanConfig;

/// Seed of all weights.
const SEED: u64 = 7;

/// Gain of the autoencoder's convolutions: each is followed by a SiLU, which halves the scale of what it lets through.
const VAE_GAIN: f32 = 1.4;

/// Writes the demo bundle to `out`.
///
/// # Errors
/// When something exists at `out`, or it can't be written.
pub fn write(out: &Path) -> Result<Manifest, WriteError> {
    write_like(out, manifest())
}

/// Writes a bundle with random weights for the nets of any manifest.
///
/// # Errors
/// As [`write()`].
pub fn write_like(out: &Path, manifest: Manifest) -> Result<Manifest, WriteError> {
    let mut bundle = BundleWriter::begin(out, &format!("random weights for {manifest:?}"))?;
    for net in manifest.nets.present() {
        let tensors = manifest.tensors(net);
        let mut file = bundle.weights(net, tensors.clone(), &mut |_| Ok::<(), WriteError>(()))?;
        for tensor in &tensors[file.next()..] {
            let mut draw = Normal::new(SEED, &format!("{}/{}", net.name(), tensor.name));
            let Distribution { mean, deviation } = Distribution::of(net, tensor);
            file.tensor(|_, values| {
                values.fill_with(|| mean + deviation * draw.next());
                Ok::<(), WriteError>(())
            })?;
        }
        file.finish()?;
    }
    bundle.tokenizer(tokenizer::json().as_bytes())?;
    bundle.graphs(&manifest)?;
    bundle.finish(manifest)
}

/// What the demo bundle holds, but for its files.
pub fn manifest() -> Manifest {
    manifest_for(BundleVariant::Mi2v)
}

/// What a demo bundle for `variant` holds, but for its files.
pub fn manifest_for(variant: BundleVariant) -> Manifest {
    let text_encoder = Umt5Config {
        vocab_size: tokenizer::len(),
        d_model: 32,
        d_kv: 8,
        d_ff: 64,
        num_heads: 4,
        num_layers: 2,
        relative_attention_num_buckets: 32,
        relative_attention_max_distance: 128,
        layer_norm_epsilon: 1e-6,
    };
    let transformer = WanConfig {
        dim: 64,
        ffn_dim: 128,
        freq_dim: 64,
        text_dim: text_encoder.d_model,
        in_dim: variant.in_dim(),
        out_dim: 16,
        num_heads: 2,
        num_layers: 2,
        eps: 1e-6,
        text_len: 512,
    };
    let vae = VaeConfig {
        base_dim: 8,
        latents_mean: vec![0.0; 16],
        latents_std: vec![1.0; 16],
        ..VaeConfig::wan()
    };
    Manifest {
        format: Manifest::FORMAT,
        name: "demo (random weights)".into(),
        variant,
        random_weights: true,
        dtype: Dtype::F16,
        nets: Nets { text_encoder, transformer, vae, clip: None },
        sampling: SamplingDefaults {
            steps: 4,
            frames: 9,
            width: 96,
            height: 64,
            ..SamplingDefaults::for_variant(variant)
        },
        lora: Vec::new(),
        sources: Vec::new(),
        files: Vec::new(),
        licences: Vec::new(),
    }
}

/// What a tensor's values are drawn from.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Distribution {
    mean: f32,
    deviation: f32,
}

impl Distribution {
    fn of(net: Net, tensor: &StoredTensor) -> Self {
        let StoredTensor { name, shape, .. } = tensor;
        let inputs: usize = shape.iter().skip(1).product();
        let is_norm = name.ends_with("gamma") || (name.contains("norm") && name.ends_with(".weight"));
        let is_table = name == "shared.weight" || name.contains("relative_attention_bias");
        let gain = if net == Net::Vae { VAE_GAIN } else { 1.0 };
        match shape.len() {
            _ if is_norm => Self { mean: 1.0, deviation: 0.2 },
            _ if is_table => Self { mean: 0.0, deviation: 1.0 },
            1 => Self { mean: 0.0, deviation: 0.1 },
            _ => Self { mean: 0.0, deviation: gain / (inputs as f32).sqrt() },
        }
    }
}
