//! Which remembered frames a shot sees, and which frames it continues.

use image::{Rgb, RgbImage};
use proptest::prelude::*;
use serde::Deserialize;
use storymem::pipeline::memory::{MOTION_FRAMES, last_frame, motion_frames, window};
use storymem::pipeline::{Conditioning, Frames, Size};

use super::common::facts;
use super::shot;

#[test]
fn equals_the_reference() {
    #[derive(Deserialize)]
    struct Case {
        count: usize,
        limit: usize,
        selected: Vec<usize>,
    }
    let cases: Vec<Case> = serde_json::from_value(facts("tiny")["bank"].clone()).unwrap();
    assert_eq!(cases.len(), 4);
    for Case { count, limit, selected } in cases {
        assert_eq!(window(count, limit, 3), selected, "{limit} of {count}");
    }
}

proptest! {
    #[test]
    fn a_window_holds_the_first_and_the_newest(len in 0usize..60, max in 0usize..14, fixed in 0usize..20) {
        let chosen = window(len, max, fixed);
        prop_assert_eq!(chosen.len(), len.min(max));
        prop_assert!(chosen.is_sorted_by(|a, b| a < b) && chosen.iter().all(|&i| i < len));
        let fixed = fixed.min(chosen.len());
        prop_assert!(chosen[..fixed].iter().copied().eq(0..fixed));
        let newest = chosen.len() - fixed;
        prop_assert!(chosen[fixed..].iter().copied().eq(len - newest..len));
    }
}

#[test]
fn the_next_shot_continues_the_last_frames() {
    let frames: Vec<RgbImage> = (0..7).map(|shade| RgbImage::from_pixel(4, 2, Rgb([shade, 0, 9]))).collect();
    for len in 0..=7 {
        let shot = match len {
            0 => Frames { size: Size { width: 4, height: 2 }, rgb: Vec::new() },
            _ => shot(&frames[..len]),
        };
        assert_eq!(last_frame(&shot).as_ref(), frames[..len].last(), "{len} frames");
        let motion = motion_frames(&shot);
        assert_eq!(motion.is_some(), len >= MOTION_FRAMES, "{len} frames");
        if let Some(motion) = motion {
            assert_eq!(motion[..], frames[len - MOTION_FRAMES..len]);
            // It is what a shot of this mode takes.
            let _ = Conditioning::Motion(motion);
        }
    }
}
