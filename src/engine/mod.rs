//! Runs graphs: the only module that names ONNX Runtime or AscendCL.
//!
//! [`Runtime`] is the loaded library, one for each process. An [`Engine`] is one device of it: it compiles graphs, and
//! takes a net's [`Weights`] to where a [`Compiled`] graph can use them for as long as they are [`Held`]. On the CPU that
//! is the mapped file itself; on an NPU [`residency`] decides what of it lies in the device's memory. Each [`Tensor`] stays
//! on the device from one graph to the next. A [`StopToken`] ends a run from any other thread.
//!
//! A device can hang; [`overdue`] tells of a call that does not return.
//!
//! Nothing falls back silently: a device that can't be had is an error that says why and what to do.

mod bytes;
mod calls;
mod cann;
mod device;
mod error;
mod flash_attention;
mod foreign;
pub mod residency;
mod rows;
mod runtime;
mod session;
mod stop;
mod tensor;
mod weights;

pub use bytes::Bytes;
pub use calls::{Overdue, end_process, overdue};
pub use cann::{AclError, Ascend, NpuFacts};
pub use device::{Device, DeviceOptions};
pub use error::EngineError;
pub use foreign::ImageModel;
pub use residency::{Held, Stage};
pub use runtime::{Runtime, RuntimeOptions};
pub use session::{Compiled, Engine};
pub use stop::StopToken;
pub use tensor::Tensor;
pub use weights::Weights;
