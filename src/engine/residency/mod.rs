//! What of the nets lies on a device, and when.
//!
//! Stages follow one another: the text encoder, then an expert, at the boundary the other, the autoencoder. Each holds
//! the weights of one net, and lets go of them when it ends, so that two nets never compete for the memory. A [`Stage`]
//! says what will run; from that and the device's budget a [`Plan`] follows, before anything is moved: the weights that
//! belong to no layer lie on the device, of the layers as many as fit, and the others pass through two places in turns,
//! one being filled while the other is computed with. At 832x480 a block of the transformer computes for a good part of
//! a second and its 703 MB in f16 upload in well under a tenth of that, so an expert runs in a fraction of its size.
//!
//! On the CPU nothing is moved: the operating system is told which pages will be wanted next and which no more.

mod mapped;
mod plan;

use onnx_export::graph::{GraphSpec, Port};
use ort::value::DynValue;

pub use plan::{Demand, Plan, TooSmall};
pub(super) use plan::{device_bytes, graph_bytes};

use super::cann::DeviceWeights;
use super::weights::full_name;
use super::{EngineError, Weights};
use mapped::Mapped;

/// What is run with one net's weights, from when they are held until they are let go of.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Its name, for messages.
    pub name: &'static str,
    /// Graphs that are run with the weights that belong to no layer.
    pub graphs: Vec<GraphSpec>,
    /// Graphs that are run for each layer, with its weights.
    pub layer_graphs: Vec<GraphSpec>,
    /// What precedes each layer's weight names, in the order in which they are run, over and over.
    pub layers: Vec<String>,
    /// Bytes of the activations between graphs, as many as there ever are at one time.
    pub activations: u64,
}

impl Stage {
    /// A stage of one graph that is no layer's.
    pub fn of_one(graph: &GraphSpec) -> Self {
        let activations = bytes_of(graph.inputs.iter().chain(&graph.outputs));
        Self { name: "graph", graphs: vec![graph.clone()], layer_graphs: vec![], layers: vec![], activations }
    }

    /// The weights that belong to no layer.
    pub(super) fn common(&self) -> impl Iterator<Item = &Port> {
        weights_of(&self.graphs)
    }

    /// The weights of each layer, under the names its graphs have for them.
    pub(super) fn of_layer(&self) -> impl Iterator<Item = &Port> {
        weights_of(&self.layer_graphs)
    }

    /// The full names of the weights of one layer.
    pub(super) fn layer_names(&self, layer: usize) -> impl Iterator<Item = String> {
        self.of_layer().map(move |port| full_name(&self.layers[layer], &port.name))
    }

    /// Every graph that is run.
    pub fn all_graphs(&self) -> impl Iterator<Item = &GraphSpec> {
        self.graphs.iter().chain(&self.layer_graphs)
    }
}

/// The weights of graphs that are run with the same ones, each once.
fn weights_of(graphs: &[GraphSpec]) -> impl Iterator<Item = &Port> {
    let before = |i: usize| graphs[..i].iter().flat_map(|graph| &graph.weights);
    let all =
        graphs.iter().enumerate().flat_map(|(i, graph)| graph.weights.iter().map(move |port| (i, port)));
    all.filter(move |&(i, port)| before(i).all(|earlier| earlier.name != port.name)).map(|(_, port)| port)
}

/// Bytes of ports on a device.
pub fn bytes_of<'a>(ports: impl IntoIterator<Item = &'a Port>) -> u64 {
    ports.into_iter().map(device_bytes).sum()
}

/// A net's weights, at hand for a stage; let go of when dropped.
pub struct Held<'w> {
    weights: &'w Weights,
    place: Place<'w>,
}

enum Place<'w> {
    Mapped(Mapped<'w>),
    Device(Box<DeviceWeights>),
}

impl<'w> Held<'w> {
    /// Where they lie in the mapped file.
    pub(super) fn mapped(weights: &'w Weights, stage: &Stage) -> Result<Self, EngineError> {
        Ok(Self { weights, place: Place::Mapped(Mapped::new(weights, stage)?) })
    }

    /// On a device.
    pub(super) fn on_device(weights: &'w Weights, device: DeviceWeights) -> Self {
        Self { weights, place: Place::Device(Box::new(device)) }
    }

    /// Gets the weights under `prefix` ready, and begins to fetch those that follow.
    pub(super) fn enter(&mut self, prefix: &str) -> Result<(), EngineError> {
        match &mut self.place {
            Place::Mapped(mapped) => {
                mapped.enter(prefix);
                Ok(())
            }
            Place::Device(device) => device.enter(prefix),
        }
    }

    /// A weight under the prefix entered last, or one that belongs to no layer.
    pub(super) fn value(&self, name: &str) -> Result<&DynValue, EngineError> {
        match &self.place {
            Place::Mapped(mapped) => mapped.value(name),
            Place::Device(device) => device.value(name),
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.weights.set_aside();
    }
}
