//! Adapters under every name, alpha of every type, settings of every form: what is merged is the same.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

mod support;

use std::collections::{BTreeMap, HashMap};

use onnx_export::bundle::{Dtype, LoraFacts};
use onnx_export::export::{AdapterFile, Plan};
use onnx_export::models::Net;
use onnx_export::weights::file::FileDtype;
use onnx_export::weights::lora::LoraScale;
use onnx_export::weights::names::Naming;
use support::{RawTensor, Tree, raw, read, relative_error, tensors, write_raw};

const FILES: [&str; 2] = [
    "storymem/Wan2.2-MI2V-A14B/backbone_high_noise.safetensors",
    "storymem/Wan2.2-MI2V-A14B/backbone_low_noise.safetensors",
];
const LOW: &str = FILES[1];
const MODULE: &str = "blocks.1.cross_attn.v";

/// Renames the keys of both of StoryMem's adapters: `name` is given the module and `A` or `B`.
fn renamed(name: impl Fn(&str, &str) -> String) -> Tree {
    let tree = Tree::new();
    for file in FILES {
        tree.edit(file, |tensors| {
            let keys = std::mem::take(tensors).into_iter().map(|(key, tensor)| {
                let bare = key.strip_prefix("base_model.model.").unwrap();
                let (module, factor) = bare.split_once(".lora_").unwrap();
                (name(module, factor.strip_suffix(".weight").unwrap()), tensor)
            });
            *tensors = keys.collect();
        });
    }
    tree
}

fn direction(factor: &str) -> &'static str {
    if factor == "A" { "down" } else { "up" }
}

fn diffusers(module: &str) -> String {
    let other = Naming::Transformer.other(&format!("{module}.weight"));
    other.strip_suffix(".weight").unwrap().to_owned()
}

#[test]
fn adapters_of_every_naming_are_merged_alike() {
    type Name = fn(&str, &str) -> String;
    let names: [(&str, Name); 14] = [
        ("PEFT", |m, f| format!("base_model.model.{m}.lora_{f}.weight")),
        ("PEFT while training", |m, f| format!("base_model.model.{m}.lora_{f}.default.weight")),
        ("PEFT with an adapter's name", |m, f| format!("base_model.model.{m}.lora_{f}.high_noise.weight")),
        ("bare", |m, f| format!("{m}.lora_{f}.weight")),
        ("ComfyUI", |m, f| format!("diffusion_model.{m}.lora_{f}.weight")),
        ("ComfyUI, down and up", |m, f| format!("diffusion_model.{m}.lora_{}.weight", direction(f))),
        ("packed", |m, f| format!("model.diffusion_model.{m}.lora_{f}.weight")),
        ("DiffSynth", |m, f| format!("pipe.dit.{m}.lora_{f}.default.weight")),
        ("diffusers", |m, f| format!("transformer.{}.lora_{f}.weight", diffusers(m))),
        ("old diffusers", |m, f| {
            format!("transformer.{}.lora_linear_layer.{}.weight", diffusers(m), direction(f))
        }),
        ("kohya", |m, f| format!("lora_unet_{}.lora_{}.weight", m.replace('.', "_"), direction(f))),
        ("kohya, two underscores", |m, f| {
            format!("lora_unet__{}.lora_{}.weight", m.replace('.', "_"), direction(f))
        }),
        ("kohya, mixed", |m, f| {
            format!("lora_unet_{}.lora_{}.weight", m.replacen('.', "_", 1), direction(f))
        }),
        ("kohya over diffusers", |m, f| {
            format!("lora_unet_{}.lora_{}.weight", diffusers(m).replace('.', "_"), direction(f))
        }),
    ];
    let reference = Tree::new().bundle_files();
    for (what, name) in names {
        assert_eq!(renamed(name).bundle_files(), reference, "{what}");
    }
}

