//! How alike frames are.

use image::{Rgb, RgbImage};
use proptest::prelude::*;
use storymem::engine::{Device, Engine, StopToken};
use storymem::pipeline::memory::{ClipSimilarity, PatchSimilarity, Similarity};

use super::common::nets::{images, weights};
use super::common::{clip_folder, exported, golden, runtime};
use super::scenes::scene;

/// The similarities of frames, each with each.
fn similarities<S: Similarity>(mut similarity: S, frames: &[RgbImage]) -> Vec<f64> {
    let stop = StopToken::default();
    let features: Vec<_> = frames.iter().map(|frame| similarity.features(frame, &stop).unwrap()).collect();
    features
        .iter()
        .flat_map(|a| features.iter().map(|b| similarity.compare(a, b)).collect::<Vec<_>>())
        .collect()
}

#[test]
fn clips_similarities_agree_with_the_reference() {
    let (bundle, _folder) = exported("tiny", true, &["--clip", &clip_folder("tiny")]);
    let weights = weights(&bundle, onnx_export::models::Net::Clip);
    let engine = Engine::open(runtime(), Device::Cpu).unwrap();
    let clip = ClipSimilarity::new(&engine, bundle.manifest().nets.clip.as_ref().unwrap(), &weights);
    assert_eq!(clip.name(), "clip");
    let golden = golden("tiny", "keyframes");
    let found = similarities(clip, &images(&golden["frames"]));
    assert_eq!(found.len(), 21 * 21);
    for (i, (found, &expected)) in found.iter().zip(&golden["similarity"]).enumerate() {
        assert!((found - f64::from(expected)).abs() <= 1e-5, "{i}: {found}, not {expected}");
    }
}

#[test]
fn patches_tell_places_apart_and_know_them_again() {
    let (place, other) = (scene(1), scene(2));
    let dim = map(&place, |v| v / 2);
    let moved =
        RgbImage::from_fn(place.width(), place.height(), |x, y| *place.get_pixel((x + 3) % place.width(), y));
    // Of another size, as frames of another shot may be.
    let small = image::imageops::thumbnail(&place, place.width() / 2, place.height() / 2);
    let found = similarities(PatchSimilarity, &[place, other, moved, small, dim]);
    let [same, other, moved, small, dim] = found[..5].try_into().unwrap();
    assert_eq!(same, 1.0);
    assert!(other < 0.9 && other < moved.min(small), "other {other}, moved {moved}, small {small}");
    assert!(moved > 0.9 && small > 0.9 && dim > 0.9, "moved {moved}, small {small}, dim {dim}");
}

#[test]
fn patches_that_are_black_in_both_frames_have_no_say() {
    let black = RgbImage::new(588, 336);
    let mut lit = black.clone();
    for (x, y, pixel) in lit.enumerate_pixels_mut() {
        if x < 28 && y < 56 {
            *pixel = Rgb([200, 10, 10]);
        }
    }
    let mut half = lit.clone();
    (0..28).for_each(|x| (0..28).for_each(|y| half.put_pixel(x, y, Rgb([0, 0, 0]))));
    let found = similarities(PatchSimilarity, &[black, lit, half]);
    assert_eq!(found, [1.0, 0.0, 0.0, 0.0, 1.0, 0.5, 0.0, 0.5, 1.0]);
}

fn map(image: &RgbImage, change: impl Fn(u8) -> u8) -> RgbImage {
    RgbImage::from_fn(image.width(), image.height(), |x, y| Rgb(image.get_pixel(x, y).0.map(&change)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn patches_agree_both_ways_and_with_themselves(
        pixels in prop::collection::vec(any::<u8>(), 2 * 40 * 30 * 3),
    ) {
        let (a, b) = pixels.split_at(40 * 30 * 3);
        let frames = [a, b].map(|pixels| RgbImage::from_raw(40, 30, pixels.to_vec()).unwrap());
        let [aa, ab, ba, bb] = similarities(PatchSimilarity, &frames)[..].try_into().unwrap();
        prop_assert_eq!((aa, bb, ab), (1.0, 1.0, ba));
        prop_assert!((0.0..=1.0).contains(&ab));
    }
}

#[test]
fn a_stopped_comparison_ends() {
    let stop = StopToken::default();
    stop.stop();
    assert!(PatchSimilarity.features(&RgbImage::new(4, 4), &stop).is_err());
}
