//! Token ids to prompt embeddings, through the UMT5 encoder.

use ndarray::Array2;
use onnx_export::graph::GraphSpec;
use onnx_export::models::umt5::{self, Umt5Config};

use super::PipelineError;
use crate::engine::residency::bytes_of;
use crate::engine::{Compiled, Engine, Held, Stage, StopToken, Weights};

/// Prompts are padded to a multiple of this many tokens, so that a few graphs serve every length.
const TOKEN_STEP: usize = 64;
/// Added to the scores of padding: its weight in the softmax is then exactly zero.
const MASKED: f32 = -1e9;

/// The text encoder of a bundle, with the graphs for the length last used.
pub struct TextEncoder<'a> {
    engine: &'a Engine,
    config: &'a Umt5Config,
    weights: &'a Weights,
    graphs: Option<Graphs<'a>>,
}

struct Graphs<'a> {
    tokens: usize,
    held: Held<'a>,
    layer: Compiled,
    final_norm: Compiled,
}

impl<'a> TextEncoder<'a> {
    /// An encoder that compiles its graphs when it is first used.
    pub fn new(engine: &'a Engine, config: &'a Umt5Config, weights: &'a Weights) -> Self {
        Self { engine, config, weights, graphs: None }
    }

    /// Embeddings `[text_len, d_model]` of a prompt; rows past its own tokens are zero.
    ///
    /// # Errors
    /// When an id is not in the embedding, or a graph fails or is stopped.
    pub fn encode(
        &mut self,
        ids: &[u32],
        text_len: usize,
        stop: &StopToken,
    ) -> Result<Array2<f32>, PipelineError> {
        assert!(ids.len() <= text_len, "prompts are cut to {text_len} tokens");
        let width = self.config.d_model;
        let Self { engine, config, weights, .. } = *self;
        let tokens = match engine.compiles_slowly() {
            true => text_len,
            false => ids.len().next_multiple_of(TOKEN_STEP).min(text_len),
        };
        let Graphs { held, layer, final_norm, .. } = self.graphs(tokens)?;

        let mut embedded = weights.rows(umt5::EMBEDDING, ids)?;
        embedded.resize(tokens * width, 0.0);
        let mut hidden = engine.upload(&[tokens, width], embedded)?;
        let mask = (0..tokens).map(|i| if i < ids.len() { 0.0 } else { MASKED }).collect();
        let mask = engine.upload(&[1, 1, 1, tokens], mask)?;
        for i in 0..config.num_layers {
            let [out] = layer.run(&[&hidden, &mask], held, &umt5::layer_prefix(i), stop)?;
            hidden = out;
        }
        let [hidden] = final_norm.run(&[&hidden], held, "", stop)?;

        let mut result = Array2::zeros([text_len, width]);
        let known = &engine.download(&hidden)?[..ids.len() * width];
        result.iter_mut().zip(known).for_each(|(to, from)| *to = *from);
        Ok(result)
    }

    fn graphs(&mut self, tokens: usize) -> Result<&mut Graphs<'a>, PipelineError> {
        if self.graphs.as_ref().is_none_or(|graphs| graphs.tokens != tokens) {
            let Self { engine, config, weights, .. } = *self;
            // The weights stay: only the CPU has several lengths, and there they lie in the mapped file.
            let held = self.graphs.take().map(|graphs| graphs.held);
            let layer =
                engine.compile(weights, &umt5::layer_prefix(0), |g| umt5::layer(g, config, tokens))?;
            let final_norm = engine.compile(weights, "", |g| umt5::final_norm(g, config, tokens))?;
            let held = match held {
                Some(held) => held,
                None => engine.hold(weights, &stage(config, layer.spec(), final_norm.spec()))?,
            };
            self.graphs = Some(Graphs { tokens, held, layer, final_norm });
        }
        Ok(self.graphs.as_mut().expect("the graphs were compiled just above"))
    }
}

/// What runs, for the decision where the weights lie.
pub(crate) fn stage(config: &Umt5Config, layer: &GraphSpec, final_norm: &GraphSpec) -> Stage {
    Stage {
        name: "text encoder",
        graphs: vec![final_norm.clone()],
        layer_graphs: vec![layer.clone()],
        layers: (0..config.num_layers).map(umt5::layer_prefix).collect(),
        // Tokens in, tokens out, and the mask.
        activations: bytes_of(layer.inputs.iter().chain(&layer.outputs)),
    }
}