#[test]
fn a_file_for_both_experts_is_taken_apart() {
    let reference = Tree::new().bundle_files();
    let mut tree = Tree::new();
    let mut both = BTreeMap::new();
    for (file, prefix) in FILES.into_iter().zip(["transformer.", "transformer_2."]) {
        let tensors = raw(Dtype::F32, &read(&tree.path(file)));
        both.extend(
            tensors.into_iter().map(|(key, tensor)| (key.replace("base_model.model.", prefix), tensor)),
        );
    }
    let path = tree.path("both.safetensors");
    write_raw(&path, &both, None);
    tree.options.lora = None;
    let rule = Some(LoraScale::RankStabilised);
    let request = |net| AdapterFile { path: path.clone(), net, rule, strength: 1.0 };
    tree.options.adapters = vec![request(Net::TransformerHigh), request(Net::TransformerLow)];
    assert_eq!(tree.bundle_files(), reference);
    let warnings = |tree: &Tree| Plan::check(&tree.options).unwrap().warnings().join("\n");
    assert!(!warnings(&tree).contains("other expert"), "{}", warnings(&tree));
    tree.options.adapters.pop();
    assert!(warnings(&tree).contains("40 keys of"), "{}", warnings(&tree));
    assert!(warnings(&tree).contains("both.safetensors@low=STRENGTH` too"), "{}", warnings(&tree));
}

/// Adds tensors to StoryMem's adapter for low noise, and text to its header.
fn with(more: impl IntoIterator<Item = (String, RawTensor)>, metadata: Option<&str>) -> Tree {
    let tree = Tree::new();
    let mut tensors = raw(Dtype::F32, &read(&tree.path(LOW)));
    tensors.extend(more);
    let metadata = metadata.map(|text| HashMap::from([("lora_adapter_metadata".into(), text.into())]));
    write_raw(&tree.path(LOW), &tensors, metadata);
    tree
}

fn facts(tree: &Tree) -> LoraFacts {
    let mut lora = tree.export().unwrap().manifest.lora;
    lora.retain(|facts| facts.net == Net::TransformerLow);
    lora.pop().unwrap()
}

#[test]
fn alpha_may_be_any_number_and_differ_by_module() {
    let half = |dtype, bytes: &[u8]| {
        let alpha = |shape: &[usize]| {
            (format!("base_model.model.{MODULE}.alpha"), (dtype, shape.to_vec(), bytes.to_vec()))
        };
        [vec![], vec![1], vec![1, 1]].map(|shape| with([alpha(&shape)], None))
    };
    let reference = half(FileDtype::F32, &2f32.to_le_bytes())[0].bundle_files();
    assert_ne!(reference, Tree::new().bundle_files());
    for (dtype, bytes) in [
        (FileDtype::F32, 2f32.to_le_bytes().to_vec()),
        (FileDtype::F64, 2f64.to_le_bytes().to_vec()),
        (FileDtype::BF16, vec![0x00, 0x40]),
        (FileDtype::F16, vec![0x00, 0x40]),
        (FileDtype::I64, 2i64.to_le_bytes().to_vec()),
        (FileDtype::I32, 2i32.to_le_bytes().to_vec()),
    ] {
        for tree in half(dtype, &bytes) {
            assert_eq!(tree.bundle_files(), reference, "{dtype}");
        }
    }
    // Of rank 4, one pair has alpha 2 and the others none: 2 / sqrt(4) and sqrt(4).
    let facts = facts(&half(FileDtype::I64, &2i64.to_le_bytes())[0]);
    assert_eq!((facts.rule, facts.strength, facts.merged), (LoraScale::RankStabilised, 1.0, 20));
    assert_eq!((facts.ranks, facts.alphas), (vec![4, 4], vec![Some(2.0), None]));
    assert_eq!(facts.scales, [1.0, 2.0]);
}

