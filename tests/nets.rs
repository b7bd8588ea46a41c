//! Every net against the reference, on bundles made by `storymem export`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::ops::Range;
use std::path::Path;

use common::{Comparison, TREES, exported, facts, golden, runtime};
use ndarray::{Array2, Array3, ArrayD, ArrayView4, Axis, Ix2, Ix4, concatenate, s};
use onnx_export::bundle::{Bundle, BundleWriter, Dtype, StoredTensor, WriteError};
use onnx_export::models::Net;
use onnx_export::models::wan::LatentGrid;
use onnx_export::weights::values::widen;
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

#[test]
fn text_encoder_agrees_with_the_reference() {
    let (engine, mut comparison) = (engine(), Comparison::default());
    for tree in TREES {
        let (bundle, _folder) = exported(tree, true, &[]);
        let weights = weights(&bundle, Net::TextEncoder);
        let mut encoder = TextEncoder::new(&engine, &bundle.manifest().nets.text_encoder, &weights);
        let (golden, facts) = (golden(tree, "text_encoder"), facts(tree));
        for (i, prompt) in facts["prompts"].as_array().unwrap().iter().enumerate() {
            let Some(reference) = golden.get(&format!("prompt_{i}")) else { continue };
            let ids: Vec<u32> = serde_json::from_value(prompt["ids"].clone()).unwrap();
            let embeds = encoder.encode(&ids, 512, &StopToken::default()).unwrap();
            comparison.check(&format!("{tree} prompt {i}"), &embeds.into_dyn(), reference, TOLERANCE);
        }
    }
    comparison.finish();
}

#[test]
fn autoencoder_agrees_with_the_reference_at_every_length() {
    let (engine, mut comparison, stop) = (engine(), Comparison::default(), StopToken::default());
    for (tree, lat_h, lat_w) in [("tiny", 6, 8), ("variant", 2, 3)] {
        let (bundle, _folder) = exported(tree, true, &[]);
        let weights = weights(&bundle, Net::Vae);
        let mut codec = VideoCodec::new(&engine, &bundle.manifest().nets.vae, &weights, lat_h, lat_w);
        let golden = golden(tree, "vae");
        for (frames, video) in golden.iter().filter_map(|(k, v)| Some((k.strip_prefix("video_")?, v))) {
            let video = video.index_axis(Axis(0), 0);
            let count = video.len_of(Axis(1));
            let known: Vec<Array3<f32>> =
                (0..count).map(|t| video.slice(s![.., t, .., ..]).to_owned()).collect();
            let latents = codec.encode_clip(&known, count, &stop, || Ok(())).unwrap();
            let reference = &golden[&format!("latents_{frames}")];
            comparison.check(&format!("{tree} encode {frames}"), &latents.into_dyn(), reference, TOLERANCE);
        }
        for (lat_t, latents) in golden.iter().filter_map(|(k, v)| Some((k.strip_prefix("z_")?, v))) {
            let latents = latents.index_axis(Axis(0), 0).into_dimensionality::<Ix4>().unwrap();
            let mut chunks = Vec::new();
            let collect = |chunk: ArrayView4<'_, f32>| {
                chunks.push(chunk.to_owned());
                Ok(())
            };
            codec.decode(latents, &stop, collect).unwrap();
            let views: Vec<_> = chunks.iter().map(|c| c.view()).collect();
            let frames = concatenate(Axis(1), &views).unwrap();
            let reference = &golden[&format!("decoded_{lat_t}")];
            comparison.check(&format!("{tree} decode {lat_t}"), &frames.into_dyn(), reference, TOLERANCE);
        }
    }
    comparison.finish();
}

