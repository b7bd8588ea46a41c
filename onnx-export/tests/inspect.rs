//! What `inspect` says of bundles, checkpoints, adapters and whole downloads.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

mod support;

use std::path::Path;

use onnx_export::bundle::{BundleVariant, Dtype};
use onnx_export::inspect::{Item, inspect};
use onnx_export::models::Net;
use onnx_export::weights::file::FileDtype;
use onnx_export::weights::lora::LoraScale;
use onnx_export::weights::names::Naming;
use support::{Tensor, Tree, raw, read, tiny, write_raw};

fn one(path: &Path) -> Item {
    let mut items = inspect(path).unwrap();
    assert_eq!(items.len(), 1, "{items:?}");
    items.pop().unwrap()
}

fn refusal(path: &Path) -> String {
    inspect(path).unwrap_err().to_string()
}

/// The problem of the only thing at `path`.
fn problem(path: &Path) -> String {
    one(path).problem().unwrap_or_else(|| panic!("{} must have a problem", path.display())).to_owned()
}

#[test]
fn a_bundle_is_its_nets_digests_and_licences() {
    let tree = Tree::new();
    tree.export().unwrap();
    let manifest = tree.out().join("manifest.json");
    for path in [&tree.out(), &manifest] {
        let Item::Bundle(bundle) = one(path) else { panic!("{} is a bundle", path.display()) };
        assert_eq!(bundle.variant, BundleVariant::Mi2v);
        assert_eq!(bundle.nets.iter().map(|net| net.net).collect::<Vec<_>>(), Net::ALL);
        let counts: Vec<_> = bundle.nets.iter().map(|net| net.tensors.count).collect();
        assert_eq!(counts, [22, 69, 69, 194]);
        assert!(bundle.nets.iter().all(|net| net.file.sha256.as_ref().is_some_and(|hash| hash.len() == 64)));
        assert!(bundle.licences.iter().any(|licence| licence.contains("cc-by-nc-4.0")));
        assert_eq!(bundle.lora[0].rule, LoraScale::RankStabilised);
        assert!(bundle.sources.len() > 8 && bundle.verified.is_none());
    }
}

#[test]
fn a_bundle_is_hashed_again_when_asked() {
    let tree = Tree::new();
    tree.export().unwrap();
    let verified = || {
        let mut item = one(&tree.out());
        let ticks = std::cell::Cell::new(0);
        item.verify(&|| ticks.set(ticks.get() + 1)).unwrap();
        assert!(ticks.get() > 4, "progress is told");
        let Item::Bundle(bundle) = item else { panic!("it is a bundle") };
        let files = bundle.verified.unwrap();
        let broken = files.iter().filter(|file| file.problem.is_some()).map(|file| file.path.clone());
        (files.len(), broken.collect::<Vec<_>>())
    };
    let (count, broken) = verified();
    assert!(count > 4 && broken.is_empty(), "{broken:?}");
    // One bit of one weight.
    let path = tree.out().join("weights/transformer_low.safetensors");
    let mut content = std::fs::read(&path).unwrap();
    *content.last_mut().unwrap() ^= 1;
    std::fs::write(&path, content).unwrap();
    assert_eq!(verified().1, ["weights/transformer_low.safetensors"]);
}

