//! What a film takes besides bundles with memory: one that works from text alone, and CLIP.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

mod support;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use onnx_export::bundle::{Bundle, BundleVariant, Dtype};
use onnx_export::export::{ExportOptions, Plan};
use onnx_export::models::clip::ClipConfig;
use onnx_export::models::{Net, clip};
use onnx_export::weights::lora::LoraScale;
use serde_json::json;
use support::{Tensors, Tree, read, tensors, tiny};
use tempfile::TempDir;

/// The tree that holds experts which work from text alone, in diffusers' layout, and a whole CLIP.
fn variant() -> PathBuf {
    tiny().join("../variant")
}

fn text_alone(components: PathBuf) -> ExportOptions {
    ExportOptions {
        standalone: None,
        components,
        transformer: variant().join("base_t2v"),
        clip: Some(variant().join("clip")),
        lora: None,
        lora_scale: LoraScale::RankStabilised,
        adapters: Vec::new(),
        variant: BundleVariant::T2v,
        dtype: Dtype::F32,
    }
}

fn export(options: &ExportOptions) -> (Bundle, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("bundle");
    Plan::check(options).unwrap().write(&out, &mut |_| {}, &AtomicBool::new(false)).unwrap();
    (Bundle::open(&out).unwrap(), folder)
}

/// The components are those of the model with memory, as users need only one copy: what they say of their own task does
/// not count for this one.
#[test]
fn a_bundle_for_text_alone_has_its_own_sampling() {
    let options = text_alone(variant().join("base_i2v_diffusers"));
    let plan = Plan::check(&options).unwrap();
    assert_eq!(plan.warnings(), [] as [String; 0]);
    let (bundle, _folder) = export(&options);
    let manifest = bundle.manifest();
    assert_eq!((manifest.variant, manifest.name.as_str()), (BundleVariant::T2v, "base_t2v"));
    assert_eq!((manifest.nets.transformer.in_dim, manifest.nets.transformer.condition_channels()), (16, 0));
    assert_eq!((manifest.sampling.shift, manifest.sampling.boundary), (12.0, 0.875));
    assert!(manifest.lora.is_empty());
    assert!(!manifest.licences.iter().any(|text| text.contains("StoryMem")), "{:?}", manifest.licences);

    let folder = tempfile::tempdir().unwrap();
    support::copy(&variant().join("base_i2v_diffusers"), folder.path());
    let index = json!({"_class_name": "WanPipeline", "boundary_ratio": 0.8});
    std::fs::write(folder.path().join("model_index.json"), index.to_string()).unwrap();
    let (own, _folder) = export(&text_alone(folder.path().into()));
    assert_eq!(own.manifest().sampling.boundary, 0.8);
}

/// Every value is the checkpoint's own, in f32 whatever the bundle's type is.
fn check_clip(bundle: &Bundle, checkpoint: &Path) {
    let stored = bundle.weights(Net::Clip).unwrap();
    assert!(stored.iter().all(|tensor| tensor.dtype == Dtype::F32));
    let checkpoint = read(checkpoint);
    let config = bundle.manifest().nets.clip.as_ref().unwrap();
    let names: Vec<String> = clip::weights(config).into_iter().map(|spec| spec.name).collect();
    let expected: Tensors = names.iter().map(|name| (name.clone(), checkpoint[name].clone())).collect();
    assert_eq!(tensors(&stored), expected);
    assert!(
        stored.iter().map(|tensor| tensor.name).eq(names.iter().map(String::as_str)),
        "in the order of use"
    );
    assert!(bundle.manifest().licences.iter().any(|text| text.starts_with("CLIP weights: MIT")));
    let path = bundle.path();
    assert!(
        path.join("weights/clip.safetensors").is_file() && path.join("graphs/clip_vision.onnx").is_file()
    );
}

#[test]
fn the_vision_tower_comes_along() {
    let mut tree = Tree::new();
    tree.options.clip = Some(tree.path("clip"));
    tree.options.dtype = Dtype::F16;
    let report = Plan::check(&tree.options).unwrap();
    let clip = report.reports().last().unwrap();
    assert_eq!((clip.net, clip.mapped, clip.merged), (Net::Clip, 2 * 16 + 3 + 4 + 1, 0));
    let bundle = tree.bundle();
    check_clip(&bundle, &tiny().join("clip/model.safetensors"));
    let sources = &bundle.manifest().sources;
    let count = sources.iter().filter(|source| source.path.contains("/clip/")).count();
    assert_eq!(count, 2, "its config and its weights");
    let config = ClipConfig {
        hidden_size: 32,
        intermediate_size: 64,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        image_size: 224,
        patch_size: 32,
        projection_dim: 16,
        layer_norm_eps: 1e-5,
    };
    assert_eq!(bundle.manifest().nets.clip, Some(config));
}

/// Of a whole CLIP, in F16, only the vision tower is taken; the width of its embedding is the whole's.
#[test]
fn a_whole_clip_will_do() {
    let (bundle, _folder) = export(&text_alone(variant().join("base_i2v_diffusers")));
    check_clip(&bundle, &variant().join("clip/model.safetensors"));
    let config = bundle.manifest().nets.clip.as_ref().unwrap();
    assert_eq!((config.projection_dim, config.layer_norm_eps, config.image_size), (10, 1e-6, 48));
}

/// `transformers` writes only what differs from ViT-B/32.
#[test]
fn a_config_that_says_nothing_is_vit_b_32() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    for config in
        [json!({"model_type": "clip", "vision_config": {}}), json!({"model_type": "clip_vision_model"})]
    {
        std::fs::write(&path, config.to_string()).unwrap();
        let fields = onnx_export::weights::config::Fields::read(&path).unwrap();
        let config = onnx_export::weights::config::clip(&fields).unwrap();
        let weights = clip::weights(&config);
        let parameters: usize = weights.iter().map(|spec| spec.shape.iter().product::<usize>()).sum();
        assert_eq!((parameters, config.projection_dim), (87_849_216, 512));
    }
}
