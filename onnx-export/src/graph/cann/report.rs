//! What CANN would refuse of a graph, found without CANN.
//!
//! The provider takes whatever graph it is given, and only the first run, after minutes, says what its front end makes
//! of it; some of it is never said (a precision silently lost, a convolution taken for one of two dimensions).

use std::collections::{HashMap, HashSet};

use prost::Message;

use super::super::Graph;
use super::ops::{FLASH_ATTENTION, Operator, find};
use crate::proto::tensor_proto::DataType as Onnx;
use crate::proto::{GraphProto, NodeProto, ValueInfoProto, tensor_shape_proto, type_proto};

/// The front end reads a serialised graph with a signed 32-bit length.
const MOST_BYTES: usize = i32::MAX as usize;

/// Why CANN would refuse a graph, or take it for another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Nodes of another domain than the default one.
    #[error("domain `{0}` is dropped by the provider; use operators of the default domain")]
    Domain(String),
    /// The default domain is not imported, or twice.
    #[error("the default domain is imported {0} times; import it once")]
    Imports(usize),
    /// The front end does not know a node's operator at the graph's opset.
    #[error(
        "node `{node}`: `{operator}` is not known to CANN at opset {opset}; write it in operators that are"
    )]
    Operator {
        /// The node.
        node: String,
        /// Its operator.
        operator: String,
        /// The graph's opset.
        opset: i64,
    },
    /// An attribute is missing that the front end needs.
    #[error("node `{node}`: attribute `{attribute}` is missing; CANN has no default for it that is right")]
    Attribute {
        /// The node.
        node: String,
        /// The attribute.
        attribute: &'static str,
    },
    /// A shape is only known when the graph runs.
    #[error("the shape of `{0}` is not static; give every dimension a number, and shapes as constants")]
    DynamicShape(String),
    /// Inputs of different types where there may be one.
    #[error("node `{0}`: its inputs are of different types; cast them to one")]
    MixedTypes(String),
    /// A type that an operator does not take.
    #[error("node `{node}`: `{operator}` does not take {dtype}; cast to f16 or f32")]
    Type {
        /// The node.
        node: String,
        /// Its operator.
        operator: String,
        /// The type.
        dtype: &'static str,
    },
    /// Two nodes of one name, or a node without one: the front end names what it makes of them after them.
    #[error("node name `{0}` is not unique; name every node")]
    NodeName(String),
    /// A graph too large to be handed over.
    #[error("the graph takes {0} bytes; CANN reads no more than 2 GiB, so weights have to be inputs")]
    Size(usize),
}

/// Everything CANN would refuse of `graph`; nothing if it would take it, as far as can be told without CANN.
pub fn provider_report(graph: &Graph) -> Vec<Problem> {
    let model = &graph.model;
    let mut problems = Vec::new();
    let imports =
        |default: bool| model.opset_import.iter().filter(move |set| set.domain().is_empty() == default);
    problems.extend(imports(false).map(|set| Problem::Domain(set.domain().into())));
    let opset = match imports(true).collect::<Vec<_>>()[..] {
        [one] => one.version(),
        ref several => {
            problems.push(Problem::Imports(several.len()));
            return problems;
        }
    };
    if model.encoded_len() > MOST_BYTES {
        problems.push(Problem::Size(model.encoded_len()));
    }
    if let Some(graph) = &model.graph {
        let ports = graph.input.iter().chain(&graph.output);
        problems.extend(
            ports.filter(|port| !is_static(port)).map(|port| Problem::DynamicShape(port.name().into())),
        );
        let mut nodes = Nodes::new(graph, opset);
        graph.node.iter().for_each(|node| nodes.check(node, &mut problems));
    }
    problems
}

/// Goes through the nodes of a graph in order, and keeps what is known of the values so far.
struct Nodes<'a> {
    opset: i64,
    constants: HashSet<&'a str>,
    types: HashMap<&'a str, i32>,
    names: HashSet<&'a str>,
}

