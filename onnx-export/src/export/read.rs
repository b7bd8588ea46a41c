//! Reading a checkpoint's tensors, ahead of whoever converts them.
//!
//! Values are read and not touched through the map: a bad sector or a file cut short is then an error instead of a dead
//! process, and the pages of 57 GB never count as this process's memory.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::Scope;

use super::sources::Begun;
use super::{ExportError, NetPlan};
use crate::bundle::Dtype;
use crate::weights::checkpoint::Checkpoint;

/// Stretches that may wait to be converted.
const QUEUE: usize = 2;

/// The tensors of a checkpoint, open for reading.
struct Reader<'a> {
    files: Vec<(&'a Path, File)>,
    places: HashMap<&'a str, Place>,
}

#[derive(Clone, Copy)]
struct Place {
    file: usize,
    offset: u64,
    dtype: Dtype,
}

impl<'a> Reader<'a> {
    fn open(checkpoint: &'a Checkpoint) -> Result<Self, ExportError> {
        let (mut files, mut places) = (Vec::new(), HashMap::new());
        for mapped in checkpoint.files() {
            let path = mapped.path();
            let file = File::open(path).map_err(|reason| ExportError::Read { path: path.into(), reason })?;
            let base = mapped.map().as_ptr().addr();
            for tensor in mapped.iter() {
                let offset = (tensor.bytes.as_ptr().addr() - base) as u64;
                places.insert(tensor.name, Place { file: files.len(), offset, dtype: tensor.dtype });
            }
            files.push((path, file));
        }
        Ok(Self { files, places })
    }
}

/// Some rows of a tensor.
pub(super) struct Rows {
    pub(super) dtype: Dtype,
    /// Row-major, little endian.
    pub(super) bytes: Vec<u8>,
}

/// The other end of a thread that reads the tensors of a net, in order and in [stretches].
///
/// [stretches]: crate::bundle::StoredTensor::stretches
pub(super) struct Ahead {
    rows: Receiver<Result<Rows, ExportError>>,
    used: Sender<Vec<u8>>,
}

impl Ahead {
    /// Starts the thread at tensor `first`; `begun` is told each file when the first of its tensors is read.
    pub(super) fn start<'scope, 'env: 'scope>(
        scope: &'scope Scope<'scope, 'env>,
        plan: &'env NetPlan,
        first: usize,
        begun: Sender<Begun>,
    ) -> Result<Self, ExportError> {
        let reader = Reader::open(&plan.checkpoint)?;
        let (sender, rows) = sync_channel(QUEUE);
        let (used, free) = channel();
        scope.spawn(move || reader.run(plan, first, &begun, &sender, &free));
        Ok(Self { rows, used })
    }

    /// The next rows.
    pub(super) fn next(&self) -> Result<Rows, ExportError> {
        self.rows.recv().expect("the reader gives every stretch, or an error that ends the reading")
    }

    /// Takes rows back, whose memory the next ones may have.
    pub(super) fn done(&self, rows: Rows) {
        // The reader has ended when it has read all.
        let _ = self.used.send(rows.bytes);
    }
}

impl Reader<'_> {
    fn run(
        &self,
        plan: &NetPlan,
        first: usize,
        begun: &Sender<Begun>,
        rows: &SyncSender<Result<Rows, ExportError>>,
        free: &Receiver<Vec<u8>>,
    ) {
        let mut seen = HashSet::new();
        for (key, stored) in plan.keys.iter().zip(&plan.stored).skip(first) {
            let place = self.places[key.as_str()];
            if seen.insert(place.file) {
                // If nobody listens, hashing has failed, and whoever waits for it ends the export.
                let _ = begun.send(Begun::Weights(self.files[place.file].0.into()));
            }
            let row = stored.row() * place.dtype.size();
            for stretch in stored.stretches() {
                let mut bytes = free.try_recv().unwrap_or_default();
                bytes.resize(stretch.len() * row, 0);
                let (path, file) = &self.files[place.file];
                let read = file.read_exact_at(&mut bytes, place.offset + (stretch.start * row) as u64);
                let read = read.map_err(|reason| ExportError::Read { path: (*path).into(), reason });
                let failed = read.is_err();
                let sent = rows.send(read.map(|()| Rows { dtype: place.dtype, bytes }));
                if failed || sent.is_err() {
                    return;
                }
            }
        }
    }
}
