//! A weight file, tensor by tensor.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::FileDigest;
use super::layout::{StoredTensor, header};
use super::partial::Journal;
use super::stream::{Begun, Closed, Stream, Stretch};
use super::writer::WriteError;
use crate::models::Net;
use crate::weights::values::{self, ValueError};

/// A weight file being written, tensor by tensor.
#[derive(Debug)]
pub struct WeightWriter<'a> {
    files: &'a mut Vec<FileDigest>,
    net: Net,
    tensors: Vec<StoredTensor>,
    next: usize,
    /// Absent once it has failed.
    stream: Option<Stream>,
    values: Vec<f32>,
    /// Stretches that were sent; those that nobody reads any more are filled again.
    sent: Vec<Stretch>,
}

impl<'a> WeightWriter<'a> {
    pub(super) fn start(
        files: &'a mut Vec<FileDigest>,
        net: Net,
        tensors: Vec<StoredTensor>,
        begun: Begun,
        journal: Arc<Journal>,
        path: &Path,
    ) -> Result<Self, WriteError> {
        let header = header(&tensors).map_err(|reason| WriteError::Header { path: path.into(), reason })?;
        let next = begun.tensors();
        let stream = Some(begun.stream(journal));
        let mut writer = Self { files, net, tensors, next, stream, values: Vec::new(), sent: Vec::new() };
        if next == 0 {
            writer.send(|stream| stream.bytes(Arc::new(header)))?;
        }
        Ok(writer)
    }

    /// Position of the tensor that comes next. It is above 0 where an interrupted export is gone on with.
    pub fn next(&self) -> usize {
        self.next
    }

    /// Writes the next tensor. `fill` is asked for its values, some rows (of the outermost dimension) at a time.
    ///
    /// # Errors
    /// Those of `fill`; when a value can't be stored, or the file can't be written.
    ///
    /// # Panics
    /// When every tensor has been written.
    pub fn tensor<E: From<WriteError>>(
        &mut self,
        mut fill: impl FnMut(Range<usize>, &mut [f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (size, width) = (self.tensors[self.next].dtype.size(), self.tensors[self.next].row());
        for rows in self.tensors[self.next].stretches() {
            self.values.resize(rows.len() * width, 0.0);
            fill(rows, &mut self.values)?;
            let mut stretch = self.stretch();
            let bytes = Arc::get_mut(&mut stretch).expect("nobody else holds a stretch that is free");
            bytes.resize(self.values.len() * size, 0);
            let tensor = &self.tensors[self.next];
            values::round(tensor.dtype, &self.values, bytes).map_err(|e| value_error(self.net, tensor, e))?;
            self.sent.push(Arc::clone(&stretch));
            self.send(|stream| stream.bytes(stretch))?;
        }
        let padding = self.tensors[self.next].padding();
        self.next += 1;
        if self.next < self.tensors.len() && padding > 0 {
            self.send(|stream| stream.bytes(Arc::new(vec![0; padding])))?;
        }
        let whole = self.next;
        Ok(self.send(|stream| stream.tensors(whole))?)
    }

    /// Ends the file; gives its size in bytes.
    ///
    /// # Errors
    /// When it can't be written.
    ///
    /// # Panics
    /// When a tensor has not been written.
    pub fn finish(mut self) -> Result<u64, WriteError> {
        assert_eq!(self.next, self.tensors.len(), "every tensor is written before the file is finished");
        let mark = self.stream.take().expect("a stream that fails ends the writing").close()?;
        self.files.push(FileDigest { path: mark.file, bytes: mark.bytes, sha256: mark.sha256 });
        Ok(mark.bytes)
    }

    /// Makes the tensors that are whole last, so that they can be [kept](super::BundleWriter::keep).
    ///
    /// # Errors
    /// When they can't be written.
    pub fn pause(mut self) -> Result<(), WriteError> {
        self.stream.take().map_or(Ok(()), |stream| stream.close().map(drop))
    }

    /// An empty stretch, or one that may be written over.
    fn stretch(&mut self) -> Stretch {
        let free = self.sent.iter().position(|stretch| Arc::strong_count(stretch) == 1);
        free.map(|i| self.sent.swap_remove(i)).unwrap_or_default()
    }

    fn send(&mut self, step: impl FnOnce(&Stream) -> Result<(), Closed>) -> Result<(), WriteError> {
        let stream = self.stream.as_ref().expect("a stream that fails ends the writing");
        match step(stream) {
            Ok(()) => Ok(()),
            Err(Closed) => Err(self.stream.take().expect("it is there").error()),
        }
    }
}

impl Drop for WeightWriter<'_> {
    /// Waits for the file to be let go of, as its folder may be removed next.
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            stream.give_up();
        }
    }
}

fn value_error(net: Net, tensor: &StoredTensor, error: ValueError) -> WriteError {
    let (net, tensor, dtype) = (net.name(), tensor.name.clone(), tensor.dtype);
    match error {
        ValueError::NotFinite(value) => WriteError::NotFinite { net, tensor, value },
        ValueError::Overflow(value) => {
            let remedy =
                if value.abs() < f32::from(half::bf16::MAX) { "bf16` or `--dtype f32" } else { "f32" };
            WriteError::Overflow { net, tensor, value, dtype: dtype.name(), remedy }
        }
    }
}
