//! The bank: the frames a film remembers, in story order.

/// A frame that is more similar than this to one of the bank is not remembered again (StoryMem's
/// `MIN_FRAME_SIMILARITY`).
pub const DUPLICATE_ABOVE: f64 = 0.9;

/// Which of `len` remembered frames condition a shot that takes up to `max`: all, or the first `fixed` of them and the
/// newest, in story order (StoryMem's "memory sink and sliding window"; its defaults are 10 and 3).
pub fn window(len: usize, max: usize, fixed: usize) -> Vec<usize> {
    if len <= max {
        return (0..len).collect();
    }
    let fixed = fixed.min(max);
    (0..fixed).chain(len - (max - fixed)..len).collect()
}
