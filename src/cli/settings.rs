//! The settings of a shot as flags, for the commands that make shots without a service.

use clap::ValueEnum;

use crate::pipeline::{Fit, Guidance, Size, SolverKind};

/// The numbers that decide a shot. What is absent is as the model wants it.
#[derive(Clone, Debug, clap::Args)]
pub struct ShotSettings {
    /// What to steer away from [default: the model's own]
    #[arg(long, value_name = "TEXT")]
    pub negative_prompt: Option<String>,
    /// Width and height in pixels, multiples of 16 [default: the model's own]
    #[arg(long, value_name = "WxH")]
    pub size: Option<Size>,
    /// Whether the video has the given size, or its area in the shape of the first image
    #[arg(long, value_enum, default_value_t)]
    pub fit: FitFlag,
    /// Frames to generate, 4n+1 [default: the model's own]
    #[arg(long, value_name = "N")]
    pub frames: Option<usize>,
    /// Denoising steps [default: the model's own]
    #[arg(long, value_name = "N")]
    pub steps: Option<usize>,
    /// Shift of the noise schedule [default: the model's own]
    #[arg(long, value_name = "X")]
    pub shift: Option<f64>,
    /// Guidance scale: one for both experts, or HIGH,LOW [default: the model's own]
    #[arg(long, value_name = "X", value_parser = parse_guidance)]
    pub guidance: Option<Guidance>,
    /// The sampler: `unipc` or `dpm++`
    #[arg(long, value_name = "NAME", default_value = "unipc")]
    pub solver: SolverKind,
    /// Seed of the noise [default: drawn, and printed]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..1 << 53))]
    pub seed: Option<u64>,
}

/// See [`Fit`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FitFlag {
    /// The given size.
    #[default]
    Size,
    /// The given area.
    Reference,
}

impl From<FitFlag> for Fit {
    fn from(flag: FitFlag) -> Self {
        match flag {
            FitFlag::Size => Self::Size,
            FitFlag::Reference => Self::Reference,
        }
    }
}

fn parse_guidance(text: &str) -> Result<Guidance, String> {
    let (high, low) = text.split_once(',').unwrap_or((text, text));
    match (high.parse(), low.parse()) {
        (Ok(high), Ok(low)) => Ok(Guidance { high, low }),
        _ => Err("write a number, or two with a comma between them".into()),
    }
}
