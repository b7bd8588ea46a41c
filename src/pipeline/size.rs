//! From the numbers of a request to the size of the video and of its latents.
//!
//! Sizes that the model can't make are refused together with the nearest that it can: nothing is rounded silently.

use super::{Fit, Sampling, Size, Variant};

/// Pixels that a side has to be a multiple of: 8 of the VAE times 2 of the transformer's patches.
pub const SIDE_STEP: usize = 16;
/// Longest side, in pixels.
pub const MAX_SIDE: usize = 4096;
/// Most frames: the transformer's table of positions in time ends with latent frame 511.
pub const MAX_FRAMES: usize = 2045;

/// Pixels of a side in one latent.
const SPATIAL_STRIDE: usize = 8;
/// Frames in one latent frame, the first of a video excepted.
const TEMPORAL_STRIDE: usize = 4;

/// The size of a video and of its latents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimensions {
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Latents in a row, `width / 8`.
    pub lat_w: usize,
    /// Rows of latents, `height / 8`.
    pub lat_h: usize,
    /// Frames to generate, known ones included.
    pub frames: usize,
    /// Latent frames, `(frames - 1) / 4 + 1`, memory not included.
    pub lat_t: usize,
}

/// Why no video of the requested size can be made.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SizeError {
    /// A side is too short or too long.
    #[error(
        "no side of `{size}` may be shorter than {SIDE_STEP} or longer than {MAX_SIDE} pixels; the nearest size is `{nearest}`"
    )]
    OutOfRange {
        /// As asked for.
        size: Size,
        /// What would work.
        nearest: Size,
    },
    /// A side is not a multiple of 16.
    #[error(
        "width and height of `{size}` must be multiples of {SIDE_STEP}; the nearest sizes are `{below}` and `{above}`"
    )]
    NotAMultiple {
        /// As asked for.
        size: Size,
        /// Each side rounded down.
        below: Size,
        /// Each side rounded up.
        above: Size,
    },
    /// The aspect ratio of the images leaves no side, or too long a one.
    #[error(
        "no video with the area of `{size}` can have the shape of an image of {reference} pixels; use an image nearer to a square, or `fit` = `size`"
    )]
    Aspect {
        /// As asked for.
        size: Size,
        /// Size of the image that decides.
        reference: Size,
    },
    /// There is no image to take the shape from.
    #[error("`fit` = `reference` needs an image to take the shape from; use `fit` = `size`")]
    NoReference,
    /// The number of frames is not 4n+1.
    #[error(
        "`{frames}` frames can't be made: the number must be 4n+1; the nearest are `{below}` and `{above}`"
    )]
    NotFourNPlusOne {
        /// As asked for.
        frames: usize,
        /// The next lower number that works.
        below: usize,
        /// The next higher.
        above: usize,
    },
    /// No frame would be left when the known ones are dropped.
    #[error(
        "`{frames}` frames are too few; in this mode the fewest are `{least}`, of which {dropped} are known and dropped"
    )]
    TooFewFrames {
        /// As asked for.
        frames: usize,
        /// Known frames at the beginning.
        dropped: usize,
        /// The fewest that work.
        least: usize,
    },
    /// More frames than the model has positions for.
    #[error("`{frames}` frames are too many; the most are `{MAX_FRAMES}`")]
    TooManyFrames {
        /// As asked for.
        frames: usize,
    },
}

impl SizeError {
    /// The request field at fault.
    pub fn field(&self) -> &'static str {
        match self {
            Self::OutOfRange { .. } | Self::NotAMultiple { .. } => "size",
            Self::Aspect { .. } | Self::NoReference => "fit",
            Self::NotFourNPlusOne { .. } | Self::TooFewFrames { .. } | Self::TooManyFrames { .. } => "frames",
        }
    }
}

impl Dimensions {
    /// The size of a shot. `reference` is the size of the first frame, the first motion frame or, without these, the
    /// first memory image; it counts only with [`Fit::Reference`].
    ///
    /// # Errors
    /// When the model can't make such a video: see [`SizeError`].
    pub fn new(sampling: &Sampling, variant: Variant, reference: Option<Size>) -> Result<Self, SizeError> {
        let frames = frames(sampling.frames, variant)?;
        let size = sampling.size;
        in_range(size)?;
        let Size { width, height } = match sampling.fit {
            Fit::Size => multiple(size)?,
            Fit::Reference => with_aspect_of(reference.ok_or(SizeError::NoReference)?, size)?,
        };
        Ok(Self {
            width,
            height,
            lat_w: width / SPATIAL_STRIDE,
            lat_h: height / SPATIAL_STRIDE,
            frames,
            lat_t: (frames - 1) / TEMPORAL_STRIDE + 1,
        })
    }

    /// Width and height in pixels.
    pub fn size(&self) -> Size {
        Size { width: self.width, height: self.height }
    }
}

fn in_range(size: Size) -> Result<(), SizeError> {
    let nearest = size.map(|side| (side / SIDE_STEP * SIDE_STEP).clamp(SIDE_STEP, MAX_SIDE));
    let inside = |side| (SIDE_STEP..=MAX_SIDE).contains(&side);
    if inside(size.width) && inside(size.height) {
        Ok(())
    } else {
        Err(SizeError::OutOfRange { size, nearest })
    }
}

/// `size` itself, whose sides are in range.
fn multiple(size: Size) -> Result<Size, SizeError> {
    let below = size.map(|side| side / SIDE_STEP * SIDE_STEP);
    let above = size.map(|side| side.next_multiple_of(SIDE_STEP));
    if size == below { Ok(size) } else { Err(SizeError::NotAMultiple { size, below, above }) }
}

/// The area of `size` in the shape of `reference`, rounded as StoryMem's inference does: each side to the nearest
/// pixel, half to even, then down to a multiple of 16.
fn with_aspect_of(reference: Size, size: Size) -> Result<Size, SizeError> {
    let area = (size.width * size.height) as f64;
    let ratio = reference.height as f64 / reference.width as f64;
    let side = |squared: f64| squared.sqrt().round_ties_even() as usize / SIDE_STEP * SIDE_STEP;
    let fitted = Size { width: side(area / ratio), height: side(area * ratio) };
    in_range(fitted).map_err(|_| SizeError::Aspect { size, reference }).map(|()| fitted)
}

fn frames(frames: usize, variant: Variant) -> Result<usize, SizeError> {
    let dropped = variant.dropped_frames();
    let least = dropped.next_multiple_of(TEMPORAL_STRIDE) + 1;
    if frames < least {
        return Err(SizeError::TooFewFrames { frames, dropped, least });
    }
    if frames > MAX_FRAMES {
        return Err(SizeError::TooManyFrames { frames });
    }
    let below = (frames - 1) / TEMPORAL_STRIDE * TEMPORAL_STRIDE + 1;
    if frames != below {
        return Err(SizeError::NotFourNPlusOne { frames, below, above: below + TEMPORAL_STRIDE });
    }
    Ok(frames)
}

impl Size {
    fn map(self, f: impl Fn(usize) -> usize) -> Self {
        Self { width: f(self.width), height: f(self.height) }
    }
}
