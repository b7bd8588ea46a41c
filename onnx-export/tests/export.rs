//! A checkpoint tree becomes a bundle: values, names, order, types, manifest.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

mod support;

use onnx_export::bundle::{ALIGNMENT, Bundle, BundleError, BundleVariant, Dtype, Manifest, NEGATIVE_PROMPT};
use onnx_export::export::{AdapterFile, Plan};
use onnx_export::models::{Net, umt5, vae, wan};
use onnx_export::weights::file::FileDtype;
use onnx_export::weights::lora::LoraScale;
use onnx_export::weights::names::Naming;
use sha2::{Digest, Sha256};
use support::{EXPERTS, Tensors, Tree, read, relative_error, tensors, tiny};

#[test]
fn merged_weights_agree_with_the_reference() {
    let tree = Tree::new();
    let bundle = tree.bundle();
    let merged = tensors(&bundle.weights(Net::TransformerHigh).unwrap());
    let golden = read(&tiny().join("golden/merged_high_mi2v.safetensors"));
    assert_eq!(merged.len(), golden.len());
    for (name, golden) in &golden {
        let merged = &merged[name];
        assert_eq!(merged.shape, golden.shape, "{name}");
        let error = relative_error(&merged.values, &golden.values);
        assert!(error <= 1e-6, "{name}: {error:e}");
    }
    let report = Plan::check(&tree.options).unwrap();
    let counts: Vec<_> = report.reports().map(|net| (net.net, net.mapped, net.merged)).collect();
    assert_eq!(
        counts,
        [
            (Net::TextEncoder, 22, 0),
            (Net::TransformerHigh, 69, 20),
            (Net::TransformerLow, 69, 20),
            (Net::Vae, 194, 0)
        ]
    );
}

#[test]
fn unmerged_weights_are_the_checkpoints_bit_for_bit() {
    let mut tree = Tree::new();
    tree.options.lora = None;
    tree.options.variant = BundleVariant::M2v;
    let bundle = tree.bundle();
    for (net, folder) in [
        (Net::TextEncoder, "base_i2v_diffusers/text_encoder"),
        (Net::TransformerLow, "base_i2v/low_noise_model"),
        (Net::Vae, "base_i2v_diffusers/vae"),
    ] {
        assert_eq!(tensors(&bundle.weights(net).unwrap()), read_folder(&tree, folder), "{net:?}");
    }
}

#[test]
fn files_hold_the_nets_weights_in_order_and_aligned() {
    let mut tree = Tree::new();
    for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32] {
        tree.options.dtype = dtype;
        let bundle = tree.bundle();
        let nets = &bundle.manifest().nets;
        for (net, specs) in [
            (Net::TextEncoder, umt5::weights(&nets.text_encoder)),
            (Net::TransformerHigh, wan::weights(&nets.transformer)),
            (Net::TransformerLow, wan::weights(&nets.transformer)),
            (Net::Vae, vae::weights(&nets.vae)),
        ] {
            let file = bundle.weights(net).unwrap();
            let base = file.map().as_ptr().addr();
            let mut end = 0;
            assert_eq!(file.len(), specs.len());
            for (spec, tensor) in specs.iter().zip(file.iter()) {
                assert_eq!((tensor.name, tensor.shape), (spec.name.as_str(), spec.shape.as_slice()));
                let start = tensor.bytes.as_ptr().addr() - base;
                assert!(start >= end && start.is_multiple_of(ALIGNMENT), "{}", spec.name);
                end = start + tensor.bytes.len();
                assert_eq!(tensor.bytes.len(), spec.shape.iter().product::<usize>() * tensor.dtype.size());
            }
            assert_eq!(end as u64, file.total_bytes(), "{net:?} ends with its last tensor");
        }
        std::fs::remove_dir_all(tree.out()).unwrap();
    }
}

