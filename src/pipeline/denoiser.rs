//! One denoising step: the transformer's velocity for noisy latents, guided by the prompt.

use std::iter;
use std::rc::Rc;

use ndarray::{Array2, Array4, ArrayView4};
use onnx_export::graph::GraphSpec;
use onnx_export::models::wan::{self, LatentGrid, WanConfig};

use super::PipelineError;
use crate::engine::residency::bytes_of;
use crate::engine::{Compiled, Engine, Held, Stage, StopToken, Tensor, Weights};

/// The graphs of a transformer for one latent grid. Both experts run on them, with their own weights.
pub struct Denoiser<'a> {
    engine: &'a Engine,
    config: &'a WanConfig,
    grid: LatentGrid,
    context: Compiled,
    prologue: Compiled,
    keys: Compiled,
    block: Compiled,
    epilogue: Compiled,
    condition: Option<Tensor>,
    cos: Tensor,
    sin: Tensor,
}

/// An expert at work: its weights, where the graphs can use them, and what it attends to.
pub struct Expert<'w> {
    weights: Held<'w>,
    /// The prompt, then the negative prompt, as the expert embeds them.
    contexts: [Tensor; 2],
}

impl<'a> Denoiser<'a> {
    /// Compiles the graphs for latents `[16, frames, height, width]` that lie at `times` and are told `condition`
    /// `[20, frames, height, width]`. `weights` are those of either expert.
    ///
    /// # Errors
    /// When a graph can't be compiled.
    pub fn new(
        engine: &'a Engine,
        config: &'a WanConfig,
        weights: &Weights,
        grid: LatentGrid,
        times: &[i64],
        condition: Option<ArrayView4<'_, f32>>,
    ) -> Result<Self, PipelineError> {
        let context = engine.compile(weights, "", |g| wan::context(g, config))?;
        let prologue = engine.compile(weights, "", |g| wan::prologue(g, config, grid))?;
        let keys = engine.compile(weights, &wan::block_prefix(0), |g| wan::keys(g, config, grid))?;
        let block = engine.compile(weights, &wan::block_prefix(0), |g| wan::block(g, config, grid))?;
        let epilogue = engine.compile(weights, "", |g| wan::epilogue(g, config, grid))?;
        // Before anything is taken to the device.
        let specs = [&context, &prologue, &keys, &block, &epilogue].map(Compiled::spec);
        engine.check(&stage(config, specs))?;

        let (cos, sin) = wan::rotary_table(config, grid, times);
        let table = [grid.tokens(), config.head_dim() / 2];
        let condition =
            condition.map(|c| engine.upload(c.shape(), c.iter().copied().collect())).transpose()?;
        let (cos, sin) = (engine.upload(&table, cos)?, engine.upload(&table, sin)?);
        Ok(Self { engine, config, grid, context, prologue, keys, block, epilogue, condition, cos, sin })
    }

    /// Puts the expert with these weights to work on two prompts' embeddings, each `[text_len, text_dim]`. Only one can
    /// be counted on to have room.
    ///
    /// # Errors
    /// When the device's memory does not suffice, or the graph fails or is stopped.
    pub fn expert<'w>(
        &mut self,
        weights: &'w Weights,
        prompt: &Array2<f32>,
        negative: &Array2<f32>,
        stop: &StopToken,
    ) -> Result<Expert<'w>, PipelineError> {
        let Self { engine, config, context, prologue, keys, block, epilogue, .. } = self;
        let specs = [&*context, prologue, keys, block, epilogue].map(Compiled::spec);
        let mut weights = engine.hold(weights, &stage(config, specs))?;
        let mut embed = |prompt: &Array2<f32>| {
            let prompt = engine.upload(prompt.shape(), prompt.iter().copied().collect())?;
            context.run(&[&prompt], &mut weights, "", stop).map(|[context]| context)
        };
        let contexts = [embed(prompt)?, embed(negative)?];
        Ok(Expert { weights, contexts })
    }

    /// The velocity at `latents` `[16, frames, height, width]` and `timestep`:
    /// `v_negative + guidance * (v_prompt - v_negative)`.
    ///
    /// The branches go through each block together, so that a block's weights are touched once a step. At a guidance
    /// scale of 1 the negative prompt has no say, and its branch is not computed.
    ///
    /// # Errors
    /// When a graph fails or is stopped.
    pub fn velocity(
        &mut self,
        expert: &mut Expert<'_>,
        latents: &Array4<f32>,
        timestep: i64,
        guidance: f32,
        stop: &StopToken,
    ) -> Result<Vec<f32>, PipelineError> {
        let Expert { weights, contexts } = expert;
        let engine = self.engine;
        let latents = engine.upload(latents.shape(), latents.iter().copied().collect())?;
        let freq_dim = self.config.freq_dim;
        let timestep = engine.upload(&[1, freq_dim], wan::timestep_embedding(timestep, freq_dim))?;
        let inputs: Vec<_> = iter::once(&latents).chain(&self.condition).chain([&timestep]).collect();
        let [hidden, time, modulation] = self.prologue.run(&inputs, weights, "", stop)?;

        let contexts = if guidance == 1.0 { &contexts[..1] } else { &contexts[..] };
        // Until its first block is done, a branch is what the prologue gave: only the prompt tells them apart.
        let hidden = Rc::new(hidden);
        let mut branches: Vec<Rc<Tensor>> = contexts.iter().map(|_| Rc::clone(&hidden)).collect();
        drop(hidden);
        for layer in 0..self.config.num_layers {
            let prefix = wan::block_prefix(layer);
            for (branch, context) in iter::zip(&mut branches, contexts) {
                let inputs = [&**branch, &modulation, &self.cos, &self.sin];
                let [keys, values] = self.keys.run(&inputs, weights, &prefix, stop)?;
                let inputs = [&inputs[..], &[&keys, &values, context]].concat();
                let [out] = self.block.run(&inputs, weights, &prefix, stop)?;
                *branch = Rc::new(out);
            }
        }
        let mut velocities = branches.iter().map(|x| {
            let [patches] = self.epilogue.run(&[x, &time], weights, "", stop)?;
            Ok::<_, PipelineError>(wan::unpatchify(&engine.download(&patches)?, self.config, self.grid))
        });
        let mut velocity = velocities.next().expect("there is always the prompt's branch")?;
        if let Some(negative) = velocities.next() {
            for (c, u) in iter::zip(&mut velocity, negative?) {
                *c = u + guidance * (*c - u);
            }
        }
        Ok(velocity)
    }
}

/// What runs, for the decision where the weights lie: the graphs for context, prologue, keys, block and epilogue.
pub(crate) fn stage(config: &WanConfig, graphs: [&GraphSpec; 5]) -> Stage {
    let [context, prologue, keys, block, epilogue] = graphs;
    let ports = |graph: &GraphSpec| bytes_of(graph.inputs.iter().chain(&graph.outputs));
    Stage {
        name: "transformer",
        graphs: vec![context.clone(), prologue.clone(), epilogue.clone()],
        layer_graphs: vec![keys.clone(), block.clone()],
        layers: (0..config.num_layers).map(wan::block_prefix).collect(),
        // What the prologue takes and gives, and what the blocks take and give. At most three sets of tokens exist at
        // one time, either branch's and the one that is being made, which the sum has. Beside it there are the second
        // prompt as it is given and as it is attended to, and the velocity.
        activations: ports(prologue) + ports(block) + ports(context) + bytes_of(&epilogue.outputs),
    }
}
