//! Compiled graphs and their runs.

use std::borrow::Cow;

use onnx_export::graph::{Builder, CannLowering, CpuLowering, DataType, Graph, Lowering, Port};
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ort::session::{Session, SessionInputValue};

use super::{Device, EngineError, Runtime, StopToken, Tensor, Weights, flash_attention};

/// One device.
pub struct Engine {
    runtime: Runtime,
    lowering: Box<dyn Lowering + Send + Sync>,
    dialect: Dialect,
}

/// For which provider graphs are written: it decides how they are compiled.
#[derive(Clone, Copy)]
enum Dialect {
    Cpu,
    Cann,
}

impl Engine {
    /// Takes `device` into use.
    ///
    /// # Errors
    /// When it can't be used.
    pub fn open(runtime: Runtime, device: Device) -> Result<Self, EngineError> {
        match device {
            Device::Cpu => Ok(Self { runtime, lowering: Box::new(CpuLowering), dialect: Dialect::Cpu }),
            Device::Cann(_) => {
                let reason = "this version runs on the CPU only; use `--device cpu`".into();
                Err(EngineError::Device { device, reason })
            }
        }
    }

    /// The CPU, for the graphs that an NPU gets: what they compute can be checked without one.
    pub fn with_lowering(runtime: Runtime, lowering: CannLowering) -> Self {
        Self { runtime, lowering: Box::new(lowering), dialect: Dialect::Cann }
    }

    /// Compiles the graph that `build` makes, for weights stored as those of `weights` are whose names are `prefix`
    /// and the graph's own.
    ///
    /// On the CPU this takes milliseconds; what a compiled graph costs is the scratch memory it keeps, so whoever
    /// compiles one lets go of it when its stage is over.
    ///
    /// # Errors
    /// When ONNX Runtime refuses the graph.
    pub fn compile(
        &self,
        weights: &Weights,
        prefix: &str,
        build: impl FnOnce(Builder<'_>) -> Graph,
    ) -> Result<Compiled, EngineError> {
        // A weight that is missing here is reported by name when it is bound.
        let stored = |name: &str| weights.dtype(&full_name(prefix, name)).unwrap_or(DataType::F32);
        Compiled::new(&self.runtime, self.dialect, build(Builder::new(&*self.lowering, &stored)))
    }
}

/// A graph ready to run.
pub struct Compiled {
    name: String,
    session: Session,
    inputs: Vec<Port>,
    weights: Vec<Port>,
    outputs: Vec<Port>,
}

impl Compiled {
    fn new(runtime: &Runtime, dialect: Dialect, graph: Graph) -> Result<Self, EngineError> {
        let bytes = graph.to_bytes();
        let Graph { name, inputs, weights, outputs, .. } = graph;
        match session(runtime, dialect, &bytes) {
            Ok(session) => Ok(Self { name, session, inputs, weights, outputs }),
            Err(source) => Err(EngineError::Compile { graph: name, source }),
        }
    }

    /// [`run_all`](Self::run_all) for a graph of `N` results.
    ///
    /// # Errors
    /// As there.
    pub fn run<const N: usize>(
        &mut self,
        inputs: &[&Tensor],
        weights: &Weights,
        prefix: &str,
        stop: &StopToken,
    ) -> Result<[Tensor; N], EngineError> {
        let results = self.run_all(inputs, weights, prefix, stop)?;
        Ok(results.try_into().expect("the caller knows how many results its graph has"))
    }

    /// Runs the graph on `inputs`, which are in the order of the graph's definition, with the weights whose names are
    /// `prefix` and the graph's own; gives the results in the order of the definition.
    ///
    /// # Errors
    /// [`EngineError::Stopped`] when `stop` was set before or during the run; when a weight is missing; or what ONNX
    /// Runtime said.
    pub fn run_all(
        &mut self,
        inputs: &[&Tensor],
        weights: &Weights,
        prefix: &str,
        stop: &StopToken,
    ) -> Result<Vec<Tensor>, EngineError> {
        assert_eq!(inputs.len(), self.inputs.len(), "inputs of `{}`", self.name);
        let mut bound: Vec<(Cow<'_, str>, SessionInputValue<'_>)> =
            Vec::with_capacity(inputs.len() + self.weights.len());
        for (port, tensor) in self.inputs.iter().zip(inputs) {
            bound.push(((&*port.name).into(), (&tensor.0).into()));
        }
        for port in &self.weights {
            bound.push(((&*port.name).into(), weights.value(&full_name(prefix, &port.name))?.into()));
        }
        let (session, outputs) = (&mut self.session, &self.outputs);
        let result = stop.guard(|options| {
            let mut results = session.run_with_options(bound, options)?;
            let taken = outputs.iter().map(|port| {
                let value = results.remove(&port.name).expect("a session gives every output of its graph");
                Tensor(value)
            });
            Ok(taken.collect())
        })?;
        result.map_err(|source| EngineError::Run { graph: self.name.clone(), source })
    }
}

fn session(runtime: &Runtime, dialect: Dialect, model: &[u8]) -> Result<Session, ort::Error> {
    // A planned memory pattern reserves a quarter more than the runs turn out to need, and is no faster.
    let builder = SessionBuilder::new(&runtime.environment)?.with_memory_pattern(false)?;
    match dialect {
        Dialect::Cpu => builder.with_optimization_level(GraphOptimizationLevel::All)?,
        // Rewriting would fuse the elementary operators again, into ones that CANN does not know.
        Dialect::Cann => builder
            .with_optimization_level(GraphOptimizationLevel::Disable)?
            .with_operators(flash_attention::domain()?)?,
    }
    .commit_from_memory(model)
}

fn full_name(prefix: &str, name: &str) -> String {
    format!("{prefix}{name}")
}
