//! Every net against the reference, on a bundle made by `storymem export`.

mod common;

use common::{exported, fixture, load, relative_error, runtime};
use ndarray::{Array2, Array3, ArrayD, Axis, Ix2, Ix4, concatenate, s};
use onnx_export::bundle::Bundle;
use onnx_export::models::Net;
use onnx_export::models::wan::LatentGrid;
use storymem::engine::{Device, Engine, StopToken, Weights};
use storymem::pipeline::condition::positions;
use storymem::pipeline::{Denoiser, TextEncoder, VideoCodec};

const TOLERANCE: f64 = 2e-5;

fn engine() -> Engine {
    Engine::open(runtime(), Device::Cpu).unwrap()
}

fn weights(bundle: &Bundle, net: Net) -> Weights {
    Weights::open(bundle.weights(net).unwrap()).unwrap()
}

fn check(what: &str, x: &ArrayD<f32>, reference: &ArrayD<f32>, failures: &mut Vec<String>) {
    assert_eq!(x.len(), reference.len(), "{what}");
    let error = relative_error(x, reference);
    println!("{what}: {error:.1e}");
    if error.is_nan() || error > TOLERANCE {
        failures.push(format!("{what}: relative error {error:.1e}"));
    }
}

#[test]
fn text_encoder_agrees_with_the_reference() {
    let (bundle, _folder) = exported(&["--variant", "mi2v", "--dtype", "f32"], true);
    let engine = engine();
    let (config, weights) = (&bundle.manifest().nets.text_encoder, weights(&bundle, Net::TextEncoder));
    let golden = load(&fixture("tiny/golden/text_encoder.safetensors"));
    let facts = std::fs::read(fixture("tiny/golden/golden.json")).unwrap();
    let facts: serde_json::Value = serde_json::from_slice(&facts).unwrap();
    let mut encoder = TextEncoder::new(&engine, config, &weights);
    let mut failures = Vec::new();
    for (i, prompt) in facts["prompts"].as_array().unwrap().iter().enumerate() {
        let ids: Vec<u32> = serde_json::from_value(prompt["ids"].clone()).unwrap();
        let embeds = encoder.encode(&ids, 512, &StopToken::default()).unwrap();
        check(&format!("prompt {i}"), &embeds.into_dyn(), &golden[&format!("prompt_{i}")], &mut failures);
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn autoencoder_agrees_with_the_reference_at_every_length() {
    let (bundle, _folder) = exported(&["--variant", "mi2v"], true);
    let engine = engine();
    let (config, weights) = (&bundle.manifest().nets.vae, weights(&bundle, Net::Vae));
    let golden = load(&fixture("tiny/golden/vae.safetensors"));
    let mut codec = VideoCodec::new(&engine, config, &weights, 6, 8);
    let stop = StopToken::default();
    let mut failures = Vec::new();
    for frames in [1, 5, 9] {
        let video = golden[&format!("video_{frames}")].index_axis(Axis(0), 0);
        let known: Vec<Array3<f32>> =
            (0..frames).map(|t| video.slice(s![.., t, .., ..]).to_owned()).collect();
        let latents = codec.encode_clip(&known, frames, &stop, || ()).unwrap();
        let reference = &golden[&format!("latents_{frames}")];
        check(&format!("encode {frames} frames"), &latents.into_dyn(), reference, &mut failures);
    }
    for lat_t in [1, 2, 4] {
        let latents =
            golden[&format!("z_{lat_t}")].index_axis(Axis(0), 0).into_dimensionality::<Ix4>().unwrap();
        let mut chunks = Vec::new();
        codec.decode(latents, &stop, |chunk| chunks.push(chunk.to_owned())).unwrap();
        let views: Vec<_> = chunks.iter().map(|c| c.view()).collect();
        let frames = concatenate(Axis(1), &views).unwrap();
        let reference = &golden[&format!("decoded_{lat_t}")];
        check(&format!("decode {lat_t} latent frames"), &frames.into_dyn(), reference, &mut failures);
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn transformer_agrees_with_the_reference_for_both_experts_and_every_merge() {
    let golden = load(&fixture("tiny/golden/transformer.safetensors"));
    let context =
        golden["encoder_hidden_states"].index_axis(Axis(0), 0).into_dimensionality::<Ix2>().unwrap();
    let context: Array2<f32> = context.to_owned();
    let stop = StopToken::default();
    let engine = engine();
    let mut failures = Vec::new();
    for (label, flags, lora) in [
        ("base", ["--variant", "mi2v", "--dtype", "f32"].as_slice(), false),
        ("rslora", &["--variant", "mi2v", "--dtype", "f32"], true),
        ("lora", &["--variant", "mi2v", "--dtype", "f32", "--lora-scale", "plain"], true),
    ] {
        let (bundle, _folder) = exported(flags, lora);
        let config = &bundle.manifest().nets.transformer;
        for case in ["a", "b", "c", "d"] {
            let x = golden[&format!("{case}_x")].index_axis(Axis(0), 0);
            let x = x.into_dimensionality::<Ix4>().unwrap();
            let (latents, condition) =
                (x.slice(s![..16, .., .., ..]).to_owned(), x.slice(s![16.., .., .., ..]));
            let timestep = golden[&format!("{case}_t")][0] as i64;
            let memory = golden[&format!("{case}_memory")][0] as usize;
            let (_, frames, height, width) = latents.dim();
            let grid = LatentGrid { frames, height, width };
            let times = positions(memory, frames - memory, 5);
            for (expert, net) in [("high", Net::TransformerHigh), ("low", Net::TransformerLow)] {
                let weights = weights(&bundle, net);
                let mut denoiser =
                    Denoiser::new(&engine, config, &weights, grid, &times, Some(condition)).unwrap();
                let contexts = denoiser.contexts(&weights, &context, &context, &stop).unwrap();
                // At a guidance scale of 1 the result is the prompt's branch alone; the other scale has both.
                for guidance in [1.0, 3.5] {
                    let velocity =
                        denoiser.velocity(&weights, &contexts, &latents, timestep, guidance, &stop).unwrap();
                    let velocity = ArrayD::from_shape_vec(latents.shape(), velocity).unwrap();
                    let name = format!("{case}_{expert}_{label}");
                    check(
                        &format!("{name} at guidance {guidance}"),
                        &velocity,
                        &golden[&name],
                        &mut failures,
                    );
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