#[test]
fn matrices_are_narrowed_and_what_decides_precision_is_not() {
    let mut tree = Tree::new();
    tree.options.dtype = Dtype::F16;
    let f16 = tree.bundle();
    let dtype = |net, name: &str| f16.weights(net).unwrap().tensor(name).unwrap().dtype;
    for (net, name, expected) in [
        (Net::TextEncoder, "shared.weight", Dtype::F16),
        (Net::TextEncoder, "encoder.block.0.layer.0.SelfAttention.q.weight", Dtype::F16),
        (Net::TextEncoder, "encoder.block.1.layer.1.DenseReluDense.wi_1.weight", Dtype::F16),
        (Net::TextEncoder, "encoder.block.1.layer.1.DenseReluDense.wo.weight", Dtype::F32),
        (
            Net::TextEncoder,
            "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
            Dtype::F32,
        ),
        (Net::TextEncoder, "encoder.block.0.layer.0.layer_norm.weight", Dtype::F32),
        (Net::TransformerHigh, "patch_embedding.weight", Dtype::F16),
        (Net::TransformerHigh, "patch_embedding.bias", Dtype::F32),
        (Net::TransformerHigh, "blocks.1.ffn.2.weight", Dtype::F16),
        (Net::TransformerHigh, "blocks.1.self_attn.norm_q.weight", Dtype::F32),
        (Net::TransformerHigh, "blocks.1.modulation", Dtype::F32),
        (Net::TransformerLow, "head.modulation", Dtype::F32),
        (Net::TransformerLow, "head.head.weight", Dtype::F16),
        (Net::Vae, "encoder.conv_in.weight", Dtype::F32),
        (Net::Vae, "decoder.mid_block.attentions.0.to_qkv.weight", Dtype::F32),
    ] {
        assert_eq!(dtype(net, name), expected, "{name}");
    }
    let golden = read(&tiny().join("golden/merged_high_mi2v.safetensors"));
    let merged = tensors(&f16.weights(Net::TransformerHigh).unwrap());
    for name in ["blocks.0.self_attn.q.weight", "blocks.1.ffn.0.weight"] {
        // Rounded once: no value is further from the f32 sum than half of the last place.
        for (value, exact) in merged[name].values.iter().zip(&golden[name].values) {
            assert!((value - exact).abs() <= exact.abs() * 4.9e-4 + 3.0e-8, "{name}: {value} {exact}");
        }
    }
    std::fs::remove_dir_all(tree.out()).unwrap();
    tree.options.dtype = Dtype::Bf16;
    let bf16 = tree.bundle().weights(Net::TextEncoder).unwrap();
    let wo = bf16.tensor("encoder.block.1.layer.1.DenseReluDense.wo.weight").unwrap();
    assert_eq!(wo.dtype, Dtype::Bf16);
}

#[test]
fn the_manifest_tells_all() {
    let mut tree = Tree::new();
    tree.options.dtype = Dtype::F16;
    let exported = tree.export().unwrap();
    let bundle = Bundle::open(&tree.out()).unwrap();
    let manifest = bundle.manifest();
    assert_eq!(manifest, &exported.manifest);
    let json = std::fs::read(tree.out().join("manifest.json")).unwrap();
    assert_eq!(bundle.digest(), sha256(&json));

    assert_eq!((manifest.variant, manifest.dtype), (BundleVariant::Mi2v, Dtype::F16));
    assert!(!manifest.random_weights);
    assert_eq!(manifest.name, "Wan2.2-MI2V-A14B on base_i2v");
    assert!(manifest.licences.iter().any(|text| text.contains("cc-by-nc-4.0")));
    assert!(manifest.licences.iter().any(|text| text.contains("Apache-2.0")));
    let sampling = &manifest.sampling;
    assert_eq!((sampling.steps, sampling.shift, sampling.boundary), (40, 4.0, 0.9));
    assert_eq!((sampling.frames, sampling.fps, sampling.width, sampling.height), (81, 16, 832, 480));
    assert_eq!((sampling.max_memory, sampling.memory_stride), (10, 5));
    assert_eq!(sampling.negative_prompt, NEGATIVE_PROMPT);
    let transformer = &manifest.nets.transformer;
    assert_eq!((transformer.dim, transformer.text_dim, transformer.in_dim), (64, 32, 36));
    for (facts, net) in manifest.lora.iter().zip([Net::TransformerHigh, Net::TransformerLow]) {
        assert_eq!((facts.net, facts.merged, &facts.ranks, &facts.scales), (net, 20, &vec![4], &vec![2.0]));
    }
    assert_eq!(manifest.lora.len(), 2);

    for file in &manifest.files {
        let content = std::fs::read(tree.out().join(&file.path)).unwrap();
        assert_eq!((file.bytes, &file.sha256), (content.len() as u64, &sha256(&content)), "{}", file.path);
    }
    for source in &manifest.sources {
        let content = std::fs::read(&source.path).unwrap();
        assert_eq!(
            (source.bytes, &source.sha256),
            (content.len() as u64, &sha256(&content)),
            "{}",
            source.path
        );
    }
    let count = |end: &str| manifest.sources.iter().filter(|source| source.path.ends_with(end)).count();
    assert_eq!(count(".safetensors"), 8, "text encoder, two shards an expert, autoencoder, two adapters");
    assert_eq!((count("config.json"), count("index.json"), count("tokenizer.json")), (4, 3, 1));
    let tokenizer = std::fs::read(tiny().join("base_i2v_diffusers/tokenizer/tokenizer.json")).unwrap();
    assert_eq!(std::fs::read(bundle.tokenizer_path()).unwrap(), tokenizer);
}

