//! The few calls of AscendCL that ONNX Runtime does not make for us: memory on a device, and what the device is.
//!
//! The library is opened at run time, like ONNX Runtime itself, so that one build of this program serves machines with
//! an NPU and without. Signatures and numbers are those of CANN's `acl_rt.h`, `acl.h` and `rt_error_codes.h`.

use std::error::Error;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

use libloading::{Library, Symbol};

use crate::engine::calls::{self, Kind};

/// AscendCL's library; where the provider itself looks for it if the loader's path does not have it.
const LIBRARY: &str = "libascendcl.so";
const FALLBACK: &str = "/usr/local/Ascend/ascend-toolkit/latest/lib64/libascendcl.so";

/// `ACL_MEM_MALLOC_HUGE_FIRST`
const HUGE_PAGES_FIRST: c_int = 0;
/// `ACL_HBM_MEM`
const HIGH_BANDWIDTH_MEMORY: c_int = 1;
/// `ACL_PKG_NAME_CANN`
const PACKAGE_CANN: c_int = 0;
/// `ACL_MEMCPY_HOST_TO_DEVICE`
const HOST_TO_DEVICE: c_int = 1;
/// `ACL_MEMCPY_DEVICE_TO_HOST`
const DEVICE_TO_HOST: c_int = 2;

/// A call of AscendCL, or of CANN's compiler, that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{call}` failed{}{text}; {}", with_code(*code), remedy(call, *code))]
pub struct AclError {
    /// The function.
    pub call: String,
    /// What it returned, where that is known.
    pub code: Option<i32>,
    /// What CANN said besides, after a colon.
    pub text: String,
}

impl AclError {
    /// Whether the device had no memory to give; it is otherwise as it was.
    pub(in crate::engine) fn is_exhausted(&self) -> bool {
        self.code.is_some_and(is_exhausted)
    }

    /// The failed call that the provider's message tells of, among the places in its source that it names as well: as
    /// in `CANN failure 507899: … expr=aclrtMemcpy(…);` or `CANN error executing aclmdlExecuteAsync(…)`.
    fn found_in(message: &str) -> Option<Self> {
        let (code, call) = match message.split_once("error executing ") {
            Some((_, call)) => (None, call),
            None => {
                let (_, after) = message.split_once("CANN failure ")?;
                let (code, after) = after.split_once(':')?;
                (Some(code.parse().ok()?), after.split_once("expr=")?.1)
            }
        };
        let (call, _) = call.split_once('(')?;
        Some(Self { call: call.trim_start_matches("ge::").into(), code, text: String::new() })
    }
}

fn is_exhausted(code: i32) -> bool {
    matches!(code, 200_000 | 207_001 | 245_000)
}

/// What a code means: in `rt_error_codes.h`, 1xxxxx is for wrong calls, 2xxxxx for resources, 5xxxxx for the device.
fn with_code(code: Option<i32>) -> String {
    let Some(code) = code else { return String::new() };
    let meaning = match code {
        107_001 => "no such device",
        107_002 => "no device was chosen on this thread",
        _ if is_exhausted(code) => "the device has no memory left",
        507_000..=507_999 => "the device failed",
        100_000..=199_999 => "the call was wrong",
        _ => "an error of CANN",
    };
    format!(" with code {code}, {meaning}")
}

fn remedy(call: &str, code: Option<i32>) -> &'static str {
    match code {
        Some(107_001) => "`npu-smi info` lists the devices",
        Some(code) if is_exhausted(code) => LESS_MEMORY,
        Some(507_000..=507_999) => SEE_DEVICE,
        // The provider does not tell the codes of these.
        None if call.starts_with("aclmdlLoad") => LESS_MEMORY,
        None if call.starts_with("aclmdlExecute") => SEE_DEVICE,
        _ => "see CANN's log in `~/ascend/log`",
    }
}

const SEE_DEVICE: &str = "see `npu-smi info` and CANN's log in `~/ascend/log`";
const LESS_MEMORY: &str = "lower `--device-memory`, or end what else uses the device (`npu-smi info`)";

type Status = c_int;

/// AscendCL, loaded. Its functions may be called from any thread once that has called [`Acl::set_device`].
pub(super) struct Acl {
    path: PathBuf,
    set_device: unsafe extern "C" fn(i32) -> Status,
    device_count: unsafe extern "C" fn(*mut u32) -> Status,
    malloc: unsafe extern "C" fn(*mut *mut c_void, usize, c_int) -> Status,
    free: unsafe extern "C" fn(*mut c_void) -> Status,
    memcpy: unsafe extern "C" fn(*mut c_void, usize, *const c_void, usize, c_int) -> Status,
    memory_info: unsafe extern "C" fn(c_int, *mut usize, *mut usize) -> Status,
    soc_name: unsafe extern "C" fn() -> *const c_char,
    recent_error: unsafe extern "C" fn() -> *const c_char,
    /// Since CANN 8.0.
    version: Option<unsafe extern "C" fn(c_int, *mut PackageVersion) -> Status>,
}

