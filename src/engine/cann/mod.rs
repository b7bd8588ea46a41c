//! Ascend NPUs, through ONNX Runtime's CANN provider.
//!
//! The provider takes each graph whole, has CANN compile it for the shapes at hand when it first runs, and executes it
//! in one piece. Around it, this module does what the provider does not: it refuses to begin where the provider would fall
//! back to the CPU; it keeps compiled graphs where no stale one can be found ([`cache`]); and it puts weights and
//! activations into the device's memory itself ([`memory`], [`weights`]), so that how much of it is in use is known
//! and nothing is copied from graph to graph.
//!
//! One process has one device: CANN's precision mode and the provider's working directory belong to the process.

mod acl;
mod cache;
mod memory;
mod survey;
mod weights;

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use onnx_export::graph::{Builder, CannLowering, DataType, GraphMemory, GraphSpec, Port};
use ort::ep::ArenaExtendStrategy;
use ort::ep::cann::PrecisionMode;
use ort::session::Session;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ort::value::DynValue;
use sha2::{Digest, Sha256};

pub use acl::AclError;
pub(super) use memory::Buffer;
pub use survey::{Ascend, NpuFacts};
pub(super) use weights::DeviceWeights;

use super::calls::{self, Kind};
use super::residency::{Demand, Plan, Stage, TooSmall, graph_bytes};
use super::rows::Part;
use super::{
    Bytes, Device, DeviceOptions, EngineError, Held, Runtime, StopToken, Tensor, Weights, flash_attention,
};
use acl::Acl;
use cache::GraphCache;
use memory::{Memory, Purpose, Reservation};

/// The provider's library, beside ONNX Runtime's.
const PROVIDER: &str = "libonnxruntime_providers_cann.so";

/// The device of this process, and what it was asked for with.
static CLAIMED: Mutex<Option<(DeviceOptions, Arc<Npu>)>> = Mutex::new(None);

/// An NPU.
pub(super) struct Npu {
    id: u32,
    device: Device,
    lowering: CannLowering,
    memory: Arc<Memory>,
    cache: GraphCache,
}

