//! The builder: values with static shapes, nodes in the order they are made.

use std::collections::HashMap;
use std::rc::Rc;

use prost::Message;
use sha2::{Digest, Sha256};

use super::attribute::Attribute;
use super::{DataType, GraphMemory, GraphSpec, Lowering, Port, WeightSpec};
use crate::proto::{
    GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto, TypeProto,
    ValueInfoProto, tensor_shape_proto, type_proto,
};

/// A tensor inside a graph under construction. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Value {
    pub(super) name: Rc<str>,
    pub(super) dtype: DataType,
    pub(super) shape: Rc<[usize]>,
}

impl Value {
    /// Static shape.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Size of one axis.
    pub fn dim(&self, axis: usize) -> usize {
        self.shape[axis]
    }

    /// Element type.
    pub fn dtype(&self) -> DataType {
        self.dtype
    }
}

/// A finished graph: an ONNX model, and what has to be bound to run it.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Name of the graph; part of what identifies a compiled form of it.
    pub name: String,
    /// The model, ready to be written to an `.onnx` file or handed to a runtime.
    pub model: ModelProto,
    /// Activations to bind, in order.
    pub inputs: Vec<Port>,
    /// Weights to bind, in order of first use; names relative to the prefix under which the graph is run.
    pub weights: Vec<Port>,
    /// Results, in order.
    pub outputs: Vec<Port>,
    /// Memory it takes while it runs, beside what is bound; an estimate.
    pub memory: GraphMemory,
}

impl Graph {
    /// The serialised model.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.model.encode_to_vec()
    }

    /// What has to be known of the graph to run it or to plan for it.
    pub fn spec(&self) -> GraphSpec {
        GraphSpec {
            name: self.name.clone(),
            inputs: self.inputs.clone(),
            weights: self.weights.clone(),
            outputs: self.outputs.clone(),
            memory: self.memory,
        }
    }

    /// Makes the name inside the model tell its whole content, for compilers that keep what they compiled under that
    /// name; gives it back.
    pub fn name_by_content(&mut self) -> String {
        let digest = Sha256::digest(self.to_bytes());
        let digest: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("{}_{digest}", self.name);
        if let Some(graph) = &mut self.model.graph {
            graph.name = Some(name.clone());
        }
        name
    }
}

/// Builds one graph.
///
/// Shapes are checked as the graph is built. A mismatch is a mistake in a net's definition, never in a user's
/// input (configurations are validated before a net is built), so it panics with the operator and the shapes.
pub struct Builder<'a> {
    pub(super) lowering: &'a dyn Lowering,
    stored: &'a dyn Fn(&str) -> DataType,
    nodes: Vec<NodeProto>,
    initializers: Vec<TensorProto>,
    inputs: Vec<Port>,
    weights: Vec<Port>,
    /// With the value that each of them is.
    outputs: Vec<(Port, Value)>,
    /// Bytes of each node's result.
    sizes: HashMap<String, u64>,
    next_id: usize,
}

impl<'a> Builder<'a> {
    /// A builder that lowers by `lowering`; `stored` tells the type in which a weight lies in its file.
    pub fn new(lowering: &'a dyn Lowering, stored: &'a dyn Fn(&str) -> DataType) -> Self {
        Self {
            lowering,
            stored,
            nodes: Vec::new(),
            initializers: Vec::new(),
            inputs: Vec::new(),
            weights: Vec::new(),
            outputs: Vec::new(),
            sizes: HashMap::new(),
            next_id: 0,
        }
    }