#[test]
fn a_checkpoint_is_its_net_keys_and_types() {
    let tree = Tree::new();
    let folder = tree.path("base_i2v/high_noise_model");
    let index = folder.join("diffusion_pytorch_model.safetensors.index.json");
    for path in [&folder, &index] {
        let Item::Checkpoint(expert) = one(path) else { panic!("{} is a checkpoint", path.display()) };
        assert_eq!(
            (expert.what.as_str(), expert.supported),
            ("a Wan transformer 64 wide with 36 input channels", true)
        );
        let keys = expert.keys.unwrap();
        assert_eq!((keys.names, keys.mapped), ("Wan", 69));
        assert!(keys.missing.is_empty() && keys.unexpected.is_empty() && keys.unfit.is_empty());
        assert_eq!((expert.files.len(), expert.tensors.count, expert.problem), (2, 69, None));
        assert_eq!(expert.tensors.dtypes.keys().collect::<Vec<_>>(), ["F32"]);
    }

    // The other convention and another type, by the config that lies beside it.
    tree.rewrite("base_i2v_diffusers/vae", Dtype::Bf16, |tensors| {
        let vae = Naming::Vae { res_blocks: 2 };
        tensors.into_iter().map(|(name, tensor)| (vae.other(&name), tensor)).collect()
    });
    let Item::Checkpoint(mut vae) = one(&tree.path("base_i2v_diffusers/vae")) else {
        panic!("it is a checkpoint")
    };
    assert_eq!(
        (vae.keys.take().unwrap().names, &*vae.what),
        ("Wan", "the Wan2.1 autoencoder, which Wan2.2 A14B uses")
    );
    let mut item = Item::Checkpoint(vae);
    item.verify(&|| {}).unwrap();
    let Item::Checkpoint(vae) = item else { panic!("it is a checkpoint") };
    assert!(vae.files[0].sha256.is_some() && vae.problem.is_none());

    // Without a config there is nothing but the published dimensions to compare with.
    std::fs::remove_file(tree.path("base_i2v_diffusers/vae/config.json")).unwrap();
    let problem = problem(&tree.path("base_i2v_diffusers/vae"));
    assert!(problem.contains("do not agree with the published dimensions: vae: "), "{problem}");
    assert!(problem.contains("unfit: ") && !problem.contains("missing: "), "{problem}");
}

#[test]
fn what_the_export_would_refuse_is_told() {
    let tree = Tree::new();
    let text = tree.path("base_i2v_diffusers/text_encoder/model.safetensors");
    let mut tensors = raw(Dtype::F32, &read(&text));
    let (dtype, shape, bytes) = tensors.get_mut("shared.weight").unwrap();
    *dtype = FileDtype::F8_E5M2;
    bytes.truncate(shape.iter().product());
    write_raw(&text, &tensors, None);
    let quantised = problem(&text);
    assert!(quantised.contains("`shared.weight`") && quantised.contains("F8_E5M2"), "{quantised}");

    tree.rewrite("base_i2v/high_noise_model", Dtype::F32, |mut tensors| {
        let tensor = Tensor { shape: vec![64, 48, 1, 2, 2], values: vec![0.0; 64 * 48 * 4] };
        tensors.insert("patch_embedding.weight".into(), tensor);
        tensors
    });
    let other = problem(&tree.path("base_i2v/high_noise_model"));
    assert!(
        other.contains(
            "it is the transformer of Wan2.2-TI2V-5B (48 latent channels), which can't be exported"
        ),
        "{other}"
    );

    tree.rewrite("base_i2v/low_noise_model", Dtype::F32, |mut tensors| {
        tensors.remove("head.head.bias");
        tensors
    });
    let missing = problem(&tree.path("base_i2v/low_noise_model"));
    assert!(missing.contains("config.json`: ") && missing.contains("missing: `head.head.bias`"), "{missing}");
}

