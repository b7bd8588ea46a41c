//! The nets, each defined once next to its reference.

use serde::{Deserialize, Serialize};

pub mod clip;
pub mod umt5;
pub mod vae;
pub mod wan;

/// A net that a bundle may hold; each has one weight file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Net {
    /// The UMT5 text encoder.
    TextEncoder,
    /// The expert for high noise.
    TransformerHigh,
    /// The expert for low noise.
    TransformerLow,
    /// The video autoencoder.
    Vae,
    /// CLIP's vision tower, by which frames are compared.
    Clip,
}

impl Net {
    /// The nets that every bundle holds, in the order in which a shot uses them.
    pub const ALL: [Self; 4] = [Self::TextEncoder, Self::TransformerHigh, Self::TransformerLow, Self::Vae];

    /// Stem of the net's file names.
    pub fn name(self) -> &'static str {
        match self {
            Self::TextEncoder => "text_encoder",
            Self::TransformerHigh => "transformer_high",
            Self::TransformerLow => "transformer_low",
            Self::Vae => "vae",
            Self::Clip => "clip",
        }
    }
}
