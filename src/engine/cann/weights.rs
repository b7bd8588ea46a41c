//! One net's weights on the device.
//!
//! A thread of its own uploads: it is told of a layer some way ahead of its use, so that copying and computing go on side
//! by side. Layers that stay are uploaded the same way, once, so that a stage begins before the last of them is there.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use memmap2::Mmap;
use onnx_export::graph::{DataType, aligned};
use ort::value::DynValue;

use super::acl::Address;
use super::memory::{Buffer, Memory, Purpose};
use crate::engine::residency::{Plan, Stage};
use crate::engine::{EngineError, Weights};

/// How many layers are asked for before they are needed.
const AHEAD: usize = 2;

/// Where a tensor lies.
struct Place {
    name: String,
    dtype: DataType,
    shape: Vec<usize>,
    /// In the mapped file.
    file: Range<usize>,
    /// From the beginning of its layer's buffer.
    offset: u64,
}

/// Tensors that are moved together.
struct Group {
    places: Vec<Place>,
    bytes: u64,
}

impl Group {
    fn new(weights: &Weights, names: impl Iterator<Item = String>) -> Result<Self, EngineError> {
        let (mut places, mut bytes) = (Vec::new(), 0);
        for name in names {
            let missing = || EngineError::MissingWeight { name: name.clone() };
            let file = weights.place(&name).ok_or_else(missing)?;
            let tensor = weights.file().tensor(&name).ok_or_else(missing)?;
            let (dtype, shape) = (tensor.dtype.into(), tensor.shape.to_vec());
            let offset = bytes;
            bytes += aligned(file.len() as u64);
            places.push(Place { name, dtype, shape, file, offset });
        }
        Ok(Self { places, bytes })
    }

    /// The tensors as values at `address`, by name.
    ///
    /// # Safety
    /// There is room for the group, which outlives the values.
    unsafe fn values(
        &self,
        memory: &Memory,
        address: Address,
    ) -> Result<HashMap<String, DynValue>, EngineError> {
        let value = |place: &Place| {
            // SAFETY: the place lies within the group, for which there is room.
            let value = unsafe { memory.value(address.offset(place.offset), place.dtype, &place.shape) };
            Ok((place.name.clone(), value.map_err(EngineError::Tensor)?))
        };
        self.places.iter().map(value).collect()
    }

    fn copies(&self, to: Address) -> Vec<(Address, Range<usize>)> {
        self.places.iter().map(|place| (to.offset(place.offset), place.file.clone())).collect()
    }
}

/// One net's weights on the device, as a [`Plan`] has it; gone when dropped.
pub(in crate::engine) struct DeviceWeights {
    // Declared in the order in which they have to go: values, the thread that writes to buffers, buffers.
    common: HashMap<String, DynValue>,
    current: HashMap<String, DynValue>,
    uploader: Uploader,
    layers: Vec<Layer>,
    by_prefix: HashMap<String, usize>,
    slots: Vec<Slot>,
    entered: Option<usize>,
    memory: Arc<Memory>,
    _common: Option<Buffer>,
}

struct Layer {
    group: Group,
    /// Its own buffer, for a layer that stays.
    own: Option<Buffer>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Absent,
    /// On its way.
    Asked,
    There,
}

/// A place that layers pass through.
struct Slot {
    buffer: Buffer,
    /// The layer that is there, or on its way.
    layer: Option<usize>,
}

impl DeviceWeights {
    /// Takes memory and uploads what belongs to no layer; layers follow when they are entered.
    pub(super) fn new(
        memory: &Arc<Memory>,
        weights: &Weights,
        stage: &Stage,
        plan: &Plan,
    ) -> Result<Self, EngineError> {
        let mut uploader = Uploader::start(Arc::clone(memory), Arc::clone(weights.file().map()))?;
        let names = stage.common().map(|port| port.name.clone());
        let group = Group::new(weights, names)?;
        let (mut common, mut buffer) = (HashMap::new(), None);
        if group.bytes > 0 {
            let taken = memory.take(Purpose::Weights, group.bytes)?;
            uploader.ask(None, group.copies(taken.address()));
            uploader.wait().1?;
            // SAFETY: the buffer has room for the group, and is kept beside the values, which go first.
            common = unsafe { group.values(memory, taken.address())? };
            buffer = Some(taken);
        }

        let mut layers = Vec::new();
        for (i, stays) in plan.stays.iter().enumerate() {
            let group = Group::new(weights, stage.layer_names(i))?;
            let own = stays.then(|| memory.take(Purpose::Weights, group.bytes)).transpose()?;
            layers.push(Layer { group, own, state: State::Absent });
        }
        let passing = layers.iter().filter(|layer| layer.own.is_none());
        let slots = match passing.map(|layer| layer.group.bytes).max() {
            None => Vec::new(),
            Some(bytes) => {
                let slot = |_| Ok(Slot { buffer: memory.take(Purpose::Weights, bytes)?, layer: None });
                (0..2).map(slot).collect::<Result<_, EngineError>>()?
            }
        };
        let by_prefix = stage.layers.iter().cloned().zip(0..).collect();
        let mut weights = Self {
            common,
            current: HashMap::new(),
            uploader,
            layers,
            by_prefix,
            slots,
            entered: None,
            memory: Arc::clone(memory),
            _common: buffer,
        };
        weights.ask_ahead(None);
        Ok(weights)
    }

