//! Every net against the reference, on bundles made by `storymem export`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::ops::Range;
use std::path::Path;

use common::nets::{Output, autoencoder, clip, text_encoder, transformer, weights};
use common::{Comparison, exported, golden, runtime};
use ndarray::{Array2, ArrayD, Axis, Ix2, Ix4, s};
use onnx_export::bundle::{Bundle, BundleWriter, Dtype, StoredTensor, WriteError};
use onnx_export::models::Net;
use onnx_export::models::wan::LatentGrid;
use onnx_export::weights::values::widen;
use storymem::engine::{Device, Engine, StopToken};
use storymem::pipeline::Denoiser;
use storymem::pipeline::condition::positions;

fn engine() -> Engine {
    Engine::open(runtime(), Device::Cpu).unwrap()
}

fn check(net: fn(&Engine, &[&str]) -> Vec<Output>, tolerance: f64) {
    let mut comparison = Comparison::default();
    comparison.check_all(&net(&engine(), &[]), tolerance);
    comparison.finish();
}

#[test]
fn text_encoder_agrees_with_the_reference() {
    check(text_encoder, 2e-5);
}

#[test]
fn autoencoder_agrees_with_the_reference_at_every_length() {
    check(autoencoder, 2e-5);
}

#[test]
fn transformer_agrees_with_the_reference_for_both_experts_and_every_merge() {
    check(transformer, 2e-5);
}

#[test]
fn clip_agrees_with_the_reference() {
    check(clip, 1e-5);
}

/// A bundle in 16 bits gives what its rounded weights give, no more and no less: the same weights, widened beforehand,
/// are the reference. So the widening inside the graphs is exact.
#[test]
fn weights_stored_in_16_bits_are_widened_exactly() {
    let engine = engine();
    let (mut comparison, stop) = (Comparison::default(), StopToken::default());
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
            let mut expert = denoiser.expert(&weights, &context, &context, &stop).unwrap();
            let velocity = denoiser.velocity(&mut expert, &latents, 500, 1.0, &stop).unwrap();
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
    let mut writer = BundleWriter::begin(to, "widened weights").unwrap();
    for net in manifest.nets.present() {
        let file = bundle.weights(net).unwrap();
        let stored: Vec<StoredTensor> = manifest.tensors(net);
        let mut written = writer.weights(net, stored.clone(), &mut |_| Ok::<(), WriteError>(())).unwrap();
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
