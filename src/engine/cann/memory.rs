//! Memory on the device: taken within a budget, handed on from graph to graph.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use onnx_export::graph::{DataType, aligned};
use ort::sys::{OrtAllocatorType, OrtDeviceMemoryType, OrtMemoryInfo, OrtMemoryInfoDeviceType};
use ort::value::DynValue;

use super::acl::{Acl, AclError, Address};
use crate::engine::{Bytes, Device, EngineError, rows};

/// The number by which ONNX Runtime knows the maker of the device. By name alone it does not find the device's memory.
const VENDOR: u32 = 0x19E5;

thread_local! {
    /// Whether this thread has chosen the process's device.
    static CHOSEN: Cell<bool> = const { Cell::new(false) };
}

/// A device's memory.
pub(super) struct Memory {
    acl: Acl,
    device: u32,
    budget: u64,
    info: NonNull<OrtMemoryInfo>,
    state: Mutex<State>,
    failed: AtomicBool,
}

// SAFETY: the description of the memory is only read, and lives as long as the process.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// What the budget is used for, in bytes.
#[derive(Default)]
struct State {
    /// Compiled graphs, whose memory CANN takes itself.
    graphs: u64,
    weights: u64,
    /// Activations, spare buffers among them.
    activations: u64,
    /// Buffers for activations that are not in use, by size: asking CANN for memory is slow.
    spare: HashMap<u64, Vec<Address>>,
}

impl State {
    fn used(&self) -> u64 {
        self.graphs + self.weights + self.activations
    }
}

/// What memory is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Weights,
    Activation,
}

impl Memory {
    /// Of a device that this thread has chosen. Without a budget, nearly all that is free.
    pub(super) fn new(acl: Acl, device: u32, budget: Option<Bytes>) -> Result<Arc<Self>, EngineError> {
        let failed = |reason| EngineError::Acl { device: Device::Cann(device), reason };
        let (free, total) = acl.memory_info().map_err(failed)?;
        let budget = budget.map_or_else(|| free.saturating_sub(reserve(total)), |Bytes(budget)| budget);
        tracing::info!(
            device.id = device,
            device.memory_bytes = total,
            device.free_bytes = free,
            device.budget_bytes = budget,
            "the device's memory: {} may be taken of {} that are free",
            Bytes(budget),
            Bytes(free)
        );
        let info = memory_info(device).map_err(EngineError::Tensor)?;
        let (state, failed) = (Mutex::default(), AtomicBool::new(false));
        Ok(Arc::new(Self { acl, device, budget, info, state, failed }))
    }

    pub(super) fn budget(&self) -> u64 {
        self.budget
    }

    pub(super) fn acl(&self) -> &Acl {
        &self.acl
    }

    /// Notes that the device failed. What it holds can't be given back: CANN refuses it, and the provider ends the
    /// process where CANN does. So from here on it is left to the end of the process, which has to come.
    pub(super) fn set_failed(&self) {
        self.failed.store(true, Ordering::SeqCst);
    }

    /// Whether the device has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    /// What is left of the budget for weights, when `activations` bytes of activations will exist at a time.
    pub(super) fn room_for_weights(&self, activations: u64) -> u64 {
        let state = self.state();
        self.budget.saturating_sub(state.graphs + state.weights + activations.max(state.activations))
    }

    /// Takes a buffer.
    pub(super) fn take(self: &Arc<Self>, purpose: Purpose, bytes: u64) -> Result<Buffer, EngineError> {
        let bytes = aligned(bytes.max(1));
        let mut state = self.state();
        let spare = match purpose {
            Purpose::Weights => None,
            Purpose::Activation => state.spare.get_mut(&bytes).and_then(Vec::pop),
        };
        let address = match spare {
            Some(address) => address,
            None => {
                if state.used() + bytes > self.budget {
                    self.free_spare(&mut state);
                }
                if state.used() + bytes > self.budget {
                    return Err(self.exhausted(state.used() + bytes));
                }
                let address = self.call(|acl| acl.malloc(bytes))?;
                *state.of(purpose) += bytes;
                address
            }
        };
        Ok(Buffer { memory: Arc::clone(self), address, bytes, purpose })
    }

    /// Counts the memory of a compiled graph, which CANN takes when it first runs.
    pub(super) fn reserve(self: &Arc<Self>, bytes: u64) -> Reservation {
        self.state().graphs += bytes;
        Reservation { memory: Arc::clone(self), bytes }
    }

