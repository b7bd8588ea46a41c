//! Image files of every kind become the RGB that Pillow makes of them; broken ones become errors that help.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;

use image::{GrayImage, ImageFormat, RgbImage};
use proptest::prelude::*;
use serde::Deserialize;
use storymem::pipeline::Size;
use storymem::pipeline::images::{Header, ImageError, MAX_BYTES, decode, inspect};

#[derive(Deserialize)]
struct Expected {
    width: usize,
    height: usize,
    tolerance: u8,
    rgb: Vec<u8>,
}

fn file(name: &str) -> Vec<u8> {
    fs::read(common::fixture("images").join(name)).unwrap()
}

fn expected() -> BTreeMap<String, Expected> {
    serde_json::from_slice(&file("expected.json")).unwrap()
}

#[test]
fn every_kind_becomes_the_rgb_of_pillow() {
    let mut wrong = Vec::new();
    for (name, Expected { width, height, tolerance, rgb }) in expected() {
        let bytes = file(&name);
        let size = Size { width, height };
        assert_eq!(inspect(&bytes).unwrap().size, size, "{name}");
        let image = decode(&bytes).unwrap();
        assert_eq!((image.width() as usize, image.height() as usize), (width, height), "{name}");
        let off = image.as_raw().iter().zip(&rgb).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
        if off > tolerance {
            wrong.push(format!("{name}: {off} > {tolerance}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_reference_images_are_read_exactly() {
    for name in ["first", "memory_0", "memory_3", "motion_4"] {
        let path = common::fixture(&format!("tiny/inputs/{name}.png"));
        assert_eq!(decode(&fs::read(&path).unwrap()).unwrap(), image::open(path).unwrap().into_rgb8());
    }
}

#[test]
fn the_header_tells_type_and_size() {
    let size = Size { width: 24, height: 16 };
    for (name, format) in
        [("rgb.png", ImageFormat::Png), ("rgb.jpg", ImageFormat::Jpeg), ("lossy.webp", ImageFormat::WebP)]
    {
        assert_eq!(inspect(&file(name)).unwrap(), Header { format, size });
    }
}

/// What is cut off is noticed, save where all pixels of the (first) image are there.
#[test]
fn a_file_that_ends_early_is_refused() {
    for name in expected().keys() {
        let bytes = file(name);
        let whole = decode(&bytes).unwrap();
        for end in 0..bytes.len() {
            if let Ok(image) = decode(&bytes[..end]) {
                // PNG has an empty chunk at the end, WebP a padding byte.
                let no_pixels = match name.rsplit_once('.').unwrap().1 {
                    "png" => bytes.len() - end <= 12,
                    "webp" => bytes.len() - end == 1 || name == "animated.webp",
                    _ => false,
                };
                assert!(no_pixels, "{name} cut at {end} of {}", bytes.len());
                assert_eq!(image, whole);
            }
        }
    }
}

#[test]
fn a_cut_jpeg_is_told_apart_from_a_broken_one() {
    let bytes = file("progressive.jpg");
    let error = decode(&bytes[..bytes.len() - 40]).unwrap_err();
    assert!(matches!(error, ImageError::Truncated { .. }));
    assert_eq!(error.to_string(), "the JPEG ends before its last pixels; send the whole file");
    // What comes after the end does not matter.
    assert_eq!(decode(&[&bytes[..], b"trailing"].concat()).unwrap(), decode(&bytes).unwrap());
}

#[test]
fn what_is_no_accepted_image_is_refused_by_name() {
    for bytes in [&b""[..], b"hello", &[0; 100], b"<svg xmlns='http://www.w3.org/2000/svg'/>"] {
        assert!(matches!(decode(bytes), Err(ImageError::Unknown)));
    }
    let gif = decode(b"GIF89a\x01\x00\x01\x00").unwrap_err();
    assert_eq!(gif.to_string(), "images of type `GIF` are not accepted; convert it to PNG, JPEG or WebP");
    let large = decode(&vec![0; MAX_BYTES + 1]).unwrap_err();
    assert!(large.to_string().starts_with("the image has `20971521` bytes"), "{large}");
}

/// A few kilobytes that would decode to gigabytes.
#[test]
fn a_decompression_bomb_is_refused_from_its_header() {
    let mut bomb = Vec::new();
    GrayImage::new(8000, 5001).write_to(&mut Cursor::new(&mut bomb), ImageFormat::Png).unwrap();
    assert!(bomb.len() < 1 << 20);
    let error = decode(&bomb).unwrap_err();
    assert!(matches!(error, ImageError::TooManyPixels { width: 8000, height: 5001 }));
    assert!(matches!(inspect(&bomb), Err(ImageError::TooManyPixels { .. })));

    // The same with a size that no header is true about.
    let mut liar = file("rgb.png");
    liar[16..24].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
    assert!(decode(&liar).is_err());
}

#[test]
fn the_largest_image_allowed_is_decoded() {
    let mut bytes = Vec::new();
    GrayImage::new(8000, 5000).write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png).unwrap();
    assert_eq!(decode(&bytes).unwrap().dimensions(), (8000, 5000));
}

fn fixtures() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(expected().into_keys().collect::<Vec<_>>()).prop_map(|name| file(&name))
}

proptest! {
    /// Damage gives an error or other pixels, never a panic.
    #[test]
    fn damage_does_no_harm(
        mut bytes in fixtures(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..9),
    ) {
        for (at, value) in damage {
            *at.get_mut(&mut bytes) = value;
        }
        if let Ok(image) = decode(&bytes) {
            let size = inspect(&bytes).unwrap().size;
            prop_assert_eq!((image.width() as usize, image.height() as usize), (size.width, size.height));
        }
    }

    #[test]
    fn any_bytes_do_no_harm(start in prop::sample::select(vec![&b"\x89PNG\r\n\x1a\n"[..], b"\xff\xd8\xff", b"RIFF\x10\0\0\0WEBP"]), rest: Vec<u8>) {
        prop_assert!(decode(&[start, &rest].concat()).is_err());
    }

    #[test]
    fn png_is_read_back(w in 1..20u32, h in 1..20u32, seed: u8) {
        let image = RgbImage::from_fn(w, h, |x, y| image::Rgb([x as u8 ^ seed, y as u8, (x * y) as u8]));
        let mut bytes = Vec::new();
        image.write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png).unwrap();
        prop_assert_eq!(decode(&bytes).unwrap(), image);
    }
}
