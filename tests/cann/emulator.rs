//! Processes on the emulated device, and what they did there.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use storymem::engine::{Bytes, Device, DeviceOptions, Engine, Runtime, RuntimeOptions};
use tempfile::TempDir;

/// The device of all tests.
pub const DEVICE: Device = Device::Cann(0);

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// ONNX Runtime for Ascend, as `make setup-ascend` leaves it.
fn library() -> PathBuf {
    root().join(".cache/onnxruntime-cann/libonnxruntime.so")
}

/// An emulated machine: its log and its compiled graphs.
pub struct Machine {
    folder: TempDir,
}

impl Machine {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Where it keeps compiled graphs.
    pub fn graph_cache(&self) -> PathBuf {
        self.folder.path().join("graphs")
    }

    /// The compiled graphs.
    pub fn compiled(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for folder in std::fs::read_dir(self.graph_cache()).into_iter().flatten() {
            files.extend(std::fs::read_dir(folder.unwrap().path()).unwrap().map(|file| file.unwrap().path()));
        }
        files.retain(|file| file.extension().is_some_and(|extension| extension == "om"));
        files
    }

    /// Lets a command run on this machine.
    pub fn adapt(&self, command: &mut Command) {
        let libraries = root().join("tests/cann-emulator/build");
        assert!(libraries.join("libascendcl.so").exists(), "`make test` builds the emulator");
        assert!(library().exists(), "`make setup-ascend` fetches the provider");
        command
            .env("LD_LIBRARY_PATH", libraries)
            .env("ORT_DYLIB_PATH", library())
            .env("CANN_EMULATOR_LOG", self.folder.path().join("log"))
            .env("CANN_EMULATOR_THREADS", "1")
            .env("STORYMEM_GRAPH_CACHE", self.graph_cache());
    }

    /// Runs a test of this program that is marked to be run so, and gives what it printed.
    ///
    /// # Panics
    /// When it fails.
    pub fn run_part(&self, name: &str, environment: &[(&str, String)]) -> String {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--ignored", "--nocapture"]).envs(environment.iter().cloned());
        self.adapt(&mut command);
        let output = command.output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && stdout.contains("1 passed"), "{name}:\n{stdout}\n{stderr}");
        stdout
    }

    /// The log of what was called, and what of it was asked for since it was read last.
    pub fn log(&self) -> Log {
        let path = self.folder.path().join("log");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        Log(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }
}

/// The engine of a part run by [`Machine::run_part`].
pub fn engine(options: DeviceOptions) -> Engine {
    let runtime = Runtime::load(&RuntimeOptions { device: DEVICE, ..RuntimeOptions::default() }).unwrap();
    let graph_cache = std::env::var_os("STORYMEM_GRAPH_CACHE").map(PathBuf::from);
    Engine::open(runtime, DeviceOptions { device: DEVICE, graph_cache, ..options }).unwrap()
}

/// What was called, in order.
pub struct Log(Vec<Value>);

impl Log {
    /// Calls of that name.
    pub fn calls(&self, name: &str) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |line| line["call"] == name)
    }

    /// How many there are.
    pub fn count(&self, name: &str) -> usize {
        self.calls(name).count()
    }

    /// Bytes copied in a direction by a call.
    pub fn copied(&self, name: &str, kind: &str) -> u64 {
        self.calls(name).filter(|line| line["kind"] == kind).map(|line| line["bytes"].as_u64().unwrap()).sum()
    }

    /// The most bytes of the device in use at one time.
    pub fn peak(&self) -> Bytes {
        Bytes(self.0.iter().filter_map(|line| line["peak_bytes"].as_u64()).max().unwrap())
    }

    /// Every call that failed.
    pub fn failures(&self) -> Vec<&Value> {
        self.0.iter().filter(|line| line["code"] != 0).collect()
    }
}

/// What a program said on standard error.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
