//! The graphs a shot of the default profile runs, for people and tools that want to look at them.
//!
//! Nothing reads them back: the engine builds the graphs of the shape at hand.

use std::collections::HashMap;

use super::{BundleVariant, Dtype, Manifest};
use crate::graph::{Builder, CpuLowering, DataType, Graph};
use crate::models::vae::{Chunk, SPATIAL, TEMPORAL};
use crate::models::wan::LatentGrid;
use crate::models::{Net, umt5, vae, wan};

/// The graphs of every net at the manifest's default size, length and number of memory frames.
pub(super) fn default_profile(manifest: &Manifest) -> Vec<Graph> {
    let (nets, sampling) = (&manifest.nets, &manifest.sampling);
    let (rows, columns) = (sampling.height / SPATIAL, sampling.width / SPATIAL);
    let memory = if manifest.variant == BundleVariant::T2v { 0 } else { sampling.max_memory };
    let frames = memory + (sampling.frames - 1) / TEMPORAL + 1;
    let grid = LatentGrid { frames, height: rows, width: columns };

    let mut graphs = Vec::new();
    let mut add = |net: Net, prefix: &str, build: &dyn Fn(Builder<'_>) -> Graph| {
        let stored = Stored::of(manifest, net);
        let dtype = |name: &str| stored.dtype(prefix, name);
        graphs.push(build(Builder::new(&CpuLowering, &dtype)));
    };
    let (text, tokens) = (&nets.text_encoder, nets.transformer.text_len);
    add(Net::TextEncoder, &umt5::layer_prefix(0), &|g| umt5::layer(g, text, tokens));
    add(Net::TextEncoder, "", &|g| umt5::final_norm(g, text, tokens));
    let transformer = &nets.transformer;
    add(Net::TransformerHigh, "", &|g| wan::context(g, transformer));
    add(Net::TransformerHigh, "", &|g| wan::prologue(g, transformer, grid));
    add(Net::TransformerHigh, &wan::block_prefix(0), &|g| wan::block(g, transformer, grid));
    add(Net::TransformerHigh, "", &|g| wan::epilogue(g, transformer, grid));
    for chunk in [Chunk::First, Chunk::Next] {
        add(Net::Vae, "", &|g| vae::encode(g, &nets.vae, chunk, rows, columns));
        add(Net::Vae, "", &|g| vae::decode(g, &nets.vae, chunk, rows, columns));
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
