//! Compiled graphs: one for each graph and shape, kept, and never a stale one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::common::{export, fixture};
use super::emulator::{Log, Machine};

/// Makes a shot on the device, in its folder, with paths relative to it.
fn generate(machine: &Machine, folder: &Path, size: &str, flags: &[&str]) -> Log {
    let mut command = Command::new(env!("CARGO_BIN_EXE_storymem"));
    machine.adapt(&mut command);
    let output = command
        .current_dir(folder)
        .args(["generate", "--prompt", "A quiet room", "--bundle", "bundle", "--memory"])
        .arg(fixture("tiny/inputs/memory_0.png"))
        .args(["--size", size, "--frames", "9", "--steps", "2", "--seed", "1", "--device", "cann:0"])
        .args(["--out", "v.mp4"])
        .args(flags)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", super::emulator::stderr(&output));
    assert!(folder.join("v.mp4").exists(), "paths are meant from where the command was started");
    fs::remove_file(folder.join("v.mp4")).unwrap();
    machine.log()
}

/// The names of the graphs that were compiled, without what tells their content.
fn compiled(log: &Log) -> BTreeSet<String> {
    log.calls("aclgrphBuildModel")
        .map(|call| {
            assert_eq!(call["compiles"], 1, "{call}");
            assert_eq!(call["precision_mode"], "must_keep_origin_dtype");
            let name = call["graph"].as_str().unwrap().strip_prefix("CANNExecutionProvider_").unwrap();
            // After the name: the digest of its content, the provider's hash, and the number of the partition.
            let parts: Vec<&str> = name.rsplitn(5, '_').collect();
            assert_eq!(parts[..2], ["0", "0"], "the graph is one partition: {name}");
            parts[4].to_owned()
        })
        .collect()
}

#[test]
fn each_graph_is_compiled_once_for_each_shape_and_never_again() {
    let (machine, folder) = (Machine::new(), tempfile::tempdir().unwrap());
    export("tiny", &folder.path().join("bundle"), "mi2v", true, &["--dtype", "f16"]);
    let all = [
        "umt5_final_norm",
        "umt5_layer",
        "vae_decode_first",
        "vae_decode_next",
        "vae_encode_first",
        "vae_encode_next",
        "wan_block",
        "wan_context",
        "wan_epilogue",
        "wan_keys",
        "wan_prologue",
    ];
    let by_shape = &all[2..];

    let first = generate(&machine, folder.path(), "64x48", &[]);
    assert_eq!(compiled(&first), all.map(str::to_owned).into());
    assert_eq!(first.count("aclgrphBuildModel"), all.len());

    let second = generate(&machine, folder.path(), "64x48", &[]);
    assert_eq!(second.count("aclgrphParseONNXFromMem"), 0);
    assert_eq!(second.count("aclmdlLoadFromFile"), all.len());

    // Another size: the text encoder and the transformer's context know nothing of it.
    let other = generate(&machine, folder.path(), "48x64", &[]);
    // Of two sizes of one area all is the same that treats tokens alike.
    let same = ["wan_context", "wan_keys", "wan_block", "wan_epilogue"];
    let expected: BTreeSet<String> =
        by_shape.iter().filter(|&name| !same.contains(name)).map(|&name| name.to_owned()).collect();
    assert_eq!(compiled(&other), expected);

    // Written in another way, they are other graphs, in another folder.
    let chunked = generate(&machine, folder.path(), "64x48", &["--attention", "chunked:16"]);
    assert_eq!(compiled(&chunked).len(), all.len());
}

#[test]
fn another_bundle_of_the_same_nets_has_nothing_to_compile() {
    let (machine, folder) = (Machine::new(), tempfile::tempdir().unwrap());
    let bundle = folder.path().join("bundle");
    export("tiny", &bundle, "mi2v", true, &["--dtype", "f16"]);
    generate(&machine, folder.path(), "64x48", &[]);
    fs::remove_dir_all(&bundle).unwrap();
    export("tiny", &bundle, "mi2v", false, &["--dtype", "f16"]);
    assert_eq!(generate(&machine, folder.path(), "64x48", &[]).count("aclgrphBuildModel"), 0);
}

/// Constants are no part of the provider's key, so they have to be part of the graph's name: nets that differ in an
/// epsilon alone must not get each other's compiled graphs.
#[test]
fn a_net_that_differs_in_a_constant_alone_is_compiled_anew() {
    let (machine, folder) = (Machine::new(), tempfile::tempdir().unwrap());
    let mut manifest = onnx_export::demo::manifest();
    let bundle = folder.path().join("bundle");
    onnx_export::demo::write_like(&bundle, manifest.clone()).unwrap();
    generate(&machine, folder.path(), "64x48", &[]);
    fs::remove_dir_all(&bundle).unwrap();
    manifest.nets.transformer.eps = 1e-5;
    onnx_export::demo::write_like(&bundle, manifest).unwrap();
    let again = generate(&machine, folder.path(), "64x48", &[]);
    assert_eq!(compiled(&again), ["wan_block", "wan_epilogue", "wan_keys"].map(str::to_owned).into());
}

#[test]
fn a_chip_of_another_kind_has_graphs_of_its_own() {
    let (machine, folder) = (Machine::new(), tempfile::tempdir().unwrap());
    export("tiny", &folder.path().join("bundle"), "mi2v", true, &["--dtype", "f16"]);
    generate(&machine, folder.path(), "64x48", &[]);
    let before = machine.compiled().len();
    let mut command = Command::new(env!("CARGO_BIN_EXE_storymem"));
    machine.adapt(&mut command);
    let status = command
        .env("CANN_EMULATOR_SOC", "Ascend910B4")
        .current_dir(folder.path())
        .args(["generate", "--prompt", "A quiet room", "--bundle", "bundle", "--memory"])
        .arg(fixture("tiny/inputs/memory_0.png"))
        .args(["--size", "64x48", "--frames", "9", "--steps", "2", "--device", "cann:0", "--out", "v.mp4"])
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(machine.compiled().len(), 2 * before);
}
