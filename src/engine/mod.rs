//! Runs graphs: the only module that names ONNX Runtime.
//!
//! [`Runtime`] is the loaded library, one for each process. An [`Engine`] is one device of it: it compiles graphs
//! (keeping them while a stage uses them), opens weight files as [`Weights`] bound straight from the mapped file,
//! and runs a [`Compiled`] graph on [`Tensor`]s that stay in the engine from one graph to the next. A [`StopToken`]
//! ends a run from any other thread.
//!
//! Nothing falls back silently: a device that can't be had is an error that says why and what to do.

mod device;
mod error;
mod runtime;
mod session;
mod stop;
mod tensor;
mod weights;

pub use device::Device;
pub use error::EngineError;
pub use runtime::{Runtime, RuntimeOptions};
pub use session::{Compiled, Engine};
pub use stop::StopToken;
pub use tensor::Tensor;
pub use weights::Weights;
