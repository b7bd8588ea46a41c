//! The size at which frames are looked at, and how they are brought to it.

use image::{Rgb, RgbImage};
use proptest::prelude::*;
use serde::Deserialize;
use storymem::pipeline::Size;
use storymem::pipeline::memory::{analysis_size, resize_smooth};
use storymem::pipeline::resize::bilinear;

use super::common::nets::image;
use super::common::{facts, golden, max_error};

#[test]
fn frames_are_looked_at_in_the_references_size() {
    #[derive(Deserialize)]
    struct Case {
        height: usize,
        width: usize,
        analysed: [usize; 2],
    }
    let cases: Vec<Case> = serde_json::from_value(facts("variant")["analysis_sizes"].clone()).unwrap();
    assert!(cases.len() > 5);
    for Case { height, width, analysed } in cases {
        let Size { width: to_width, height: to_height } = analysis_size(Size { width, height });
        assert_eq!([to_height, to_width], analysed, "{width}x{height}");
    }
}

#[test]
fn smooth_resizing_equals_the_references_bit_for_bit() {
    let golden = golden("variant", "keyframes");
    let mut cases = 0;
    for (name, of) in golden.iter().filter_map(|(name, of)| Some((name.strip_suffix("_of")?, of))) {
        let expected = image(&golden[name]);
        let size = Size { width: expected.width() as usize, height: expected.height() as usize };
        assert_eq!(resize_smooth(&image(of), size), expected, "{name}");
        cases += 1;
    }
    assert_eq!(cases, 3, "both sides smaller, both larger, one of each");
}

fn sizes(most: usize) -> impl Strategy<Value = Size> {
    (1..most, 1..most).prop_map(|(width, height)| Size { width, height })
}

proptest! {
    #[test]
    fn an_analysed_frame_is_made_of_whole_patches_within_the_limits(size in sizes(5000)) {
        let Size { width, height } = analysis_size(size);
        prop_assert!(width.is_multiple_of(28) && height.is_multiple_of(28) && width > 0 && height > 0);
        // A frame as long as a ribbon may leave the limits, as its short side can't be less than a patch.
        if width.min(height) > 28 {
            let area = width * height;
            prop_assert!((37_632..=200_704).contains(&area), "{size}: {width}x{height}");
        }
    }

    #[test]
    fn one_colour_stays_one_colour(colour: [u8; 3], from in sizes(90), to in sizes(90)) {
        let image = RgbImage::from_pixel(from.width as u32, from.height as u32, Rgb(colour));
        let resized = resize_smooth(&image, to);
        prop_assert_eq!((resized.width() as usize, resized.height() as usize), (to.width, to.height));
        prop_assert!(resized.pixels().all(|pixel| pixel.0 == colour));
        let planar = bilinear(&image, to.width, to.height);
        prop_assert_eq!(planar.dim(), (3, to.height, to.width));
        for ((c, _, _), value) in planar.indexed_iter() {
            prop_assert!((value - f32::from(colour[c]) / 255.0).abs() <= 1e-6);
        }
    }

    #[test]
    fn bilinear_keeps_the_same_size_and_mirrors(
        pixels in prop::collection::vec(any::<u8>(), 7 * 5 * 3),
        width in 1usize..30,
        height in 1usize..30,
    ) {
        let image = RgbImage::from_raw(7, 5, pixels).unwrap();
        for ((c, y, x), value) in bilinear(&image, 7, 5).indexed_iter() {
            prop_assert_eq!(*value, f32::from(image.get_pixel(x as u32, y as u32)[c]) / 255.0);
        }
        let mut mirrored = bilinear(&image::imageops::flip_vertical(&image), width, height);
        mirrored.invert_axis(ndarray::Axis(1));
        prop_assert!(max_error(&bilinear(&image, width, height), &mirrored) <= 1e-5);
    }
}
