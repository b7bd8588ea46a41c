//! Every graph that a shot runs.

use std::collections::HashMap;

use super::{BundleVariant, Dtype, Manifest};
use crate::graph::{Builder, CpuLowering, DataType, Graph, Lowering};
use crate::models::vae::{Chunk, SPATIAL, TEMPORAL};
use crate::models::wan::LatentGrid;
use crate::models::{Net, clip, umt5, vae, wan};

/// The graphs of every net at the manifest's default size, length and number of memory frames, for people and tools that
/// want to look at them. Nothing reads them back: the engine builds the graphs of the shape at hand.
pub(super) fn default_profile(manifest: &Manifest) -> Vec<Graph> {
    let sampling = &manifest.sampling;
    let memory = if manifest.variant == BundleVariant::T2v { 0 } else { sampling.max_memory };
    let grid = LatentGrid {
        frames: memory + (sampling.frames - 1) / TEMPORAL + 1,
        height: sampling.height / SPATIAL,
        width: sampling.width / SPATIAL,
    };
    shot_graphs(manifest, &CpuLowering, grid)
}

/// Every graph that a shot with these latents, memory included, runs, for weights stored as in a bundle with this
/// manifest. Prompts are as long as can be.
pub fn shot_graphs(manifest: &Manifest, lowering: &dyn Lowering, grid: LatentGrid) -> Vec<Graph> {
    let nets = &manifest.nets;
    let mut graphs = Vec::new();
    let mut add = |net: Net, prefix: &str, build: &dyn Fn(Builder<'_>) -> Graph| {
        let stored = Stored::of(manifest, net);
        let dtype = |name: &str| stored.dtype(prefix, name);
        graphs.push(build(Builder::new(lowering, &dtype)));
    };
    let (text, tokens) = (&nets.text_encoder, nets.transformer.text_len);
    add(Net::TextEncoder, &umt5::layer_prefix(0), &|g| umt5::layer(g, text, tokens));
    add(Net::TextEncoder, "", &|g| umt5::final_norm(g, text, tokens));
    let transformer = &nets.transformer;
    add(Net::TransformerHigh, "", &|g| wan::context(g, transformer));
    add(Net::TransformerHigh, "", &|g| wan::prologue(g, transformer, grid));
    add(Net::TransformerHigh, &wan::block_prefix(0), &|g| wan::keys(g, transformer, grid));
    add(Net::TransformerHigh, &wan::block_prefix(0), &|g| wan::block(g, transformer, grid));
    add(Net::TransformerHigh, "", &|g| wan::epilogue(g, transformer, grid));
    for chunk in [Chunk::First, Chunk::Next] {
        if transformer.condition_channels() > 0 {
            add(Net::Vae, "", &|g| vae::encode(g, &nets.vae, chunk, grid.height, grid.width));
        }
        add(Net::Vae, "", &|g| vae::decode(g, &nets.vae, chunk, grid.height, grid.width));
    }
    if let Some(config) = &nets.clip {
        add(Net::Clip, "", &|g| clip::embed(g, config));
    }
    graphs
}

/// In which type each weight of a net lies in its file.
pub(crate) struct Stored(HashMap<String, Dtype>);

impl Stored {
    /// Of the weights of `net`.
    pub(crate) fn of(manifest: &Manifest, net: Net) -> Self {
        Self(manifest.tensors(net).into_iter().map(|tensor| (tensor.name, tensor.dtype)).collect())
    }

    /// Of the weight `name` of a graph that is run under `prefix`.
    pub(crate) fn dtype(&self, prefix: &str, name: &str) -> DataType {
        let dtype = self.0.get(&format!("{prefix}{name}"));
        DataType::from(*dtype.expect("the manifest lists every weight its nets' definitions ask for"))
    }
}