impl<'a> Nodes<'a> {
    fn new(graph: &'a GraphProto, opset: i64) -> Self {
        let inputs =
            graph.input.iter().filter_map(|port| Some((port.name(), tensor_type(port)?.elem_type())));
        let constants = graph.initializer.iter().map(|tensor| (tensor.name(), tensor.data_type()));
        Self {
            opset,
            constants: graph.initializer.iter().map(|tensor| tensor.name()).collect(),
            types: inputs.chain(constants).collect(),
            names: HashSet::new(),
        }
    }

    fn check(&mut self, node: &'a NodeProto, problems: &mut Vec<Problem>) {
        let name = || node.name().to_owned();
        if node.name().is_empty() || !self.names.insert(node.name()) {
            problems.push(Problem::NodeName(name()));
        }
        self.infer(node);
        if !node.domain().is_empty() {
            problems.push(Problem::Domain(node.domain().into()));
            return;
        }
        let Some(operator) = find(node.op_type()).filter(|operator| operator.is_known_at(self.opset)) else {
            let operator = node.op_type().into();
            problems.push(Problem::Operator { node: name(), operator, opset: self.opset });
            return;
        };
        let missing = operator.attributes.iter().filter(|&&wanted| attribute(node, wanted).is_none());
        problems.extend(missing.map(|attribute| Problem::Attribute { node: name(), attribute }));
        let shapes = operator.constants.iter().filter_map(|&index| node.input.get(index));
        let computed = shapes.filter(|shape| !shape.is_empty() && !self.constants.contains(shape.as_str()));
        problems.extend(computed.map(|_| Problem::DynamicShape(name())));
        problems.extend(self.types(node, operator));
    }

    fn types(&self, node: &NodeProto, operator: &Operator) -> Option<Problem> {
        let inputs: Vec<i32> =
            node.input.iter().filter_map(|input| self.types.get(input.as_str()).copied()).collect();
        let first = *inputs.first()?;
        if operator.one_type && inputs.iter().any(|&dtype| dtype != first) {
            return Some(Problem::MixedTypes(node.name().into()));
        }
        let refused = match operator.name {
            // The type rules of ONNX up to opset 21, which ONNX Runtime keeps.
            "Conv" | "ConvTranspose" if first == Onnx::Bfloat16 as i32 => "bf16",
            FLASH_ATTENTION if first == Onnx::Float as i32 => "f32",
            _ => return None,
        };
        Some(Problem::Type { node: node.name().into(), operator: operator.name.into(), dtype: refused })
    }

    /// Notes the type of a node's results: for all operators here but these, that of its first input.
    fn infer(&mut self, node: &'a NodeProto) {
        let input =
            |index: usize| node.input.get(index).and_then(|name| self.types.get(name.as_str()).copied());
        let dtype = match node.op_type() {
            "Cast" => attribute(node, "to").map(|to| to.i() as i32),
            "And" | "Equal" | "Greater" | "Less" | "Not" | "Or" => Some(Onnx::Bool as i32),
            "Where" => input(1),
            _ => input(0),
        };
        if let Some(dtype) = dtype {
            self.types.extend(node.output.iter().map(|name| (name.as_str(), dtype)));
        }
    }
}

fn attribute<'a>(node: &'a NodeProto, name: &str) -> Option<&'a crate::proto::AttributeProto> {
    node.attribute.iter().find(|attribute| attribute.name() == name)
}

fn is_static(port: &ValueInfoProto) -> bool {
    let known = |dim: &tensor_shape_proto::Dimension| matches!(dim.value, Some(tensor_shape_proto::dimension::Value::DimValue(size)) if size > 0);
    tensor_type(port)
        .and_then(|tensor| tensor.shape.as_ref())
        .is_some_and(|shape| shape.dim.iter().all(known))
}

fn tensor_type(port: &ValueInfoProto) -> Option<&type_proto::Tensor> {
    match port.r#type.as_ref()?.value.as_ref()? {
        type_proto::Value::TensorType(tensor) => Some(tensor),
        _ => None,
    }
}
