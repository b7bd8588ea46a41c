//! The nets, run graph by graph, with what each of them gives kept.

use ndarray::s;
use onnx_export::models::vae::{self, Chunk, SPATIAL};
use onnx_export::models::wan::{self, LatentGrid};
use onnx_export::models::{Net, clip, umt5};

use super::inputs::GRID;
use super::{CompareError, Inputs, Side};
use crate::engine::{Compiled, EngineError, Stage, StopToken, Tensor, Weights};
use crate::pipeline::condition::positions;
use crate::pipeline::stages;

/// Added to the scores of padding: its weight in the softmax is then exactly zero.
const MASKED: f32 = -1e9;

/// What a part of a net gave.
pub(super) struct Output {
    pub part: String,
    pub values: Vec<f32>,
    /// How many of the values mean something: those past them are of a prompt's padding.
    pub meant: usize,
}

/// Runs a net, on `instead`'s outputs in place of its own where there are some.
pub(super) fn run(
    side: Side<'_>,
    net: Net,
    inputs: &Inputs,
    instead: Option<&[Output]>,
    stop: &StopToken,
) -> Result<Vec<Output>, CompareError> {
    let weights = Weights::new(side.bundle.weights(net)?);
    let mut run = Run { side, weights: &weights, inputs, stop, instead, outputs: Vec::new() };
    match net {
        Net::TextEncoder => run.text_encoder()?,
        Net::TransformerHigh | Net::TransformerLow => run.transformer()?,
        Net::Vae => {
            run.encoder()?;
            run.decoder()?;
        }
        Net::Clip => run.clip()?,
    }
    Ok(run.outputs)
}

struct Run<'a> {
    side: Side<'a>,
    weights: &'a Weights,
    inputs: &'a Inputs,
    stop: &'a StopToken,
    instead: Option<&'a [Output]>,
    outputs: Vec<Output>,
}

