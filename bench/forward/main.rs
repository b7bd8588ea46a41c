//! One forward pass of an expert of the real size, with weights as a bundle holds them, against f32; on random weights.
//!
//! It is the check by which StoryMem's port to Ascend was accepted, at the size at which it was made: latents
//! `[1, 36, 2, 4, 4]`, a prompt of 16 tokens, 40 blocks with an adapter of rank 128 merged. First the expert's weight file is
//! written as `storymem export` does it, 28.6 GB in f16, mapped, and run by the service's own code. Then the same is run in
//! f32, for which 57 GB would be needed; as every value follows from its name, one block at a time is made, merged, run and
//! thrown away.
//!
//! usage: bench-forward FOLDER [--blocks N] [--scratch FOLDER]

#[path = "../../onnx-export/examples/full-size/tree.rs"]
#[allow(dead_code, reason = "no tree is written here")]
mod tree;
#[path = "../../onnx-export/examples/full-size/values.rs"]
mod values;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use ndarray::{Array2, Array4, s};
use onnx_export::bundle::{BundleWriter, Dtype, Nets, StoredTensor, WriteError};
use onnx_export::models::Net;
use onnx_export::models::wan::{self, LatentGrid};
use onnx_export::weights::file::TensorFile;
use onnx_export::weights::merge::LowRank;
use storymem::compare::Measure;
use storymem::engine::{Compiled, Device, Engine, Runtime, RuntimeOptions, Stage, StopToken, Weights};
use storymem::pipeline::Denoiser;
use storymem::pipeline::noise::randn;
use tree::{RANK, Recipe};

const GRID: LatentGrid = LatentGrid { frames: 2, height: 4, width: 4 };
const PROMPT_TOKENS: usize = 16;
const TIMESTEP: i64 = 500;

/// The largest relative error that counts as rounding to f16: some 2e-4 a block, added up as squares are, and thrice that.
const ROUNDING: f64 = 5e-3;

#[derive(Parser)]
struct Args {
    /// Where the f16 file is written and removed again; must not exist.
    folder: PathBuf,
    #[arg(long, default_value_t = 40)]
    blocks: usize,
    /// Where a block in f32 is written, 1.4 GB; best in memory.
    #[arg(long, default_value = "/dev/shm")]
    scratch: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let Args { folder, blocks, scratch } = Args::parse();
    let nets = Recipe { blocks, text_layers: 1, vocabulary: 256, ..Recipe::full_size() }.nets();
    let engine = Engine::open(Runtime::load(&RuntimeOptions::default())?, Device::Cpu)?;
    let inputs = Inputs::draw(&nets);

    let begun = Instant::now();
    let written = Written::new(&folder, tensors(&nets, Dtype::F16))?;
    println!(
        "{blocks} blocks, {} bytes in f16, written in {:.0} s",
        written.file.total_bytes(),
        seconds(begun)
    );
    let mut passes = Vec::new();
    for _ in 0..2 {
        let begun = Instant::now();
        let (found, memory) = watched(|| narrow(&engine, &nets, &inputs, &written))?;
        println!(
            "f16: {:.1} s, {} MiB of memory, {} of them no file",
            seconds(begun),
            memory.all,
            memory.anonymous
        );
        passes.push(found);
    }
    anyhow::ensure!(passes[0] == passes[1], "two passes over the same weights differ");
    drop(written);

    let begun = Instant::now();
    let wanted = wide(&engine, &nets, &inputs, &scratch)?;
    println!("f32, making each block's weights included: {:.0} s", seconds(begun));
    let measure = Measure::of(&passes[0], &wanted);
    let [channels, frames, height, width] = [nets.transformer.out_dim, GRID.frames, GRID.height, GRID.width];
    println!("velocity [1, {channels}, {frames}, {height}, {width}]: {measure:?}");
    anyhow::ensure!(measure.is_within(ROUNDING), "f16 and f32 are further apart than rounding explains");
    Ok(())
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

/// What the pass is run on; the latents are those of `storymem compare`.
struct Inputs {
    prompt: Array2<f32>,
    latents: Array4<f32>,
}

impl Inputs {
    fn draw(nets: &Nets) -> Self {
        let net = &nets.transformer;
        let mut prompt = Array2::zeros([net.text_len, net.text_dim]);
        prompt.slice_mut(s![..PROMPT_TOKENS, ..]).assign(&randn(1, [PROMPT_TOKENS, net.text_dim]));
        Self { prompt, latents: randn(0, [net.in_dim, GRID.frames, GRID.height, GRID.width]) }
    }

