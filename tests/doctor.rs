//! `storymem doctor` as a user types it: on machines that can do the work, and on ones that can't.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/mod.rs"]
mod common;
#[path = "cann/emulator.rs"]
#[allow(dead_code, reason = "each test binary uses its own part")]
mod emulator;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::export;
use emulator::Machine;
use tempfile::TempDir;

/// A folder with a bundle in it.
fn bundle() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    export("tiny", &folder.path().join("bundle"), "mi2v", true, &["--dtype", "f16"]);
    folder
}

fn doctor(folder: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_storymem"));
    command.arg("doctor").arg("--bundle").arg(folder.join("bundle"));
    command.arg("--data-dir").arg(folder.join("data")).args(flags);
    command
}

/// The exit code and all that was said.
fn run(command: &mut Command) -> (i32, String) {
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(said).unwrap())
}

/// Expects a problem with `name`, whose line has `text`.
fn expect_problem(command: &mut Command, name: &str, text: &str) {
    let (code, said) = run(command);
    let begin = format!("problem  {name}: ");
    let line = said.lines().find(|line| line.starts_with(&begin));
    assert!(line.is_some_and(|line| line.contains(text)), "no problem with {name} that says {text}:\n{said}");
    assert!(code == 1 && said.contains("error: not ready: ") && !said.contains("\nready"), "{code}:\n{said}");
}

#[test]
fn a_machine_that_can_do_the_work_is_ready() {
    let folder = bundle();
    let (code, said) = run(&mut doctor(folder.path(), &["--verify", "--plan"]));
    assert_eq!(code, 0, "{said}");
    for text in [
        "ok       ONNX Runtime: 1.",
        "ok       device: `cpu`",
        "ok       bundle's files: all ",
        "ok       graphs: CANN's front end knows all ",
        "moved a step",
        "ready: `storymem serve --bundle ",
    ] {
        assert!(said.contains(text), "no {text}:\n{said}");
    }
    assert!(!folder.path().join("data").exists(), "checking makes nothing");
}

#[test]
fn without_a_bundle_the_plan_is_the_full_size_models() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_storymem"));
    command.arg("doctor").arg("--data-dir").arg(folder.path().join("data"));
    command.args(["--plan", "--device-memory", "24GiB"]);
    let (code, said) = run(&mut command);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("plan for 832x480x81x10 in 24.00 GiB"), "{said}");
    let columns = said.lines().find(|line| line.contains("layers staying")).unwrap();
    for column in ["weights there", "moved a step", "activations", "largest", "graphs", "in all", "at least"]
    {
        assert!(columns.contains(column), "{columns}");
    }
    // An expert has 26.6 GiB of weights: some of its blocks pass through.
    let transformer = said.lines().find(|line| line.trim_start().starts_with("transformer")).unwrap();
    assert!(!transformer.contains("40 of 40") && transformer.contains(" of 40"), "{transformer}");
    assert!(said.contains("device memory: 832x480x81x10 fits into 24.00 GiB; some layers pass"), "{said}");
}

#[test]
fn what_is_wrong_is_named_with_its_remedy() {
    let folder = bundle();
    let path = folder.path();
    fs::write(path.join("file"), "").unwrap();
    let below_a_file = path.join("file/data").display().to_string();
    let shot = "64x48x9x2";
    for (flags, name, text) in [
        (["--onnxruntime", "/nowhere/libonnxruntime.so"].as_slice(), "ONNX Runtime", "set ORT_DYLIB_PATH"),
        (&["--data-dir", &below_a_file], "data folder", "name another folder"),
        (&["--profile", "64x48x9x11"], "graphs", "the bundle takes up to 10"),
        (&["--profile", shot, "--device-memory", "1MiB"], "device memory", "raise `--device-memory`"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_storymem"));
        command.arg("doctor").arg("--bundle").arg(path.join("bundle")).args(flags);
        expect_problem(&mut command, name, text);
    }
    let elsewhere = tempfile::tempdir().unwrap();
    expect_problem(
        &mut doctor(elsewhere.path(), &[]),
        "bundle",
        "name a folder that `storymem export` wrote",
    );
}

#[test]
fn a_damaged_file_is_found_by_reading_it() {
    let folder = bundle();
    let file = folder.path().join("bundle/weights/vae.safetensors");
    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(file, bytes).unwrap();
    assert_eq!(run(&mut doctor(folder.path(), &[])).0, 0, "its size is as it was");
    expect_problem(
        &mut doctor(folder.path(), &["--verify"]),
        "bundle's files",
        "`weights/vae.safetensors` has another content",
    );
}

#[test]
fn an_npu_is_taken_into_use() {
    let (folder, machine) = (bundle(), Machine::new());
    let mut command = doctor(folder.path(), &["--device", "cann:0", "--device-memory", "40GiB"]);
    machine.adapt(&mut command);
    let (code, said) = run(&mut command);
    assert_eq!(code, 0, "{said}");
    for text in [
        "ok       devices: ",
        "ok       device: `cann:0` is Ascend910B2, with 64.00 GiB of 64.00 GiB free; 40.00 GiB may be taken",
        "ok       compiled graphs: ",
        "ok       device memory: 832x480x81x10 fits into 40.00 GiB",
        "--device cann:0`",
    ] {
        assert!(said.contains(text), "no {text}:\n{said}");
    }
}

#[test]
fn why_an_npu_cant_be_used_is_said() {
    let (folder, machine) = (bundle(), Machine::new());
    let command = |device: &str| {
        let mut command = doctor(folder.path(), &["--device", device]);
        machine.adapt(&mut command);
        command
    };
    expect_problem(&mut command("cann:3"), "device", "`npu-smi info` lists them");
    expect_problem(command("cann:0").env("CANN_EMULATOR_DEVICES", "0"), "devices", "`/dev/davinciN`");
    let mut without = command("cann:0");
    without.env_remove("LD_LIBRARY_PATH");
    expect_problem(&mut without, "CANN", "`set_env.sh`");
    expect_problem(&mut without, "CANN", "libascendcl.so");
    let cpu = Path::new(env!("CARGO_MANIFEST_DIR")).join(".cache/onnxruntime/libonnxruntime.so");
    expect_problem(command("cann:0").env("ORT_DYLIB_PATH", cpu), "device", "`make setup-ascend`");
}