impl Run<'_> {
    /// Keeps what a part gave, and gives what the next is to be run on.
    fn keep(&mut self, part: impl Into<String>, given: Tensor) -> Result<Tensor, EngineError> {
        let meant = given.shape().iter().product();
        self.keep_first(meant, part, given)
    }

    /// As [`keep`](Self::keep), of an output whose first `meant` values alone mean something.
    fn keep_first(
        &mut self,
        meant: usize,
        part: impl Into<String>,
        given: Tensor,
    ) -> Result<Tensor, EngineError> {
        let engine = self.side.engine;
        let values = engine.download(&given)?.into_owned();
        let next = match self.instead {
            // Both sides run the same parts in the same order.
            Some(instead) => engine.upload(&given.shape(), instead[self.outputs.len()].values.clone())?,
            None => given,
        };
        self.outputs.push(Output { part: part.into(), values, meant });
        Ok(next)
    }

    fn text_encoder(&mut self) -> Result<(), EngineError> {
        let Self { side, weights, inputs, stop, .. } = *self;
        let (engine, nets) = (side.engine, &side.bundle.manifest().nets);
        let (config, tokens, ids) = (&nets.text_encoder, nets.transformer.text_len, &inputs.ids);
        let meant = ids.len() * config.d_model;

        let mut layer =
            engine.compile(weights, &umt5::layer_prefix(0), |g| umt5::layer(g, config, tokens))?;
        let mut norm = engine.compile(weights, "", |g| umt5::final_norm(g, config, tokens))?;
        let mut held = engine.hold(weights, &stages::text_encoder(config, layer.spec(), norm.spec()))?;

        let mut rows = weights.rows(umt5::EMBEDDING, ids)?;
        rows.resize(tokens * config.d_model, 0.0);
        let rows = engine.upload(&[tokens, config.d_model], rows)?;
        let mut hidden = self.keep_first(meant, "embedding", rows)?;
        let mask = (0..tokens).map(|i| if i < ids.len() { 0.0 } else { MASKED }).collect();
        let mask = engine.upload(&[1, 1, 1, tokens], mask)?;
        for i in 0..config.num_layers {
            let [out] = layer.run(&[&hidden, &mask], &mut held, &umt5::layer_prefix(i), stop)?;
            hidden = self.keep_first(meant, format!("layer {i}"), out)?;
        }
        let [out] = norm.run(&[&hidden], &mut held, "", stop)?;
        self.keep_first(meant, "output", out)?;
        Ok(())
    }

    fn transformer(&mut self) -> Result<(), EngineError> {
        let Self { side, weights, inputs, stop, .. } = *self;
        let (engine, manifest) = (side.engine, side.bundle.manifest());
        let config = &manifest.nets.transformer;

        let mut context = engine.compile(weights, "", |g| wan::context(g, config))?;
        let mut prologue = engine.compile(weights, "", |g| wan::prologue(g, config, GRID))?;
        let mut keys = engine.compile(weights, &wan::block_prefix(0), |g| wan::keys(g, config, GRID))?;
        let mut block = engine.compile(weights, &wan::block_prefix(0), |g| wan::block(g, config, GRID))?;
        let mut epilogue = engine.compile(weights, "", |g| wan::epilogue(g, config, GRID))?;
        let specs = [&context, &prologue, &keys, &block, &epilogue].map(Compiled::spec);
        let mut held = engine.hold(weights, &stages::transformer(config, specs))?;

        let times = positions(0, GRID.frames, manifest.sampling.memory_stride);
        let (cos, sin) = wan::rotary_table(config, GRID, &times);
        let table = [GRID.tokens(), config.head_dim() / 2];
        let (cos, sin) = (engine.upload(&table, cos)?, engine.upload(&table, sin)?);

        let prompt = engine.upload(inputs.prompt.shape(), inputs.prompt.iter().copied().collect())?;
        let [out] = context.run(&[&prompt], &mut held, "", stop)?;
        let context = self.keep("context", out)?;

        let channels = |range: std::ops::Range<usize>| {
            let part = inputs.latents.slice(s![range, .., .., ..]);
            engine.upload(part.shape(), part.iter().copied().collect())
        };
        let mut given = vec![channels(0..config.out_dim)?];
        if config.condition_channels() > 0 {
            given.push(channels(config.out_dim..config.in_dim)?);
        }
        let timestep = wan::timestep_embedding(inputs.timestep, config.freq_dim);
        given.push(engine.upload(&[1, config.freq_dim], timestep)?);
        let given: Vec<_> = given.iter().collect();
        let [hidden, time, modulation] = prologue.run(&given, &mut held, "", stop)?;
        let mut hidden = self.keep("prologue: tokens", hidden)?;
        let time = self.keep("prologue: time", time)?;
        let modulation = self.keep("prologue: modulation", modulation)?;

        for i in 0..config.num_layers {
            let given = [&hidden, &modulation, &cos, &sin];
            let [keys, values] = keys.run(&given, &mut held, &wan::block_prefix(i), stop)?;
            let given = [&given[..], &[&keys, &values, &context]].concat();
            let [out] = block.run(&given, &mut held, &wan::block_prefix(i), stop)?;
            hidden = self.keep(format!("block {i}"), out)?;
        }
        let [out] = epilogue.run(&[&hidden, &time], &mut held, "", stop)?;
        self.keep("output", out)?;
        Ok(())
    }

    fn clip(&mut self) -> Result<(), EngineError> {
        let Self { side, weights, inputs, stop, .. } = *self;
        let engine = side.engine;
        let Some(config) = &side.bundle.manifest().nets.clip else { return Ok(()) };
        let mut tower = engine.compile(weights, "", |g| clip::embed(g, config))?;
        let mut held = engine.hold(weights, &Stage::of_one(tower.spec()))?;
        let frame = engine.upload(&[3, config.image_size, config.image_size], inputs.frame.clone())?;
        let [out] = tower.run(&[&frame], &mut held, "", stop)?;
        self.keep("output", out)?;
        Ok(())
    }

    fn encoder(&mut self) -> Result<(), EngineError> {
        let LatentGrid { height, width, .. } = GRID;
        let config = &self.side.bundle.manifest().nets.vae;
        let engine = self.side.engine;
        let graphs = [Chunk::First, Chunk::Next]
            .map(|chunk| engine.compile(self.weights, "", |g| vae::encode(g, config, chunk, height, width)));
        let shape = |chunk: Chunk| [1, 3, chunk.frames(), height * SPATIAL, width * SPATIAL];
        let shapes = [Chunk::First, Chunk::Next].map(shape);
        self.coder(graphs, shapes, &self.inputs.pixels, ["encode: first frame", "encode: next frames"])
    }

    fn decoder(&mut self) -> Result<(), EngineError> {
        let LatentGrid { height, width, .. } = GRID;
        let config = &self.side.bundle.manifest().nets.vae;
        let engine = self.side.engine;
        let graphs = [Chunk::First, Chunk::Next]
            .map(|chunk| engine.compile(self.weights, "", |g| vae::decode(g, config, chunk, height, width)));
        let shapes = [[1, config.z_dim, 1, height, width]; 2];
        self.coder(graphs, shapes, &self.inputs.video, ["decode: first frame", "decode: next frames"])
    }

    /// One direction of the autoencoder: a first chunk, and one that builds on its caches.
    fn coder(
        &mut self,
        graphs: [Result<Compiled, EngineError>; 2],
        shapes: [[usize; 5]; 2],
        chunks: &[Vec<f32>; 2],
        parts: [&str; 2],
    ) -> Result<(), EngineError> {
        let Self { side, weights, stop, .. } = *self;
        let [first, next] = graphs;
        let (first, next) = (first?, next?);
        let mut held = side.engine.hold(weights, &stages::autoencoder(first.spec(), next.spec()))?;
        let mut caches = Vec::new();
        for (((mut graph, shape), chunk), part) in
            [first, next].into_iter().zip(shapes).zip(chunks).zip(parts)
        {
            let chunk = side.engine.upload(&shape, chunk.clone())?;
            let given: Vec<_> = [&chunk].into_iter().chain(&caches).collect();
            let mut outputs = graph.run_all(&given, &mut held, "", stop)?;
            // The result is the output declared last, after the caches.
            let result = outputs.pop().expect("a coder's graph has a result");
            self.keep(part, result)?;
            caches = outputs;
        }
        Ok(())
    }
}
