//! The shape for which models are made.

use std::fmt;
use std::str::FromStr;

use crate::bundle::{BundleVariant, Manifest};
use crate::models::vae::{SPATIAL, TEMPORAL};
use crate::models::wan::{LatentGrid, PATCH};

/// Size and length of a shot and the number of its memory frames, written `832x480x81+10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Pixels, a multiple of 16.
    pub width: usize,
    /// Pixels, a multiple of 16.
    pub height: usize,
    /// Frames of the clip, 4n + 1.
    pub frames: usize,
    /// Memory frames.
    pub memory: usize,
}

impl Profile {
    /// What a bundle is sampled at unless a job says otherwise, with as much memory as the model was trained with.
    pub fn of(manifest: &Manifest) -> Self {
        let sampling = &manifest.sampling;
        let memory = if manifest.variant == BundleVariant::T2v { 0 } else { sampling.max_memory };
        Self { width: sampling.width, height: sampling.height, frames: sampling.frames, memory }
    }

    /// Latent frames of the clip.
    pub fn latent_frames(self) -> usize {
        (self.frames - 1) / TEMPORAL + 1
    }

    /// What the transformers see.
    pub fn grid(self) -> LatentGrid {
        let [height, width] = [self.height, self.width].map(|pixels| pixels / SPATIAL);
        LatentGrid { frames: self.memory + self.latent_frames(), height, width }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { width, height, frames, memory } = self;
        write!(f, "{width}x{height}x{frames}+{memory}")
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (size, memory) = text.split_once('+').unwrap_or((text, "0"));
            let numbers: Vec<usize> = size.split('x').map(|part| part.parse().ok()).collect::<Option<_>>()?;
            let [width, height, frames] = *numbers else { return None };
            let memory = memory.parse().ok()?;
            let step = SPATIAL * PATCH;
            let whole = |pixels: usize| pixels > 0 && pixels.is_multiple_of(step) && pixels <= 4096;
            let fits =
                whole(width) && whole(height) && frames % TEMPORAL == 1 && frames <= 1024 && memory <= 100;
            fits.then_some(Self { width, height, frames, memory })
        };
        parse().ok_or_else(|| {
            format!(
                "`{text}` is not a profile; write WIDTHxHEIGHTxFRAMES+MEMORY, as 832x480x81+10: sizes in multiples of 16, \
                 frames one more than a multiple of 4"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_read_as_they_are_written() {
        let profile: Profile = "832x480x81+10".parse().unwrap();
        assert_eq!(profile, Profile { width: 832, height: 480, frames: 81, memory: 10 });
        assert_eq!(profile.grid(), LatentGrid { frames: 31, height: 60, width: 104 });
        assert_eq!(profile.to_string(), "832x480x81+10");
        assert_eq!("64x32x1".parse::<Profile>().unwrap().memory, 0);
        for text in [
            "",
            "832x480",
            "832x480x80",
            "830x480x81",
            "0x480x81",
            "832x480x81+",
            "832x480x81+x",
            "832x480x81+-1",
        ] {
            assert!(text.parse::<Profile>().is_err(), "{text}");
        }
    }
}
