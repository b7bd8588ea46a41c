//! What a job has made, as clients see it.

use serde::Serialize;
use utoipa::ToSchema;

use super::keyframe::LAST;
use crate::queue::{Made, Remembered};

/// What a job has made.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = JobResult)]
pub struct ResultView {
    /// Where the MP4 is.
    pub video_url: String,
    /// Where its middle frame is.
    pub thumbnail_url: String,
    /// Where its last frame is, from which another shot can go on.
    pub last_frame_url: String,
    /// Where the frames are that the shot adds to memory.
    pub keyframe_urls: Vec<String>,
    /// How the frames were chosen that a story remembers of it; null when it is no shot of one.
    #[schema(required)]
    pub memory: Option<MemoryView>,
    /// Size of the MP4.
    pub bytes: u64,
    /// SHA-256 of the MP4, in hex.
    pub sha256: String,
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Frames.
    pub frames: usize,
    /// Frames in a second.
    pub fps: u32,
    /// Length of the video.
    pub seconds: f64,
}

/// How the frames were chosen that a story remembers of a shot.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = MemoryChoice)]
pub struct MemoryView {
    /// Frames that were chosen, and are like some that the story remembered before.
    pub duplicates: usize,
    /// How frames were compared: `clip`, or `hsv_patches` where no bundle has CLIP's weights.
    pub similarity: String,
    /// What decided whether a frame is good enough.
    pub quality: String,
}

impl MemoryView {
    fn new(remembered: &Remembered) -> Self {
        let Remembered { duplicates, similarity, quality, .. } = remembered.clone();
        Self { duplicates, similarity, quality }
    }
}

impl ResultView {
    /// Of the job at `path`.
    pub fn new(path: &str, made: &Made) -> Self {
        let effective = &made.effective;
        let keyframes = made.remembered.as_ref().map_or(0, |remembered| remembered.keyframes.len());
        Self {
            video_url: format!("{path}/video"),
            thumbnail_url: format!("{path}/thumbnail"),
            last_frame_url: format!("{path}/keyframes/{LAST}"),
            keyframe_urls: (0..keyframes).map(|n| format!("{path}/keyframes/{n}")).collect(),
            memory: made.remembered.as_ref().map(MemoryView::new),
            bytes: made.bytes,
            sha256: made.sha256.clone(),
            width: effective.size.width,
            height: effective.size.height,
            frames: effective.frames,
            fps: made.fps,
            seconds: effective.frames as f64 / f64::from(made.fps),
        }
    }
}
