//! Checkpoints in, canonical tensors out.
//!
//! A bundle is made once and used for months, so everything here is strict: a checkpoint must hold exactly the
//! tensors its net expects, in the shapes its config promises, and an adapter must be used up to its last key. All
//! of that is decided from headers, before a byte of weights is read; see [`matching`].
//!
//! - [`mod@file`] maps one safetensors file, [`checkpoint`] a folder of them.
//! - [`config`] reads `config.json` and refuses what is not a Wan A14B by name.
//! - [`names`] knows the other names under which a tensor may be found.
//! - [`identify`] says what a checkpoint is, whatever it is called.
//! - [`lora`] reads adapters, [`merge`] adds them to a weight, [`values`] converts between element types.

pub mod checkpoint;
pub mod config;
pub mod file;
pub(crate) mod format;
pub mod identify;
pub mod lora;
pub mod matching;
pub mod merge;
pub mod names;
mod unique;
pub mod values;
