//! Rows of tensors, for graphs that take a sequence some rows at a time.
//!
//! Rows lie one after the other, so some of them are a tensor of their own at another address: nothing is copied to give
//! them to a graph, on any device.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};

use onnx_export::graph::{DataType, Port};
use ort::AsPointer;
use ort::memory::Allocator;
use ort::sys::{OrtMemoryInfo, OrtValue};
use ort::value::{DynTensor, DynValue, TensorElementType, ValueType};

use super::EngineError;

/// A value that is part of another one.
pub(super) struct Part<'v> {
    value: DynValue,
    _of: PhantomData<&'v DynValue>,
}

impl Deref for Part<'_> {
    type Target = DynValue;

    fn deref(&self) -> &DynValue {
        &self.value
    }
}

impl<'v> Part<'v> {
    /// What a run that begins at row `start` takes of the value of `port`: all of it, if the port does not go by rows.
    pub(super) fn to_read(value: &'v DynValue, port: &Port, start: usize) -> Result<Self, EngineError> {
        part(value, port, start)
    }

    /// What a run that begins at row `start` gives of the value of `port`, to be written to.
    pub(super) fn to_write(value: &'v mut DynValue, port: &Port, start: usize) -> Result<Self, EngineError> {
        part(value, port, start)
    }

    /// To be bound as the result of a run.
    pub(super) fn as_result(&mut self) -> &mut DynValue {
        &mut self.value
    }
}

fn part<'v>(value: &DynValue, port: &Port, start: usize) -> Result<Part<'v>, EngineError> {
    let ValueType::Tensor { ty, shape, .. } = value.dtype() else {
        unreachable!("graphs are run on tensors")
    };
    let dims = shape.iter().map(|&dim| dim.unsigned_abs() as usize);
    assert!(
        *ty == element(port.dtype) && dims.eq(port.shape.iter().copied()),
        "`{}` is {:?} {:?}, not {ty} {shape:?}",
        port.name,
        port.dtype,
        port.shape
    );
    let start = if port.rows.is_some() { start } else { 0 };
    assert!(
        start + port.run_shape()[0] <= port.shape[0],
        "rows {start}… of `{}` {:?}",
        port.name,
        port.shape
    );
    let made = || {
        let (info, address) = (memory_of(value)?, address_of(value)?);
        let address = address.wrapping_byte_add(start * row_bytes(port));
        // SAFETY: the value is of the port's type and shape and the rows lie within it, as was checked above. They are
        // borrowed as the value is.
        unsafe { refer(info, address, port.dtype, &port.run_shape()) }
    };
    Ok(Part { value: made().map_err(EngineError::Tensor)?, _of: PhantomData })
}

/// A value of a port on the CPU, of zeros.
pub(super) fn zeros(port: &Port) -> Result<DynValue, EngineError> {
    let tensor = DynTensor::new(&Allocator::default(), element(port.dtype), port.shape.clone());
    tensor.map(DynTensor::into_dyn).map_err(EngineError::Tensor)
}

/// Puts what a run gave that began at row `start` in its place in `whole`, both on the CPU.
pub(super) fn put(
    whole: &mut DynValue,
    port: &Port,
    start: usize,
    given: &DynValue,
) -> Result<(), EngineError> {
    let mut to = Part::to_write(whole, port, start)?;
    let bytes = port.run_shape()[0] * row_bytes(port);
    let (from, to) = (address_of(given), address_of(to.as_result()));
    let (from, to) = (from.map_err(EngineError::Tensor)?, to.map_err(EngineError::Tensor)?);
    // SAFETY: both are the host's memory, of as many bytes: a graph gives what its port says. The one was just made by
    // ONNX Runtime, so they do not overlap.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), bytes) };
    Ok(())
}

/// The type as ONNX Runtime names it.
fn element(dtype: DataType) -> TensorElementType {
    match dtype {
        DataType::F16 => TensorElementType::Float16,
        DataType::Bf16 => TensorElementType::Bfloat16,
        DataType::F32 => TensorElementType::Float32,
        DataType::I64 => TensorElementType::Int64,
    }
}

fn row_bytes(port: &Port) -> usize {
    port.dtype.size() * port.shape[1..].iter().product::<usize>()
}

/// A value that refers to memory it does not own.
///
/// # Safety
/// The description is of the memory at `address`, where there are as many elements, which outlive the value.
pub(super) unsafe fn refer(
    info: NonNull<OrtMemoryInfo>,
    address: *mut c_void,
    dtype: DataType,
    shape: &[usize],
) -> Result<DynValue, ort::Error> {
    let bytes = dtype.size() * shape.iter().product::<usize>();
    let shape: Vec<i64> = shape.iter().map(|&dim| dim as i64).collect();
    let mut value = ptr::null_mut();
    // SAFETY: the description of the memory is valid, the address and the number of bytes are as the caller says,
    // the shape is a slice, and the last pointer is to a pointer.
    unsafe {
        let status = (ort::api().CreateTensorWithDataAsOrtValue)(
            info.as_ptr(),
            address,
            bytes,
            shape.as_ptr(),
            shape.len(),
            element(dtype).into(),
            &mut value,
        );
        ort::Error::result_from_status(status)?;
    }
    let value = NonNull::new(value).ok_or_else(|| ort::Error::new("no value was made"))?;
    // SAFETY: the value is a tensor, made just above. It owns no memory, so any allocator does for it.
    Ok(unsafe { DynValue::from_ptr(value, Some(&Allocator::default())) })
}

/// Where a tensor lies, on whatever device.
fn address_of(value: &DynValue) -> Result<*mut c_void, ort::Error> {
    let mut address = ptr::null_mut();
    // SAFETY: the value is a tensor; nothing is written through the pointer here, which is to a pointer.
    unsafe {
        let value: *const OrtValue = value.ptr();
        ort::Error::result_from_status((ort::api().GetTensorMutableData)(value.cast_mut(), &mut address))?;
    }
    Ok(address)
}

/// The description of the memory a tensor lies in.
fn memory_of(value: &DynValue) -> Result<NonNull<OrtMemoryInfo>, ort::Error> {
    let mut info = ptr::null();
    // SAFETY: the value is a tensor, which keeps what the pointer to a pointer is given.
    unsafe { ort::Error::result_from_status((ort::api().GetTensorMemoryInfo)(value.ptr(), &mut info))? };
    NonNull::new(info.cast_mut()).ok_or_else(|| ort::Error::new("a tensor's memory is not described"))
}