/// `aclCANNPackageVersion`
#[repr(C)]
struct PackageVersion {
    version: [u8; 128],
    parts: [[u8; 64]; 4],
    reserved: [u8; 128],
}

impl Acl {
    /// Opens the library. It stays open: CANN's threads run in it until the process ends.
    ///
    /// # Errors
    /// What the system's loader said, or which function is missing.
    pub(super) fn open() -> Result<Self, String> {
        let open = |name: &str| {
            // SAFETY: loading runs the library's initialisers, which are CANN's own and made for that.
            unsafe { Library::new(name) }
        };
        // What the first attempt said tells more: the second path is one nobody named.
        let library = open(LIBRARY).or_else(|error| open(FALLBACK).map_err(|_| error));
        let library: &'static Library = Box::leak(Box::new(library.map_err(said)?));
        macro_rules! function {
            ($name:literal) => {{
                // SAFETY: the type the symbol is given is that of the function in CANN's headers.
                let symbol = unsafe { library.get($name) };
                *symbol.map_err(said)?
            }};
        }
        // SAFETY: as above.
        let version: Result<Symbol<'_, _>, _> = unsafe { library.get(b"aclsysGetCANNVersion") };
        let set_device = function!(b"aclrtSetDevice");
        Ok(Self {
            path: path_of(set_device as *const c_void).unwrap_or_else(|| LIBRARY.into()),
            set_device,
            device_count: function!(b"aclrtGetDeviceCount"),
            malloc: function!(b"aclrtMalloc"),
            free: function!(b"aclrtFree"),
            memcpy: function!(b"aclrtMemcpy"),
            memory_info: function!(b"aclrtGetMemInfo"),
            soc_name: function!(b"aclrtGetSocName"),
            recent_error: function!(b"aclGetRecentErrMsg"),
            version: version.ok().map(|symbol| *symbol),
        })
    }

    /// The file it was loaded from.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes `device` the one that this thread's calls are for.
    pub(super) fn set_device(&self, device: u32) -> Result<(), AclError> {
        // SAFETY: any number may be given.
        self.call("aclrtSetDevice", || unsafe { (self.set_device)(device.cast_signed()) })
    }

    /// How many devices there are.
    pub(super) fn device_count(&self) -> Result<u32, AclError> {
        let mut count = 0;
        // SAFETY: the pointer is to a number of the right type.
        self.call("aclrtGetDeviceCount", || unsafe { (self.device_count)(&mut count) }).map(|()| count)
    }

    /// Memory on the device; never of no bytes.
    pub(super) fn malloc(&self, bytes: u64) -> Result<Address, AclError> {
        let mut address = ptr::null_mut();
        // SAFETY: the pointer is to a pointer.
        let call = || unsafe { (self.malloc)(&mut address, bytes.max(1) as usize, HUGE_PAGES_FIRST) };
        self.call("aclrtMalloc", call).map(|()| Address(address))
    }

    /// Gives memory back.
    ///
    /// # Safety
    /// It came from [`Acl::malloc`], was not given back yet, and nothing uses it any more.
    pub(super) unsafe fn free(&self, address: Address) -> Result<(), AclError> {
        // SAFETY: as the caller says.
        self.call("aclrtFree", || unsafe { (self.free)(address.0) })
    }

    /// Copies from the host; returns when all is copied.
    ///
    /// # Safety
    /// At `to` there is room for as many bytes, and nothing reads or writes it meanwhile.
    pub(super) unsafe fn upload(&self, to: Address, from: &[u8]) -> Result<(), AclError> {
        // SAFETY: as the caller says; the host's side is a slice.
        self.call("aclrtMemcpy", || unsafe {
            (self.memcpy)(to.0, from.len(), from.as_ptr().cast(), from.len(), HOST_TO_DEVICE)
        })
    }

    /// Copies to the host; returns when all is copied.
    ///
    /// # Safety
    /// At `from` there are as many bytes, and nothing writes them meanwhile.
    pub(super) unsafe fn download(&self, to: &mut [u8], from: Address) -> Result<(), AclError> {
        // SAFETY: as the caller says; the host's side is a slice.
        self.call("aclrtMemcpy", || unsafe {
            (self.memcpy)(to.as_mut_ptr().cast(), to.len(), from.0, to.len(), DEVICE_TO_HOST)
        })
    }

