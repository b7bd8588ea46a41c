//! What the model is told of the frames it knows.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use ndarray::{Array4, Ix4, s};
use proptest::prelude::*;
use storymem::pipeline::Variant::{M2v, Mi2v, Mm2v};
use storymem::pipeline::condition::{condition, mask, positions};

/// The mask is exactly the reference's, and its latents put together are its condition.
#[test]
fn equals_the_reference() {
    let facts = common::facts("tiny");
    for (name, variant) in [("m2v", M2v), ("mi2v", Mi2v), ("mm2v", Mm2v)] {
        let expected = common::golden("tiny", &format!("pipeline_{name}"))["condition"].clone();
        let expected: Array4<f32> = expected.into_dimensionality::<Ix4>().unwrap();
        let memory = facts["pipeline"][name]["memory"].as_u64().unwrap() as usize;
        let (_, t, h, w) = expected.dim();
        assert_eq!(mask(variant, memory, t - memory, h, w), expected.slice(s![..4, .., .., ..]));

        let found = condition(
            variant,
            expected.slice(s![4.., ..memory, .., ..]),
            expected.slice(s![4.., memory.., .., ..]),
        );
        assert_eq!(found.unwrap(), expected, "{name}");
    }
}

#[test]
fn the_mask_follows_the_table() {
    for (variant, video) in
        [(M2v, [0.0, 0.0, 0.0, 0.0]), (Mi2v, [1.0, 0.0, 0.0, 0.0]), (Mm2v, [1.0, 1.0, 0.0, 0.0])]
    {
        let mask = mask(variant, 2, 4, 1, 1);
        for channel in mask.outer_iter() {
            let found: Vec<f32> = channel.iter().copied().collect();
            assert_eq!(found, [&[1.0, 1.0][..], &video].concat());
        }
    }
}

#[test]
fn memory_lies_before_the_video_a_stride_apart() {
    assert_eq!(positions(3, 4, 5), [-15, -10, -5, 0, 1, 2, 3]);
    assert_eq!(positions(2, 2, 1), [-2, -1, 0, 1]);
    assert_eq!(positions(0, 3, 5), [0, 1, 2]);
}

#[test]
fn latents_that_do_not_fit_are_refused() {
    let zeros = |shape: [usize; 4]| Array4::<f32>::zeros(shape);
    for (memory, video) in
        [([16, 1, 2, 2], [16, 3, 2, 3]), ([16, 1, 2, 2], [8, 3, 2, 2]), ([8, 1, 2, 2], [8, 3, 2, 2])]
    {
        let error = condition(M2v, zeros(memory).view(), zeros(video).view()).unwrap_err();
        assert_eq!((error.memory, error.video), (memory, video));
    }
}

proptest! {
    /// The official rule: a flag for each pixel frame; those of memory and the first of the video count four times.
    #[test]
    fn the_mask_follows_the_rule_by_pixel_frame(memory in 0..11usize, lat_t in 3..30usize, known in 0..3usize) {
        let (variant, known) = [(M2v, 0), (Mi2v, 1), (Mm2v, 5)][known];
        let frames = (lat_t - 1) * 4 + 1;
        let flag = |i: usize| if i < memory + known { 1.0 } else { 0.0 };
        let flags: Vec<f32> = (0..=memory).flat_map(|i| [flag(i); 4]).chain((memory + 1..memory + frames).map(flag)).collect();
        let mask = mask(variant, memory, lat_t, 2, 3);
        prop_assert_eq!(mask.dim(), (4, memory + lat_t, 2, 3));
        for ((c, t, _, _), &value) in mask.indexed_iter() {
            prop_assert_eq!(value, flags[4 * t + c]);
        }
    }

    #[test]
    fn positions_rise_and_meet_at_nought(memory in 0..20usize, lat_t in 1..100usize, stride in 1..10usize) {
        let positions = positions(memory, lat_t, stride);
        prop_assert_eq!(positions.len(), memory + lat_t);
        prop_assert!(positions.is_sorted_by(|a, b| a < b));
        prop_assert_eq!(positions[memory], 0);
    }
}

#[test]
fn a_video_too_short_for_its_known_frames_still_has_a_mask() {
    assert_eq!(mask(Mm2v, 1, 1, 1, 1), Array4::<f32>::ones([4, 2, 1, 1]));
}
