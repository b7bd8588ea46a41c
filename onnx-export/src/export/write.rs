//! Writing what a plan says.
//!
//! Four things go on at once: reading ahead, merging and rounding (on all processors), writing with hashing, and hashing the
//! sources. Between them are queues of a few megabytes, so memory depends on nothing but the width of a row.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::read::Ahead;
use super::sources::{self, Begun};
use super::{ExportError, NetPlan, Plan};
use crate::bundle::{BundleWriter, Manifest, WeightWriter};
use crate::models::Net;
use crate::weights::lora::Adapter;
use crate::weights::values;

/// How far an export has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The net being written.
    pub net: Net,
    /// What is being done.
    pub stage: Stage,
    /// Tensors of the net that are whole.
    pub tensors: usize,
    /// Bytes of weights that are there, of all nets.
    pub bytes: u64,
    /// Bytes of weights there shall be, of all nets.
    pub total: u64,
}

/// What an export is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Hashing what an interrupted export has left.
    Checking,
    /// Converting and writing.
    Writing,
    /// Hashing those of the sources that were not read this time.
    Sources,
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
    /// Tensors that an interrupted export had left.
    pub kept: usize,
    /// Time it took.
    pub elapsed: Duration,
}

impl Plan {
    /// Writes the bundle `out`, or goes on with it where an interrupted export of the same sources has left it. `progress`
    /// is told after each stretch; setting `stop` ends the export, which can be gone on with.
    ///
    /// # Errors
    /// When something exists at `out`, there is no room for it, a value can't be stored, or a file can't be read or written:
    /// nothing is left behind then. When `stop` was set.
    pub fn write(
        &self,
        out: &Path,
        progress: &mut dyn FnMut(Progress),
        stop: &AtomicBool,
    ) -> Result<Exported, ExportError> {
        BundleWriter::check_free(out)?;
        self.check_room(out)?;
        let mut bundle = BundleWriter::begin(out, &self.purpose())?;
        match self.write_into(&mut bundle, progress, stop) {
            Ok((manifest, nets)) => Ok(Exported { manifest: bundle.finish(manifest)?, nets }),
            Err(ExportError::Stopped) if bundle.kept() > 0 => {
                let (kept, partial) = (bundle.kept(), BundleWriter::partial_path(out));
                bundle.keep();
                Err(ExportError::Paused { kept, total: self.bytes(), partial })
            }
            Err(e) => Err(e),
        }
    }

    fn write_into(
        &self,
        bundle: &mut BundleWriter,
        progress: &mut dyn FnMut(Progress),
        stop: &AtomicBool,
    ) -> Result<(Manifest, Vec<WrittenNet>), ExportError> {
        // Either side's failure ends the other.
        let abandoned = AtomicBool::new(false);
        let go_on = || !stop.load(Ordering::Relaxed) && !abandoned.load(Ordering::Relaxed);
        let (known, note) = (bundle.sources(), bundle.source());
        let (begun, to_hash) = channel();
        let (sources, nets) = std::thread::scope(|scope| {
            let go_on = &go_on;
            let sources = scope.spawn(|| {
                let digests = sources::hash(&self.sources, to_hash, known, note, go_on);
                abandoned.fetch_or(digests.is_err(), Ordering::Relaxed);
                digests
            });
            let nets = self.write_nets(bundle, progress, begun, go_on);
            abandoned.fetch_or(nets.is_err(), Ordering::Relaxed);
            (sources.join().expect("hashing does not panic"), nets)
        });
        let (sources, nets) = match (sources, nets) {
            // One that was stopped by the other has less to tell.
            (Err(e), Err(ExportError::Stopped)) | (_, Err(e)) | (Err(e), Ok(_)) => return Err(e),
            (Ok(sources), Ok(nets)) => (sources, nets),
        };
        bundle.tokenizer(&self.tokenizer)?;
        bundle.graphs(&self.manifest)?;
        if let Some(profile) = self.standalone {
            bundle.standalone(&self.manifest, profile)?;
        }
        Ok((Manifest { sources, ..self.manifest.clone() }, nets))
    }

