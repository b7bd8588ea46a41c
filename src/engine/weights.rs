//! Weights in their mapped file.

use std::ops::Range;

use memmap2::{Advice, UncheckedAdvice};
use onnx_export::bundle::{Dtype, WeightFile};
use onnx_export::graph::DataType;
use onnx_export::weights::file::TensorView;
use onnx_export::weights::values::widen;
use ort::memory::MemoryInfo;
use ort::value::{DynValueTypeMarker, TensorRefMut, ValueRefMut};
use ort::value::{PrimitiveTensorElementType, Shape};

use super::EngineError;

/// One net's weights.
///
/// They lie in the mapped file: opening copies nothing, the operating system reads pages as they are used and drops
/// them when memory is short, and processes that open the same bundle share them. On the CPU graphs read them there; for
/// other devices [`Engine::hold`](super::Engine::hold) takes them across.
#[derive(Debug)]
pub struct Weights {
    file: WeightFile,
}

/// A tensor of the mapped file, as ONNX Runtime takes it.
pub(super) type View<'w> = ValueRefMut<'w, DynValueTypeMarker>;

impl Weights {
    /// The tensors of `file`.
    pub fn new(file: WeightFile) -> Self {
        Self { file }
    }

    /// The type in which a weight is stored.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn dtype(&self, name: &str) -> Result<DataType, EngineError> {
        self.tensor(name).map(|tensor| tensor.dtype.into())
    }

    /// The rows `rows` of a matrix, widened to f32: how an embedding is looked up without loading its table.
    ///
    /// # Errors
    /// When there is no such matrix, or it has no such row.
    pub fn rows(&self, name: &str, rows: &[u32]) -> Result<Vec<f32>, EngineError> {
        let missing = || EngineError::MissingWeight { name: name.into() };
        let tensor = self.tensor(name)?;
        let [count, width] = *tensor.shape else { return Err(missing()) };
        let row_bytes = tensor.bytes.len() / count.max(1);
        let mut out = vec![0.0; rows.len() * width];
        for (&row, out) in rows.iter().zip(out.chunks_exact_mut(width)) {
            let start = row as usize * row_bytes;
            let bytes = tensor
                .bytes
                .get(start..start + row_bytes)
                .ok_or_else(|| EngineError::MissingRow { name: name.into(), row, rows: count })?;
            widen(tensor.dtype, bytes, out);
        }
        Ok(out)
    }

    /// Tells the operating system that these weights will not be used for a while, so that their pages no longer count as
    /// this process's memory. They are read from the file again, or taken from its cache, when they are used next.
    pub(super) fn set_aside(&self) {
        // SAFETY: the map is shared, read-only and of a file: a page that was let go of comes back with the same content.
        if let Err(error) = unsafe { self.file.map().unchecked_advise(UncheckedAdvice::DontNeed) } {
            tracing::debug!(%error, weights.file = %self.file.path().display(), "pages could not be given back");
        }
    }

    /// Tells the operating system that a part of the file will be used soon.
    pub(super) fn read_ahead(&self, place: &Range<usize>) {
        if let Err(error) = self.file.map().advise_range(Advice::WillNeed, place.start, place.len()) {
            tracing::debug!(%error, weights.file = %self.file.path().display(), "pages could not be asked for");
        }
    }

    /// Where a weight lies in the mapped file.
    pub(super) fn place(&self, name: &str) -> Option<Range<usize>> {
        let bytes = self.file.tensor(name)?.bytes;
        let start = bytes.as_ptr().addr() - self.file.map().as_ptr().addr();
        Some(start..start + bytes.len())
    }

    /// The file.
    pub(super) fn file(&self) -> &WeightFile {
        &self.file
    }

    /// A weight where it lies.
    pub(super) fn view(&self, name: &str) -> Result<View<'_>, EngineError> {
        let tensor = self.tensor(name)?;
        let view = match tensor.dtype {
            Dtype::F32 => bind::<f32>(&tensor),
            Dtype::F16 => bind::<half::f16>(&tensor),
            Dtype::Bf16 => bind::<half::bf16>(&tensor),
        };
        view.map_err(EngineError::Tensor)
    }

    fn tensor(&self, name: &str) -> Result<TensorView<'_>, EngineError> {
        self.file.tensor(name).ok_or_else(|| EngineError::MissingWeight { name: name.into() })
    }
}

/// The name of a weight in its file, from its name in a graph that is run under `prefix`.
pub(super) fn full_name(prefix: &str, name: &str) -> String {
    format!("{prefix}{name}")
}

fn bind<'w, T: PrimitiveTensorElementType + std::fmt::Debug>(
    tensor: &TensorView<'w>,
) -> Result<View<'w>, ort::Error> {
    let shape = Shape::new(tensor.shape.iter().map(|&d| d as i64));
    // SAFETY: the pointer and the length are those of a tensor in the mapped file, whose header was checked against the
    // file's length, and which is borrowed for as long as the view; the bundle aligns tensors to 64 bytes. ONNX Runtime
    // asks for a mutable pointer but never writes to a graph's inputs.
    let view: TensorRefMut<'w, T> = unsafe {
        TensorRefMut::from_raw(MemoryInfo::default(), tensor.bytes.as_ptr().cast_mut().cast(), shape)?
    };
    Ok(view.into_dyn())
}
