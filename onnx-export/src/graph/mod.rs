//! A small graph builder in which a net reads like its reference.
//!
//! A net's definition is a function over a [`Builder`]. It says *what* is computed; a [`Lowering`] says in which
//! nodes and in which precision, so that the same definition serves every provider: [`CpuLowering`] emits ONNX
//! Runtime's fused operators and computes in f32, [`CannLowering`] the elementary ones that an Ascend NPU's front end
//! takes and computes in f16 where the weights are, [`StandardLowering`] what any ONNX tool knows. Shapes are static and inferred while building, so a mistake in a
//! definition shows where it is made and not deep inside a runtime.
//!
//! A graph may be made for some rows of a sequence ([`Rows`]) and run for one part of it after the other.
//!
//! Weights are graph *inputs*, named as in the checkpoint: whoever runs the graph binds them. The list of weights
//! a net expects is what its definition asked for, so it can't drift from the definition.

mod attribute;
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

/// The factor in [`Lowering::quick_gelu`].
const QUICK_GELU: f32 = 1.702;

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
    /// How many of its rows a run takes or gives, where that is not all of them; see [`Rows`].
    pub rows: Option<usize>,
}

impl Port {
    /// The shape a run takes or gives: [`shape`](Self::shape), or some rows of it.
    pub fn run_shape(&self) -> Vec<usize> {
        let mut shape = self.shape.clone();
        if let Some(rows) = self.rows {
            shape[0] = rows;
        }
        shape
    }
}

/// How a graph goes over a sequence that it is made for a part of: it is run for some rows after the others.
///
/// What of a net treats each token alike needs no memory for all of them at once, and a graph made for some needs none
/// in whatever order a compiler puts its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Rows of one run.
    pub at_a_time: usize,
    /// Rows of the sequence.
    pub all: usize,
}

impl Rows {
    /// Where each run begins. The last ends with the sequence; where that leaves too few rows, it does again what the
    /// one before it did.
    pub fn starts(self) -> impl Iterator<Item = usize> {
        let last = self.all - self.at_a_time;
        (0..self.all).step_by(self.at_a_time).map(move |start| start.min(last))
    }
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

impl GraphSpec {
    /// How it goes over a sequence, if it is made for a part of one.
    pub fn rows(&self) -> Option<Rows> {
        let mut ports = self.inputs.iter().chain(&self.outputs);
        ports.find_map(|port| Some(Rows { at_a_time: port.rows?, all: port.shape[0] }))
    }
}

#[cfg(test)]
mod tests {
    use super::Rows;

    #[test]
    fn runs_over_some_rows_cover_all_of_them() {
        for (at_a_time, all, starts) in [
            (4, 12, vec![0, 4, 8]),
            (5, 12, vec![0, 5, 7]),
            (12, 12, vec![0]),
            (11, 12, vec![0, 1]),
            (1, 2, vec![0, 1]),
        ] {
            assert_eq!(Rows { at_a_time, all }.starts().collect::<Vec<_>>(), starts, "{at_a_time} of {all}");
        }
    }
}