impl Npu {
    /// The process's NPU; taken into use by the first call, which changes the process's working directory.
    ///
    /// # Errors
    /// When it can't be used, or the process has another one or uses it in another way.
    pub(super) fn claim(
        runtime: &Runtime,
        id: u32,
        options: &DeviceOptions,
    ) -> Result<Arc<Self>, EngineError> {
        let mut claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, npu)) = &*claimed {
            if of == options {
                return Ok(Arc::clone(npu));
            }
            let reason = format!(
                "this process uses `{}` already, and CANN's settings are the process's; start another process",
                npu.device
            );
            return Err(EngineError::Device { device: options.device, reason });
        }
        let npu = Arc::new(Self::open(runtime, id, options)?);
        *claimed = Some((options.clone(), Arc::clone(&npu)));
        Ok(npu)
    }

    fn open(runtime: &Runtime, id: u32, options: &DeviceOptions) -> Result<Self, EngineError> {
        let device = options.device;
        let refuse = |reason: String| EngineError::Device { device, reason };
        let provider = runtime.library().with_file_name(PROVIDER);
        if !provider.exists() {
            return Err(refuse(format!(
                "`{}` is not there, so this ONNX Runtime is not the build for Ascend; run `make setup-ascend`, or set \
                 ORT_DYLIB_PATH to the libonnxruntime.so of the `onnxruntime-cann` Python wheel",
                provider.display()
            )));
        }
        let acl = Acl::open()
            .map_err(|error| refuse(format!("{error}; install CANN and source its `set_env.sh`")))?;
        // Where it can't be told how many there are, the provider has the word.
        if let Ok(count) = acl.device_count()
            && id >= count
        {
            let reason = format!("CANN sees {count} here, numbered from 0; `npu-smi info` lists them");
            return Err(refuse(reason));
        }
        // A first session loads the provider and initialises CANN, or says why that can't be.
        let begin = || session(runtime, options.lowering, id, &probe().to_bytes());
        let probe = calls::note(Kind::Long, || "the start of CANN".into(), begin);
        drop(probe.map_err(|error| {
            let failure = acl.failure_in(error.message());
            refuse(failure.map_or_else(|| error.message().trim().to_owned(), |failure| failure.to_string()))
        })?);
        let soc =
            acl.soc_name().ok_or_else(|| refuse("CANN does not name the chip; see `npu-smi info`".into()))?;
        acl.set_device(id).map_err(|reason| EngineError::Acl { device, reason })?;

        let cann = match acl.version() {
            Some(version) => version,
            None => {
                file_identity(acl.path()).map_err(|e| refuse(format!("`{}`: {e}", acl.path().display())))?
            }
        };
        let build = file_identity(&provider).map_err(|e| refuse(format!("`{}`: {e}", provider.display())))?;
        let parts =
            [&*soc, &*format!("cann-{cann}"), &*format!("provider-{build}"), &*options.lowering.to_string()];
        let cache = GraphCache::enter(options.graph_cache.as_deref(), &parts)?;
        tracing::info!(
            device.id = id,
            device.soc = soc,
            device.cann = cann,
            graphs.folder = %cache.folder().display(),
            graphs.lowering = %options.lowering,
            "an NPU is in use"
        );
        let memory = Memory::new(acl, id, options.memory)?;
        Ok(Self { id, device, lowering: options.lowering, memory, cache })
    }

    /// Prepares a graph, whose name in `model` is `key` and tells its content, and says what memory it takes: as
    /// estimated, or as found when it ran before. CANN compiles it when it first runs.
    pub(super) fn compile(
        self: &Arc<Self>,
        runtime: &Runtime,
        key: String,
        model: &[u8],
        memory: GraphMemory,
    ) -> Result<(Session, OnNpu, GraphMemory), ort::Error> {
        let session = session(runtime, self.lowering, self.id, model)?;
        let memory = self.cache.measured(&key).map_or(memory, GraphMemory::measured);
        let reserved = self.memory.reserve(graph_bytes(memory));
        Ok((session, OnNpu { npu: Arc::clone(self), key, memory: reserved, has_run: false }, memory))
    }

    /// How a stage's weights fit beside what it runs.
    pub(super) fn plan(&self, stage: &Stage) -> Result<Plan, EngineError> {
        Plan::new(Demand::of(stage), self.memory.budget()).map_err(|too_small| self.refuse(stage, too_small))
    }

    fn refuse(&self, stage: &Stage, TooSmall { budget, least }: TooSmall) -> EngineError {
        let (device, stage) = (self.device, stage.name);
        EngineError::DeviceMemory { device, stage, budget: Bytes(budget), least: Bytes(least) }
    }

    /// Takes weights to the device, as many as the budget has room for.
    pub(super) fn hold<'w>(&self, weights: &'w Weights, stage: &Stage) -> Result<Held<'w>, EngineError> {
        // Sizes of activations change from stage to stage.
        self.memory.trim();
        let mut plan = self.plan(stage)?;
        // What else is held, or a graph has turned out to take, is not in the plan. That is rare, and the plan is made
        // again for what is left.
        let (wanted, room) = (plan.weights(), self.memory.room_for_weights(stage.activations));
        if wanted > room {
            let budget = self.memory.budget().saturating_sub(wanted - room);
            plan = Plan::new(plan.demand, budget).map_err(|TooSmall { least, .. }| {
                let least = least + (wanted - room);
                self.refuse(stage, TooSmall { budget: self.memory.budget(), least })
            })?;
        }
        tracing::info!(stage.name = stage.name, "memory for the {}: {plan}", stage.name);
        Ok(Held::on_device(weights, DeviceWeights::new(&self.memory, weights, stage, &plan)?))
    }

    /// Takes an activation to the device.
    pub(super) fn upload(&self, shape: &[usize], data: &[f32]) -> Result<Tensor, EngineError> {
        let port = Port { name: String::new(), dtype: DataType::F32, shape: shape.to_vec(), rows: None };
        let tensor = self.tensor(&port)?;
        if let Some(buffer) = &tensor.buffer {
            // SAFETY: the buffer was made for the port, and nothing else has it yet.
            self.memory.call(|acl| unsafe { acl.upload(buffer.address(), bytemuck::cast_slice(data)) })?;
        }
        Ok(tensor)
    }

    /// Brings an activation back.
    pub(super) fn download(&self, tensor: &Tensor) -> Result<Vec<f32>, EngineError> {
        let mut data = vec![0.0; tensor.shape().iter().product()];
        if let Some(buffer) = &tensor.buffer {
            let to = bytemuck::cast_slice_mut(&mut data);
            // SAFETY: the buffer was made for a tensor of this shape; the graph that wrote it has ended.
            self.memory.call(|acl| unsafe { acl.download(to, buffer.address()) })?;
        }
        Ok(data)
    }

    /// An activation, not yet written.
    fn tensor(&self, port: &Port) -> Result<Tensor, EngineError> {
        let buffer = self.memory.take(Purpose::Activation, port.bytes())?;
        // SAFETY: the buffer has room for the port, and is kept beside the value, which goes first.
        let value = unsafe { self.memory.value(buffer.address(), port.dtype, &port.shape) };
        Ok(Tensor { value: value.map_err(EngineError::Tensor)?, buffer: Some(buffer) })
    }
}

