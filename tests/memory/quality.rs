//! Whether frames are good enough.

use image::imageops::{blur, resize};
use image::{Rgb, RgbImage};
use storymem::engine::StopToken;
use storymem::pipeline::PipelineError;
use storymem::pipeline::memory::{AcceptAll, Quality, QualityGate, TechnicalQuality};

use super::scenes::scene;

fn score(frame: &RgbImage) -> f64 {
    TechnicalQuality.score(frame, &StopToken::default()).unwrap()
}

fn scaled(frame: &RgbImage, by: f32, plus: f32) -> RgbImage {
    let change = |v: u8| (f32::from(v) * by + plus).round().clamp(0.0, 255.0) as u8;
    RgbImage::from_fn(frame.width(), frame.height(), |x, y| Rgb(frame.get_pixel(x, y).0.map(change)))
}

#[test]
fn pictures_pass_and_what_shows_nothing_does_not() {
    let mut failures = Vec::new();
    for seed in 0..4 {
        let picture = scene(seed);
        let enlarged = resize(
            &resize(&picture, 147, 84, image::imageops::FilterType::Triangle),
            588,
            336,
            image::imageops::FilterType::CatmullRom,
        );
        for (what, frame, passes) in [
            ("sharp", picture.clone(), true),
            ("at night", scaled(&picture, 0.15, 0.0), true),
            ("in the snow", scaled(&picture, 0.25, 170.0), true),
            ("a little soft", blur(&picture, 1.0), true),
            ("enlarged four times", enlarged, true),
            ("small", resize(&picture, 196, 196, image::imageops::FilterType::Triangle), true),
            ("blurred", blur(&picture, 6.0), false),
            ("black", RgbImage::new(588, 336), false),
            ("white", RgbImage::from_pixel(588, 336, Rgb([255; 3])), false),
            ("grey", RgbImage::from_pixel(588, 336, Rgb([128; 3])), false),
            ("one colour", RgbImage::from_pixel(588, 336, Rgb([30, 90, 200])), false),
            ("nearly faded to black", scaled(&picture, 0.03, 0.0), false),
            ("nearly faded to white", scaled(&picture, 0.03, 247.0), false),
            ("in fog without end", scaled(&picture, 0.03, 120.0), false),
        ] {
            let score = score(&frame);
            println!("{what}: {score:.2}");
            if (score >= TechnicalQuality.good_from()) != passes {
                failures.push(format!("{what}: {score:.2}"));
            }
        }
        // A sweep of grey has contrast, but nothing in it.
        let sweep = RgbImage::from_fn(588, 336, |x, _| Rgb([(x / 3 + 30) as u8; 3]));
        assert!(score(&sweep) < 1.0);
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn more_blur_is_worse() {
    let picture = scene(5);
    let scores: Vec<f64> = [0.5, 1.0, 2.0, 4.0, 8.0].map(|sigma| score(&blur(&picture, sigma))).to_vec();
    assert!(scores.is_sorted_by(|a, b| a > b), "{scores:?}");
    assert!(score(&picture) >= scores[0]);
}

#[test]
fn a_frame_that_is_all_edge_has_no_sharpness() {
    for (width, height) in [(1, 1), (2, 40), (40, 2)] {
        assert_eq!(score(&RgbImage::from_fn(width, height, |x, y| Rgb([((x + y) * 90) as u8; 3]))), 0.0);
    }
}

#[test]
fn accept_all_takes_everything() {
    let score = AcceptAll.score(&RgbImage::new(1, 1), &StopToken::default()).unwrap();
    assert!(score >= AcceptAll.good_from());
}

#[test]
fn a_stopped_gate_ends() {
    let stop = StopToken::default();
    stop.stop();
    assert!(matches!(TechnicalQuality.score(&scene(0), &stop), Err(PipelineError::Stopped)));
}

#[test]
fn gates_are_named_on_the_command_line() {
    for (text, gate) in [
        ("technical", Quality::Technical),
        ("accept-all", Quality::AcceptAll),
        ("models/taste.onnx", Quality::Model("models/taste.onnx".into())),
    ] {
        assert_eq!(text.parse(), Ok(gate));
    }
    for text in ["", "hpsv3", "taste.pt", "Technical"] {
        let message = text.parse::<Quality>().unwrap_err();
        assert!(message.contains(&format!("`{text}` is no quality gate; use `technical`")), "{message}");
    }
}
