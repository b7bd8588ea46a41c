//! Compiled graphs and their runs.

use std::borrow::Cow;
use std::iter;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use onnx_export::graph::{
    Builder, CannLowering, CpuLowering, DataType, Graph, GraphSpec, Lowering, Port, Rows,
};
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ort::session::{Session, SessionInputValue};
use ort::value::DynValue;

use super::cann::{Npu, OnNpu};
use super::rows::Part;
use super::weights::full_name;
use super::{
    Device, DeviceOptions, EngineError, Held, NpuFacts, Runtime, Stage, StopToken, Tensor, Weights,
    flash_attention, rows,
};

/// One device.
pub struct Engine {
    runtime: Runtime,
    lowering: Box<dyn Lowering + Send + Sync>,
    target: Target,
}

/// Where graphs run, and so how they are compiled.
#[derive(Clone)]
enum Target {
    Cpu,
    /// The CPU, for graphs written for an NPU.
    CpuAsNpu,
    Npu(Arc<Npu>),
}

impl Engine {
    /// Takes a device into use.
    ///
    /// An NPU is the process's: its graphs are compiled into the process's working directory, which this changes, so
    /// relative paths mean something else from here on.
    ///
    /// # Errors
    /// When it can't be used.
    pub fn open(runtime: Runtime, options: impl Into<DeviceOptions>) -> Result<Self, EngineError> {
        let options = options.into();
        Ok(match options.device {
            Device::Cpu => Self { runtime, lowering: Box::new(CpuLowering), target: Target::Cpu },
            Device::Cann(id) => {
                let npu = Npu::claim(&runtime, id, &options)?;
                Self { runtime, lowering: Box::new(options.lowering), target: Target::Npu(npu) }
            }
        })
    }

    /// The CPU, for the graphs that an NPU gets: what they compute can be checked without one.
    pub fn with_lowering(runtime: Runtime, lowering: CannLowering) -> Self {
        Self { runtime, lowering: Box::new(lowering), target: Target::CpuAsNpu }
    }

    /// Whether compiling a graph takes so long that few shapes should serve for everything.
    pub fn compiles_slowly(&self) -> bool {
        matches!(self.target, Target::Npu(_))
    }

    /// What is known of the NPU in use; nothing on the CPU.
    ///
    /// # Errors
    /// When the device fails.
    pub fn npu_facts(&self) -> Result<Option<NpuFacts>, EngineError> {
        match &self.target {
            Target::Cpu | Target::CpuAsNpu => Ok(None),
            Target::Npu(npu) => npu.facts().map(Some),
        }
    }

