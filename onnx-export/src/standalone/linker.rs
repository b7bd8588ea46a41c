//! Joins graphs into one model whose weights lie in a bundle's file.
//!
//! Graphs are made for one layer, with weights as inputs. Here each is added under a scope, its inputs are wired to values
//! that are there, and its weights become initializers that point into the file: one for each weight, however many graphs
//! use it. Equal constants are stored once.

use std::collections::{HashMap, HashSet};

use prost::Message;
use safetensors::SafeTensorError;

use crate::bundle::{Manifest, Stored, offsets, weight_path};
use crate::graph::{Builder, Graph, Lowering, Port, StandardLowering, value_info};
use crate::models::Net;
use crate::proto::tensor_proto::DataLocation;
use crate::proto::{
    GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorProto,
};

/// A value of the joined model.
#[derive(Clone, Debug)]
pub(super) struct Wire(String);

/// A model under construction.
pub(super) struct Linker {
    stored: Stored,
    location: String,
    /// Offset and length of each weight in its file.
    places: HashMap<String, (u64, u64)>,
    graph: GraphProto,
    weights: HashSet<String>,
    constants: HashMap<Vec<u8>, String>,
}

impl Linker {
    /// A model with the weights of `net`.
    pub(super) fn new(manifest: &Manifest, net: Net) -> Result<Self, SafeTensorError> {
        let tensors = manifest.tensors(net);
        let offsets = offsets(&tensors)?;
        let places = tensors.into_iter().zip(offsets).map(|(tensor, at)| {
            let bytes = tensor.bytes() as u64;
            (tensor.name, (at, bytes))
        });
        Ok(Self {
            stored: Stored::of(manifest, net),
            location: weight_path(net),
            places: places.collect(),
            graph: GraphProto::default(),
            weights: HashSet::new(),
            constants: HashMap::new(),
        })
    }

    /// An input of the model.
    pub(super) fn input(&mut self, port: Port) -> Wire {
        self.graph.input.push(value_info(&port));
        Wire(port.name)
    }

    /// Adds the graph that `build` makes, with weights under `prefix`; its inputs in order are `given`. Gives its outputs.
    pub(super) fn add<const N: usize>(
        &mut self,
        scope: &str,
        prefix: &str,
        given: &[&Wire],
        build: impl FnOnce(Builder<'_>) -> Graph,
    ) -> [Wire; N] {
        let outputs = self.add_all(scope, prefix, given, build);
        outputs.try_into().expect("whoever joins graphs knows how many outputs they have")
    }

    /// As [`add`](Self::add), for any number of outputs.
    pub(super) fn add_all(
        &mut self,
        scope: &str,
        prefix: &str,
        given: &[&Wire],
        build: impl FnOnce(Builder<'_>) -> Graph,
    ) -> Vec<Wire> {
        let dtype = |name: &str| self.stored.dtype(prefix, name);
        let graph = build(Builder::new(&StandardLowering, &dtype));
        assert_eq!(graph.inputs.len(), given.len(), "inputs of {}", graph.name);
        let mut names: HashMap<String, String> =
            graph.inputs.iter().zip(given).map(|(port, wire)| (port.name.clone(), wire.0.clone())).collect();
        for port in &graph.weights {
            let name = format!("{prefix}{}", port.name);
            self.weight(&name, port);
            names.insert(port.name.clone(), name);
        }
        let inner = graph.model.graph.unwrap_or_default();
        for constant in inner.initializer {
            let local = constant.name.clone().unwrap_or_default();
            names.insert(local, self.constant(constant));
        }
        // An input left out has no name.
        let rename = |name: String| match names.get(&name) {
            Some(name) => name.clone(),
            None if name.is_empty() => name,
            None => format!("{scope}/{name}"),
        };
        self.graph.node.extend(inner.node.into_iter().map(|node| NodeProto {
            name: node.name.map(|name| format!("{scope}/{name}")),
            input: node.input.into_iter().map(&rename).collect(),
            output: node.output.into_iter().map(&rename).collect(),
            ..node
        }));
        graph.outputs.into_iter().map(|port| Wire(rename(port.name))).collect()
    }

    /// Declares a value an output of the model.
    pub(super) fn output(&mut self, port: Port, wire: &Wire) {
        self.graph.node.push(NodeProto {
            name: Some(port.name.clone()),
            op_type: Some("Identity".into()),
            input: vec![wire.0.clone()],
            output: vec![port.name.clone()],
            ..NodeProto::default()
        });
        self.graph.output.push(value_info(&port));
    }

    /// The model, serialised; `about` is for people.
    pub(super) fn finish(mut self, name: &str, about: &str) -> Vec<u8> {
        self.graph.name = Some(name.into());
        let opsets = StandardLowering.opsets().iter().map(|&(domain, version)| OperatorSetIdProto {
            domain: Some(domain.into()),
            version: Some(version),
        });
        let model = ModelProto {
            ir_version: Some(11), // the first with opset 23
            producer_name: Some("storymem".into()),
            producer_version: Some(env!("CARGO_PKG_VERSION").into()),
            doc_string: Some(about.into()),
            opset_import: opsets.collect(),
            graph: Some(self.graph),
            ..ModelProto::default()
        };
        model.encode_to_vec()
    }

    fn weight(&mut self, name: &str, port: &Port) {
        if !self.weights.insert(name.to_owned()) {
            return;
        }
        let (offset, length) = self.places[name];
        let entry =
            |key: &str, value: String| StringStringEntryProto { key: Some(key.into()), value: Some(value) };
        self.graph.initializer.push(TensorProto {
            name: Some(name.into()),
            data_type: Some(port.dtype.onnx()),
            dims: port.shape.iter().map(|&size| size as i64).collect(),
            data_location: Some(DataLocation::External as i32),
            external_data: vec![
                entry("location", self.location.clone()),
                entry("offset", offset.to_string()),
                entry("length", length.to_string()),
            ],
            ..TensorProto::default()
        });
    }

    /// Adds a constant unless an equal one is there; gives its name.
    fn constant(&mut self, constant: TensorProto) -> String {
        let content = TensorProto { name: None, ..constant.clone() }.encode_to_vec();
        let next = format!("const/{}", self.constants.len());
        let name = self.constants.entry(content).or_insert_with(|| {
            self.graph.initializer.push(TensorProto { name: Some(next.clone()), ..constant });
            next
        });
        name.clone()
    }
}