#[test]
fn graphs_of_the_default_profile_can_be_read() {
    use onnx_export::proto::ModelProto;
    use prost::Message;

    let tree = Tree::new();
    tree.export().unwrap();
    let mut names = Vec::new();
    for entry in std::fs::read_dir(tree.out().join("graphs")).unwrap() {
        let path = entry.unwrap().path();
        let model = ModelProto::decode(std::fs::read(&path).unwrap().as_slice()).unwrap();
        names.push(model.graph.unwrap().name.unwrap());
        assert!(path.ends_with(format!("{}.onnx", names.last().unwrap())));
    }
    assert_eq!(names.len(), 11, "{names:?}");
}

#[test]
fn sources_in_other_names_files_and_types_make_the_same_bundle() {
    let reference = Tree::new().bundle_files();
    let other_names = |naming: Naming, canonical: Vec<String>| {
        move |tensors: Tensors| -> Tensors {
            canonical.iter().map(|name| (naming.other(name), tensors[name].clone())).collect()
        }
    };
    let manifest = Plan::check(&Tree::new().options).unwrap();
    let names = |net: usize| manifest.nets()[net].names().map(str::to_owned).collect::<Vec<_>>();

    let tree = Tree::new();
    for folder in EXPERTS {
        tree.rewrite(&format!("base_i2v/{folder}"), Dtype::F32, other_names(Naming::Transformer, names(1)));
    }
    tree.rewrite("base_i2v_diffusers/text_encoder", Dtype::F32, other_names(Naming::TextEncoder, names(0)));
    tree.rewrite("base_i2v_diffusers/vae", Dtype::F32, other_names(Naming::Vae { res_blocks: 2 }, names(3)));
    assert_eq!(tree.bundle_files(), reference, "names of the other convention, single files");

    // Diffusers' folders and configs.
    let tree = Tree::new();
    for (folder, other) in EXPERTS.into_iter().zip(["transformer", "transformer_2"]) {
        std::fs::rename(tree.path(&format!("base_i2v/{folder}")), tree.path(&format!("base_i2v/{other}")))
            .unwrap();
        let config = format!("{other}/config.json");
        let from = tree.path(&format!("base_i2v_diffusers/{config}"));
        std::fs::copy(from, tree.path(&format!("base_i2v/{config}"))).unwrap();
    }
    assert_eq!(tree.bundle_files(), reference, "folders and configs of diffusers");

    // Experts without a config of their own.
    let tree = Tree::new();
    for folder in EXPERTS {
        std::fs::remove_file(tree.path(&format!("base_i2v/{folder}/config.json"))).unwrap();
    }
    assert_eq!(tree.bundle_files(), reference, "configs from the components");

    // Adapters under other names.
    let tree = Tree::new();
    for file in ["high", "low"].map(|e| format!("storymem/Wan2.2-MI2V-A14B/backbone_{e}_noise.safetensors")) {
        tree.edit(&file, |tensors| {
            let renamed = std::mem::take(tensors).into_iter().enumerate().map(|(i, (key, tensor))| {
                let bare = key.strip_prefix("base_model.model.").unwrap();
                let module = |key: &str| {
                    let (module, end) = key.split_once(".lora_").unwrap();
                    let other = Naming::Transformer.other(&format!("{module}.weight"));
                    format!("transformer.{}.lora_{end}", other.strip_suffix(".weight").unwrap())
                };
                let key = match i / 2 % 5 {
                    0 => bare.to_owned(),
                    1 => key.replace(".weight", ".default.weight"),
                    2 => bare.replace("lora_A", "lora_down").replace("lora_B", "lora_up"),
                    3 => format!("diffusion_model.{bare}"),
                    _ => module(bare),
                };
                (key, tensor)
            });
            *tensors = renamed.collect();
        });
    }
    assert_eq!(tree.bundle_files(), reference, "names of adapters");
}

