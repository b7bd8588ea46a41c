//! Sizes and frame counts: what is made of a request, and what is refused with which advice.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use proptest::prelude::*;
use storymem::pipeline::size::MAX_FRAMES;
use storymem::pipeline::{Dimensions, Fit, Guidance, Sampling, Size, SizeError, SolverKind, Variant};

fn sampling(size: Size, fit: Fit, frames: usize) -> Sampling {
    Sampling {
        size,
        fit,
        frames,
        steps: 40,
        shift: 4.0,
        guidance: Guidance { high: 3.5, low: 3.5 },
        solver: SolverKind::UniPc,
        seed: 0,
    }
}

fn size(text: &str) -> Size {
    text.parse().unwrap()
}

fn of_size(text: &str) -> Result<Dimensions, SizeError> {
    Dimensions::new(&sampling(size(text), Fit::Size, 81), Variant::M2v, None)
}

fn with_frames(frames: usize, variant: Variant) -> Result<Dimensions, SizeError> {
    Dimensions::new(&sampling(size("832x480"), Fit::Size, frames), variant, None)
}

#[test]
fn the_default_shot_has_the_official_shapes() {
    let expected = Dimensions { width: 832, height: 480, lat_w: 104, lat_h: 60, frames: 81, lat_t: 21 };
    assert_eq!(of_size("832x480"), Ok(expected));
    let reference = |reference| {
        Dimensions::new(&sampling(size("832x480"), Fit::Reference, 81), Variant::M2v, Some(reference))
    };
    assert_eq!(reference(size("832x480")), Ok(expected));
    assert_eq!(reference(size("1664x960")), Ok(expected));
}

#[test]
fn the_reference_gives_the_shape_as_in_the_golden_runs() {
    let facts = common::facts("tiny");
    for (name, image, variant) in [
        ("m2v", "memory_0", Variant::M2v),
        ("mi2v", "first", Variant::Mi2v),
        ("mm2v", "motion_0", Variant::Mm2v),
    ] {
        let golden = &facts["pipeline"][name];
        let (width, height) =
            image::image_dimensions(common::fixture(&format!("tiny/inputs/{image}.png"))).unwrap();
        let reference = Size { width: width as usize, height: height as usize };
        let found =
            Dimensions::new(&sampling(size("96x64"), Fit::Reference, 9), variant, Some(reference)).unwrap();
        assert_eq!(
            [found.width, found.height],
            [&golden["width"], &golden["height"]].map(|v| v.as_u64().unwrap() as usize),
            "{name}"
        );
        assert_eq!((found.lat_w, found.lat_h, found.lat_t), (found.width / 8, found.height / 8, 3));
    }
}

#[test]
fn a_side_that_is_no_multiple_is_refused_with_the_nearest() {
    let error = of_size("850x480").unwrap_err();
    assert_eq!(
        error,
        SizeError::NotAMultiple { size: size("850x480"), below: size("848x480"), above: size("864x480") }
    );
    assert_eq!(error.field(), "size");
    assert_eq!(
        error.to_string(),
        "width and height of `850x480` must be multiples of 16; the nearest sizes are `848x480` and `864x480`"
    );
}

#[test]
fn sides_out_of_range_are_refused_with_the_nearest() {
    for (asked, nearest) in [
        ("15x480", "16x480"),
        ("832x0", "832x16"),
        ("5000x481", "4096x480"),
        ("18446744073709551615x16", "4096x16"),
    ] {
        let error = of_size(asked).unwrap_err();
        assert_eq!(error, SizeError::OutOfRange { size: size(asked), nearest: size(nearest) });
        assert_eq!(error.field(), "size");
        assert!(of_size(nearest).is_ok());
    }
    assert_eq!(
        of_size("8000x480").unwrap_err().to_string(),
        "no side of `8000x480` may be shorter than 16 or longer than 4096 pixels; the nearest size is `4096x480`"
    );
}

