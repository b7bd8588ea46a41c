//! Finds and loads ONNX Runtime, once for a process.
//!
//! The library is loaded at run time, so one build of this program serves the CPU's and the Ascend build of ONNX
//! Runtime, and a missing library is a sentence instead of the loader's refusal to start the program.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use ort::environment::{Environment, GlobalThreadPoolOptions};

use super::{Device, EngineError};

/// A build of ONNX Runtime.
struct Build {
    /// Where `make` puts it, below the repository's root.
    path: &'static str,
    /// The target that does.
    setup: &'static str,
    /// The Python wheel it comes from.
    wheel: &'static str,
}

const FOR_CPU: Build =
    Build { path: ".cache/onnxruntime/libonnxruntime.so", setup: "setup", wheel: "onnxruntime" };
const FOR_CANN: Build = Build {
    path: ".cache/onnxruntime-cann/libonnxruntime.so",
    setup: "setup-ascend",
    wheel: "onnxruntime-cann",
};

/// How to load the runtime.
#[derive(Clone, Debug, Default)]
pub struct RuntimeOptions {
    /// The library; by default `ORT_DYLIB_PATH`, then where `make` puts it.
    pub library: Option<PathBuf>,
    /// The device it is for: `make` puts the build for NPUs in another place.
    pub device: Device,
    /// Threads that share one graph's work; by default one for each processor.
    pub threads: Option<usize>,
}

/// ONNX Runtime, loaded. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Runtime {
    pub(super) environment: Environment,
    library: PathBuf,
}

/// The process's one environment: ONNX Runtime allows no second, and its threads serve all sessions.
static LOADED: Mutex<Option<Runtime>> = Mutex::new(None);

impl Runtime {
    /// The process's runtime; loaded by the first call.
    ///
    /// # Errors
    /// When no library is found, the one found is unusable, or another one is already loaded.
    pub fn load(options: &RuntimeOptions) -> Result<Self, EngineError> {
        let library = locate(options)?;
        let mut loaded = LOADED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(runtime) = &*loaded {
            return if runtime.library == library {
                Ok(runtime.clone())
            } else {
                Err(EngineError::LibraryLoaded { loaded: runtime.library.clone(), asked: library })
            };
        }
        let unusable = |reason: String| EngineError::LibraryUnusable { path: library.clone(), reason };
        let threads = options
            .threads
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
        let builder = ort::init_from(&library).map_err(|e| unusable(e.to_string()))?;
        let pool = GlobalThreadPoolOptions::default()
            .with_intra_threads(threads)
            .map_err(|e| unusable(e.to_string()))?;
        let environment = builder
            .with_name("storymem")
            .with_telemetry(false)
            .with_global_thread_pool(pool)
            .build()
            .map_err(|e| unusable(e.to_string()))?;
        tracing::info!(runtime.library = %library.display(), runtime.threads = threads, "ONNX Runtime is loaded");
        Ok(loaded.insert(Self { environment, library }).clone())
    }

    /// The version of the library, where it tells.
    pub fn version(&self) -> Option<String> {
        // SAFETY: the library is loaded already, so this only gives another handle to it.
        let library = unsafe { libloading::Library::new(&self.library) }.ok()?;
        // SAFETY: every version of ONNX Runtime has this function, with this type.
        let base: libloading::Symbol<'_, unsafe extern "C" fn() -> *const ort::sys::OrtApiBase> =
            unsafe { library.get(b"OrtGetApiBase") }.ok()?;
        // SAFETY: it returns a table that stays, whose function returns a string that stays.
        let version = unsafe { std::ffi::CStr::from_ptr(((*base()).GetVersionString)()) };
        version.to_str().ok().map(str::to_owned)
    }

    /// The library in use.
    pub fn library(&self) -> &Path {
        &self.library
    }
}

fn locate(options: &RuntimeOptions) -> Result<PathBuf, EngineError> {
    let Build { path, setup, wheel } = match options.device {
        Device::Cpu => FOR_CPU,
        Device::Cann(_) => FOR_CANN,
    };
    let named = options.library.clone().or_else(|| std::env::var_os("ORT_DYLIB_PATH").map(PathBuf::from));
    let searched = match named {
        // A path someone named is the only one: falling back from it would hide a mistake.
        Some(path) => vec![path],
        None => [std::env::current_exe(), std::env::current_dir()]
            .into_iter()
            .flatten()
            .flat_map(|start| start.ancestors().map(|dir| dir.join(path)).collect::<Vec<_>>())
            .collect(),
    };
    match searched.iter().find(|path| path.exists()) {
        Some(found) => Ok(found.canonicalize().unwrap_or_else(|_| found.clone())),
        None => Err(EngineError::LibraryMissing { setup, wheel, searched }),
    }
}
