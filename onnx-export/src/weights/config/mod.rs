//! `config.json` files, in the forms in which Wan and diffusers write them.
//!
//! A wrong checkpoint often has the right names: a Wan2.1 transformer or a Wan2.2-TI2V-5B autoencoder would load
//! and make noise. So what we do not implement is refused here, by name.

mod umt5;
mod vae;
mod wan;

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::bundle::Nets;
use crate::models::wan::WanConfig;

pub use umt5::umt5;
pub use vae::vae;
pub(crate) use wan::same_experts;
pub use wan::wan;

/// Largest width, count of layers or rows that we take for real; products of a few stay far from overflow.
const LARGEST: usize = 1 << 20;

/// Most layers that we take for real: the names of all their weights are kept.
const MOST_LAYERS: usize = 1024;

/// Why a config can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file can't be read.
    #[error("can't read `{path}` ({reason}); name the folder it was downloaded to, with all its parts")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        reason: std::io::Error,
    },
    /// The file is not a JSON object.
    #[error("`{path}` is not a JSON object ({reason}); copy or download it again")]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A field is missing or of another type.
    #[error("`{field}` in `{path}` {problem}; copy or download the file again")]
    Field {
        /// The file.
        path: PathBuf,
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The net is one that we do not implement.
    #[error("`{path}` describes {found}; use {instead}")]
    Unsupported {
        /// The file or folder.
        path: PathBuf,
        /// What it describes.
        found: String,
        /// What would work.
        instead: &'static str,
    },
    /// The weights are of a net that we do not implement.
    #[error("`{path}` holds {found}; use {instead}")]
    Weights {
        /// The file or folder.
        path: PathBuf,
        /// What it holds.
        found: String,
        /// What would work.
        instead: &'static str,
    },
}

/// Says what is wrong with the dimensions of a bundle's nets, if they are not of architectures that we implement.
pub(crate) fn check(nets: &Nets) -> Result<(), String> {
    umt5::check(&nets.text_encoder)?;
    wan::check(&nets.transformer)?;
    vae::check(&nets.vae)
}

/// Whether the dimensions are those of a transformer that we implement.
pub(crate) fn is_transformer(config: &WanConfig) -> bool {
    wan::check(config).is_ok()
}

fn all_sizes(sizes: &[usize]) -> Result<(), String> {
    match sizes.iter().find(|size| !(1..=LARGEST).contains(*size)) {
        Some(size) => Err(format!("a net with a dimension of {size}")),
        None => Ok(()),
    }
}

fn some_layers(layers: usize) -> Result<(), String> {
    if layers <= MOST_LAYERS { Ok(()) } else { Err(format!("a net of {layers} layers")) }
}

/// The fields of a config file.
#[derive(Debug)]
pub struct Fields {
    path: PathBuf,
    fields: Map<String, Value>,
}

impl Fields {
    /// Reads `path`.
    ///
    /// # Errors
    /// When it can't be read or is not a JSON object.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read(path).map_err(|reason| ConfigError::Read { path: path.into(), reason })?;
        let fields = serde_json::from_slice(&text)
            .map_err(|e| ConfigError::Json { path: path.into(), reason: e.to_string() })?;
        Ok(Self { path: path.into(), fields })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The field, if it is there and not null.
    ///
    /// # Errors
    /// When it is of another type.
    pub fn optional<T: DeserializeOwned>(&self, field: &'static str) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.fields.get(field) else { return Ok(None) };
        serde_json::from_value(value.clone()).map_err(|e| self.problem(field, format!("is `{value}` ({e})")))
    }

    /// The field.
    ///
    /// # Errors
    /// When it is missing, null or of another type.
    pub fn required<T: DeserializeOwned>(&self, field: &'static str) -> Result<T, ConfigError> {
        self.optional(field)?.ok_or_else(|| self.problem(field, "is missing".into()))
    }

    fn has(&self, field: &str) -> bool {
        self.fields.get(field).is_some_and(|value| !value.is_null())
    }

    /// A width or count, at least 1.
    fn size(&self, field: &'static str) -> Result<usize, ConfigError> {
        match self.required(field)? {
            size @ 1..=LARGEST => Ok(size),
            size => Err(self.problem(field, format!("is {size}, which is no sensible size"))),
        }
    }

    /// A small positive number.
    fn epsilon(&self, field: &'static str) -> Result<f32, ConfigError> {
        match self.required(field)? {
            eps if eps > 0.0 && eps < 1.0 => Ok(eps),
            eps => Err(self.problem(field, format!("is {eps}, which is no sensible epsilon"))),
        }
    }

    /// Refuses a value of `field` other than `supported`; absent and null values pass.
    fn only<T>(&self, field: &'static str, supported: &T, instead: &'static str) -> Result<(), ConfigError>
    where
        T: DeserializeOwned + PartialEq,
    {
        match self.optional::<T>(field)? {
            Some(value) if value != *supported => self.refuse_field(field, instead),
            _ => Ok(()),
        }
    }

    fn refuse_field<T>(&self, field: &'static str, instead: &'static str) -> Result<T, ConfigError> {
        let value = self.fields.get(field).unwrap_or(&Value::Null);
        self.refuse(format!("another net (`{field}` is `{value}`)"), instead)
    }

    fn refuse<T>(&self, found: String, instead: &'static str) -> Result<T, ConfigError> {
        Err(ConfigError::Unsupported { path: self.path.clone(), found, instead })
    }

    fn problem(&self, field: &'static str, problem: String) -> ConfigError {
        ConfigError::Field { path: self.path.clone(), field, problem }
    }
}
