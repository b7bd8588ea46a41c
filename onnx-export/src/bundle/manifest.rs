//! `manifest.json`: what a bundle holds and how it wants to be sampled.

use serde::{Deserialize, Serialize};

use super::StoredTensor;
use crate::graph::{DataType, WeightSpec};
use crate::models::umt5::Umt5Config;
use crate::models::vae::VaeConfig;
use crate::models::wan::WanConfig;
use crate::models::{Net, umt5, vae, wan};
use crate::weights::lora::LoraScale;

/// The content of `manifest.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of the bundle's format; see [`Manifest::FORMAT`].
    pub format: u32,
    /// A name for people.
    pub name: String,
    /// What the bundle can make.
    pub variant: BundleVariant,
    /// True when the weights are random numbers made by `storymem demo`: videos show noise.
    pub random_weights: bool,
    /// Type of the transformer's and text encoder's matrices.
    pub dtype: Dtype,
    /// Dimensions of the nets.
    pub nets: Nets,
    /// How the model wants to be sampled.
    pub sampling: SamplingDefaults,
    /// The LoRA merged into the transformers, one entry for each adapter file.
    pub lora: Vec<LoraFacts>,
    /// Every file the bundle was made from.
    pub sources: Vec<FileDigest>,
    /// Every file of the bundle besides the manifest, paths relative to it.
    pub files: Vec<FileDigest>,
    /// Licences that bind whoever uses the bundle.
    pub licences: Vec<String>,
}

impl Manifest {
    /// The format this version of the software reads and writes.
    pub const FORMAT: u32 = 1;

    /// The tensors of `net`'s weight file, in order: exactly those its graphs take.
    pub fn tensors(&self, net: Net) -> Vec<StoredTensor> {
        self.nets.weights(net).into_iter().map(|spec| StoredTensor::new(net, spec, self.dtype)).collect()
    }
}

/// What a bundle can make; it decides which inputs a shot may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BundleVariant {
    /// From memory only.
    M2v,
    /// From memory, with or without a first frame.
    Mi2v,
    /// From memory, with or without five motion frames.
    Mm2v,
    /// From text alone: 16 channels, no memory.
    T2v,
}

impl BundleVariant {
    /// Every variant.
    pub const ALL: [Self; 4] = [Self::M2v, Self::Mi2v, Self::Mm2v, Self::T2v];

    /// The name used on the command line and in the manifest.
    pub fn name(self) -> &'static str {
        match self {
            Self::M2v => "m2v",
            Self::Mi2v => "mi2v",
            Self::Mm2v => "mm2v",
            Self::T2v => "t2v",
        }
    }

    /// Input channels of its transformers.
    pub fn in_dim(self) -> usize {
        match self {
            Self::M2v | Self::Mi2v | Self::Mm2v => 36,
            Self::T2v => 16,
        }
    }
}

/// Element types of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dtype {
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// IEEE single precision.
    F32,
}

impl Dtype {
    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
        }
    }

    /// The name used in safetensors headers and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::F32 => "F32",
        }
    }
}

impl From<Dtype> for DataType {
    fn from(dtype: Dtype) -> Self {
        match dtype {
            Dtype::F16 => Self::F16,
            Dtype::Bf16 => Self::Bf16,
            Dtype::F32 => Self::F32,
        }
    }
}

/// Dimensions of the nets; both experts have the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nets {
    /// The text encoder.
    pub text_encoder: Umt5Config,
    /// Each of the two experts.
    pub transformer: WanConfig,
    /// The autoencoder.
    pub vae: VaeConfig,
}

impl Nets {
    /// Every weight `net` takes, in the order of use.
    pub fn weights(&self, net: Net) -> Vec<WeightSpec> {
        match net {
            Net::TextEncoder => umt5::weights(&self.text_encoder),
            Net::TransformerHigh | Net::TransformerLow => wan::weights(&self.transformer),
            Net::Vae => vae::weights(&self.vae),
        }
    }
}

/// How the model wants to be sampled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplingDefaults {
    /// Denoising steps.
    pub steps: usize,
    /// Shift of the noise schedule.
    pub shift: f64,
    /// Guidance scale of each expert.
    pub guidance: Guidance,
    /// The high-noise expert serves timesteps from `boundary * 1000` on.
    pub boundary: f64,
    /// Frames generated.
    pub frames: usize,
    /// Frames in a second.
    pub fps: u32,
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// Most memory frames the model was trained with.
    pub max_memory: usize,
    /// Distance of memory frames on the temporal rotary axis; 5 since StoryMem's fix of January 2026.
    pub memory_stride: usize,
    /// The default negative prompt.
    pub negative_prompt: String,
}

/// How strongly each expert follows the prompt: `v = v_uncond + scale * (v_cond - v_uncond)`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guidance {
    /// For the high-noise expert.
    pub high: f32,
    /// For the low-noise expert.
    pub low: f32,
}

/// One LoRA adapter file and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoraFacts {
    /// File name.
    pub file: String,
    /// The expert it was merged into.
    pub net: Net,
    /// The rule that made its scales of alpha and rank: `rslora`, `plain` or a number.
    pub rule: LoraScale,
    /// What the scales were multiplied with.
    pub strength: f64,
    /// Ranks that occur, ascending; one twice if it occurs with two alphas.
    pub ranks: Vec<usize>,
    /// Alpha of each of `ranks`; null where the adapter tells none, which means alpha = rank.
    pub alphas: Vec<Option<f64>>,
    /// Scale of `B A` of each of `ranks`, strength included.
    pub scales: Vec<f64>,
    /// Weights it changed.
    pub merged: usize,
    /// Keys for the image branch of Wan2.1, which Wan2.2 has not.
    pub unused: usize,
}

/// A file, its size and its SHA-256.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileDigest {
    /// Path; relative to the bundle or as given for a source.
    pub path: String,
    /// Bytes.
    pub bytes: u64,
    /// SHA-256 in lower-case hex.
    pub sha256: String,
}