#[test]
fn transformer_agrees_with_the_reference_for_both_experts_and_every_merge() {
    let (engine, mut comparison, stop) = (engine(), Comparison::default(), StopToken::default());
    for (tree, label, adapter, flags) in [
        ("tiny", "base", false, [].as_slice()),
        ("tiny", "rslora", true, &[]),
        ("tiny", "lora", true, &["--lora-scale", "plain"]),
        ("variant", "rslora", true, &[]),
    ] {
        let (bundle, _folder) = exported(tree, adapter, flags);
        let config = &bundle.manifest().nets.transformer;
        let golden = golden(tree, "transformer");
        let context = golden["encoder_hidden_states"].index_axis(Axis(0), 0);
        let context: Array2<f32> = context.into_dimensionality::<Ix2>().unwrap().to_owned();
        for (case, x) in golden.iter().filter_map(|(k, v)| Some((k.strip_suffix("_x")?, v))) {
            let x = x.index_axis(Axis(0), 0).into_dimensionality::<Ix4>().unwrap();
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
                    let what = format!("{tree} {name} at guidance {guidance}");
                    comparison.check(&what, &velocity, &golden[&name], TOLERANCE);
                }
            }
        }
    }
    comparison.finish();
}

/// A bundle in 16 bits gives what its rounded weights give, no more and no less: the same weights, widened beforehand,
/// are the reference. So the widening inside the graphs is exact.
#[test]
fn weights_stored_in_16_bits_are_widened_exactly() {
    let (engine, mut comparison, stop) = (engine(), Comparison::default(), StopToken::default());
    let golden = golden("tiny", "transformer");
    let x = golden["b_x"].index_axis(Axis(0), 0).into_dimensionality::<Ix4>().unwrap();
    let (latents, condition) = (x.slice(s![..16, .., .., ..]).to_owned(), x.slice(s![16.., .., .., ..]));
    let (_, frames, height, width) = latents.dim();
    let (grid, times) = (LatentGrid { frames, height, width }, positions(2, frames - 2, 5));
    let context = golden["encoder_hidden_states"].index_axis(Axis(0), 0);
    let context: Array2<f32> = context.into_dimensionality::<Ix2>().unwrap().to_owned();
    for (dtype, rounding) in [("f16", 1e-3), ("bf16", 1e-2)] {
        let (bundle, folder) = exported("tiny", true, &["--dtype", dtype]);
        let widened = folder.path().join("widened");
        widen_bundle(bundle.path(), &widened);
        let config = &bundle.manifest().nets.transformer;
        let [stored, widened] = [&bundle, &Bundle::open(&widened).unwrap()].map(|bundle| {
            let weights = weights(bundle, Net::TransformerHigh);
            let mut denoiser =
                Denoiser::new(&engine, config, &weights, grid, &times, Some(condition)).unwrap();
            let contexts = denoiser.contexts(&weights, &context, &context, &stop).unwrap();
            let velocity = denoiser.velocity(&weights, &contexts, &latents, 500, 1.0, &stop).unwrap();
            ArrayD::from_shape_vec(latents.shape(), velocity).unwrap()
        });
        comparison.check(&format!("{dtype} against itself widened"), &stored, &widened, 1e-6);
        comparison.check(&format!("{dtype} against f32"), &stored, &golden["b_high_rslora"], rounding);
    }
    comparison.finish();
}

/// Copies a bundle with every weight widened to f32.
fn widen_bundle(from: &Path, to: &Path) {
    let bundle = Bundle::open(from).unwrap();
    let mut manifest = bundle.manifest().clone();
    manifest.dtype = Dtype::F32;
    let mut writer = BundleWriter::create(to).unwrap();
    for net in Net::ALL {
        let file = bundle.weights(net).unwrap();
        let stored: Vec<StoredTensor> = manifest.tensors(net);
        let mut written = writer.weights(net, stored.clone()).unwrap();
        for spec in &stored {
            let tensor = file.tensor(&spec.name).unwrap();
            let row_bytes = tensor.bytes.len() / tensor.shape[0];
            let copy = |rows: Range<usize>, values: &mut [f32]| {
                widen(tensor.dtype, &tensor.bytes[rows.start * row_bytes..rows.end * row_bytes], values);
                Ok::<_, WriteError>(())
            };
            written.tensor(copy).unwrap();
        }
        written.finish().unwrap();
    }
    writer.tokenizer(&std::fs::read(bundle.tokenizer_path()).unwrap()).unwrap();
    writer.finish(manifest).unwrap();
}