#[test]
fn what_packing_programs_add_is_passed_over() {
    let reference = Tree::new().bundle_files();
    let tree = Tree::new();
    for (folder, prefix) in [
        ("base_i2v/high_noise_model", "model.diffusion_model."),
        ("base_i2v/low_noise_model", "diffusion_model."),
        ("base_i2v_diffusers/vae", "model."),
    ] {
        tree.rewrite(folder, Dtype::F32, |tensors| {
            tensors.into_iter().map(|(name, tensor)| (format!("{prefix}{name}"), tensor)).collect()
        });
    }
    // A tokenizer as bytes beside the text encoder.
    let path = tree.path("base_i2v_diffusers/text_encoder/model.safetensors");
    let mut tensors = support::raw(Dtype::F32, &read(&path));
    tensors.insert("spiece_model".into(), (FileDtype::U8, vec![5], b"bytes".to_vec()));
    support::write_raw(&path, &tensors, None);
    assert_eq!(tree.bundle_files(), reference);
}

#[test]
fn narrow_sources_are_widened_before_merging() {
    for dtype in [Dtype::F16, Dtype::Bf16] {
        // A tree whose values are exact in `dtype`, once stored as such and once as F32.
        let exact = Tree::new();
        for folder in EXPERTS {
            exact.rewrite(&format!("base_i2v/{folder}"), dtype, |tensors| tensors);
        }
        exact.rewrite("base_i2v_diffusers/text_encoder", dtype, |tensors| tensors);
        exact.rewrite("base_i2v_diffusers/vae", dtype, |tensors| tensors);
        let narrow = exact.bundle_files();
        std::fs::remove_dir_all(exact.out()).unwrap();
        for folder in EXPERTS {
            exact.rewrite(&format!("base_i2v/{folder}"), Dtype::F32, |tensors| tensors);
        }
        exact.rewrite("base_i2v_diffusers/text_encoder", Dtype::F32, |tensors| tensors);
        exact.rewrite("base_i2v_diffusers/vae", Dtype::F32, |tensors| tensors);
        assert_eq!(narrow, exact.bundle_files(), "{dtype:?}");
    }
}

#[test]
fn a_tied_duplicate_is_tolerated_when_equal() {
    let reference = Tree::new().bundle_files();
    let tree = Tree::new();
    let folder = "base_i2v_diffusers/text_encoder";
    tree.edit(&format!("{folder}/model.safetensors"), |tensors| {
        tensors.insert("encoder.embed_tokens.weight".into(), tensors["shared.weight"].clone());
    });
    assert_eq!(tree.bundle_files(), reference);
    std::fs::remove_dir_all(tree.out()).unwrap();
    tree.edit(&format!("{folder}/model.safetensors"), |tensors| {
        tensors.remove("shared.weight");
    });
    assert_eq!(tree.bundle_files(), reference, "the duplicate alone will do");
    std::fs::remove_dir_all(tree.path("out")).unwrap();
    tree.edit(&format!("{folder}/model.safetensors"), |tensors| {
        let mut other = tensors["encoder.embed_tokens.weight"].clone();
        other.values[5] += 1.0;
        tensors.insert("shared.weight".into(), other);
    });
    let message = tree.refusal();
    assert!(
        message.contains("encoder.embed_tokens.weight") && message.contains("shared.weight"),
        "{message}"
    );
}

