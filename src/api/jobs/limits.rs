//! What a request may ask.

use std::ops::RangeInclusive;

use crate::pipeline::images::MAX_BYTES;

/// Most characters of a prompt.
pub const PROMPT_CHARS: usize = 4000;
/// Most memory images: StoryMem was trained with as many.
pub const MEMORY_IMAGES: usize = 10;
/// Frames of motion in MM2V.
pub const MOTION_FRAMES: usize = 5;
/// Denoising steps.
pub const STEPS: RangeInclusive<u64> = 1..=100;
/// Shift of the noise schedule.
pub const SHIFT: RangeInclusive<f64> = 0.1..=100.0;
/// Guidance scales; 1 is off.
pub const GUIDANCE: RangeInclusive<f64> = 0.0..=30.0;
/// Seeds: integers that every JSON reader keeps exactly.
pub const SEED: RangeInclusive<u64> = 0..=(1 << 53) - 1;
/// Priorities.
pub const PRIORITY: RangeInclusive<i64> = -10..=10;
/// Most characters of `webhook_url`.
pub const WEBHOOK_URL_CHARS: usize = 2048;
/// Most entries of `metadata`.
pub const METADATA_ENTRIES: usize = 16;
/// Most characters of a key of `metadata`.
pub const METADATA_KEY_CHARS: usize = 64;
/// Most characters of a value of `metadata`.
pub const METADATA_VALUE_CHARS: usize = 512;

/// Room in a form for everything but the images: the request, and the heads of the parts.
const BESIDES_IMAGES: usize = 1 << 20;

/// The limits an operator sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of a request's body; by default as many as a form has whose images are as many and as large as may be.
    pub body_bytes: usize,
    /// Most pixels of a frame.
    pub frame_pixels: usize,
    /// Most frames of a shot.
    pub frames: usize,
    /// Most jobs that wait.
    pub queued_jobs: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: (MEMORY_IMAGES + MOTION_FRAMES) * MAX_BYTES + BESIDES_IMAGES,
            frame_pixels: 1280 * 720,
            frames: 161,
            queued_jobs: 1000,
        }
    }
}