    /// Compiles the graph that `build` makes, for weights stored as those of `weights` are whose names are `prefix`
    /// and the graph's own.
    ///
    /// On the CPU this takes milliseconds; what a compiled graph costs is the scratch memory it keeps, so whoever
    /// compiles one lets go of it when its stage is over. On an NPU the first run compiles, for minutes, or loads what
    /// an earlier process has compiled.
    ///
    /// # Errors
    /// When ONNX Runtime refuses the graph, or the device's memory does not suffice for it.
    pub fn compile(
        &self,
        weights: &Weights,
        prefix: &str,
        build: impl FnOnce(Builder<'_>) -> Graph,
    ) -> Result<Compiled, EngineError> {
        // A weight that is missing here is reported by name when it is bound.
        let stored = |name: &str| weights.dtype(&full_name(prefix, name)).unwrap_or(DataType::F32);
        let mut graph = build(Builder::new(&*self.lowering, &stored));
        let mut spec = graph.spec();
        let name = spec.name.clone();
        let refused = |reason| EngineError::Compile { graph: name, reason };
        let (session, npu) = match &self.target {
            Target::Cpu => (session(&self.runtime, false, &graph.to_bytes()).map_err(refused)?, None),
            Target::CpuAsNpu => (session(&self.runtime, true, &graph.to_bytes()).map_err(refused)?, None),
            Target::Npu(npu) => {
                let key = graph.name_by_content();
                let compiled = npu.compile(&self.runtime, key, &graph.to_bytes(), spec.memory);
                let (session, on_npu, memory) = compiled.map_err(refused)?;
                spec.memory = memory;
                (session, Some(on_npu))
            }
        };
        Ok(Compiled { spec, session: ManuallyDrop::new(session), npu })
    }

    /// Makes sure that a stage fits into the device's memory.
    ///
    /// # Errors
    /// When it does not, with what would.
    pub fn check(&self, stage: &Stage) -> Result<(), EngineError> {
        match &self.target {
            Target::Cpu | Target::CpuAsNpu => Ok(()),
            Target::Npu(npu) => npu.plan(stage).map(drop),
        }
    }

    /// Takes `weights` to where the graphs of `stage` can use them, for as long as the result lives.
    ///
    /// # Errors
    /// When the device's memory does not suffice, with what would; or when the device fails.
    pub fn hold<'w>(&self, weights: &'w Weights, stage: &Stage) -> Result<Held<'w>, EngineError> {
        match &self.target {
            Target::Cpu | Target::CpuAsNpu => Held::mapped(weights, stage),
            Target::Npu(npu) => npu.hold(weights, stage),
        }
    }

    /// Takes `data` of the given shape to the device, without a copy on the CPU.
    ///
    /// # Errors
    /// When the length of `data` is not the product of `shape`, or the device's memory does not suffice.
    pub fn upload(&self, shape: &[usize], data: Vec<f32>) -> Result<Tensor, EngineError> {
        if let Target::Npu(npu) = &self.target
            && data.len() == shape.iter().product::<usize>()
        {
            return npu.upload(shape, &data);
        }
        let tensor = ort::value::Tensor::from_array((shape.to_vec(), data)).map_err(EngineError::Tensor)?;
        Ok(Tensor { value: tensor.into_dyn(), buffer: None })
    }

    /// The elements of a tensor, without a copy on the CPU.
    ///
    /// # Errors
    /// When the device fails.
    pub fn download<'t>(&self, tensor: &'t Tensor) -> Result<Cow<'t, [f32]>, EngineError> {
        match &self.target {
            Target::Npu(npu) => npu.download(tensor).map(Cow::Owned),
            Target::Cpu | Target::CpuAsNpu => {
                let data = tensor.value.try_extract_tensor::<f32>();
                data.map(|(_, data)| Cow::Borrowed(data)).map_err(EngineError::Tensor)
            }
        }
    }
}

/// A graph ready to run.
pub struct Compiled {
    spec: GraphSpec,
    session: ManuallyDrop<Session>,
    npu: Option<OnNpu>,
}

impl Drop for Compiled {
    fn drop(&mut self) {
        if self.npu.as_ref().is_none_or(OnNpu::may_be_released) {
            // SAFETY: this is the only place that drops it, and nothing uses it any more.
            unsafe { ManuallyDrop::drop(&mut self.session) }
        }
    }
}

impl Compiled {
    /// What the graph takes and gives.
    pub fn spec(&self) -> &GraphSpec {
        &self.spec
    }

    /// [`run_all`](Self::run_all) for a graph of `N` results.
    ///
    /// # Errors
    /// As there.
    pub fn run<const N: usize>(
        &mut self,
        inputs: &[&Tensor],
        weights: &mut Held<'_>,
        prefix: &str,
        stop: &StopToken,
    ) -> Result<[Tensor; N], EngineError> {
        let results = self.run_all(inputs, weights, prefix, stop)?;
        Ok(results.try_into().expect("the caller knows how many results its graph has"))
    }

