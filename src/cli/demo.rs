//! `storymem demo`: a bundle with tiny random weights.

use std::path::PathBuf;

use onnx_export::bundle::Manifest;

use super::export::VariantArg;

/// Makes a bundle of tiny nets with random weights, to see the service at work; its videos are noise.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// What the bundle shall make.
    #[arg(long, value_enum, default_value = "mi2v", env = "STORYMEM_VARIANT")]
    variant: VariantArg,

    /// The bundle: a folder that does not exist yet, or is empty.
    #[arg(long, value_name = "BUNDLE", env = "STORYMEM_OUT")]
    out: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// When the bundle can't be written.
pub fn run(args: Args) -> anyhow::Result<()> {
    let manifest = onnx_export::demo::manifest_for(args.variant.into());
    let Manifest { name, sampling, .. } = onnx_export::demo::write_like(&args.out, manifest)?;
    let (width, height, frames) = (sampling.width, sampling.height, sampling.frames);
    println!("wrote `{name}` to {}: {width}x{height}, {frames} frames of noise", args.out.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use onnx_export::bundle::Bundle;
    use onnx_export::models::Net;
    use onnx_export::weights::values::widen;
    use proptest::prelude::*;
    use tokenizers::Tokenizer;

    use super::*;

    fn demo() -> (tempfile::TempDir, Bundle) {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("demo");
        run(Args { variant: VariantArg::Mi2v, out: out.clone() }).unwrap();
        (folder, Bundle::open(&out).unwrap())
    }

    #[test]
    fn bundle_says_what_it_is_and_is_the_same_each_time() {
        let (folder, bundle) = demo();
        let (other_folder, other) = demo();
        let manifest = bundle.manifest();
        assert_eq!(manifest.name, "demo (random weights)");
        assert!(manifest.random_weights && manifest.lora.is_empty() && manifest.licences.is_empty());
        assert_eq!(bundle.digest(), other.digest());
        assert_ne!(folder.path(), other_folder.path());
    }

    #[test]
    fn matrices_keep_the_scale_of_what_they_multiply() {
        let (_folder, bundle) = demo();
        let mut checked = 0;
        for net in [Net::TextEncoder, Net::TransformerHigh, Net::TransformerLow] {
            let file = bundle.weights(net).unwrap();
            let is_table = |name: &str| name == "shared.weight" || name.contains("relative_attention_bias");
            for tensor in file.iter().filter(|tensor| tensor.shape.len() == 2 && !is_table(tensor.name)) {
                let mut values = vec![0.0; tensor.shape.iter().product()];
                widen(tensor.dtype, tensor.bytes, &mut values);
                let squares: f64 = values.iter().map(|v| f64::from(*v).powi(2)).sum();
                let gain = squares / tensor.shape[0] as f64;
                assert!((0.8..1.2).contains(&gain), "{}: {gain}", tensor.name);
                checked += 1;
            }
        }
        assert_eq!(checked, 2 * 7 + 2 * (2 * 10 + 6));
    }

    #[test]
    fn tokenizer_has_the_shape_of_t5s() {
        let (_folder, bundle) = demo();
        let tokenizer = Tokenizer::from_file(bundle.tokenizer_path()).unwrap();
        let ids = |text: &str| tokenizer.encode(text, true).unwrap().get_ids().to_vec();
        assert_eq!(tokenizer.token_to_id("<pad>"), Some(0));
        assert_eq!(ids(""), [1], "an empty prompt is `</s>` alone");
        assert_eq!(tokenizer.get_vocab_size(true), bundle.manifest().nets.text_encoder.vocab_size);
        let tokens = tokenizer.encode("a young woman walking", true).unwrap().get_tokens().to_vec();
        assert_eq!(tokens, ["▁a", "▁young", "▁woman", "▁walking", "</s>"]);
    }

    proptest! {
        #[test]
        fn every_prompt_has_tokens(prompt in "\\PC{0,60}") {
            let tokenizer: Tokenizer = TOKENIZER.with(Clone::clone);
            let encoding = tokenizer.encode(prompt.as_str(), true).unwrap();
            let unknown = tokenizer.token_to_id("<unk>").unwrap();
            prop_assert!(encoding.get_ids().iter().all(|&id| id != unknown), "{:?}", encoding.get_tokens());
            prop_assert_eq!(encoding.get_ids().last(), Some(&1));
        }
    }

    thread_local! {
        static TOKENIZER: Tokenizer = {
            let (_folder, bundle) = demo();
            Tokenizer::from_file(bundle.tokenizer_path()).unwrap()
        };
    }
}
