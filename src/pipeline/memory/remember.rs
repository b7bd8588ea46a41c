//! From a shot to what the film remembers of it (StoryMem's `save_keyframes`).

use image::RgbImage;

use super::analysis::{analysis_size, resize_smooth};
use super::{DUPLICATE_ABOVE, QualityGate, Selection, Similarity, frame, select};
use crate::pipeline::{Frames, PipelineError, StopToken};

/// A frame to remember.
#[derive(Clone, Debug)]
pub struct Keyframe {
    /// Its index in the shot.
    pub index: usize,
    /// The frame, in full size.
    pub image: RgbImage,
}

/// What a film remembers of a shot.
#[derive(Clone, Debug)]
pub struct Remembered {
    /// The frames that join the bank, in order; empty only if all that were chosen were in it already.
    pub keyframes: Vec<Keyframe>,
    /// Indices of the frames that were chosen and are in the bank already.
    pub duplicates: Vec<usize>,
    /// The similarity from which a frame showed nothing new: 0.9, or less if too many frames did.
    pub threshold: f64,
    /// How frames were compared: `clip` or `hsv_patches`.
    pub similarity: &'static str,
    /// What decided whether a frame is good enough: [`QualityGate::name`].
    pub quality: &'static str,
    /// What the user should know, in words.
    pub warnings: Vec<String>,
}

/// Chooses which frames of a shot a film remembers, beside those in its `bank`.
///
/// Frames are compared among themselves and judged at [`analysis_size`], and compared with the bank as they are, both as
/// StoryMem does. A frame is looked at only if something depends on it, and once.
///
/// # Errors
/// When a graph fails or is stopped.
pub fn remember<S: Similarity>(
    frames: &Frames,
    bank: &[RgbImage],
    mut similarity: S,
    gate: &mut dyn QualityGate,
    stop: &StopToken,
) -> Result<Remembered, PipelineError> {
    let size = analysis_size(frames.size);
    let analysed = |i: usize| resize_smooth(&frame(frames, i), size);
    let mut scores: Vec<Option<f64>> = vec![None; frames.len()];
    let mut features: Vec<Option<S::Features>> = (0..frames.len()).map(|_| None).collect();
    let (good_from, quality) = (gate.good_from(), gate.name());
    let Selection { indices, threshold, none_passed } = select(
        frames.len(),
        good_from,
        |i| match scores[i] {
            Some(score) => Ok(score),
            None => gate.score(&analysed(i), stop).map(|score| *scores[i].insert(score)),
        },
        |a, b| {
            for i in [a, b] {
                if features[i].is_none() {
                    features[i] = Some(similarity.features(&analysed(i), stop)?);
                }
            }
            let [a, b] = [a, b].map(|i| features[i].as_ref().expect("made just above"));
            Ok::<_, PipelineError>(similarity.compare(a, b))
        },
    )?;
    drop(features);

    let mut warnings = Vec::new();
    if let (true, &[best]) = (none_passed, &indices[..]) {
        warnings.push(format!(
            "no frame of the shot is good enough to be remembered ({quality}: the best scores {:.3}, needed are \
             {good_from:.3}); the best, frame {best}, is kept",
            scores[best].unwrap_or(f64::NAN)
        ));
    }
    let remembered = if bank.is_empty() || indices.is_empty() {
        Vec::new()
    } else {
        bank.iter().map(|image| similarity.features(image, stop)).collect::<Result<_, _>>()?
    };
    let (mut keyframes, mut duplicates) = (Vec::new(), Vec::new());
    for index in indices {
        let image = frame(frames, index);
        if !remembered.is_empty() {
            let candidate = similarity.features(&image, stop)?;
            if remembered.iter().any(|old| similarity.compare(&candidate, old) > DUPLICATE_ABOVE) {
                duplicates.push(index);
                continue;
            }
        }
        keyframes.push(Keyframe { index, image });
    }
    Ok(Remembered { keyframes, duplicates, threshold, similarity: similarity.name(), quality, warnings })
}