    fn times() -> Vec<i64> {
        (0..GRID.frames as i64).collect()
    }
}

/// The expert's weights.
fn tensors(nets: &Nets, dtype: Dtype) -> Vec<StoredTensor> {
    let stored = |name: &str, shape: &[usize]| {
        let is_matrix = shape.len() > 1 && name.ends_with(".weight");
        if is_matrix { dtype } else { Dtype::F32 }
    };
    let weights = nets.weights(Net::TransformerHigh).into_iter();
    weights
        .map(|spec| StoredTensor {
            dtype: stored(&spec.name, &spec.shape),
            name: spec.name,
            shape: spec.shape,
        })
        .collect()
}

/// Merged weights in a file, which goes when this is dropped.
struct Written {
    file: TensorFile,
    _folder: BundleWriter,
}

impl Written {
    fn new(out: &Path, tensors: Vec<StoredTensor>) -> anyhow::Result<Self> {
        let mut folder = BundleWriter::begin(out, "a forward pass")?;
        let mut file =
            folder.weights(Net::TransformerHigh, tensors.clone(), &mut |_| Ok::<(), WriteError>(()))?;
        for tensor in &tensors {
            let update = update(tensor);
            let row: usize = tensor.shape.iter().skip(1).product();
            file.tensor(|rows: Range<usize>, values| {
                values::fill(&tensor.name, &tensor.shape, rows.start * row, values);
                if let Some(update) = &update {
                    update.add(rows, values);
                }
                Ok::<(), WriteError>(())
            })?;
        }
        file.finish()?;
        let path = BundleWriter::partial_path(out).join("bundle/weights/transformer_high.safetensors");
        Ok(Self { file: TensorFile::open(&path)?, _folder: folder })
    }