#[test]
fn scales_are_rank_stabilised_plain_or_given() {
    let base = {
        let mut tree = Tree::new();
        tree.options.lora = None;
        tensors(&tree.bundle().weights(Net::TransformerLow).unwrap())
    };
    let name = "blocks.1.cross_attn.v.weight";
    let change = |tree: &Tree| -> Vec<f32> {
        let merged = tensors(&tree.bundle().weights(Net::TransformerLow).unwrap());
        merged[name].values.iter().zip(&base[name].values).map(|(a, b)| a - b).collect()
    };
    let mut tree = Tree::new();
    tree.options.lora_scale = LoraScale::Fixed(1.0);
    let unit = change(&tree);
    for (scale, factor) in
        [(LoraScale::RankStabilised, 2.0), (LoraScale::Plain, 1.0), (LoraScale::Fixed(-0.75), -0.75)]
    {
        let mut tree = Tree::new();
        tree.options.lora_scale = scale;
        let expected: Vec<f32> = unit.iter().map(|v| v * factor).collect();
        let error = relative_error(&change(&tree), &expected);
        assert!(error <= 1e-6, "{scale:?}: {error:e}");
    }

    // An alpha of half the rank halves the first two and leaves a given scale alone.
    for (scale, factor) in
        [(LoraScale::RankStabilised, 1.0), (LoraScale::Plain, 0.5), (LoraScale::Fixed(3.0), 3.0)]
    {
        let mut tree = Tree::new();
        tree.edit("storymem/Wan2.2-MI2V-A14B/backbone_low_noise.safetensors", |tensors| {
            let alpha = support::Tensor { shape: vec![], values: vec![2.0] };
            tensors.insert("base_model.model.blocks.1.cross_attn.v.alpha".into(), alpha);
        });
        tree.options.lora_scale = scale;
        let expected: Vec<f32> = unit.iter().map(|v| v * factor).collect();
        let error = relative_error(&change(&tree), &expected);
        assert!(error <= 1e-6, "{scale:?}: {error:e}");
    }
}

#[test]
fn further_adapters_are_merged_into_their_expert_alone() {
    let mut tree = Tree::new();
    let path = tree.path("storymem/Wan2.2-MI2V-A14B/backbone_low_noise.safetensors");
    tree.options.lora = None;
    tree.options.adapters = vec![
        AdapterFile { path: path.clone(), net: Net::TransformerLow, rule: None, strength: 0.5 },
        AdapterFile { path, net: Net::TransformerLow, rule: None, strength: 1.5 },
    ];
    let bundle = tree.bundle();
    let expected = {
        let tree = Tree::new();
        tensors(&tree.bundle().weights(Net::TransformerLow).unwrap())
    };
    for (name, tensor) in tensors(&bundle.weights(Net::TransformerLow).unwrap()) {
        // Half and one and a half times the plain scale of 1 is the rank-stabilised 2 of rank 4.
        let error = relative_error(&tensor.values, &expected[&name].values);
        assert!(error <= 1e-6, "{name}: {error:e}");
    }
    let high = tensors(&bundle.weights(Net::TransformerHigh).unwrap());
    assert_eq!(high, read_folder(&tree, "base_i2v/high_noise_model"));
    assert_eq!(bundle.manifest().lora.iter().map(|l| l.scales[0]).collect::<Vec<_>>(), [0.5, 1.5]);
}

#[test]
fn base_weights_alone_are_allowed_with_a_warning() {
    let mut tree = Tree::new();
    assert_eq!(Plan::check(&tree.options).unwrap().warnings(), [] as [&str; 0]);
    tree.options.variant = BundleVariant::Mm2v;
    let warnings = Plan::check(&tree.options).unwrap().warnings().join("\n");
    assert!(warnings.contains("looks like a LoRA for `mi2v`, not for `mm2v`"), "{warnings}");
    tree.options.lora = None;
    let warnings = Plan::check(&tree.options).unwrap().warnings().join("\n");
    assert!(warnings.contains("no StoryMem LoRA"), "{warnings}");
    let manifest = tree.export().unwrap().manifest;
    assert!(manifest.lora.is_empty() && !manifest.licences.iter().any(|text| text.contains("StoryMem")));
}

