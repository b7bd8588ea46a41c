//! Models that we did not make: an `.onnx` file of the operator's, on the CPU.

use std::path::{Path, PathBuf};

use ort::session::Session;
use ort::session::builder::SessionBuilder;
use ort::value::{TensorElementType, ValueType};

use super::{Device, EngineError, Runtime, StopToken};

/// An ONNX model that makes one number of an image.
///
/// It has one input, `[batch, 3, height, width]` in f32, and one output in f32. Of the input's sizes any may be left open;
/// the batch is always one.
pub struct ImageModel {
    session: Session,
    path: PathBuf,
    input: String,
    output: String,
    size: [Option<usize>; 2],
}

impl ImageModel {
    /// Loads the model in `path`.
    ///
    /// # Errors
    /// When ONNX Runtime refuses it, or it takes or gives something else.
    pub fn open(runtime: &Runtime, path: &Path) -> Result<Self, EngineError> {
        let refused = |reason: String| EngineError::ImageModel { path: path.into(), reason };
        let session = SessionBuilder::new(&runtime.environment)
            .and_then(|mut builder| builder.commit_from_file(path))
            .map_err(|e| refused(e.to_string()))?;
        let ([input], [output]) = (session.inputs(), session.outputs()) else {
            let (inputs, outputs) = (session.inputs().len(), session.outputs().len());
            return Err(refused(format!("it has {inputs} inputs and {outputs} outputs")));
        };
        let (name, taken, given) = (input.name().to_owned(), input.dtype(), output.dtype());
        let size = match taken {
            ValueType::Tensor { ty: TensorElementType::Float32, shape, .. } => match shape[..] {
                // Negative sizes are left open.
                [batch, channels, height, width] if batch <= 1 && (channels == 3 || channels < 0) => {
                    [height, width].map(|side| usize::try_from(side).ok().filter(|&side| side > 0))
                }
                _ => return Err(refused(format!("its input is {taken}"))),
            },
            _ => return Err(refused(format!("its input is {taken}"))),
        };
        if !matches!(given, ValueType::Tensor { ty: TensorElementType::Float32, .. }) {
            return Err(refused(format!("its output is {given}")));
        }
        let output = output.name().to_owned();
        Ok(Self { session, path: path.into(), input: name, output, size })
    }

    /// Height and width of the images it takes, where they are fixed.
    pub fn size(&self) -> [Option<usize>; 2] {
        self.size
    }

    /// The number it makes of an image `[3, height, width]`.
    ///
    /// # Errors
    /// [`EngineError::Stopped`] when `stop` was set; when the model fails, or gives another number of numbers than one.
    pub fn run(&mut self, image: Vec<f32>, size: [usize; 2], stop: &StopToken) -> Result<f32, EngineError> {
        let Self { session, path, input, output, .. } = self;
        let [height, width] = size;
        let image =
            ort::value::Tensor::from_array(([1, 3, height, width], image)).map_err(EngineError::Tensor)?;
        let result = stop.guard(|options| {
            let outputs = session.run_with_options(ort::inputs![&**input => image], options)?;
            let (_, numbers) = outputs[&**output].try_extract_tensor::<f32>()?;
            Ok(numbers.to_vec())
        })?;
        let numbers = result.map_err(|reason| {
            let graph = path.display().to_string();
            EngineError::Run { device: Device::Cpu, graph, reason }
        })?;
        match numbers[..] {
            [number] => Ok(number),
            _ => Err(EngineError::ImageModel {
                path: path.clone(),
                reason: format!("it gave {} numbers for one image", numbers.len()),
            }),
        }
    }
}