#[test]
fn rank_may_differ_by_module() {
    let tree = Tree::new();
    let reference = tree.bundle();
    let reference = tensors(&reference.weights(Net::TransformerLow).unwrap());
    // The same product with a row and a column of zeros more, whose scale is sqrt(5) instead of sqrt(4).
    let tree = Tree::new();
    tree.edit(LOW, |tensors| {
        let [a, b] = ["A", "B"].map(|f| format!("base_model.model.{MODULE}.lora_{f}.weight"));
        let a = tensors.get_mut(&a).unwrap();
        a.values.extend(vec![0.0; a.shape[1]]);
        a.shape[0] += 1;
        let b = tensors.get_mut(&b).unwrap();
        b.values = b.values.chunks(b.shape[1]).flat_map(|row| row.iter().copied().chain([0.0])).collect();
        b.shape[1] += 1;
    });
    let facts = facts(&tree);
    assert_eq!(facts.ranks, [4, 5]);
    assert!((facts.scales[1] - 5f64.sqrt()).abs() < 1e-12 && facts.alphas == [None, None]);
    std::fs::remove_dir_all(tree.out()).unwrap();
    let merged = tensors(&tree.bundle().weights(Net::TransformerLow).unwrap());
    let base = {
        let mut tree = Tree::new();
        tree.options.lora = None;
        tensors(&tree.bundle().weights(Net::TransformerLow).unwrap())
    };
    let name = format!("{MODULE}.weight");
    let update =
        |merged: &[f32]| -> Vec<f32> { merged.iter().zip(&base[&name].values).map(|(a, b)| a - b).collect() };
    let expected: Vec<f32> =
        update(&reference[&name].values).iter().map(|v| v * (5f32.sqrt() / 2.0)).collect();
    let error = relative_error(&update(&merged[&name].values), &expected);
    assert!(error <= 1e-5, "{error:e}");
}

#[test]
fn settings_that_come_with_an_adapter_are_followed() {
    // The same settings in a header, as diffusers writes them, and in PEFT's file.
    let peft = r#"{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "use_rslora": true, "bias": "none",
        "alpha_pattern": {"blocks.1.cross_attn.v": 2}, "target_modules": ["q", "v"], "task_type": null}"#;
    let header = r#"{"transformer.r": 4, "transformer.lora_alpha": 8, "transformer.use_rslora": true,
        "transformer.alpha_pattern": {"cross_attn.v": 2}}"#;
    let in_header = |tree: &mut Tree| {
        let tensors = raw(Dtype::F32, &read(&tree.path(LOW)));
        let metadata = HashMap::from([("lora_adapter_metadata".into(), header.into())]);
        write_raw(&tree.path("further.safetensors"), &tensors, Some(metadata));
        "further.safetensors"
    };
    let beside = |tree: &mut Tree| {
        std::fs::create_dir(tree.path("further")).unwrap();
        std::fs::copy(tree.path(LOW), tree.path("further/adapter_model.safetensors")).unwrap();
        std::fs::write(tree.path("further/adapter_config.json"), peft).unwrap();
        "further/adapter_model.safetensors"
    };
    let export = |prepare: &dyn Fn(&mut Tree) -> &'static str, rule| {
        let mut tree = Tree::new();
        let path = prepare(&mut tree);
        tree.options.adapters =
            vec![AdapterFile { path: tree.path(path), net: Net::TransformerLow, rule, strength: 0.5 }];
        facts(&tree)
    };
    let sources = {
        let mut tree = Tree::new();
        let path = beside(&mut tree);
        let path = tree.path(path);
        tree.options.adapters =
            vec![AdapterFile { path, net: Net::TransformerLow, rule: None, strength: 1.0 }];
        tree.export().unwrap().manifest.sources
    };
    assert!(sources.iter().any(|source| source.path.ends_with("further/adapter_config.json")), "{sources:?}");
    let peft = export(&beside, None);
    assert_eq!((peft.rule, peft.strength), (LoraScale::RankStabilised, 0.5));
    assert_eq!(peft.alphas, [Some(2.0), Some(8.0)]);
    // Half of 2 / sqrt(4) and of 8 / sqrt(4).
    assert_eq!(peft.scales, [0.5, 2.0]);
    let header = export(&in_header, None);
    assert_eq!(header.alphas, [Some(2.0), Some(8.0)]);
    // What is told wins over what the file says of the rule; alpha stays the file's.
    let told = export(&in_header, Some(LoraScale::Plain));
    assert_eq!((told.rule, told.scales), (LoraScale::Plain, vec![0.25, 1.0]));
    assert_eq!(export(&beside, Some(LoraScale::Fixed(0.3))).scales, [0.15, 0.15]);
}

