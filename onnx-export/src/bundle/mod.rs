//! The bundle: the folder that `storymem export` writes and everything else opens.

mod manifest;

pub use manifest::{BundleVariant, Dtype, FileDigest, Guidance, LoraFacts, Manifest, Nets, SamplingDefaults};