    fn weights(&self) -> anyhow::Result<Weights> {
        Ok(Weights::new(TensorFile::open(self.file.path())?))
    }
}

/// What StoryMem's adapter adds to a weight, with the scale alpha / sqrt(rank).
fn update(tensor: &StoredTensor) -> Option<LowRank> {
    let StoredTensor { name, shape, .. } = tensor;
    let module = name.strip_suffix(".weight")?;
    let [rows, columns] = *shape.as_slice() else { return None };
    if !name.starts_with("blocks.") {
        return None;
    }
    let factor = |factor: &str, shape: [usize; 2]| {
        let mut values = vec![0.0; shape[0] * shape[1]];
        values::fill(&format!("base_model.model.{module}.lora_{factor}.weight"), &shape, 0, &mut values);
        Array2::from_shape_vec(shape, values).expect("as many values as the shape holds were made")
    };
    Some(LowRank {
        a: factor("A", [RANK, columns]),
        b: factor("B", [rows, RANK]),
        scale: (RANK as f32).sqrt(),
    })
}

/// The pass as the service makes it.
fn narrow(engine: &Engine, nets: &Nets, inputs: &Inputs, written: &Written) -> anyhow::Result<Vec<f32>> {
    let (config, weights, stop) = (&nets.transformer, written.weights()?, StopToken::default());
    let latents = inputs.latents.slice(s![..config.out_dim, .., .., ..]).to_owned();
    let condition = inputs.latents.slice(s![config.out_dim.., .., .., ..]);
    let mut denoiser = Denoiser::new(engine, config, &weights, GRID, &Inputs::times(), Some(condition))?;
    let mut expert = denoiser.expert(&weights, &inputs.prompt, &inputs.prompt, &stop)?;
    // At a guidance scale of 1 only the prompt's branch is run.
    Ok(denoiser.velocity(&mut expert, &latents, TIMESTEP, 1.0, &stop)?)
}

/// The pass in f32, graph by graph, with one block's weights at a time.
fn wide(engine: &Engine, nets: &Nets, inputs: &Inputs, scratch: &Path) -> anyhow::Result<Vec<f32>> {
    let (config, stop, out) = (&nets.transformer, StopToken::default(), scratch.join("bench-forward"));
    let (blocks, common): (Vec<_>, Vec<_>) =
        tensors(nets, Dtype::F32).into_iter().partition(|tensor| tensor.name.starts_with("blocks."));
    let upload = |shape: &[usize], values: Vec<f32>| engine.upload(shape, values);
    let part = |channels: Range<usize>| {
        let part = inputs.latents.slice(s![channels, .., .., ..]);
        upload(part.shape(), part.iter().copied().collect())
    };

    let written = Written::new(&out, common.clone())?;
    let weights = written.weights()?;
    let mut context = engine.compile(&weights, "", |g| wan::context(g, config))?;
    let mut prologue = engine.compile(&weights, "", |g| wan::prologue(g, config, GRID))?;
    let mut held = engine.hold(&weights, &stage([&context, &prologue], None))?;
    let prompt = upload(inputs.prompt.shape(), inputs.prompt.iter().copied().collect())?;
    let [prompt] = context.run(&[&prompt], &mut held, "", &stop)?;
    let timestep = wan::timestep_embedding(TIMESTEP, config.freq_dim);
    let given = [
        part(0..config.out_dim)?,
        part(config.out_dim..config.in_dim)?,
        upload(&[1, config.freq_dim], timestep)?,
    ];
    let given: Vec<_> = given.iter().collect();
    let [mut hidden, time, modulation] = prologue.run(&given, &mut held, "", &stop)?;
    drop(held);
    drop((weights, written));

    let (cos, sin) = wan::rotary_table(config, GRID, &Inputs::times());
    let table = [GRID.tokens(), config.head_dim() / 2];
    let (cos, sin) = (upload(&table, cos)?, upload(&table, sin)?);
    for i in 0..config.num_layers {
        let prefix = wan::block_prefix(i);
        let tensors = blocks.iter().filter(|tensor| tensor.name.starts_with(&prefix)).cloned().collect();
        let written = Written::new(&out, tensors)?;
        let weights = written.weights()?;
        let mut block = engine.compile(&weights, &prefix, |g| wan::whole_block(g, config, GRID))?;
        let mut held = engine.hold(&weights, &stage([], Some((&block, prefix.clone()))))?;
        let given = [&hidden, &modulation, &cos, &sin, &prompt];
        [hidden] = block.run(&given, &mut held, &prefix, &stop)?;
    }

    let written = Written::new(&out, common)?;
    let weights = written.weights()?;
    let mut epilogue = engine.compile(&weights, "", |g| wan::epilogue(g, config, GRID))?;
    let mut held = engine.hold(&weights, &stage([&epilogue], None))?;
    let [patches] = epilogue.run(&[&hidden, &time], &mut held, "", &stop)?;
    Ok(wan::unpatchify(&engine.download(&patches)?, config, GRID))
}

fn stage<const N: usize>(graphs: [&Compiled; N], layer: Option<(&Compiled, String)>) -> Stage {
    Stage {
        name: "forward",
        graphs: graphs.map(|graph| graph.spec().clone()).to_vec(),
        layer_graphs: layer.iter().map(|(graph, _)| graph.spec().clone()).collect(),
        layers: layer.into_iter().map(|(_, prefix)| prefix).collect(),
        activations: 0,
    }
}

/// The largest resident memory while something ran, in MiB.
struct Peak {
    all: u64,
    /// Of it, what is no file's page.
    anonymous: u64,
}

fn watched<T>(run: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, Peak)> {
    let (ended, all, anonymous) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                all.fetch_max(status("VmRSS:"), Ordering::Relaxed);
                anonymous.fetch_max(status("RssAnon:"), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let result = run();
        ended.store(true, Ordering::Relaxed);
        result
    })?;
    Ok((result, Peak { all: all.into_inner() >> 10, anonymous: anonymous.into_inner() >> 10 }))
}

/// A field of `/proc/self/status`, in KiB.
fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}
