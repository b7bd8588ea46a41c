//! Whole nets as single ONNX models, for other tools than this software.
//!
//! The service itself never runs these: it runs one graph for each *kind* of layer, with weights bound. Here all of a net is
//! one model of the default operator set, whose initializers are external data in the bundle's weight files, so that the
//! models take some megabytes and no weight is stored twice. They lie at the top of the bundle, because ONNX permits external
//! data in or below the model's folder only. Shapes are those of a [`Profile`].

mod autoencoder;
mod linker;
mod profile;
mod text_encoder;
mod transformer;

use safetensors::SafeTensorError;

pub use autoencoder::{decode, encode};
pub use profile::Profile;
pub use text_encoder::text_encoder;
pub use transformer::transformer;

use crate::bundle::Manifest;
use crate::graph::{DataType, Port};
use crate::models::Net;
use crate::models::vae::SPATIAL;

/// A model and the name of its file.
#[derive(Clone, Debug)]
pub struct Model {
    /// File name, to be put at the top of the bundle.
    pub file: &'static str,
    /// The model, serialised.
    pub bytes: Vec<u8>,
}

/// Every model of a bundle, at `profile`.
///
/// # Errors
/// When the bundle's weight files can't be described.
pub fn models(manifest: &Manifest, profile: Profile) -> Result<Vec<Model>, SafeTensorError> {
    let (rows, columns) = (profile.height / SPATIAL, profile.width / SPATIAL);
    let frames = profile.latent_frames();
    let grid = profile.grid();
    let models = [
        ("text_encoder.onnx", text_encoder(manifest)?),
        ("transformer_high.onnx", transformer(manifest, Net::TransformerHigh, grid)?),
        ("transformer_low.onnx", transformer(manifest, Net::TransformerLow, grid)?),
        ("vae_encode_image.onnx", encode(manifest, 1, rows, columns)?),
        ("vae_encode_clip.onnx", encode(manifest, frames, rows, columns)?),
        ("vae_decode_clip.onnx", decode(manifest, frames, rows, columns)?),
    ];
    Ok(models.into_iter().map(|(file, bytes)| Model { file, bytes }).collect())
}

fn port(name: &str, dtype: DataType, shape: &[usize]) -> Port {
    Port { name: name.into(), dtype, shape: shape.into(), rows: None }
}
