//! Which frames of a shot are worth remembering (StoryMem's `extract_keyframe_indices`).

/// Most frames that one shot adds (StoryMem's `MAX_KEYFRAME_NUM`).
pub const MAX_KEYFRAMES: usize = 3;
/// A frame at least this similar to the keyframe before it shows nothing new (StoryMem's `MIN_FRAME_SIMILARITY`).
pub const SIMILAR_FROM: f64 = 0.9;

/// By how much that falls while there are too many keyframes (StoryMem's `ADAPTIVE_ALPHA`).
const FALL: f64 = 0.01;

/// The frames of a shot that are to be remembered.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// Their indices, ascending; at most [`MAX_KEYFRAMES`], and empty only for a shot without frames.
    pub indices: Vec<usize>,
    /// The similarity from which a frame showed nothing new, after it fell.
    pub threshold: f64,
    /// Whether no frame passed the quality gate, so that the best of them is kept.
    pub none_passed: bool,
}

/// Selects among `frames` frames.
///
/// The first frame that is good enough is a keyframe; then, from index 2 on as in StoryMem, each good one that is less
/// similar than the threshold to the keyframe before it. While these are too many, the threshold falls and the search
/// begins anew. If no frame is good enough, the one with the highest score is kept, the first of equals.
///
/// `similarity(a, b)` of two frames is taken for 1 above 1 and for -1 below -1; `score` and `similarity` are asked as
/// rarely as can be, but not remembered from one round to the next.
///
/// # Errors
/// Those of `similarity` and `score`.
pub fn select<E>(
    frames: usize,
    good_from: f64,
    mut score: impl FnMut(usize) -> Result<f64, E>,
    mut similarity: impl FnMut(usize, usize) -> Result<f64, E>,
) -> Result<Selection, E> {
    let mut threshold = SIMILAR_FROM;
    let mut best = None;
    let mut first = None;
    for i in 0..frames {
        let score = score(i)?;
        if score >= good_from {
            first = Some(i);
            break;
        }
        // NaN is worse than anything.
        if best.is_none_or(|(_, highest): (usize, f64)| score > highest || highest.is_nan()) {
            best = Some((i, score));
        }
    }
    let Some(first) = first else {
        let indices = best.into_iter().map(|(i, _)| i).collect();
        return Ok(Selection { indices, threshold, none_passed: true });
    };
    loop {
        let (mut indices, mut last) = (vec![first], first);
        for i in 2..frames {
            if similarity(last, i)?.clamp(-1.0, 1.0) < threshold && score(i)? >= good_from {
                indices.push(i);
                last = i;
            }
        }
        if indices.len() <= MAX_KEYFRAMES {
            return Ok(Selection { indices, threshold, none_passed: false });
        }
        threshold -= FALL;
    }
}
