//! Why an adapter is refused.

use std::path::PathBuf;

use crate::weights::file::FileError;

/// Why an adapter can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoraError {
    /// The file can't be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The adapter is of another kind than LoRA.
    #[error(
        "`{key}` of `{path}` belongs to {kind}, which can't be merged; use a plain LoRA (lora_A and lora_B pairs)"
    )]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// The kind of adapter.
        kind: &'static str,
    },
    /// Keys are not a factor or an alpha of a weight of the net.
    #[error(
        "`{path}` has {count} keys (of {of}) that fit no weight of the transformer: {keys}; use a LoRA made for Wan2.2 \
         A14B"
    )]
    Unknown {
        /// The file.
        path: PathBuf,
        /// How many.
        count: usize,
        /// How many keys there are in all.
        of: usize,
        /// The first few.
        keys: String,
    },
    /// Two keys mean the same factor of the same weight.
    #[error("`{first}` and `{second}` of `{path}` are the same factor; export the adapter again")]
    Twice {
        /// The file.
        path: PathBuf,
        /// One key.
        first: String,
        /// The other.
        second: String,
    },
    /// A factor has no partner.
    #[error("`{path}` has `{key}` but not its other half; copy or download it again")]
    HalfPair {
        /// The file.
        path: PathBuf,
        /// The factor (or alpha) that stands alone.
        key: String,
    },
    /// The factors do not fit each other or the weight.
    #[error("`{key}` of `{path}` has shape {shape:?}; the weight {weight:?} needs {expected}")]
    Shape {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// Its shape.
        shape: Vec<usize>,
        /// The shape of the weight.
        weight: Vec<usize>,
        /// What would fit.
        expected: String,
    },
    /// An alpha is not a positive number.
    #[error("`{key}` of `{path}` is {value}; an alpha must be one positive and finite number")]
    Alpha {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// Its value.
        value: f64,
    },
    /// What the adapter says of itself can't be followed.
    #[error("the settings of `{path}` {problem}; use a plain LoRA, as it was exported")]
    Settings {
        /// The file.
        path: PathBuf,
        /// What is wrong with them.
        problem: String,
    },
    /// The adapter names the other expert only.
    #[error("every key of `{path}` is for the {found} expert; give it as `{path}@{instead}=STRENGTH`")]
    OtherExpert {
        /// The file.
        path: PathBuf,
        /// The expert it is for, in words.
        found: &'static str,
        /// The same as the command line has it.
        instead: &'static str,
    },
    /// Strength and scale leave the range of f32.
    #[error("the scale of `{key}` of `{path}` is {scale}; choose a smaller strength")]
    Scale {
        /// The file.
        path: PathBuf,
        /// A factor it belongs to.
        key: String,
        /// The scale.
        scale: f64,
    },
    /// A factor holds NaN or infinity.
    #[error("`{key}` of `{path}` holds {value}; the adapter is damaged, download it again")]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// The factor.
        key: String,
        /// The value.
        value: f32,
    },
    /// The file holds no pair.
    #[error("`{path}` holds no LoRA pair; name an adapter file")]
    Empty {
        /// The file.
        path: PathBuf,
    },
}