#[test]
fn a_text_only_bundle_has_its_own_defaults() {
    let mut tree = Tree::new();
    tree.options.lora = None;
    tree.options.variant = BundleVariant::T2v;
    for folder in EXPERTS {
        tree.edit_json(
            &format!("base_i2v/{folder}/config.json"),
            serde_json::json!({"in_dim": 16, "model_type": "t2v"}),
        );
        tree.rewrite(&format!("base_i2v/{folder}"), Dtype::F32, |mut tensors| {
            let patch = tensors.get_mut("patch_embedding.weight").unwrap();
            patch.shape[1] = 16;
            patch.values.truncate(patch.shape.iter().product());
            tensors
        });
    }
    let manifest = tree.export().unwrap().manifest;
    assert_eq!((manifest.sampling.shift, manifest.sampling.boundary), (12.0, 0.875));
    assert!(Plan::check(&tree.options).unwrap().warnings().is_empty());
}

#[test]
fn only_an_empty_folder_is_written_over() {
    let tree = Tree::new();
    std::fs::create_dir_all(tree.out()).unwrap();
    std::fs::write(tree.out().join("notes.txt"), "mine").unwrap();
    let message = tree.export().unwrap_err().to_string();
    assert!(message.contains("exists and is not an empty folder"), "{message}");
    assert_eq!(std::fs::read_dir(tree.path("out")).unwrap().count(), 1);
    std::fs::remove_file(tree.out().join("notes.txt")).unwrap();
    tree.export().unwrap();
    assert!(tree.export().is_err(), "a finished bundle is not replaced");
    Bundle::open(&tree.out()).unwrap();
}

#[test]
fn a_damaged_bundle_does_not_open() {
    let tree = Tree::new();
    tree.export().unwrap();
    let manifest = tree.out().join("manifest.json");
    let whole = std::fs::read(&manifest).unwrap();

    tree.edit_json(
        "out/bundle/manifest.json",
        serde_json::json!({"format": Manifest::FORMAT + 1, "unknown": 1}),
    );
    assert!(
        matches!(Bundle::open(&tree.out()), Err(BundleError::Format { found, .. }) if found == Manifest::FORMAT + 1)
    );
    tree.edit_json("out/bundle/manifest.json", serde_json::json!({"format": Manifest::FORMAT}));
    assert!(matches!(Bundle::open(&tree.out()), Err(BundleError::Manifest { .. })), "an unknown field");
    std::fs::write(&manifest, &whole).unwrap();
    let text = String::from_utf8(whole.clone()).unwrap();
    std::fs::write(&manifest, text.replace("\"num_heads\": 2", "\"num_heads\": 0")).unwrap();
    let message = Bundle::open(&tree.out()).unwrap_err().to_string();
    assert!(message.contains("a dimension of 0"), "{message}");
    std::fs::write(&manifest, &whole).unwrap();

    let weights = tree.out().join("weights/vae.safetensors");
    let content = std::fs::read(&weights).unwrap();
    std::fs::write(&weights, &content[..content.len() - 1]).unwrap();
    let message = Bundle::open(&tree.out()).unwrap_err().to_string();
    assert!(message.contains("vae.safetensors") && message.contains("bytes instead of"), "{message}");
    std::fs::write(&weights, &content).unwrap();

    // Of the right size, and with another net's tensors.
    let other = tree.out().join("weights/transformer_low.safetensors");
    std::fs::write(&other, std::fs::read(tree.out().join("weights/transformer_high.safetensors")).unwrap())
        .unwrap();
    let bundle = Bundle::open(&tree.out()).unwrap();
    bundle.weights(Net::TransformerLow).unwrap();
    let mut renamed = content.clone();
    let at = renamed.windows(7).position(|part| part == b"conv_in").unwrap();
    renamed[at] = b'k';
    std::fs::write(&weights, &renamed).unwrap();
    let message = bundle.weights(Net::Vae).unwrap_err().to_string();
    assert!(message.contains("encoder.konv_in"), "{message}");
    std::fs::remove_file(&weights).unwrap();
    assert!(Bundle::open(&tree.out()).is_err());
}

fn read_folder(tree: &Tree, folder: &str) -> Tensors {
    let entries = std::fs::read_dir(tree.path(folder)).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.extension().is_some_and(|end| end == "safetensors"));
    files.flat_map(|file| read(&file)).collect()
}

fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}