    /// Runs the graph on `inputs`, which are in the order of the graph's definition, with the weights whose names are
    /// `prefix` and the graph's own; gives the results in the order of the definition. A graph that is made for some rows
    /// of a sequence is run for all of them.
    ///
    /// # Errors
    /// [`EngineError::Stopped`] when `stop` was set before or during the run; when a weight is missing; or what the
    /// device or ONNX Runtime said.
    pub fn run_all(
        &mut self,
        inputs: &[&Tensor],
        weights: &mut Held<'_>,
        prefix: &str,
        stop: &StopToken,
    ) -> Result<Vec<Tensor>, EngineError> {
        let Self { spec, session, npu } = self;
        assert_eq!(inputs.len(), spec.inputs.len(), "inputs of `{}`", spec.name);
        stop.check()?;
        weights.enter(prefix)?;
        let weight = |port: &'_ Port| weights.value(&full_name(prefix, &port.name));
        let weights: Vec<&DynValue> = spec.weights.iter().map(weight).collect::<Result<_, _>>()?;
        if npu.is_none() && spec.rows().is_none() {
            // ONNX Runtime makes the results itself.
            let inputs: Vec<_> = inputs.iter().map(|tensor| &tensor.value).collect();
            return run(session, spec, &bound(spec, inputs, &weights), stop);
        }
        let output = |port: &Port| match npu {
            Some(npu) => npu.tensor(port),
            None => Ok(Tensor { value: rows::zeros(port)?, buffer: None }),
        };
        let mut outputs: Vec<Tensor> = spec.outputs.iter().map(output).collect::<Result<_, _>>()?;
        let whole = Rows { at_a_time: 1, all: 1 };
        for start in spec.rows().unwrap_or(whole).starts() {
            let parts = iter::zip(&spec.inputs, inputs)
                .map(|(port, tensor)| Part::to_read(&tensor.value, port, start))
                .collect::<Result<Vec<_>, _>>()?;
            let inputs = bound(spec, parts.iter().map(|part| &**part), &weights);
            let ports = iter::zip(&spec.outputs, &mut outputs);
            match npu {
                Some(npu) => {
                    let mut parts = ports
                        .map(|(port, tensor)| Part::to_write(&mut tensor.value, port, start))
                        .collect::<Result<Vec<_>, _>>()?;
                    npu.run(session, spec, &inputs, &mut parts, stop)?;
                }
                None => {
                    for ((port, whole), given) in ports.zip(run(session, spec, &inputs, stop)?) {
                        rows::put(&mut whole.value, port, start, &given.value)?;
                    }
                }
            }
        }
        Ok(outputs)
    }
}

/// What a run is given, by the names of the graph.
fn bound<'r>(
    spec: &'r GraphSpec,
    inputs: impl IntoIterator<Item = &'r DynValue>,
    weights: &[&'r DynValue],
) -> Vec<(&'r str, &'r DynValue)> {
    let ports = spec.inputs.iter().chain(&spec.weights).map(|port| &*port.name);
    ports.zip(inputs.into_iter().chain(weights.iter().copied())).collect()
}

/// Runs a graph on the CPU.
fn run(
    session: &mut Session,
    spec: &GraphSpec,
    inputs: &[(&str, &DynValue)],
    stop: &StopToken,
) -> Result<Vec<Tensor>, EngineError> {
    let inputs: Vec<(Cow<'_, str>, SessionInputValue<'_>)> =
        inputs.iter().map(|&(name, value)| (name.into(), value.into())).collect();
    let result = stop.guard(|options| {
        let mut results = session.run_with_options(inputs, options)?;
        let taken = spec.outputs.iter().map(|port| {
            let value = results.remove(&port.name).expect("a session gives every output of its graph");
            Tensor { value, buffer: None }
        });
        Ok(taken.collect())
    })?;
    result.map_err(|reason| EngineError::Run { device: Device::Cpu, graph: spec.name.clone(), reason })
}

/// A session on the CPU.
fn session(runtime: &Runtime, as_npu: bool, model: &[u8]) -> Result<Session, ort::Error> {
    // A planned memory pattern reserves a quarter more than the runs turn out to need, and is no faster.
    let builder = SessionBuilder::new(&runtime.environment)?.with_memory_pattern(false)?;
    match as_npu {
        false => builder.with_optimization_level(GraphOptimizationLevel::All)?,
        // Rewriting would fuse the elementary operators again, into ones that CANN does not know.
        true => builder
            .with_optimization_level(GraphOptimizationLevel::Disable)?
            .with_operators(flash_attention::domain()?)?,
    }
    .commit_from_memory(model)
}
