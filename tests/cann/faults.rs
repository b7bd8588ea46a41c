//! What fails on the device is said in words, and the process ends in order.

use std::path::Path;
use std::process::{Command, Output};

use storymem::engine::{Device, DeviceOptions, Engine, EngineError, Runtime, RuntimeOptions};

use super::common::{export, fixture};
use super::emulator::{Machine, engine, stderr};

fn bundle() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    export("tiny", &folder.path().join("bundle"), "mi2v", true, &["--dtype", "f16"]);
    folder
}

fn generate(machine: &Machine, folder: &Path, adapt: impl FnOnce(&mut Command)) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_storymem"));
    machine.adapt(&mut command);
    command
        .current_dir(folder)
        .args(["generate", "--prompt", "A quiet room", "--bundle", "bundle", "--memory"])
        .arg(fixture("tiny/inputs/memory_0.png"))
        .args(["--size", "64x48", "--frames", "5", "--steps", "2", "--seed", "1", "--out", "v.mp4"])
        .env("STORYMEM_DEVICE", "cann:0");
    adapt(&mut command);
    command.output().unwrap()
}

/// The last line of what a failing program said, which left no video behind and was not ended by a signal.
fn refusal(output: &Output, folder: &Path) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", stderr(output));
    assert!(!folder.join("v.mp4").exists());
    stderr(output).lines().last().unwrap().to_owned()
}

#[test]
fn whatever_call_fails_the_run_ends_with_an_error_that_names_it_and_the_next_one_is_right() {
    let folder = bundle();
    let machine = Machine::new();
    let undisturbed = {
        let output = generate(&machine, folder.path(), |_| {});
        assert!(output.status.success(), "{}", stderr(&output));
        std::fs::read(folder.path().join("v.mp4")).unwrap()
    };
    std::fs::remove_file(folder.path().join("v.mp4")).unwrap();
    for (fault, said) in [
        // The device is lost while a graph runs, and at an upload in the background; a kernel fails.
        (
            "execute:12=lose 507899",
            "on `cann:0`: `aclrtSynchronizeStream` failed with code 507899, the device failed",
        ),
        ("execute:1=fail 507015", "graph `umt5_layer` failed on `cann:0`: `aclrtSynchronizeStream` failed"),
        ("aclrtMemcpy:40=lose 507010", "`cann:0`"),
        (
            "aclmdlExecuteAsync:9=fail 507011",
            "on `cann:0`: `aclmdlExecuteAsync` failed: aclmdlExecuteAsync number 9",
        ),
        // There is no memory left, for a buffer and for a compiled graph.
        ("aclrtMalloc:9=fail 207001", "`aclrtMalloc` failed with code 207001, the device has no memory left"),
        ("aclmdlLoadFromFile:3=fail 245000", "`aclmdlLoadFromFile` failed: aclmdlLoadFromFile number 3"),
        ("aclrtSetDevice:1+=fail 507033", "device `cann:0` can't be used"),
    ] {
        let output = generate(&machine, folder.path(), |command| {
            command.env("CANN_EMULATOR_FAULTS", fault);
        });
        let refusal = refusal(&output, folder.path());
        println!("{fault}: {refusal}");
        assert!(refusal.starts_with("error: ") && refusal.contains(said), "{fault}: {refusal}");
    }
    let output = generate(&machine, folder.path(), |_| {});
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(std::fs::read(folder.path().join("v.mp4")).unwrap() == undisturbed);
}

#[test]
fn a_graph_that_does_not_compile_leaves_nothing_behind() {
    let folder = bundle();
    for fault in ["aclgrphBuildModel:2=fail 4294967295", "aclgrphSaveModel:2=fail 4294967295"] {
        let machine = Machine::new();
        let output = generate(&machine, folder.path(), |command| {
            command.env("CANN_EMULATOR_FAULTS", fault);
        });
        let refusal = refusal(&output, folder.path());
        println!("{fault}: {refusal}");
        assert!(refusal.contains("graph `umt5_final_norm` failed on `cann:0`"), "{refusal}");
        assert_eq!(machine.compiled().len(), 1, "{fault}");
        assert!(generate(&machine, folder.path(), |_| {}).status.success());
        std::fs::remove_file(folder.path().join("v.mp4")).unwrap();
    }
}

#[test]
fn without_ascend_libraries_generate_and_serve_refuse_with_the_remedy() {
    let folder = bundle();
    let machine = Machine::new();
    let output = generate(&machine, folder.path(), |command| {
        command.env_remove("LD_LIBRARY_PATH");
    });
    let by_generate = refusal(&output, folder.path());

    let mut command = Command::new(env!("CARGO_BIN_EXE_storymem"));
    machine.adapt(&mut command);
    let output = command
        .env_remove("LD_LIBRARY_PATH")
        .current_dir(folder.path())
        .args(["serve", "--bundle", "bundle", "--device", "cann:0", "--listen", "127.0.0.1:0"])
        .output()
        .unwrap();
    let by_serve = refusal(&output, folder.path());
    for said in [by_generate, by_serve] {
        println!("{said}");
        assert!(
            said.starts_with("error: device `cann:0` can't be used: libascendcl.so: cannot open"),
            "{said}"
        );
        assert!(said.contains("install CANN and source its `set_env.sh`"), "{said}");
    }
}

#[test]
fn the_cpu_build_of_onnx_runtime_is_told_from_the_one_for_ascend() {
    let folder = bundle();
    let machine = Machine::new();
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join(".cache/onnxruntime/libonnxruntime.so");
    let output = generate(&machine, folder.path(), |command| {
        command.arg("--onnxruntime").arg(&library);
    });
    let said = refusal(&output, folder.path());
    assert!(
        said.contains("libonnxruntime_providers_cann.so") && said.contains("make setup-ascend"),
        "{said}"
    );
}

#[test]
fn a_device_that_is_not_there_is_refused() {
    let folder = bundle();
    let output = generate(&Machine::new(), folder.path(), |command| {
        command.args(["--device", "cann:7"]);
    });
    let said = refusal(&output, folder.path());
    assert!(said.contains("device `cann:7` can't be used") && said.contains("npu-smi info"), "{said}");
}

#[test]
#[ignore = "runs on the emulator, started by the test below"]
fn part_second_device() {
    let _first = engine(DeviceOptions::default());
    // The same again is the same device.
    let _again = engine(DeviceOptions::default());
    let runtime =
        Runtime::load(&RuntimeOptions { device: Device::Cann(0), ..RuntimeOptions::default() }).unwrap();
    let Err(error) = Engine::open(runtime, Device::Cann(1)) else { panic!("a second device was opened") };
    assert!(matches!(error, EngineError::Device { device: Device::Cann(1), .. }), "{error}");
    assert!(error.to_string().contains("start another process"), "{error}");
}

#[test]
fn a_process_has_one_device() {
    let machine = Machine::new();
    machine.run_part("faults::part_second_device", &[("CANN_EMULATOR_DEVICES", "2".into())]);
}