#[test]
fn a_shape_that_no_video_can_have_is_refused() {
    let error = |reference| {
        Dimensions::new(&sampling(size("832x480"), Fit::Reference, 81), Variant::M2v, reference).unwrap_err()
    };
    assert_eq!(error(None), SizeError::NoReference);
    for reference in ["1x10000", "10000x1", "0x10", "10x0"] {
        assert!(matches!(error(Some(size(reference))), SizeError::Aspect { .. }), "{reference}");
    }
    assert_eq!(error(None).field(), "fit");
    assert_eq!(
        error(Some(size("10000x1"))).to_string(),
        "no video with the area of `832x480` can have the shape of an image of 10000x1 pixels; use an image nearer to a square, or `fit` = `size`"
    );
}

#[test]
fn frame_counts_must_be_four_n_plus_one() {
    assert_eq!(
        with_frames(80, Variant::M2v),
        Err(SizeError::NotFourNPlusOne { frames: 80, below: 77, above: 81 })
    );
    assert_eq!(with_frames(80, Variant::M2v).unwrap_err().field(), "frames");
    assert_eq!(
        with_frames(80, Variant::M2v).unwrap_err().to_string(),
        "`80` frames can't be made: the number must be 4n+1; the nearest are `77` and `81`"
    );
}

#[test]
fn a_frame_must_be_left() {
    for (variant, least) in [(Variant::M2v, 1), (Variant::Mi2v, 5), (Variant::Mm2v, 9)] {
        assert!(with_frames(least, variant).is_ok());
        let dropped = variant.dropped_frames();
        for frames in [0, least.saturating_sub(4), least - 1] {
            assert_eq!(
                with_frames(frames, variant),
                if frames == least {
                    with_frames(least, variant)
                } else {
                    Err(SizeError::TooFewFrames { frames, dropped, least })
                }
            );
        }
    }
    assert_eq!(
        with_frames(5, Variant::Mm2v).unwrap_err().to_string(),
        "`5` frames are too few; in this mode the fewest are `9`, of which 5 are known and dropped"
    );
    assert_eq!(with_frames(2046, Variant::M2v), Err(SizeError::TooManyFrames { frames: 2046 }));
    assert!(with_frames(2045, Variant::M2v).is_ok());
}

fn variants() -> impl Strategy<Value = Variant> {
    prop_oneof![Just(Variant::M2v), Just(Variant::Mi2v), Just(Variant::Mm2v)]
}

proptest! {
    /// What an error advises leads to a size that works.
    #[test]
    fn advice_can_be_followed(
        width in 0..5000usize,
        height in 0..5000usize,
        frames in 0..2100usize,
        variant in variants(),
        up: bool,
    ) {
        let mut sampling = sampling(Size { width, height }, Fit::Size, frames);
        for _ in 0..4 {
            match Dimensions::new(&sampling, variant, None) {
                Ok(_) => break,
                Err(SizeError::OutOfRange { nearest, .. }) => sampling.size = nearest,
                Err(SizeError::NotAMultiple { below, above, .. }) => sampling.size = if up { above } else { below },
                Err(SizeError::NotFourNPlusOne { below, above, .. }) => sampling.frames = if up { above } else { below },
                Err(SizeError::TooFewFrames { least, .. }) => sampling.frames = least,
                Err(SizeError::TooManyFrames { .. }) => sampling.frames = MAX_FRAMES,
                Err(other) => panic!("{other}"),
            }
        }
        let found = Dimensions::new(&sampling, variant, None).unwrap();
        prop_assert_eq!(found.size(), sampling.size);
        prop_assert_eq!((found.lat_w * 8, found.lat_h * 8), (found.width, found.height));
        prop_assert_eq!((found.lat_t - 1) * 4 + 1, found.frames);
        prop_assert!(found.frames > variant.dropped_frames());
    }

    #[test]
    fn the_area_is_kept_and_the_shape_followed(w in 100..4000usize, h in 100..4000usize) {
        let reference = Size { width: w, height: h };
        let asked = sampling(size("832x480"), Fit::Reference, 81);
        if let Ok(found) = Dimensions::new(&asked, Variant::M2v, Some(reference)) {
            prop_assert_eq!((found.width % 16, found.height % 16), (0, 0));
            prop_assert!(found.width * found.height <= 832 * 480 + 832);
            let exact = (832.0 * 480.0 * w as f64 / h as f64).sqrt();
            prop_assert!((exact - found.width as f64).abs() <= 16.5);
        }
    }
}