    /// Free and total bytes of the device.
    pub(super) fn memory_info(&self) -> Result<(u64, u64), AclError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both pointers are to numbers of the right type.
        let call = || unsafe { (self.memory_info)(HIGH_BANDWIDTH_MEMORY, &mut free, &mut total) };
        self.call("aclrtGetMemInfo", call).map(|()| (free as u64, total as u64))
    }

    /// The name of the chip, such as `Ascend910B2`.
    pub(super) fn soc_name(&self) -> Option<String> {
        // SAFETY: CANN returns a string that stays, or nothing.
        unsafe { text((self.soc_name)()) }
    }

    /// The version of CANN, where it tells.
    pub(super) fn version(&self) -> Option<String> {
        let mut version = PackageVersion { version: [0; 128], parts: [[0; 64]; 4], reserved: [0; 128] };
        // SAFETY: the pointer is to the structure the function fills.
        let status = unsafe { self.version?(PACKAGE_CANN, &mut version) };
        let version = CStr::from_bytes_until_nul(&version.version).ok()?.to_str().ok()?;
        (status == 0 && !version.is_empty()).then(|| version.to_owned())
    }

    fn call(&self, name: &'static str, call: impl FnOnce() -> Status) -> Result<(), AclError> {
        match calls::note(Kind::Short, || format!("`{name}`"), call) {
            0 => Ok(()),
            code => Err(AclError { call: name.into(), code: Some(code), text: self.said() }),
        }
    }

    /// The failed call that the provider's message tells of, with what CANN has said of it on this thread.
    pub(super) fn failure_in(&self, message: &str) -> Option<AclError> {
        AclError::found_in(message).map(|error| AclError { text: self.said(), ..error })
    }

    /// The first line of what CANN said last on this thread, after a colon. The others are for CANN's makers.
    fn said(&self) -> String {
        // SAFETY: CANN returns a string that stays until this thread's next call, or nothing.
        let text = unsafe { text((self.recent_error)()) }.unwrap_or_default();
        let line = text.lines().map(str::trim).find(|line| !line.is_empty());
        line.map_or_else(String::new, |line| format!(": {line}"))
    }
}

/// What the system's loader said.
fn said(error: libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| source.to_string())
}

/// An address on the device: not to be read or written by the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address(pub(super) *mut c_void);

// SAFETY: a number to the host; whoever uses it on the device says why that is sound.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl Address {
    /// The address `bytes` further on.
    pub(super) fn offset(self, bytes: u64) -> Self {
        Self(self.0.wrapping_byte_add(bytes as usize))
    }
}

/// # Safety
/// `pointer` is null or to a string that stays for the duration of the call.
unsafe fn text(pointer: *const c_char) -> Option<String> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: as the caller says.
    Some(unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}

/// The file that a function was loaded from.
fn path_of(function: *const c_void) -> Option<PathBuf> {
    // SAFETY: the structure is plain numbers and pointers, for which zero is a value.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be given; the structure is one to fill.
    let found = unsafe { libc::dladdr(function, &mut info) };
    if found == 0 {
        return None;
    }
    // SAFETY: the name is of a loaded library, which stays.
    unsafe { text(info.dli_fname) }.map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_is_found_in_what_the_provider_says() {
        let said = "/root/onnxruntime/core/providers/cann/cann_call.cc:148 bool onnxruntime::CannCall(ERRTYPE, const \
                    char*) [with ERRTYPE = int; bool THRW = true] CANN failure 507899: (look for ACL_ERROR_xxx in \
                    acl.h) ; NPU=0 ; hostname=vm ; expr=aclrtSynchronizeStream(static_cast<aclrtStream>(GetHandle())); \n";
        let error = AclError::found_in(said).unwrap();
        assert_eq!(
            error.to_string(),
            "`aclrtSynchronizeStream` failed with code 507899, the device failed; see `npu-smi info` and CANN's log in \
             `~/ascend/log`"
        );
        let said = "Non-zero status code returned while running wan_block_0 node. Name:'wan_block_0_0' Status Message: \
                    CANN Graph error executing ge::aclgrphBuildModel(graph, options, model)";
        let error = AclError::found_in(said).unwrap();
        assert_eq!(error.to_string(), "`aclgrphBuildModel` failed; see CANN's log in `~/ascend/log`");
        assert_eq!(AclError::found_in("Exiting due to terminate flag being set to true."), None);
    }
}