/// What a compiled graph is on an NPU, beside its session.
pub(super) struct OnNpu {
    npu: Arc<Npu>,
    /// The name of the graph, which tells its content.
    key: String,
    memory: Reservation,
    has_run: bool,
}

impl OnNpu {
    /// A result of the graph, not yet written.
    pub(super) fn tensor(&self, port: &Port) -> Result<Tensor, EngineError> {
        self.npu.tensor(port)
    }

    /// Runs the graph on activations and weights that are on the device, and leaves its results there.
    pub(super) fn run(
        &mut self,
        session: &mut Session,
        spec: &GraphSpec,
        inputs: &[(&str, &DynValue)],
        outputs: &mut [Part<'_>],
        stop: &StopToken,
    ) -> Result<(), EngineError> {
        let device = self.npu.device;
        let failed = |reason: ort::Error| {
            let graph = spec.name.clone();
            match self.npu.memory.acl().failure_in(reason.message()) {
                Some(reason) => EngineError::Graph { device, graph, reason },
                None => EngineError::Run { device, graph, reason },
            }
        };
        let mut binding = session.create_binding().map_err(failed)?;
        for (name, value) in inputs {
            binding.bind_input(*name, value).map_err(failed)?;
        }
        for (port, output) in spec.outputs.iter().zip(outputs) {
            binding.bind_output(&*port.name, output.as_result()).map_err(failed)?;
        }
        let kind = if self.has_run { Kind::Short } else { Kind::Long };
        let mut run = || {
            stop.guard(|options| {
                session.run_binding_with_options(&binding, options)?;
                // The provider waits for the device at the end of a run; should one not, the results would be read
                // too early.
                binding.synchronize_outputs()
            })
        };
        let mut run = || calls::note(kind, || format!("graph `{}`", spec.name), &mut run);
        let result = if self.has_run {
            run()
        } else {
            let free = || self.npu.memory.call(|acl| acl.memory_info()).map(|(free, _)| free);
            let before = free()?;
            // A run that was stopped ended in order, with what it had compiled written.
            let whole = |result: &Result<Result<(), ort::Error>, EngineError>| !matches!(result, Ok(Err(_)));
            let result = self.npu.cache.first_run(&self.key, run, whole)?;
            if let Ok(Ok(())) = result {
                self.has_run = true;
                let taken = before.saturating_sub(free()?);
                tracing::debug!(graph.name = self.key, graph.bytes = taken, "a graph is loaded");
                self.memory.raise_to(taken);
                self.npu.cache.measure(&self.key, taken)?;
            }
            result
        };
        result?.map_err(|reason| {
            self.npu.memory.set_failed();
            failed(reason)
        })
    }

    /// Whether the session may be released: where the device has failed, that ends the process.
    pub(super) fn may_be_released(&self) -> bool {
        !self.npu.memory.has_failed()
    }
}

/// A session of the CANN provider and of no other.
fn session(runtime: &Runtime, lowering: CannLowering, id: u32, model: &[u8]) -> Result<Session, ort::Error> {
    let provider = ort::ep::CANN::default()
        .with_device_id(id.cast_signed())
        .with_cann_graph(true)
        .with_dump_om_model(true)
        .with_arena_extend_strategy(ArenaExtendStrategy::SameAsRequested)
        // By default CANN narrows f32 to f16, whatever a graph says.
        .with_precision_mode(PrecisionMode::MustKeepOrigin)
        .build()
        // By default the session would run on the CPU.
        .error_on_failure();
    let builder = SessionBuilder::new(&runtime.environment)?
        .with_memory_pattern(false)?
        // Rewriting would fuse the elementary operators again, into ones that CANN does not know.
        .with_optimization_level(GraphOptimizationLevel::Disable)?
        .with_execution_providers([provider])?
        .with_disable_cpu_fallback()?;
    let mut builder = match lowering.uses_flash_attention() {
        true => builder.with_operators(flash_attention::domain()?)?,
        false => builder,
    };
    builder.commit_from_memory(model)
}

/// The smallest graph there is.
fn probe() -> onnx_export::graph::Graph {
    let lowering = CannLowering::default();
    let mut g = Builder::new(&lowering, &|_| DataType::F32);
    let x = g.input("x", DataType::F32, &[1]);
    g.output("y", &x);
    g.finish("probe")
}

/// Tells a file from others that may take its place: the beginning of its SHA-256.
fn file_identity(path: &Path) -> std::io::Result<String> {
    let digest = Sha256::digest(fs::read(path)?);
    Ok(digest[..6].iter().map(|byte| format!("{byte:02x}")).collect())
}
