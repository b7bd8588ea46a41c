//! What a shot is made from.

use std::fmt;
use std::str::FromStr;

use image::RgbImage;
use onnx_export::bundle::{BundleVariant, Guidance};
use serde::{Deserialize, Serialize};

/// Everything that decides a shot, images decoded and settings filled in.
#[derive(Clone, Debug)]
pub struct ShotRequest {
    /// What happens in the shot; cleaned and tokenised by the pipeline.
    pub prompt: String,
    /// What to steer away from.
    pub negative_prompt: String,
    /// Frames to remember, in story order; at least one for a bundle with memory, none for one that works from text
    /// alone.
    pub memory: Vec<RgbImage>,
    /// The frames the shot must begin with, if any.
    pub conditioning: Conditioning,
    /// The numbers.
    pub sampling: Sampling,
}

impl ShotRequest {
    /// The mode of the shot.
    pub fn variant(&self) -> Variant {
        match &self.conditioning {
            Conditioning::None if self.memory.is_empty() => Variant::T2v,
            Conditioning::None => Variant::M2v,
            Conditioning::FirstFrame(_) => Variant::Mi2v,
            Conditioning::Motion(_) => Variant::Mm2v,
        }
    }
}

/// The numbers that decide a shot.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Requested size of the video; see [`Fit`].
    pub size: Size,
    /// How `size` and the shape of the images make the size of the video.
    pub fit: Fit,
    /// Frames to generate, 4n+1; MI2V keeps one fewer, MM2V five fewer.
    pub frames: usize,
    /// Denoising steps.
    pub steps: usize,
    /// Shift of the noise schedule.
    pub shift: f64,
    /// Guidance scale of each expert.
    pub guidance: Guidance,
    /// The sampler.
    pub solver: SolverKind,
    /// Seed of the initial noise.
    pub seed: u64,
}

/// Frames the video must begin with.
#[derive(Clone, Debug, Default)]
pub enum Conditioning {
    /// Memory only (M2V).
    #[default]
    None,
    /// The first frame (MI2V); it is not part of the result.
    FirstFrame(RgbImage),
    /// The five frames before (MM2V); they are not part of the result.
    Motion(Box<[RgbImage; 5]>),
}

/// The modes of a shot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Variant {
    /// Memory to video: a fresh shot.
    M2v,
    /// Memory and first image to video.
    Mi2v,
    /// Memory and motion (five frames) to video.
    Mm2v,
    /// Text alone to video: a film's first shot.
    T2v,
}

impl Variant {
    /// Every mode.
    pub const ALL: [Self; 4] = [Self::M2v, Self::Mi2v, Self::Mm2v, Self::T2v];

    /// The modes of the shots that a bundle can make.
    pub fn served_by(bundle: BundleVariant) -> &'static [Self] {
        match bundle {
            BundleVariant::M2v => &[Self::M2v],
            BundleVariant::Mi2v => &[Self::M2v, Self::Mi2v],
            BundleVariant::Mm2v => &[Self::M2v, Self::Mm2v],
            BundleVariant::T2v => &[Self::T2v],
        }
    }

    /// Whether shots of this mode have memory.
    pub fn takes_memory(self) -> bool {
        self != Self::T2v
    }

    /// Leading frames of the decoded video that repeat known frames and are dropped.
    pub fn dropped_frames(self) -> usize {
        match self {
            Self::M2v | Self::T2v => 0,
            Self::Mi2v => 1,
            Self::Mm2v => 5,
        }
    }
}

/// Width and height in pixels, written `832x480`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Size {
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split_once('x')
            .and_then(|(w, h)| Some(Self { width: w.parse().ok()?, height: h.parse().ok()? }))
            .ok_or_else(|| format!("`{text}` is not a size; write width and height as in `832x480`"))
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Size> for String {
    fn from(size: Size) -> Self {
        size.to_string()
    }
}

/// How the size of the video follows from the requested size and the images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fit {
    /// The video has the requested size; images are stretched to it.
    #[default]
    Size,
    /// The video has the requested area and the aspect ratio of the first frame, the motion frames or, without
    /// these, the first memory image, as in StoryMem's own inference.
    Reference,
}

/// The samplers of Wan's official inference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SolverKind {
    /// UniPC, order 2, `bh2`.
    #[default]
    #[serde(rename = "unipc")]
    UniPc,
    /// DPM-Solver++ (2M).
    #[serde(rename = "dpm++")]
    DpmPlusPlus,
}

impl FromStr for SolverKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "unipc" => Ok(Self::UniPc),
            "dpm++" => Ok(Self::DpmPlusPlus),
            _ => Err(format!("`{text}` is not a solver; use `unipc` or `dpm++`")),
        }
    }
}
