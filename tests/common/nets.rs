//! Runs the nets on the inputs of the goldens, whatever device or lowering an engine has.

use image::RgbImage;
use ndarray::{Array1, Array2, Array3, ArrayD, ArrayView4, Axis, Ix2, Ix4, concatenate, s};
use onnx_export::bundle::Bundle;
use onnx_export::models::Net;
use onnx_export::models::wan::LatentGrid;
use storymem::engine::{Engine, StopToken, Weights};
use storymem::pipeline::condition::positions;
use storymem::pipeline::memory::ClipSimilarity;
use storymem::pipeline::{Denoiser, TextEncoder, VideoCodec};

use super::{TREES, clip_folder, exported, facts, golden};

/// A result and what the reference gives.
pub struct Output {
    pub what: String,
    pub value: ArrayD<f32>,
    pub reference: ArrayD<f32>,
}

/// One net's weights.
pub fn weights(bundle: &Bundle, net: Net) -> Weights {
    Weights::new(bundle.weights(net).unwrap())
}

/// Embeddings of every prompt.
pub fn text_encoder(engine: &Engine, flags: &[&str]) -> Vec<Output> {
    let mut outputs = Vec::new();
    for tree in TREES {
        let (bundle, _folder) = exported(tree, true, flags);
        let weights = weights(&bundle, Net::TextEncoder);
        let mut encoder = TextEncoder::new(engine, &bundle.manifest().nets.text_encoder, &weights);
        let (golden, facts) = (golden(tree, "text_encoder"), facts(tree));
        for (i, prompt) in facts["prompts"].as_array().unwrap().iter().enumerate() {
            let Some(reference) = golden.get(&format!("prompt_{i}")) else { continue };
            let ids: Vec<u32> = serde_json::from_value(prompt["ids"].clone()).unwrap();
            let value = encoder.encode(&ids, 512, &StopToken::default()).unwrap().into_dyn();
            outputs.push(Output { what: format!("{tree} prompt {i}"), value, reference: reference.clone() });
        }
    }
    outputs
}

/// Videos of every length, encoded and decoded.
pub fn autoencoder(engine: &Engine, flags: &[&str]) -> Vec<Output> {
    let (mut outputs, stop) = (Vec::new(), StopToken::default());
    for (tree, lat_h, lat_w) in [("tiny", 6, 8), ("variant", 2, 3)] {
        let (bundle, _folder) = exported(tree, true, flags);
        let weights = weights(&bundle, Net::Vae);
        let mut codec = VideoCodec::new(engine, &bundle.manifest().nets.vae, &weights, lat_h, lat_w);
        let golden = golden(tree, "vae");
        for (frames, video) in golden.iter().filter_map(|(k, v)| Some((k.strip_prefix("video_")?, v))) {
            let video = video.index_axis(Axis(0), 0);
            let count = video.len_of(Axis(1));
            let known: Vec<Array3<f32>> =
                (0..count).map(|t| video.slice(s![.., t, .., ..]).to_owned()).collect();
            let value = codec.encode_clip(&known, count, &stop, || Ok(())).unwrap().into_dyn();
            let reference = golden[&format!("latents_{frames}")].clone();
            outputs.push(Output { what: format!("{tree} encode {frames}"), value, reference });
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
            let value = concatenate(Axis(1), &views).unwrap().into_dyn();
            let reference = golden[&format!("decoded_{lat_t}")].clone();
            outputs.push(Output { what: format!("{tree} decode {lat_t}"), value, reference });
        }
    }
    outputs
}

/// Velocities of both experts in every case, for every way to merge the adapter.
pub fn transformer(engine: &Engine, flags: &[&str]) -> Vec<Output> {
    let (mut outputs, stop) = (Vec::new(), StopToken::default());
    for (tree, label, adapter, merge) in [
        ("tiny", "base", false, [].as_slice()),
        ("tiny", "rslora", true, &[]),
        ("tiny", "lora", true, &["--lora-scale", "plain"]),
        ("variant", "rslora", true, &[]),
    ] {
        let (bundle, _folder) = exported(tree, adapter, &[flags, merge].concat());
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
                    Denoiser::new(engine, config, &weights, grid, &times, Some(condition)).unwrap();
                let mut working = denoiser.expert(&weights, &context, &context, &stop).unwrap();
                // At a guidance scale of 1 the result is the prompt's branch alone; the other scale has both.
                for guidance in [1.0, 3.5] {
                    let velocity =
                        denoiser.velocity(&mut working, &latents, timestep, guidance, &stop).unwrap();
                    let value = ArrayD::from_shape_vec(latents.shape(), velocity).unwrap();
                    let name = format!("{case}_{expert}_{label}");
                    let what = format!("{tree} {name} at guidance {guidance}");
                    outputs.push(Output { what, value, reference: golden[&name].clone() });
                }
            }
        }
    }
    outputs
}

/// Embeddings of every frame.
pub fn clip(engine: &Engine, flags: &[&str]) -> Vec<Output> {
    let mut outputs = Vec::new();
    for tree in TREES {
        let (bundle, _folder) = exported(tree, true, &[flags, &["--clip", &clip_folder(tree)]].concat());
        let weights = weights(&bundle, Net::Clip);
        let config = bundle.manifest().nets.clip.as_ref().unwrap();
        let mut clip = ClipSimilarity::new(engine, config, &weights);
        let golden = golden(tree, "keyframes");
        for (i, frame) in images(&golden["frames"]).iter().enumerate() {
            let value = Array1::from(clip.embed(frame, &StopToken::default()).unwrap()).into_dyn();
            let reference = golden["embeddings"].index_axis(Axis(0), i).to_owned();
            outputs.push(Output { what: format!("{tree} frame {i}"), value, reference });
        }
    }
    outputs
}

/// Frames `[N, 3, H, W]` from 0 to 255.
pub fn images(frames: &ArrayD<f32>) -> Vec<RgbImage> {
    frames.outer_iter().map(|frame| image(&frame.into_owned())).collect()
}

/// A frame `[3, H, W]` from 0 to 255.
pub fn image(frame: &ArrayD<f32>) -> RgbImage {
    let &[_, height, width] = frame.shape() else { panic!("{:?}", frame.shape()) };
    RgbImage::from_fn(width as u32, height as u32, |x, y| {
        image::Rgb([0, 1, 2].map(|c| frame[[c, y as usize, x as usize]] as u8))
    })
}
