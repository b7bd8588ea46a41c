//! Images are resized as PyTorch resizes them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use image::{Rgb, RgbImage};
use proptest::prelude::*;
use storymem::pipeline::resize::{resize, to_planar};

#[test]
fn equals_the_reference() {
    let goldens = common::golden("tiny", "resize_64x96");
    assert!(!goldens.is_empty());
    for (name, expected) in goldens {
        let image = image::open(common::fixture(&format!("tiny/inputs/{name}.png"))).unwrap().into_rgb8();
        let found = resize(&image, 96, 64);
        assert_eq!(found.shape(), expected.shape());
        let error = common::relative_error(&found, &expected);
        assert!(error <= 1e-7, "{name}: {error}");
    }
}

#[test]
fn full_range_is_minus_one_to_one() {
    let image = RgbImage::from_fn(2, 1, |x, _| if x == 0 { Rgb([0, 255, 51]) } else { Rgb([255, 0, 102]) });
    let planar = to_planar(&image);
    assert_eq!(planar.shape(), [3, 1, 2]);
    assert_eq!(planar.as_slice().unwrap(), [-1.0, 1.0, 1.0, -1.0, (0.2 - 0.5) / 0.5, (0.4 - 0.5) / 0.5]);
}

fn images() -> impl Strategy<Value = RgbImage> {
    (1..24u32, 1..24u32).prop_flat_map(|(w, h)| {
        prop::collection::vec(any::<u8>(), (w * h * 3) as usize)
            .prop_map(move |pixels| RgbImage::from_raw(w, h, pixels).unwrap())
    })
}

proptest! {
    #[test]
    fn the_same_size_changes_nothing(image in images()) {
        prop_assert_eq!(resize(&image, image.width() as usize, image.height() as usize), to_planar(&image));
    }

    #[test]
    fn one_colour_stays_one_colour(colour: [u8; 3], from in (1..40u32, 1..40u32), to in (1..40usize, 1..40usize)) {
        let resized = resize(&RgbImage::from_pixel(from.0, from.1, Rgb(colour)), to.0, to.1);
        prop_assert_eq!(resized.dim(), (3, to.1, to.0));
        for ((c, _, _), value) in resized.indexed_iter() {
            let expected = f32::from(colour[c]) / 127.5 - 1.0;
            prop_assert!((value - expected).abs() <= 2e-6, "{value} for {expected}");
        }
    }

    #[test]
    fn a_mirrored_image_gives_a_mirrored_result(image in images(), width in 1..24usize, height in 1..24usize) {
        let resized = resize(&image, width, height);
        let mut mirrored = resize(&image::imageops::flip_horizontal(&image), width, height);
        mirrored.invert_axis(ndarray::Axis(2));
        prop_assert!(common::max_error(&resized, &mirrored) <= 2e-5);
    }
}
