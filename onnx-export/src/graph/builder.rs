//! The builder: values with static shapes, nodes in the order they are made.

use std::collections::HashMap;
use std::rc::Rc;

use prost::Message;
use sha2::{Digest, Sha256};

use super::{DataType, GraphMemory, GraphSpec, Lowering, Port, WeightSpec};
use crate::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto,
    TypeProto, ValueInfoProto, attribute_proto, tensor_shape_proto, type_proto,
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
    outputs: Vec<Port>,
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
        self.inputs.push(Port { name: name.into(), dtype, shape: shape.into() });
        Value { name: name.into(), dtype, shape: shape.into() }
    }

    /// A weight under its checkpoint name, in the type in which it is stored.
    pub fn weight(&mut self, name: &str, shape: &[usize]) -> Value {
        let dtype = (self.stored)(name);
        if !self.weights.iter().any(|port| port.name == name) {
            self.weights.push(Port { name: name.into(), dtype, shape: shape.into() });
        }
        Value { name: name.into(), dtype, shape: shape.into() }
    }

    /// Declares `value` a result named `name`, in f32.
    pub fn output(&mut self, name: &str, value: &Value) {
        let value = self.cast(value, DataType::F32);
        let named = Value { name: name.into(), ..value.clone() };
        self.node("Identity", &[&value], &[], named.dtype, &named.shape).rename(self, name);
        self.outputs.push(Port { name: name.into(), dtype: named.dtype, shape: named.shape.to_vec() });
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
    pub fn finish(self, name: &str) -> Graph {
        let memory =
            GraphMemory::of(&self.nodes, &self.initializers, &self.inputs, &self.outputs, &self.sizes);
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
                output: self.outputs.iter().map(value_info).collect(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let Self { inputs, weights, outputs, .. } = self;
        Graph { name: name.into(), model, inputs, weights, outputs, memory }
    }
}

impl Value {
    /// Gives the result of the node made last another name.
    fn rename(&self, builder: &mut Builder<'_>, name: &str) {
        let node = builder.nodes.last_mut().expect("a value is renamed right after its node was made");
        assert_eq!(node.output, [&*self.name], "only the newest value can be renamed");
        node.output = vec![name.into()];
    }
}

/// An attribute of a node.
pub(super) enum Attribute {
    Int(i64),
    Ints(Vec<i64>),
    Float(f32),
    Text(&'static str),
}

impl Attribute {
    fn to_proto(&self, name: &str) -> AttributeProto {
        use attribute_proto::AttributeType;
        let mut proto = AttributeProto { name: Some(name.into()), ..Default::default() };
        let kind = match self {
            Self::Int(value) => {
                proto.i = Some(*value);
                AttributeType::Int
            }
            Self::Ints(values) => {
                proto.ints = values.clone();
                AttributeType::Ints
            }
            Self::Float(value) => {
                proto.f = Some(*value);
                AttributeType::Float
            }
            Self::Text(value) => {
                proto.s = Some(value.as_bytes().to_vec());
                AttributeType::String
            }
        };
        proto.r#type = Some(kind as i32);
        proto
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
                shape: Some(TensorShapeProto { dim: port.shape.iter().map(dim).collect() }),
            })),
            ..Default::default()
        }),
        ..Default::default()
    }
}
