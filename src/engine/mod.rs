//! Runs graphs: the only module that names ONNX Runtime.
//!
//! [`Runtime`] is the loaded library, one for each process. An [`Engine`] is one device of it: it compiles graphs;
//! a [`Compiled`] one is run with [`Weights`] bound straight from the mapped file, on [`Tensor`]s that stay in the
//! engine from one graph to the next. A [`StopToken`] ends a run from any other thread.
//!
//! Nothing falls back silently: a device that can't be had is an error that says why and what to do.

mod device;
mod error;
mod flash_attention;
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