    /// Gives back the buffers that are not in use.
    pub(super) fn trim(&self) {
        self.free_spare(&mut self.state());
    }

    /// A value that refers to memory of this device.
    ///
    /// # Safety
    /// At `address` there is memory for as many elements, which outlives the value.
    pub(super) unsafe fn value(
        &self,
        address: Address,
        dtype: DataType,
        shape: &[usize],
    ) -> Result<DynValue, ort::Error> {
        // SAFETY: the description is of this device's memory; the rest is as the caller says.
        unsafe { rows::refer(self.info, address.0, dtype, shape) }
    }

    fn free_spare(&self, state: &mut State) {
        for (bytes, addresses) in state.spare.drain() {
            for address in addresses {
                state.activations -= bytes;
                self.free(address);
            }
        }
    }

    fn free(&self, address: Address) {
        if self.has_failed() {
            return;
        }
        let freed = self.call(|acl| {
            // SAFETY: buffers come from `malloc`; a buffer that is dropped or spare is not in use, as graphs and
            // copies end before their calls return.
            unsafe { acl.free(address) }
        });
        if let Err(error) = freed {
            tracing::warn!(%error, device.id = self.device, "memory of the device could not be given back");
        }
    }

    /// Calls AscendCL, for which each thread has to choose the device once.
    pub(super) fn call<T>(&self, call: impl FnOnce(&Acl) -> Result<T, AclError>) -> Result<T, EngineError> {
        let choose = || match CHOSEN.get() {
            true => Ok(()),
            false => self.acl.set_device(self.device).map(|()| CHOSEN.set(true)),
        };
        let result = choose().and_then(|()| call(&self.acl));
        result.map_err(|reason| {
            if !reason.is_exhausted() {
                self.set_failed();
            }
            EngineError::Acl { device: Device::Cann(self.device), reason }
        })
    }

    fn exhausted(&self, wanted: u64) -> EngineError {
        EngineError::DeviceMemory {
            device: Device::Cann(self.device),
            stage: "what is under way",
            budget: Bytes(self.budget),
            least: Bytes(wanted),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn of(&mut self, purpose: Purpose) -> &mut u64 {
        match purpose {
            Purpose::Weights => &mut self.weights,
            Purpose::Activation => &mut self.activations,
        }
    }
}

/// What is left to others, by default: CANN's own buffers and streams, and what our estimate of a graph's workspace
/// is short of the truth.
fn reserve(total: u64) -> u64 {
    total / 16
}

fn memory_info(device: u32) -> Result<NonNull<OrtMemoryInfo>, ort::Error> {
    let mut info = ptr::null_mut();
    // SAFETY: the name is a string, and the last pointer is to a pointer.
    unsafe {
        let status = (ort::api().CreateMemoryInfo_V2)(
            c"Cann".as_ptr(),
            OrtMemoryInfoDeviceType::OrtMemoryInfoDeviceType_NPU,
            VENDOR,
            device.cast_signed(),
            OrtDeviceMemoryType::OrtDeviceMemoryType_DEFAULT,
            0,
            OrtAllocatorType::OrtDeviceAllocator,
            &mut info,
        );
        ort::Error::result_from_status(status)?;
    }
    NonNull::new(info).ok_or_else(|| ort::Error::new("the device's memory could not be described"))
}

/// Memory on the device; given back when dropped.
pub(in crate::engine) struct Buffer {
    memory: Arc<Memory>,
    address: Address,
    bytes: u64,
    purpose: Purpose,
}

impl Buffer {
    pub(super) fn address(&self) -> Address {
        self.address
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("bytes", &self.bytes).field("purpose", &self.purpose).finish()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut state = self.memory.state();
        match self.purpose {
            Purpose::Activation => state.spare.entry(self.bytes).or_default().push(self.address),
            Purpose::Weights => {
                state.weights -= self.bytes;
                self.memory.free(self.address);
            }
        }
    }
}

/// Memory that a compiled graph takes, counted; no more when dropped.
pub(super) struct Reservation {
    memory: Arc<Memory>,
    bytes: u64,
}

impl Reservation {
    /// Counts more, should the graph turn out to take more.
    pub(super) fn raise_to(&mut self, bytes: u64) {
        if bytes > self.bytes {
            self.memory.state().graphs += bytes - self.bytes;
            self.bytes = bytes;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.memory.state().graphs -= self.bytes;
    }
}
