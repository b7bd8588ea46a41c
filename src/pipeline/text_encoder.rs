//! Token ids to prompt embeddings, through the UMT5 encoder.

use ndarray::Array2;
use onnx_export::models::umt5::{self, Umt5Config};

use super::PipelineError;
use crate::engine::{Compiled, Engine, StopToken, Tensor, Weights};

/// Prompts are padded to a multiple of this many tokens, so that a few graphs serve every length.
const TOKEN_STEP: usize = 64;
/// Added to the scores of padding: its weight in the softmax is then exactly zero.
const MASKED: f32 = -1e9;

/// The text encoder of a bundle, with the graphs for the length last used.
pub struct TextEncoder<'a> {
    engine: &'a Engine,
    config: &'a Umt5Config,
    weights: &'a Weights,
    graphs: Option<Graphs>,
}

struct Graphs {
    tokens: usize,
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
        let tokens = ids.len().next_multiple_of(TOKEN_STEP).min(text_len);
        let weights = self.weights;
        let config = self.config;
        let graphs = self.graphs(tokens)?;

        let mut embedded = weights.rows(umt5::EMBEDDING, ids)?;
        embedded.resize(tokens * width, 0.0);
        let mut hidden = Tensor::new(&[tokens, width], embedded)?;
        let mask = (0..tokens).map(|i| if i < ids.len() { 0.0 } else { MASKED }).collect();
        let mask = Tensor::new(&[1, 1, 1, tokens], mask)?;
        for layer in 0..config.num_layers {
            let [out] = graphs.layer.run(&[&hidden, &mask], weights, &umt5::layer_prefix(layer), stop)?;
            hidden = out;
        }
        let [hidden] = graphs.final_norm.run(&[&hidden], weights, "", stop)?;

        let mut result = Array2::zeros([text_len, width]);
        let known = &hidden.data()?[..ids.len() * width];
        result.iter_mut().zip(known).for_each(|(to, from)| *to = *from);
        Ok(result)
    }

    fn graphs(&mut self, tokens: usize) -> Result<&mut Graphs, PipelineError> {
        if self.graphs.as_ref().is_none_or(|graphs| graphs.tokens != tokens) {
            let Self { engine, config, weights, .. } = *self;
            let layer =
                engine.compile(weights, &umt5::layer_prefix(0), |g| umt5::layer(g, config, tokens))?;
            let final_norm = engine.compile(weights, "", |g| umt5::final_norm(g, config, tokens))?;
            self.graphs = Some(Graphs { tokens, layer, final_norm });
        }
        Ok(self.graphs.as_mut().expect("the graphs were compiled just above"))
    }
}
