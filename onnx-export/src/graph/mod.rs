//! A small graph builder in which a net reads like its reference.
//!
//! A net's definition is a function over a [`Builder`]. It says *what* is computed; a [`Lowering`] says in which
//! nodes and in which precision, so that the same definition serves every provider: [`CpuLowering`] emits ONNX
//! Runtime's fused operators and computes in f32, [`CannLowering`] the elementary ones that an Ascend NPU's front end
//! takes and computes in f16 where the weights are, [`StandardLowering`] what any ONNX tool knows. Shapes are static and inferred while building, so a mistake in a
//! definition shows where it is made and not deep inside a runtime.
//!
//! Weights are graph *inputs*, named as in the checkpoint: whoever runs the graph binds them. The list of weights
//! a net expects is what its definition asked for, so it can't drift from the definition.

mod builder;
pub mod cann;
mod cpu;
mod lowering;
mod memory;
mod ops;
mod standard;

pub(crate) use builder::value_info;
pub use builder::{Builder, Graph, Value};
pub use cann::CannLowering;
pub use cpu::CpuLowering;
pub use lowering::{AttentionSpec, ConvSpec, Lowering};
pub use memory::{GraphMemory, aligned};
pub use standard::StandardLowering;

use serde::{Deserialize, Serialize};

/// Element types of graph values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataType {
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// IEEE single precision.
    F32,
    /// 64-bit integers: indices.
    I64,
}

impl DataType {
    /// The wider of two floating-point types; f16 and bf16 meet in f32.
    fn promote(self, other: Self) -> Self {
        if self == other { self } else { Self::F32 }
    }

    /// The number ONNX gives the type.
    pub(crate) fn onnx(self) -> i32 {
        use crate::proto::tensor_proto::DataType as Onnx;
        match self {
            Self::F16 => Onnx::Float16 as i32,
            Self::Bf16 => Onnx::Bfloat16 as i32,
            Self::F32 => Onnx::Float as i32,
            Self::I64 => Onnx::Int64 as i32,
        }
    }
}

/// A weight a net expects: its canonical name and its shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightSpec {
    /// Canonical name, as in the bundle's weight files.
    pub name: String,
    /// Shape as in the checkpoint.
    pub shape: Vec<usize>,
}

/// A named value that enters or leaves a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Name in the graph.
    pub name: String,
    /// Element type.
    pub dtype: DataType,
    /// Static shape.
    pub shape: Vec<usize>,
}

/// A graph without its nodes: what has to be known to run it or to plan for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphSpec {
    /// Name of the graph.
    pub name: String,
    /// Activations to bind, in order.
    pub inputs: Vec<Port>,
    /// Weights to bind; names relative to the prefix under which the graph is run.
    pub weights: Vec<Port>,
    /// Results, in order.
    pub outputs: Vec<Port>,
    /// Memory it takes while it runs, beside what is bound; an estimate.
    pub memory: GraphMemory,
}
