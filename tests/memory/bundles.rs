//! Several bundles on one device, as a worker has them, and what their films remember.

use std::path::Path;

use image::RgbImage;
use onnx_export::bundle::BundleVariant;
use onnx_export::demo;
use storymem::engine::{Device, StopToken};
use storymem::pipeline::memory::{AcceptAll, Remembered};
use storymem::pipeline::{Bundles, Model, ShotPipeline, Variant};

use super::common::nets::images;
use super::common::{clip_folder, export, golden, runtime};
use super::shot;

fn open(path: &Path) -> Model {
    Model::new(ShotPipeline::open(path, runtime(), Device::Cpu).unwrap())
}

#[test]
fn the_first_bundle_that_can_make_a_shot_makes_it() {
    let folder = tempfile::tempdir().unwrap();
    let variants = [BundleVariant::T2v, BundleVariant::Mm2v, BundleVariant::Mi2v];
    let models = variants.map(|variant| {
        let path = folder.path().join(variant.name());
        demo::write_like(&path, demo::manifest_for(variant)).unwrap();
        open(&path)
    });
    let digests = models.each_ref().map(|model| model.digest.clone());
    let mut bundles = Bundles::new(models.into());
    assert_eq!(bundles.modes(), Variant::ALL);
    for (mode, bundle) in [(Variant::T2v, 0), (Variant::Mm2v, 1), (Variant::M2v, 1), (Variant::Mi2v, 2)] {
        assert!(bundles.serves(mode));
        assert_eq!(bundles.of_mode(mode).unwrap().digest, digests[bundle], "{mode:?}");
    }

    let mut text_alone = Bundles::new(vec![open(&folder.path().join("t2v"))]);
    assert_eq!(text_alone.modes(), [Variant::T2v]);
    assert!(!text_alone.serves(Variant::M2v) && text_alone.of_mode(Variant::M2v).is_none());
    assert_eq!(Bundles::new(Vec::new()).modes(), []);
}

#[test]
fn frames_are_compared_by_clip_where_a_bundle_holds_it() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    demo::write_like(&plain, demo::manifest_for(BundleVariant::T2v)).unwrap();
    let with_clip = folder.path().join("clip");
    export("tiny", &with_clip, "mi2v", true, &["--clip", &clip_folder("tiny")]);

    let frames = images(&golden("tiny", "keyframes")["frames"]);
    let film = Bundles::new(vec![open(&plain), open(&with_clip)]);
    let by_clip = remembered(&film, &frames, &[]);
    assert_eq!((by_clip.similarity, by_clip.quality), ("clip", "accept_all"));
    assert!(by_clip.keyframes.len() > 1, "the clip drifts from one picture to others");
    let again = remembered(&film, &frames, &[]);
    assert_eq!(indices(&again), indices(&by_clip), "the same frames, the same choice");

    // What is remembered is not remembered again, whichever shot shows it.
    let bank: Vec<RgbImage> = by_clip.keyframes.iter().map(|keyframe| keyframe.image.clone()).collect();
    let again = remembered(&film, &frames, &bank);
    assert_eq!((indices(&again), again.duplicates), (Vec::new(), indices(&by_clip)));

    let by_patches = remembered(&Bundles::new(vec![open(&plain)]), &frames, &[]);
    assert_eq!(by_patches.similarity, "hsv_patches");
    assert!(!by_patches.keyframes.is_empty());
}

fn remembered(bundles: &Bundles, frames: &[RgbImage], bank: &[RgbImage]) -> Remembered {
    bundles.remember(&shot(frames), bank, &mut AcceptAll, &StopToken::default()).unwrap()
}

fn indices(remembered: &Remembered) -> Vec<usize> {
    remembered.keyframes.iter().map(|keyframe| keyframe.index).collect()
}