    fn write_nets(
        &self,
        bundle: &mut BundleWriter,
        progress: &mut dyn FnMut(Progress),
        begun: Sender<Begun>,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Vec<WrittenNet>, ExportError> {
        let (mut written, mut before, mut shown) = (Vec::new(), 0, 0);
        let total = self.bytes();
        for plan in &self.nets {
            let net = plan.report().net;
            let mut advance = |stage, tensors, bytes: u64| {
                // Headers and padding, which are hashed with the rest, don't count.
                shown = (before + bytes.min(plan.bytes())).max(shown);
                progress(Progress { net, stage, tensors, bytes: shown, total });
                if go_on() { Ok(()) } else { Err(ExportError::Stopped) }
            };
            written.push(plan.write(bundle, &mut advance, begun.clone())?);
            before += plan.bytes();
        }
        if let Some(last) = written.last() {
            let tensors = self.nets.last().map_or(0, |plan| plan.stored.len());
            progress(Progress { net: last.net, stage: Stage::Sources, tensors, bytes: total, total });
        }
        Ok(written)
    }

    /// What decides every byte of the weights: what an interrupted export was for, to tell whether it can be gone on with.
    fn purpose(&self) -> String {
        let text = format!("{} {:?} {:?}", env!("CARGO_PKG_VERSION"), self.manifest, self.sources);
        Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

type Advance<'a> = &'a mut dyn FnMut(Stage, usize, u64) -> Result<(), ExportError>;

impl NetPlan {
    /// Writes the net's file; `advance` is told how many tensors and bytes of it are there, and may stop.
    fn write(
        &self,
        bundle: &mut BundleWriter,
        advance: Advance<'_>,
        begun: Sender<Begun>,
    ) -> Result<WrittenNet, ExportError> {
        let (net, started) = (self.report().net, Instant::now());
        let mut checked = 0;
        let mut file = bundle.weights(net, self.stored.clone(), &mut |bytes| {
            checked += bytes;
            advance(Stage::Checking, 0, checked)
        })?;
        let kept = file.next();
        match self.write_tensors(&mut file, advance, begun) {
            Ok(()) => Ok(WrittenNet { net, bytes: file.finish()?, kept, elapsed: started.elapsed() }),
            Err(ExportError::Stopped) => {
                file.pause()?;
                Err(ExportError::Stopped)
            }
            Err(e) => Err(e),
        }
    }

    fn write_tensors(
        &self,
        file: &mut WeightWriter<'_>,
        advance: Advance<'_>,
        begun: Sender<Begun>,
    ) -> Result<(), ExportError> {
        let kept = file.next();
        if kept == self.stored.len() {
            return Ok(());
        }
        for source in self.adapters.iter().flat_map(Adapter::sources) {
            // If nobody listens, hashing has failed, and `advance` will stop.
            let _ = begun.send(Begun::Adapter(source.into()));
        }
        let mut done: u64 = self.stored[..kept].iter().map(|tensor| tensor.bytes() as u64).sum();
        std::thread::scope(|scope| {
            let ahead = Ahead::start(scope, self, kept, begun)?;
            for (i, stored) in self.stored.iter().enumerate().skip(kept) {
                let updates = self.adapters.iter().filter_map(|adapter| adapter.update(i).transpose());
                let updates = updates.collect::<Result<Vec<_>, _>>()?;
                file.tensor(|rows, values: &mut [f32]| {
                    let read = ahead.next()?;
                    values::widen(read.dtype, &read.bytes, values);
                    ahead.done(read);
                    for update in &updates {
                        update.add(rows.clone(), values);
                    }
                    done += (values.len() * stored.dtype.size()) as u64;
                    advance(Stage::Writing, i, done)
                })?;
                self.adapters.iter().for_each(Adapter::forget);
            }
            Ok(())
        })
    }
}
