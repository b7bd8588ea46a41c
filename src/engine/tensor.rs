//! Activations.

use ort::value::DynValue;

use super::EngineError;

/// An f32 activation in the engine, row-major.
#[derive(Debug)]
pub struct Tensor(pub(super) DynValue);

impl Tensor {
    /// Takes `data` of the given shape into the engine, without a copy on the CPU.
    ///
    /// # Errors
    /// When the length of `data` is not the product of `shape`.
    pub fn new(shape: &[usize], data: Vec<f32>) -> Result<Self, EngineError> {
        let tensor = ort::value::Tensor::from_array((shape.to_vec(), data)).map_err(EngineError::Tensor)?;
        Ok(Self(tensor.into_dyn()))
    }

    /// The elements.
    ///
    /// # Errors
    /// When they can't be reached from the host.
    pub fn data(&self) -> Result<&[f32], EngineError> {
        self.0.try_extract_tensor::<f32>().map(|(_, data)| data).map_err(EngineError::Tensor)
    }

    /// The shape.
    pub fn shape(&self) -> Vec<usize> {
        // Every dimension of a value (as against a type) is known and not negative.
        self.0.shape().iter().map(|&d| d.unsigned_abs() as usize).collect()
    }
}
