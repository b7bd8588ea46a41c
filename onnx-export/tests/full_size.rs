//! The real size: every name and shape of Wan2.2-I2V-A14B, and blocks of its real width with their values.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

mod support;
#[path = "../examples/full-size/tree.rs"]
mod tree;
#[path = "../examples/full-size/values.rs"]
mod values;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use onnx_export::bundle::{Bundle, Dtype};
use onnx_export::export::{ExportError, ExportOptions, Plan};
use onnx_export::models::Net;
use onnx_export::weights::values::widen;
use tree::{RANK, Recipe};

fn plan(root: &Path) -> Plan {
    Plan::check(&ExportOptions { dtype: Dtype::F16, ..support::options(root) }).unwrap()
}

#[test]
fn the_full_size_checkpoints_are_planned_from_their_headers() {
    let recipe = Recipe::full_size();
    let adapter = recipe.adapter();
    assert_eq!(adapter.len(), 800);
    assert_eq!(adapter.iter().map(|t| t.shape.iter().product::<usize>()).sum::<usize>(), 613_416_960);

    let root = tempfile::tempdir().unwrap();
    recipe.write(root.path()).unwrap();
    let plan = plan(root.path());
    let counts: Vec<_> = plan.reports().map(|report| (report.mapped, report.merged)).collect();
    assert_eq!(counts, [(242, 0), (1095, 400), (1095, 400), (194, 0)]);
    let [text, high, low, vae] = plan.nets() else { panic!("there are four nets") };
    // Two bytes for each parameter, and two more for the 4,920,384 that are no matrices.
    let expert = 2 * (14_288_901_184 + 4_920_384);
    assert_eq!((high.bytes(), low.bytes()), (expert, expert));
    assert_eq!((text.dtypes(), vae.dtypes()), (vec![("F16", 145), ("F32", 97)], vec![("F32", 194)]));
    // Four bytes for each of two experts', two adapters', the text encoder's and the autoencoder's parameters.
    let parameters = 2 * 14_288_901_184 + 2 * 613_416_960 + 5_680_910_336 + 126_892_531;
    assert!((4 * parameters..4 * parameters + 2_000_000).contains(&plan.source_bytes()));
    assert!(plan.adapters().iter().all(|facts| (facts.merged, facts.ranks[0]) == (400, RANK)));
    assert_eq!(plan.warnings(), [] as [&str; 0]);

    let out = root.path().join("bundle");
    let (needed, free) = match plan.check_room(&out) {
        Ok(room) => (room.needed, room.free),
        Err(ExportError::Room { needed, free, .. }) => (needed, free),
        Err(e) => panic!("{e}"),
    };
    assert!((plan.bytes()..plan.bytes() + (1 << 30)).contains(&needed) && free > 0);
    assert!(!out.exists());
}

#[test]
fn a_bundle_for_which_there_is_no_room_is_not_begun() {
    // 1000 blocks of holes: over 1.4 TB in f16.
    let root = tempfile::tempdir().unwrap();
    Recipe { blocks: 1000, text_layers: 1, vocabulary: 256, ..Recipe::full_size() }
        .write(root.path())
        .unwrap();
    let plan = plan(root.path());
    let out = root.path().join("out/bundle");
    let error = plan.write(&out, &mut |_| {}, &AtomicBool::new(false)).unwrap_err().to_string();
    assert!(error.contains("GB more, and only") && error.contains("make room"), "{error}");
    assert!(!root.path().join("out").exists(), "nothing is written");
}

/// Two blocks as wide as the real ones, of which one has values; 2.6 GB of them go in and 3.7 GB come out.
#[test]
fn blocks_of_full_width_are_merged_in_little_memory() {
    let root = tempfile::tempdir().unwrap();
    let recipe = Recipe {
        blocks: 2,
        text_layers: 1,
        vocabulary: 256,
        filled: 0..1,
        fill_rest: true,
        link_experts: true,
    };
    recipe.write(root.path()).unwrap();
    let plan = plan(root.path());
    let out = root.path().join("bundle");
    let exported = plan.write(&out, &mut |_| {}, &AtomicBool::new(false)).unwrap();
    let peak = peak_memory();
    assert!(peak < 1 << 30, "{peak} bytes at the peak");

    let bundle = Bundle::open(&out).unwrap();
    assert_eq!(
        exported.manifest.files[1].sha256, exported.manifest.files[2].sha256,
        "both experts are the same"
    );
    let weights = bundle.weights(Net::TransformerHigh).unwrap();
    for module in ["blocks.0.ffn.2", "blocks.0.cross_attn.k", "blocks.1.self_attn.o"] {
        let name = format!("{module}.weight");
        let stored = weights.tensor(&name).unwrap();
        let (rows, columns) = (stored.shape[0], stored.shape[1]);
        let mut merged = vec![0.0; rows * columns];
        widen(stored.dtype, stored.bytes, &mut merged);
        let factor = |factor: &str, shape: [usize; 2]| {
            let mut values = vec![0.0; shape[0] * shape[1]];
            values::fill(&format!("base_model.model.{module}.lora_{factor}.weight"), &shape, 0, &mut values);
            values
        };
        let (a, b) = (factor("A", [RANK, columns]), factor("B", [rows, RANK]));
        for row in [0, 1, 818, 819, rows - 1] {
            let mut base = vec![0.0; columns];
            if module.starts_with("blocks.0.") {
                values::fill(&name, stored.shape, row * columns, &mut base);
            }
            for column in [0, 77, columns - 1] {
                let product: f64 = (0..RANK)
                    .map(|k| f64::from(b[row * RANK + k]) * f64::from(a[k * columns + column]))
                    .sum();
                let exact = f64::from(base[column]) + (RANK as f64).sqrt() * product;
                let error = (f64::from(merged[row * columns + column]) - exact).abs();
                assert!(
                    error <= exact.abs() * 2f64.powi(-11) + 1e-7,
                    "{name} [{row}, {column}]: off by {error}"
                );
            }
        }
    }
}

/// The largest resident set of this process so far, in bytes, mapped files included.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}
