//! ONNX Runtime, CANN and the device.

use std::fs;
use std::path::Path;

use super::Report;
use crate::engine::{Ascend, Bytes, Device, DeviceOptions, Engine, NpuFacts, Runtime, RuntimeOptions};

/// Where the driver's installer, and a container that is given the driver, have its version.
const DRIVER: &str = "/usr/local/Ascend/driver/version.info";
/// The provider this program was tested with: its options change from version to version.
const TESTED: &str = "1.24.4";

/// Loads ONNX Runtime.
pub fn check_runtime(report: &mut Report, options: &RuntimeOptions) -> Option<Runtime> {
    let name = "ONNX Runtime";
    match Runtime::load(options) {
        Err(error) => {
            report.problem(name, error);
            None
        }
        Ok(runtime) => {
            let path = runtime.library().display();
            match runtime.version() {
                Some(version) if options.device != Device::Cpu && version != TESTED => report.warn(
                    name,
                    format_args!(
                        "{version} at `{path}`, but the CANN provider was tested at {TESTED}; if it fails, use that \
                         one (`make setup-ascend`)"
                    ),
                ),
                Some(version) => report.ok(name, format_args!("{version} at `{path}`")),
                None => report.warn(name, format_args!("`{path}` does not tell its version; use 1.24 or later")),
            }
            Some(runtime)
        }
    }
}

/// Takes the device into use. An NPU changes the process's working directory; see [`Engine::open`].
pub fn check_device(report: &mut Report, runtime: Runtime, options: DeviceOptions) -> Option<NpuFacts> {
    let device = options.device;
    if device != Device::Cpu {
        check_driver(report, Path::new(DRIVER));
        check_cann(report);
    }
    let name = "device";
    let facts = Engine::open(runtime, options).and_then(|engine| engine.npu_facts());
    match facts {
        Err(error) => {
            report.problem(name, error);
            None
        }
        Ok(None) => {
            let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
            report.ok(name, format_args!("`{device}`, {processors} processors"));
            None
        }
        Ok(Some(facts)) => {
            let NpuFacts { soc, total, free, budget, .. } = &facts;
            let [total, free_bytes, budget_bytes] = [*total, *free, *budget].map(Bytes);
            let soc = soc.as_deref().unwrap_or("a chip without a name");
            if budget > free {
                report.warn(
                    name,
                    format_args!(
                        "`{device}` is {soc}, with {free_bytes} of {total} free, less than the {budget_bytes} that may \
                         be taken; lower `--device-memory`, or end what else uses it (`npu-smi info`)"
                    ),
                );
            } else {
                report.ok(
                    name,
                    format_args!(
                        "`{device}` is {soc}, with {free_bytes} of {total} free; {budget_bytes} may be taken"
                    ),
                );
            }
            Some(facts)
        }
    }
}

fn check_driver(report: &mut Report, file: &Path) {
    let name = "Ascend driver";
    let version = fs::read_to_string(file).map(|text| {
        text.lines().find_map(|line| line.strip_prefix("Version=")).map(|version| version.trim().to_owned())
    });
    match version {
        Ok(Some(version)) => report.ok(name, format_args!("{version}")),
        Ok(None) => report.warn(name, format_args!("`{}` has no `Version=`; see `npu-smi info`", file.display())),
        Err(error) => report.warn(
            name,
            format_args!(
                "`{}` can't be read ({error}); install the driver, or mount `/usr/local/Ascend/driver` into the container",
                file.display()
            ),
        ),
    }
}

fn check_cann(report: &mut Report) {
    let name = "CANN";
    let Ascend { library, version, devices } = match Ascend::survey() {
        Ok(ascend) => ascend,
        Err(error) => {
            report.problem(name, format_args!("{error}; install CANN and source its `set_env.sh`"));
            return;
        }
    };
    let path = library.display();
    match version {
        Some(version) => report.ok(name, format_args!("{version} at `{path}`")),
        None => report.warn(name, format_args!("`{path}` does not tell its version; use CANN 8.2 or later")),
    }
    let name = "devices";
    match devices {
        Ok(0) => report.problem(
            name,
            "there are none; give the container `/dev/davinciN` and the driver, and see `npu-smi info`",
        ),
        Ok(1) => report.ok(name, "`cann:0`"),
        Ok(count) => report.ok(name, format_args!("`cann:0` to `cann:{}`", count - 1)),
        Err(error) => report.problem(name, error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    #[test]
    fn the_drivers_version_is_read_from_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("version.info");
        let outcome = |text: Option<&str>| {
            if let Some(text) = text {
                fs::write(&file, text).unwrap();
            }
            let mut report = Report::default();
            check_driver(&mut report, &file);
            let check = report.checks.remove(0);
            (check.outcome, check.text)
        };
        let (missing, remedy) = outcome(None);
        assert!(missing == Outcome::Warning && remedy.contains("mount"), "{remedy}");
        assert_eq!(
            outcome(Some("Version=24.1.rc2\nascendhal_version=7.35\n")),
            (Outcome::Ok, "24.1.rc2".into())
        );
        assert_eq!(outcome(Some("something else\n")).0, Outcome::Warning);
    }
}