    /// The weights `define` asks for, without building anything for keeps.
    pub fn weights_of(define: impl FnOnce(&mut Builder<'_>)) -> Vec<WeightSpec> {
        let mut builder = Builder::new(&super::CpuLowering, &|_| DataType::F32);
        define(&mut builder);
        builder.weights.into_iter().map(|port| WeightSpec { name: port.name, shape: port.shape }).collect()
    }

    /// An activation that is bound for each run.
    pub fn input(&mut self, name: &str, dtype: DataType, shape: &[usize]) -> Value {
        self.bound(Port { name: name.into(), dtype, shape: shape.into(), rows: None })
    }

    /// An activation of which a run takes `rows` rows; see [`Rows`](super::Rows).
    pub fn input_rows(&mut self, name: &str, dtype: DataType, shape: &[usize], rows: usize) -> Value {
        let rows = Some(rows).filter(|&rows| rows < shape[0]);
        self.bound(Port { name: name.into(), dtype, shape: shape.into(), rows })
    }

    fn bound(&mut self, port: Port) -> Value {
        let value = Value { name: (&*port.name).into(), dtype: port.dtype, shape: port.run_shape().into() };
        self.inputs.push(port);
        value
    }

    /// A weight under its checkpoint name, in the type in which it is stored.
    pub fn weight(&mut self, name: &str, shape: &[usize]) -> Value {
        let dtype = (self.stored)(name);
        if !self.weights.iter().any(|port| port.name == name) {
            self.weights.push(Port { name: name.into(), dtype, shape: shape.into(), rows: None });
        }
        Value { name: name.into(), dtype, shape: shape.into() }
    }

    /// The type of products with a weight.
    pub fn product_type(&self, weight: &str) -> DataType {
        self.lowering.product_type((self.stored)(weight))
    }

    /// How many rows of a sequence of `all` a graph should take at a time; see [`Rows`](super::Rows).
    pub fn rows_at_a_time(&self, all: usize) -> usize {
        self.lowering.rows_at_a_time(all)
    }

    /// Declares `value` a result named `name`, in f32.
    pub fn output(&mut self, name: &str, value: &Value) {
        let value = self.cast(value, DataType::F32);
        self.output_rows(name, &value, value.dim(0));
    }

    /// Declares `value`, in its own type, what a run gives of a result with `all` rows; see [`Rows`](super::Rows).
    pub fn output_rows(&mut self, name: &str, value: &Value, all: usize) {
        let rows = Some(value.dim(0)).filter(|&rows| rows < all);
        let mut shape = value.shape.to_vec();
        shape[0] = all;
        self.outputs.push((Port { name: name.into(), dtype: value.dtype, shape, rows }, value.clone()));
    }

    /// A constant of f32 numbers.
    pub fn constant_f32(&mut self, values: &[f32], shape: &[usize]) -> Value {
        self.constant(DataType::F32, values.iter().flat_map(|v| v.to_le_bytes()).collect(), shape)
    }

    /// A constant of indices.
    pub fn constant_i64(&mut self, values: &[i64], shape: &[usize]) -> Value {
        self.constant(DataType::I64, values.iter().flat_map(|v| v.to_le_bytes()).collect(), shape)
    }

    /// A constant number in a floating-point type, rounded to it.
    pub(super) fn scalar(&mut self, dtype: DataType, value: f32) -> Value {
        let raw = match dtype {
            DataType::F16 => half::f16::from_f32(value).to_le_bytes().to_vec(),
            DataType::Bf16 => half::bf16::from_f32(value).to_le_bytes().to_vec(),
            DataType::F32 => value.to_le_bytes().to_vec(),
            DataType::I64 => unreachable!("only floating-point values are scaled and shifted"),
        };
        self.constant(dtype, raw, &[])
    }

    fn constant(&mut self, dtype: DataType, raw: Vec<u8>, shape: &[usize]) -> Value {
        let name: Rc<str> = self.fresh("const").into();
        self.initializers.push(TensorProto {
            name: Some(name.to_string()),
            data_type: Some(dtype.onnx()),
            dims: shape.iter().map(|&d| d as i64).collect(),
            raw_data: Some(raw),
            ..Default::default()
        });
        Value { name, dtype, shape: shape.into() }
    }

    /// Appends a node of the default domain with one result.
    pub(super) fn node(
        &mut self,
        op: &str,
        inputs: &[&Value],
        attributes: &[(&str, Attribute)],
        dtype: DataType,
        shape: &[usize],
    ) -> Value {
        let inputs: Vec<_> = inputs.iter().map(|v| Some(*v)).collect();
        self.node_in("", op, &inputs, attributes, dtype, shape)
    }

    /// Appends a node of any domain with one result; absent inputs are optional ones left out.
    pub(super) fn node_in(
        &mut self,
        domain: &str,
        op: &str,
        inputs: &[Option<&Value>],
        attributes: &[(&str, Attribute)],
        dtype: DataType,
        shape: &[usize],
    ) -> Value {
        let name: Rc<str> = self.fresh(op).into();
        self.nodes.push(NodeProto {
            name: Some(name.to_string()),
            op_type: Some(op.into()),
            domain: Some(domain.into()),
            input: inputs.iter().map(|v| v.map_or_else(String::new, |v| v.name.to_string())).collect(),
            output: vec![name.to_string()],
            attribute: attributes.iter().map(|(name, value)| value.to_proto(name)).collect(),
            ..Default::default()
        });
        let bytes = dtype.size() * shape.iter().product::<usize>();
        self.sizes.insert(name.to_string(), bytes as u64);
        Value { name, dtype, shape: shape.into() }
    }

    fn fresh(&mut self, stem: &str) -> String {
        self.next_id += 1;
        format!("{stem}_{}", self.next_id)
    }

    /// Closes the graph.
    pub fn finish(mut self, name: &str) -> Graph {
        let outputs = self.name_outputs();
        let memory = GraphMemory::of(&self.nodes, &self.initializers, &self.inputs, &outputs, &self.sizes);
        let model = ModelProto {
            ir_version: Some(10),
            producer_name: Some("storymem".into()),
            producer_version: Some(env!("CARGO_PKG_VERSION").into()),
            opset_import: self
                .lowering
                .opsets()
                .iter()
                .map(|&(domain, version)| OperatorSetIdProto {
                    domain: Some(domain.into()),
                    version: Some(version),
                })
                .collect(),
            graph: Some(GraphProto {
                name: Some(name.into()),
                node: self.nodes,
                initializer: self.initializers,
                input: self.inputs.iter().chain(&self.weights).map(value_info).collect(),
                output: outputs.iter().map(value_info).collect(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let Self { inputs, weights, .. } = self;
        Graph { name: name.into(), model, inputs, weights, outputs, memory }
    }

    /// Gives each result its name. The node that makes it writes it under that name: one that copied it would take its
    /// memory once more. Only what no node makes, or is two results, is copied.
    fn name_outputs(&mut self) -> Vec<Port> {
        let mut names: HashMap<Rc<str>, String> = HashMap::new();
        let (mut ports, mut copies) = (Vec::new(), Vec::new());
        for (port, value) in std::mem::take(&mut self.outputs) {
            if self.sizes.contains_key(&*value.name) && !names.contains_key(&value.name) {
                names.insert(value.name, port.name.clone());
            } else {
                copies.push((port.name.clone(), value));
            }
            ports.push(port);
        }
        for (name, value) in copies {
            let copy = self.node("Identity", &[&value], &[], value.dtype, &value.shape);
            names.insert(copy.name, name);
        }
        let values = self.nodes.iter_mut().flat_map(|node| node.input.iter_mut().chain(&mut node.output));
        for value in values {
            if let Some(name) = names.get(value.as_str()) {
                value.clone_from(name);
            }
        }
        ports
    }
}

/// A port as ONNX declares it.
pub(crate) fn value_info(port: &Port) -> ValueInfoProto {
    let dim = |&size: &usize| tensor_shape_proto::Dimension {
        value: Some(tensor_shape_proto::dimension::Value::DimValue(size as i64)),
        ..Default::default()
    };
    ValueInfoProto {
        name: Some(port.name.clone()),
        r#type: Some(TypeProto {
            value: Some(type_proto::Value::TensorType(type_proto::Tensor {
                elem_type: Some(port.dtype.onnx()),
                shape: Some(TensorShapeProto { dim: port.run_shape().iter().map(dim).collect() }),
            })),
            ..Default::default()
        }),
        ..Default::default()
    }
}