#[test]
fn an_adapter_is_its_naming_ranks_and_alphas() {
    let tree = Tree::new();
    let path = tree.path("storymem/Wan2.2-MI2V-A14B/backbone_low_noise.safetensors");
    let Item::Adapter(adapter) = one(&path) else { panic!("it is an adapter") };
    assert_eq!((adapter.merged, adapter.made_for.as_str()), (20, "a Wan transformer 64 wide, 2 blocks"));
    assert_eq!(
        adapter.patterns,
        ["base_model.model.MODULE.lora_A.weight", "base_model.model.MODULE.lora_B.weight"]
    );
    let [pairs] = adapter.pairs[..] else { panic!("all pairs are alike") };
    assert_eq!((pairs.rank, pairs.alpha, pairs.plain, pairs.rslora), (4, None, 1.0, 2.0));
    assert_eq!((adapter.rule, adapter.problem), (LoraScale::Plain, None));

    // Kohya's names, with an alpha.
    let tensors = read(&path).into_iter().map(|(key, tensor)| {
        let key =
            key.replace("base_model.model.", "").replace("lora_A", "lora_down").replace("lora_B", "lora_up");
        let (module, form) = key.split_once(".lora_").unwrap();
        (format!("lora_unet_{}.lora_{form}", module.replace('.', "_")), tensor)
    });
    let mut tensors = raw(Dtype::Bf16, &tensors.collect());
    tensors.insert(
        "lora_unet_blocks_0_ffn_0.alpha".into(),
        (FileDtype::I64, vec![], 2i64.to_le_bytes().to_vec()),
    );
    write_raw(&path, &tensors, Some([("modelspec.license".to_owned(), "apache-2.0".to_owned())].into()));
    let Item::Adapter(adapter) = one(&path) else { panic!("it is an adapter") };
    assert_eq!(
        adapter.pairs.iter().map(|pairs| (pairs.alpha, pairs.plain)).collect::<Vec<_>>(),
        [(Some(2.0), 0.5), (None, 1.0)]
    );
    assert_eq!(adapter.licence.as_deref(), Some("apache-2.0"));
    assert_eq!(adapter.tensors.dtypes["I64"].count, 1);
    assert!(
        adapter.patterns.contains(&"lora_unet_MODULE.lora_down.weight".to_owned()),
        "{:?}",
        adapter.patterns
    );

    let other = tensors
        .iter()
        .map(|(key, tensor)| (key.replace("blocks", "double_blocks"), tensor.clone()))
        .collect();
    let elsewhere = tree.path("other.safetensors");
    write_raw(&elsewhere, &other, None);
    let Item::Adapter(adapter) = one(&elsewhere) else { panic!("it is an adapter") };
    assert_eq!(adapter.made_for, "another net than Wan's transformer");
    assert!(adapter.problem.unwrap().contains("41 keys (of 41) that fit no weight"));

    tensors.insert("lora_unet_blocks_0_ffn_0.dora_scale".into(), (FileDtype::F32, vec![], vec![0; 4]));
    write_raw(&path, &tensors, None);
    assert!(problem(&path).contains("belongs to DoRA, which can't be merged"));
}

#[test]
fn a_download_is_all_that_lies_in_it() {
    let tree = Tree::new();
    let kinds = |path: &str| {
        let items = inspect(&tree.path(path)).unwrap();
        let kind = |item: &Item| match item {
            Item::Bundle(_) => "bundle",
            Item::Checkpoint(_) => "checkpoint",
            Item::Adapter(_) => "adapter",
            Item::Unreadable(_) => "unreadable",
        };
        items.iter().map(kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds("base_i2v"), ["checkpoint", "checkpoint"]);
    assert_eq!(kinds("storymem/Wan2.2-MI2V-A14B"), ["adapter", "adapter"]);
    assert_eq!(kinds("storymem"), ["adapter"; 4]);
    std::fs::write(tree.path("base_i2v/Wan2.1_VAE.pth"), b"PK\x03\x04").unwrap();
    assert_eq!(kinds("base_i2v"), ["unreadable", "checkpoint", "checkpoint"]);
    let items = inspect(&tree.path("base_i2v")).unwrap();
    assert!(items[0].problem().unwrap().contains("Wan2.1_VAE.pth` is a PyTorch pickle"), "{items:?}");
}

#[test]
fn what_is_nothing_of_the_kind_is_refused() {
    let tree = Tree::new();
    let missing = refusal(&tree.path("nowhere"));
    assert!(missing.contains("nowhere` does not exist; name a bundle"), "{missing}");
    let nothing = refusal(&tree.path("base_i2v_diffusers/tokenizer"));
    assert!(nothing.contains("tokenizer` holds neither a bundle nor weights"), "{nothing}");
    let config = refusal(&tree.path("base_i2v/high_noise_model/config.json"));
    assert!(config.contains("config.json` is a JSON file"), "{config}");
    let image = refusal(&tiny().join("inputs/first.png"));
    assert!(image.contains("first.png` is not a whole safetensors file"), "{image}");

    tree.export().unwrap();
    std::fs::write(tree.out().join("manifest.json"), "{}").unwrap();
    let bundle = refusal(&tree.out());
    assert!(bundle.contains("is not a bundle's manifest"), "{bundle}");
}
