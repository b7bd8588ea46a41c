//! The bundle: the folder that `storymem export` writes and everything else opens.
//!
//! ```text
//! manifest.json                 what the bundle holds and how it wants to be sampled
//! weights/NET.safetensors       tensors in the order of use, under canonical names, aligned to 64 bytes
//! tokenizer.json
//! graphs/                       the graphs of the default profile, to be looked at
//! NET.onnx                      whole models for other tools, if asked for
//! ```
//!
//! [`BundleWriter`] is the only way to make one and [`Bundle::open`] the only way to read one.

pub(crate) mod cache;
mod digest;
mod graphs;
mod layout;
mod manifest;
mod open;
mod partial;
mod sampling;
mod stream;
mod verify;
mod weight_writer;
mod writer;

pub use digest::sha256_file;
pub(crate) use digest::sha256_whole;
pub(crate) use graphs::Stored;
pub use graphs::shot_graphs;
pub(crate) use layout::offsets;
pub use layout::{ALIGNMENT, StoredTensor};
pub use manifest::{BundleVariant, Dtype, FileDigest, Guidance, LoraFacts, Manifest, Nets, SamplingDefaults};
pub use open::{Bundle, BundleError, WeightFile};
pub use sampling::NEGATIVE_PROMPT;
pub use verify::FileCheck;
pub use weight_writer::WeightWriter;
pub use writer::{BundleWriter, WriteError};

/// The manifest's file name.
const MANIFEST: &str = "manifest.json";

/// The tokenizer's file name.
const TOKENIZER: &str = "tokenizer.json";

/// A net's weight file, relative to the bundle.
pub(crate) fn weight_path(net: crate::models::Net) -> String {
    format!("weights/{}.safetensors", net.name())
}
