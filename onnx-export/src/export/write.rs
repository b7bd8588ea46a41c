//! Writing what a plan says.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{ExportError, NetPlan, Plan};
use crate::bundle::{BundleWriter, FileDigest, Manifest, sha256_file};
use crate::models::Net;
use crate::weights::values;

/// How far an export has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The net being written.
    pub net: Net,
    /// Bytes of weights written, of all nets.
    pub bytes: u64,
    /// Bytes of weights to write, of all nets.
    pub total: u64,
}

/// What an export has written.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The bundle's manifest.
    pub manifest: Manifest,
    /// Each net's weight file.
    pub nets: Vec<WrittenNet>,
}

/// What it took to write one net.
#[derive(Clone, Copy, Debug)]
pub struct WrittenNet {
    /// The net.
    pub net: Net,
    /// Size of its file.
    pub bytes: u64,
    /// Time it took.
    pub elapsed: Duration,
}

impl Plan {
    /// Writes the bundle `out`. `progress` is told after each stretch; setting `stop` ends the export.
    ///
    /// # Errors
    /// When something exists at `out`, a value can't be stored, a file can't be read or written, or `stop` was set;
    /// nothing is left behind then.
    pub fn write(
        &self,
        out: &Path,
        progress: &mut dyn FnMut(Progress),
        stop: &AtomicBool,
    ) -> Result<Exported, ExportError> {
        let mut bundle = BundleWriter::create(out)?;
        let abandoned = AtomicBool::new(false);
        let (sources, nets) = std::thread::scope(|scope| {
            // Checkpoints are read twice, for hashing and for copying; side by side the second finds them cached.
            let sources = scope.spawn(|| self.hash_sources(stop, &abandoned));
            let nets = self.write_nets(&mut bundle, progress, stop);
            abandoned.store(nets.is_err(), Ordering::Relaxed);
            (sources.join().expect("hashing does not panic"), nets)
        });
        let nets = nets?;
        bundle.tokenizer(&self.tokenizer)?;
        bundle.graphs(&self.manifest)?;
        let manifest = bundle.finish(Manifest { sources: sources?, ..self.manifest.clone() })?;
        Ok(Exported { manifest, nets })
    }

    fn write_nets(
        &self,
        bundle: &mut BundleWriter,
        progress: &mut dyn FnMut(Progress),
        stop: &AtomicBool,
    ) -> Result<Vec<WrittenNet>, ExportError> {
        let (mut done, total) = (0, self.bytes());
        let mut written = Vec::new();
        for plan in &self.nets {
            let (net, started) = (plan.report().net, Instant::now());
            let mut advance = |bytes: u64| {
                done += bytes;
                progress(Progress { net, bytes: done, total });
                if stop.load(Ordering::Relaxed) { Err(ExportError::Stopped) } else { Ok(()) }
            };
            let bytes = plan.write(bundle, &mut advance)?;
            written.push(WrittenNet { net, bytes, elapsed: started.elapsed() });
        }
        Ok(written)
    }

    fn hash_sources(
        &self,
        stop: &AtomicBool,
        abandoned: &AtomicBool,
    ) -> Result<Vec<FileDigest>, ExportError> {
        let mut digests = Vec::new();
        for path in &self.sources {
            let go_on = || !stop.load(Ordering::Relaxed) && !abandoned.load(Ordering::Relaxed);
            let hashed = sha256_file(path, go_on)
                .map_err(|reason| ExportError::Read { path: path.clone(), reason })?;
            let (bytes, sha256) = hashed.ok_or(ExportError::Stopped)?;
            digests.push(FileDigest { path: path.display().to_string(), bytes, sha256 });
        }
        Ok(digests)
    }
}

impl NetPlan {
    /// Writes the net's file; `advance` is told how many bytes each stretch is long, and may stop.
    fn write(
        &self,
        bundle: &mut BundleWriter,
        advance: &mut dyn FnMut(u64) -> Result<(), ExportError>,
    ) -> Result<u64, ExportError> {
        let mut file = bundle.weights(self.report().net, self.stored.clone())?;
        for (i, (key, stored)) in self.keys.iter().zip(&self.stored).enumerate() {
            let tensor = self.checkpoint.tensor(key).expect("the plan was checked to name existing keys");
            let updates = self.adapters.iter().filter_map(|adapter| adapter.update(i).transpose());
            let updates = updates.collect::<Result<Vec<_>, _>>()?;
            let row_bytes = tensor.bytes.len() / tensor.shape.first().copied().unwrap_or(1);
            file.tensor(|rows: Range<usize>, values: &mut [f32]| {
                values::widen(
                    tensor.dtype,
                    &tensor.bytes[rows.start * row_bytes..rows.end * row_bytes],
                    values,
                );
                for update in &updates {
                    update.add(rows.clone(), values);
                }
                advance((values.len() * stored.dtype.size()) as u64)
            })?;
        }
        Ok(file.finish()?)
    }
}
