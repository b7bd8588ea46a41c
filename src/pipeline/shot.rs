//! What comes out of the pipeline, and the one call that makes it.

use onnx_export::bundle::Manifest;
use serde::{Deserialize, Serialize};

use super::memory::ClipSimilarity;
use super::{Checkpoint, Observer, PipelineError, ShotRequest, Size, StopToken, Variant};

/// Makes shots. The worker and the command line know the pipeline by this alone.
pub trait Generator {
    /// The manifest of the bundle that serves.
    fn manifest(&self) -> &Manifest;

    /// Makes one shot, telling `observer` where it stands and looking at `stop` between graphs. With `resume`, a
    /// checkpoint of an earlier run of this request on this bundle, denoising goes on there and the shot is the
    /// same bit for bit; one that does not fit the request is left alone with a warning in the log.
    ///
    /// # Errors
    /// [`PipelineError::Stopped`] when `stop` was set, or what went wrong.
    fn generate(
        &mut self,
        request: &ShotRequest,
        resume: Option<Checkpoint>,
        observer: &mut dyn Observer,
        stop: &StopToken,
    ) -> Result<Shot, PipelineError>;

    /// What compares frames by CLIP; nothing where the bundle does not hold it.
    fn clip(&self) -> Option<ClipSimilarity<'_>> {
        None
    }
}

/// A finished shot.
#[derive(Clone, Debug)]
pub struct Shot {
    /// The video, leading known frames already dropped.
    pub frames: Frames,
    /// What was really done.
    pub effective: Effective,
    /// What the user should know, in words: a prompt that was cut, …
    pub warnings: Vec<String>,
    /// Seconds spent in each stage.
    pub timings: Timings,
}

/// 8-bit RGB frames of one size, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frames {
    /// Size of each frame.
    pub size: Size,
    /// `[frames, height, width, 3]`.
    pub rgb: Vec<u8>,
}

impl Frames {
    /// Number of frames.
    pub fn len(&self) -> usize {
        self.rgb.len() / self.frame_bytes()
    }

    /// Whether there is no frame.
    pub fn is_empty(&self) -> bool {
        self.rgb.is_empty()
    }

    /// The frames in order, `[height, width, 3]` each.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.rgb.chunks_exact(self.frame_bytes())
    }

    fn frame_bytes(&self) -> usize {
        self.size.width * self.size.height * 3
    }
}

/// The settings a shot was really made with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effective {
    /// Size of the video.
    pub size: Size,
    /// Frames in the result.
    pub frames: usize,
    /// The mode.
    pub variant: Variant,
    /// Tokens of the cleaned prompt, `</s>` included.
    pub prompt_tokens: usize,
}

/// Wall-clock seconds by stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timings {
    /// Encoding the prompts.
    pub text_seconds: f64,
    /// Encoding images.
    pub encode_seconds: f64,
    /// Denoising.
    pub denoise_seconds: f64,
    /// Decoding frames.
    pub decode_seconds: f64,
}
