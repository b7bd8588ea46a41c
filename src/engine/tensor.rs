//! Activations.

use ort::value::DynValue;

use super::cann::Buffer;

/// An activation in the engine, row-major, on the engine's device. [`Engine::upload`](super::Engine::upload) makes
/// one in f32, [`Engine::download`](super::Engine::download) reads it; what a graph hands on to another may be of another
/// type.
pub struct Tensor {
    // Declared before the memory it refers to, so that it is gone first.
    pub(super) value: DynValue,
    /// The memory on a device; none on the CPU, where ONNX Runtime's value owns it.
    pub(super) buffer: Option<Buffer>,
}

impl Tensor {
    /// The shape.
    pub fn shape(&self) -> Vec<usize> {
        // Every dimension of a value (as against a type) is known and not negative.
        self.value.shape().iter().map(|&d| d.unsigned_abs() as usize).collect()
    }
}

impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tensor").field("shape", &self.shape()).field("buffer", &self.buffer).finish()
    }
}