    /// Waits until the layer whose weight names begin with `prefix` is there, and asks for those after it. Where no
    /// layer's do, what belongs to none is there already.
    pub(in crate::engine) fn enter(&mut self, prefix: &str) -> Result<(), EngineError> {
        let Some(&layer) = self.by_prefix.get(prefix) else { return Ok(()) };
        if self.entered == Some(layer) {
            return Ok(());
        }
        // What the last layer's graphs have read may be written over from here on: runs end before they return.
        self.current.clear();
        self.entered = Some(layer);
        while self.layers[layer].state != State::There {
            // Entered out of order, there may be no place for it before those on their way have arrived.
            self.ask(layer);
            self.await_arrival()?;
        }
        let Layer { group, own, .. } = &self.layers[layer];
        let buffer = own
            .as_ref()
            .or_else(|| self.slots.iter().find(|slot| slot.layer == Some(layer)).map(|slot| &slot.buffer));
        let address = buffer.expect("a layer that is there is in its own buffer or in a slot").address();
        // SAFETY: the buffer is as large as its layer or the largest, and is kept beside the values, which go first.
        self.current = unsafe { group.values(&self.memory, address)? };
        self.ask_ahead(Some(layer));
        Ok(())
    }

    /// A weight of the layer entered last, or one that belongs to none.
    pub(in crate::engine) fn value(&self, name: &str) -> Result<&DynValue, EngineError> {
        let value = self.current.get(name).or_else(|| self.common.get(name));
        value.ok_or_else(|| EngineError::MissingWeight { name: name.into() })
    }

    /// Waits for the layer that was asked for first.
    fn await_arrival(&mut self) -> Result<(), EngineError> {
        let (layer, result) = self.uploader.wait();
        let layer = layer.expect("nothing but layers is asked for once a stage has begun");
        self.layers[layer].state = State::There;
        if result.is_err() {
            self.layers[layer].state = State::Absent;
            self.slots.iter_mut().filter(|slot| slot.layer == Some(layer)).for_each(|slot| slot.layer = None);
        }
        result
    }

    /// Asks for the layers that come after `entered`, as many as there are places for.
    fn ask_ahead(&mut self, entered: Option<usize>) {
        let count = self.layers.len();
        let first = entered.map_or(0, |layer| layer + 1);
        let absent = |&layer: &usize| self.layers[layer].state == State::Absent;
        // A whole round ahead: the first layers of the next pass follow the last ones of this.
        let next: Vec<usize> = (0..count).map(|i| (first + i) % count).filter(absent).take(AHEAD).collect();
        for layer in next {
            if self.uploader.asked.len() >= AHEAD || !self.ask(layer) {
                break;
            }
        }
    }

    /// Asks for a layer, unless it is there or on its way; says whether there was a place for it.
    fn ask(&mut self, layer: usize) -> bool {
        if self.layers[layer].state != State::Absent {
            return true;
        }
        let to = match &self.layers[layer].own {
            Some(own) => own.address(),
            None => {
                let Some(slot) = self.free_slot(layer) else { return false };
                if let Some(evicted) = self.slots[slot].layer.replace(layer) {
                    self.layers[evicted].state = State::Absent;
                }
                self.slots[slot].buffer.address()
            }
        };
        self.uploader.ask(Some(layer), self.layers[layer].group.copies(to));
        self.layers[layer].state = State::Asked;
        true
    }

    /// A slot that `layer` may have: empty, or with a layer that is neither in use nor on its way and is needed later
    /// than `layer` is.
    fn free_slot(&self, layer: usize) -> Option<usize> {
        let count = self.layers.len();
        let from = self.entered.unwrap_or(0);
        let distance = |layer: usize| (layer + count - from) % count;
        let free = |slot: &Slot| match slot.layer {
            None => true,
            Some(held) => {
                let idle = self.entered != Some(held) && self.layers[held].state == State::There;
                idle && distance(held) > distance(layer)
            }
        };
        self.slots.iter().position(free)
    }
}

/// Uploads in the background, one thing after the other.
struct Uploader {
    jobs: Option<Sender<Job>>,
    results: Receiver<Result<(), EngineError>>,
    /// What was asked for and is not there yet, oldest first: a layer, or what belongs to none.
    asked: VecDeque<Option<usize>>,
    thread: Option<JoinHandle<()>>,
}

type Job = Vec<(Address, Range<usize>)>;

impl Uploader {
    fn start(memory: Arc<Memory>, file: Arc<Mmap>) -> Result<Self, EngineError> {
        let (jobs, to_do) = channel::<Job>();
        let (done, results) = channel();
        let work = move || {
            for copies in to_do {
                let result = copies.into_iter().try_for_each(|(to, from)| {
                    memory.call(|acl| {
                        // SAFETY: the buffer has room for the group that the copies are of. Nobody reads it before
                        // the upload is reported, and none of its graphs runs. It outlives this thread, which is
                        // waited for first.
                        unsafe { acl.upload(to, &file[from]) }
                    })
                });
                if done.send(result).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("upload".into()).spawn(work);
        let thread = thread.map_err(EngineError::Thread)?;
        Ok(Self { jobs: Some(jobs), results, asked: VecDeque::new(), thread: Some(thread) })
    }

    fn ask(&mut self, layer: Option<usize>, copies: Job) {
        self.asked.push_back(layer);
        // The thread ends only when this is dropped.
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(copies);
        }
    }

    /// Waits for what was asked for first; says what it is, and whether it is there.
    fn wait(&mut self) -> (Option<usize>, Result<(), EngineError>) {
        let layer = self.asked.pop_front().expect("something was asked for");
        let stopped = || EngineError::Thread(std::io::Error::other("the uploading thread has ended"));
        (layer, self.results.recv().unwrap_or_else(|_| Err(stopped())))
    }
}

impl Drop for Uploader {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // It has nothing to say: had it panicked, nobody would wait for its results any more.
            let _ = thread.join();
        }
    }
}
