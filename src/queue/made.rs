//! What jobs have made.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::pipeline::{Effective, Timings};
use crate::storage::Digest;

/// What a job that succeeded has made. Kept as JSON, as is [`Spec`](super::Spec).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Made {
    /// The token of the attempt that made it: the name of its folder in storage.
    pub token: Uuid,
    /// The digest of the bundle.
    pub model: String,
    /// The settings it was really made with.
    pub effective: Effective,
    /// Seconds by stage.
    pub timings: Timings,
    /// Seconds for writing the MP4 and its thumbnail.
    pub mp4_seconds: f64,
    /// Size of the MP4 in bytes.
    pub bytes: u64,
    /// SHA-256 of the MP4 in lower-case hex.
    pub sha256: String,
    /// Frames in a second.
    pub fps: u32,
    /// What its story remembers of it, if it is a shot of one.
    #[serde(default)]
    pub remembered: Option<Remembered>,
}

/// What a story remembers of a shot, and how that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remembered {
    /// The frames that joined its memory, among the images in storage.
    pub keyframes: Vec<Digest>,
    /// How many more were chosen, and are like some that it remembered before.
    pub duplicates: usize,
    /// How frames were compared.
    pub similarity: String,
    /// What decided whether a frame is good enough.
    pub quality: String,
}
