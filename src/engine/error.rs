//! What can go wrong between a graph and its results.

use std::path::PathBuf;

use onnx_export::bundle::BundleError;

use super::{AclError, Bytes, Device};

/// Why the engine could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// ONNX Runtime's library was not found.
    #[error(
        "ONNX Runtime's library was not found (looked at {}); run `make {setup}`, or set ORT_DYLIB_PATH to a \
         libonnxruntime.so of version 1.24 or later, as in the `{wheel}` Python wheel",
        list(searched)
    )]
    LibraryMissing {
        /// What fetches it.
        setup: &'static str,
        /// Where it can be found.
        wheel: &'static str,
        /// Where it was looked for, in order.
        searched: Vec<PathBuf>,
    },
    /// The library found can't be used.
    #[error(
        "`{}` can't be used as ONNX Runtime: {reason}; run `make setup`, or set ORT_DYLIB_PATH to a \
         libonnxruntime.so of version 1.24 or later, as in the `onnxruntime` Python wheel",
        path.display()
    )]
    LibraryUnusable {
        /// The file.
        path: PathBuf,
        /// What it, or the system's loader, said.
        reason: String,
    },
    /// A second library was asked for in one process.
    #[error("ONNX Runtime is already loaded from `{}`; start another process to use `{}`", loaded.display(), asked.display())]
    LibraryLoaded {
        /// The one in use.
        loaded: PathBuf,
        /// The one asked for.
        asked: PathBuf,
    },
    /// The device can't be used.
    #[error("device `{device}` can't be used: {reason}")]
    Device {
        /// The device.
        device: Device,
        /// Why, and what to do.
        reason: String,
    },
    /// A call to the device failed.
    #[error("device `{device}`: {reason}")]
    Acl {
        /// The device.
        device: Device,
        /// The call.
        reason: AclError,
    },
    /// The device failed while a graph ran.
    #[error("graph `{graph}` failed on `{device}`: {reason}")]
    Graph {
        /// The device.
        device: Device,
        /// Name of the graph.
        graph: String,
        /// The call.
        reason: AclError,
    },
    /// A stage needs more of the device's memory than may be taken.
    #[error(
        "device `{device}`: {stage} needs at least {least} of its memory, and {budget} may be taken; raise \
         `--device-memory`, or ask for fewer pixels or frames"
    )]
    DeviceMemory {
        /// The device.
        device: Device,
        /// What needs it.
        stage: &'static str,
        /// What may be taken.
        budget: Bytes,
        /// What would suffice.
        least: Bytes,
    },
    /// The folder of compiled graphs can't be used.
    #[error("compiled graphs can't be kept in `{}`: {reason}; name another folder by `--graph-cache`", path.display())]
    GraphCache {
        /// The folder, or what of it.
        path: PathBuf,
        /// The system's answer.
        reason: std::io::Error,
    },
    /// A thread can't be started or has ended.
    #[error("a thread of the engine failed: {0}")]
    Thread(std::io::Error),
    /// ONNX Runtime refused a graph.
    #[error("graph `{graph}` can't be prepared: {reason}")]
    Compile {
        /// Name of the graph.
        graph: String,
        /// What ONNX Runtime said.
        reason: ort::Error,
    },
    /// A graph failed while it ran.
    #[error("graph `{graph}` failed on `{device}`: {reason}")]
    Run {
        /// Where it ran.
        device: Device,
        /// Name of the graph.
        graph: String,
        /// What ONNX Runtime said.
        reason: ort::Error,
    },
    /// An operator's own model can't be used.
    #[error(
        "`{}` can't be used: {reason}; it must take one f32 image `[1, 3, height, width]` and give one f32 number",
        path.display()
    )]
    ImageModel {
        /// The file.
        path: PathBuf,
        /// What it is, or what ONNX Runtime said.
        reason: String,
    },
    /// A value can't be moved in or out of the engine.
    #[error("a tensor can't be moved in or out of the engine: {0}")]
    Tensor(ort::Error),
    /// A graph wants a weight the file doesn't have.
    #[error("weight `{name}` is not in the bundle; export it again")]
    MissingWeight {
        /// Full name.
        name: String,
    },
    /// A row beyond the end of a matrix was asked for.
    #[error(
        "`{name}` has {rows} rows and no row {row}; the bundle's tokenizer is not that of its text encoder"
    )]
    MissingRow {
        /// Name of the matrix.
        name: String,
        /// The row.
        row: u32,
        /// Rows there are.
        rows: usize,
    },
    /// A weight file can't be opened.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The run was stopped through a [`StopToken`](super::StopToken).
    #[error("the run was stopped")]
    Stopped,
}

impl EngineError {
    /// Whether the process can't use its device any more, so that only another process can go on.
    ///
    /// A call that failed or a graph that broke off leaves an NPU in a state that nothing but a new process clears; that
    /// it had no memory to give leaves it as it was.
    pub fn is_device_lost(&self) -> bool {
        match self {
            Self::Acl { reason, .. } => !reason.is_exhausted(),
            Self::Graph { .. } | Self::Thread(_) => true,
            Self::Run { device, .. } => matches!(device, Device::Cann(_)),
            _ => false,
        }
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|p| format!("`{}`", p.display())).collect::<Vec<_>>().join(", ")
}
