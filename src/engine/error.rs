//! What can go wrong between a graph and its results.

use std::path::PathBuf;

use onnx_export::bundle::BundleError;

use super::Device;

/// Why the engine could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// ONNX Runtime's library was not found.
    #[error(
        "ONNX Runtime's library was not found (looked at {}); run `make setup`, or set ORT_DYLIB_PATH to a \
         libonnxruntime.so of version 1.24 or later, as in the `onnxruntime` Python wheel",
        list(searched)
    )]
    LibraryMissing {
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
    /// ONNX Runtime refused a graph.
    #[error("graph `{graph}` can't be prepared: {source}")]
    Compile {
        /// Name of the graph.
        graph: String,
        /// What ONNX Runtime said.
        source: ort::Error,
    },
    /// A graph failed while it ran.
    #[error("graph `{graph}` failed: {source}")]
    Run {
        /// Name of the graph.
        graph: String,
        /// What ONNX Runtime said.
        source: ort::Error,
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

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|p| format!("`{}`", p.display())).collect::<Vec<_>>().join(", ")
}
