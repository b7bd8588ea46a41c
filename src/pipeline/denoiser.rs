//! One denoising step: the transformer's velocity for noisy latents, guided by the prompt.

use std::iter;

use ndarray::{Array2, Array4, ArrayView4};
use onnx_export::models::wan::{self, LatentGrid, WanConfig};

use super::PipelineError;
use crate::engine::{Compiled, Engine, StopToken, Tensor, Weights};

/// The graphs of a transformer for one latent grid. Both experts run on them, with their own weights.
pub struct Denoiser<'a> {
    config: &'a WanConfig,
    context: Compiled,
    prologue: Compiled,
    block: Compiled,
    epilogue: Compiled,
    condition: Option<Tensor>,
    cos: Tensor,
    sin: Tensor,
}

/// What an expert attends to: the prompt, then the negative prompt, as it embeds them.
pub struct Contexts([Tensor; 2]);

impl<'a> Denoiser<'a> {
    /// Compiles the graphs for latents `[16, frames, height, width]` that lie at `times` and are told `condition`
    /// `[20, frames, height, width]`. `weights` are those of either expert.
    ///
    /// # Errors
    /// When a graph can't be compiled.
    pub fn new(
        engine: &Engine,
        config: &'a WanConfig,
        weights: &Weights,
        grid: LatentGrid,
        times: &[i64],
        condition: Option<ArrayView4<'_, f32>>,
    ) -> Result<Self, PipelineError> {
        let (cos, sin) = wan::rotary_table(config, grid, times);
        let table = [grid.tokens(), config.head_dim() / 2];
        Ok(Self {
            config,
            context: engine.compile(weights, "", |g| wan::context(g, config))?,
            prologue: engine.compile(weights, "", |g| wan::prologue(g, config, grid))?,
            block: engine.compile(weights, &wan::block_prefix(0), |g| wan::block(g, config, grid))?,
            epilogue: engine.compile(weights, "", |g| wan::epilogue(g, config, grid))?,
            condition: condition.map(|c| Tensor::new(c.shape(), c.iter().copied().collect())).transpose()?,
            cos: Tensor::new(&table, cos)?,
            sin: Tensor::new(&table, sin)?,
        })
    }

    /// What the expert with these weights attends to: embeddings `[text_len, text_dim]` of the two prompts.
    ///
    /// # Errors
    /// When the graph fails or is stopped.
    pub fn contexts(
        &mut self,
        weights: &Weights,
        prompt: &Array2<f32>,
        negative: &Array2<f32>,
        stop: &StopToken,
    ) -> Result<Contexts, PipelineError> {
        let mut embed = |prompt: &Array2<f32>| {
            let prompt = Tensor::new(prompt.shape(), prompt.iter().copied().collect())?;
            self.context.run(&[&prompt], weights, "", stop).map(|[context]| context)
        };
        Ok(Contexts([embed(prompt)?, embed(negative)?]))
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
        weights: &Weights,
        contexts: &Contexts,
        latents: &Array4<f32>,
        timestep: i64,
        guidance: f32,
        stop: &StopToken,
    ) -> Result<Vec<f32>, PipelineError> {
        let latents = Tensor::new(latents.shape(), latents.iter().copied().collect())?;
        let freq_dim = self.config.freq_dim;
        let timestep = Tensor::new(&[1, freq_dim], wan::timestep_embedding(timestep, freq_dim))?;
        let inputs: Vec<_> = iter::once(&latents).chain(&self.condition).chain([&timestep]).collect();
        let [hidden, time, modulation] = self.prologue.run(&inputs, weights, "", stop)?;

        let contexts = if guidance == 1.0 { &contexts.0[..1] } else { &contexts.0[..] };
        // Until its first block is done, a branch is what the prologue gave: only the prompt tells them apart.
        let mut branches: Vec<Option<Tensor>> = contexts.iter().map(|_| None).collect();
        for layer in 0..self.config.num_layers {
            let prefix = wan::block_prefix(layer);
            for (branch, context) in iter::zip(&mut branches, contexts) {
                let x = branch.as_ref().unwrap_or(&hidden);
                let inputs = [x, &modulation, context, &self.cos, &self.sin];
                let [out] = self.block.run(&inputs, weights, &prefix, stop)?;
                *branch = Some(out);
            }
        }
        let mut velocities = branches.iter().map(|branch| {
            let x = branch.as_ref().unwrap_or(&hidden);
            let [velocity] = self.epilogue.run(&[x, &time], weights, "", stop)?;
            Ok::<_, PipelineError>(velocity.data()?.to_vec())
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