#[test]
fn adapters_lie_on_top_of_each_other() {
    // A distillation LoRA of its own rule and strength over StoryMem's, on both experts.
    let mut tree = Tree::new();
    let path = |file: &str| tree.path(file);
    let request = |net, file, strength| AdapterFile {
        path: path(file),
        net,
        rule: Some(LoraScale::Fixed(1.0)),
        strength,
    };
    let adapters =
        vec![request(Net::TransformerHigh, FILES[0], -0.5), request(Net::TransformerLow, FILES[1], 0.25)];
    tree.options.adapters = adapters;
    let manifest = tree.export().unwrap().manifest;
    let strengths: Vec<_> =
        manifest.lora.iter().map(|facts| (facts.net, facts.strength, facts.scales[0])).collect();
    assert_eq!(
        strengths,
        [
            (Net::TransformerHigh, 1.0, 2.0),
            (Net::TransformerHigh, -0.5, -0.5),
            (Net::TransformerLow, 1.0, 2.0),
            (Net::TransformerLow, 0.25, 0.25),
        ]
    );
    for (i, (net, scale)) in
        [(Net::TransformerHigh, 1.5), (Net::TransformerLow, 2.25)].into_iter().enumerate()
    {
        let mut sum = Tree::new();
        sum.options.lora_scale = LoraScale::Fixed(scale);
        let expected = tensors(&sum.bundle().weights(net).unwrap());
        let bundle = onnx_export::bundle::Bundle::open(&tree.out()).unwrap();
        for (name, tensor) in tensors(&bundle.weights(net).unwrap()) {
            let error = relative_error(&tensor.values, &expected[&name].values);
            assert!(error <= 1e-6, "{name} of {i}: {error:e}");
        }
    }
}

#[test]
fn keys_for_an_image_branch_are_counted_and_change_nothing() {
    let reference = Tree::new().bundle_files();
    let factor =
        |rows: usize, columns: usize| (FileDtype::F32, vec![rows, columns], vec![0; 4 * rows * columns]);
    let keys = [
        ("base_model.model.blocks.0.cross_attn.k_img.lora_A.weight".to_owned(), factor(4, 64)),
        ("base_model.model.blocks.0.cross_attn.k_img.lora_B.weight".to_owned(), factor(64, 4)),
        ("base_model.model.img_emb.proj.1.lora_A.weight".to_owned(), factor(4, 1280)),
    ];
    let tree = with(keys, None);
    let warnings = Plan::check(&tree.options).unwrap().warnings().join("\n");
    assert!(warnings.contains("3 keys of") && warnings.contains("image branch"), "{warnings}");
    assert_eq!(tree.bundle_files(), reference);
    std::fs::remove_dir_all(tree.out()).unwrap();
    assert_eq!(facts(&tree).unused, 3);
}

#[test]
fn an_adapter_of_the_other_expert_by_its_name_is_warned_of() {
    let mut tree = Tree::new();
    let request =
        AdapterFile { path: tree.path(FILES[0]), net: Net::TransformerLow, rule: None, strength: 1.0 };
    tree.options.adapters = vec![request];
    let warnings = Plan::check(&tree.options).unwrap().warnings().join("\n");
    assert!(warnings.contains("looks like an adapter for the high-noise expert"), "{warnings}");
}
