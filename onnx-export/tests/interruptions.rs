//! An export that is stopped or killed is gone on with, and what it left is not believed before it is checked.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use onnx_export::bundle::{Bundle, Dtype};
use onnx_export::export::{ExportError, Exported, Plan, Stage};
use onnx_export::models::Net;
use support::Tree;

const KILLED: &str = "STORYMEM_TEST_KILLED_EXPORT";

/// Exports until tensor `tensors` of the low-noise expert comes, then stops.
fn stop_at(tree: &Tree, tensors: usize) -> ExportError {
    let stop = AtomicBool::new(false);
    let at = |net, done| net == Net::TransformerLow && done == tensors;
    Plan::check(&tree.options)
        .unwrap()
        .write(
            &tree.out(),
            &mut |progress| stop.store(at(progress.net, progress.tensors), Ordering::Relaxed),
            &stop,
        )
        .unwrap_err()
}

fn partial(tree: &Tree) -> PathBuf {
    tree.path("out/.bundle.partial")
}

/// Tensors of each net that were there already.
fn kept(exported: &Exported) -> Vec<usize> {
    exported.nets.iter().map(|net| net.kept).collect()
}

/// Digests of all files of a bundle but the manifest, and of its sources under their names.
fn digests(tree: &Tree, exported: &Exported) -> BTreeMap<String, String> {
    let manifest = &exported.manifest;
    let root = tree.path("").display().to_string();
    let all = manifest.files.iter().chain(&manifest.sources);
    all.map(|file| (file.path.replace(&root, ""), file.sha256.clone())).collect()
}

fn whole() -> BTreeMap<String, String> {
    let tree = Tree::new();
    digests(&tree, &tree.export().unwrap())
}

#[test]
fn a_stopped_export_goes_on_where_it_was() {
    let whole = whole();
    // Before the first tensor, within, at the last.
    for tensors in [0, 1, 30, 68] {
        let tree = Tree::new();
        let error = stop_at(&tree, tensors);
        let ExportError::Paused { kept: bytes, total, partial: named } = &error else { panic!("{error}") };
        assert!(*bytes > 0 && bytes < total && *named == partial(&tree));
        assert!(error.to_string().contains("the same command goes on there"), "{error}");
        assert!(!tree.out().exists(), "half a bundle has no name");

        let mut seen = Vec::new();
        let plan = Plan::check(&tree.options).unwrap();
        let mut last = 0;
        let exported = plan
            .write(
                &tree.out(),
                &mut |progress| {
                    assert!(progress.bytes >= last && progress.bytes <= progress.total);
                    last = progress.bytes;
                    seen.push((progress.net, progress.stage));
                },
                &AtomicBool::new(false),
            )
            .unwrap();
        assert_eq!(kept(&exported), [22, 69, tensors, 0]);
        assert!(seen.contains(&(Net::TransformerHigh, Stage::Checking)));
        assert!(!seen.contains(&(Net::TransformerHigh, Stage::Writing)));
        assert_eq!(last, plan.bytes());
        assert_eq!(digests(&tree, &exported), whole, "stopped at tensor {tensors}");
        assert!(!partial(&tree).exists());
        Bundle::open(&tree.out()).unwrap();
    }
}

#[test]
fn one_that_had_nothing_to_keep_leaves_nothing() {
    let tree = Tree::new();
    let error = Plan::check(&tree.options).unwrap().write(&tree.out(), &mut |_| {}, &AtomicBool::new(true));
    assert!(matches!(error, Err(ExportError::Stopped)), "{error:?}");
    assert_eq!(std::fs::read_dir(tree.path("out")).unwrap().count(), 0);
}

#[test]
fn what_does_not_match_its_digest_is_made_again() {
    let whole = whole();
    let file = |tree: &Tree, net: &str| partial(tree).join(format!("bundle/weights/{net}.safetensors"));
    let open = |path: PathBuf| std::fs::File::options().write(true).open(path).unwrap();
    type Case<'a> = (&'a str, &'a dyn Fn(&Tree), [usize; 4]);
    let changes: [Case<'_>; 5] = [
        (
            "a byte",
            &|tree| open(file(tree, "transformer_high")).write_all_at(&[0x55], 20_000).unwrap(),
            [22, 0, 30, 0],
        ),
        ("the end", &|tree| open(file(tree, "transformer_low")).set_len(9_000).unwrap(), [22, 69, 0, 0]),
        ("a file", &|tree| std::fs::remove_file(file(tree, "text_encoder")).unwrap(), [0, 69, 30, 0]),
        (
            "the journal",
            &|tree| std::fs::write(partial(tree).join("journal.json"), "{").unwrap(),
            [0, 0, 0, 0],
        ),
        (
            "more than is known to be there",
            &|tree| {
                let low = open(file(tree, "transformer_low"));
                let end = low.metadata().unwrap().len();
                low.write_all_at(&[0x55; 70_000], end).unwrap();
            },
            [22, 69, 30, 0],
        ),
    ];
    for (what, change, expected) in changes {
        let tree = Tree::new();
        stop_at(&tree, 30);
        change(&tree);
        let exported = tree.export().unwrap();
        assert_eq!(kept(&exported), expected, "{what}");
        assert_eq!(digests(&tree, &exported), whole, "{what}");
    }
}

#[test]
fn what_was_begun_for_something_else_is_not_gone_on_with() {
    let source = "base_i2v/high_noise_model/diffusion_pytorch_model-00001-of-00002.safetensors";
    type Case<'a> = (&'a str, &'a dyn Fn(&mut Tree));
    let changes: [Case<'_>; 4] = [
        ("another type", &|tree| tree.options.dtype = Dtype::Bf16),
        ("another scale", &|tree| tree.options.lora_scale = "plain".parse().unwrap()),
        ("no adapter", &|tree| tree.options.lora = None),
        ("a source with other values", &|tree| {
            tree.edit(source, |tensors| tensors.values_mut().for_each(|tensor| tensor.values[0] += 1.0));
        }),
    ];
    for (what, change) in changes {
        let mut tree = Tree::new();
        stop_at(&tree, 30);
        change(&mut tree);
        assert_eq!(kept(&tree.export().unwrap()), [0, 0, 0, 0], "{what}");
        assert!(!partial(&tree).exists());
    }
}

#[test]
fn a_source_that_changes_meanwhile_is_noticed() {
    let tree = Tree::new();
    let plan = Plan::check(&tree.options).unwrap();
    let source = tree.path("storymem/Wan2.2-MI2V-A14B/backbone_low_noise.safetensors");
    let file = std::fs::File::options().append(true).open(source).unwrap();
    let error = plan
        .write(
            &tree.out(),
            &mut |_| file.set_modified(std::time::UNIX_EPOCH).unwrap(),
            &AtomicBool::new(false),
        )
        .unwrap_err()
        .to_string();
    assert!(error.contains("backbone_low_noise") && error.contains("changed during the export"), "{error}");
    assert_eq!(std::fs::read_dir(tree.path("out")).unwrap().count(), 0);
}

#[test]
fn two_exports_of_one_bundle_do_not_meet() {
    let tree = Tree::new();
    let mut second = None;
    let plan = Plan::check(&tree.options).unwrap();
    plan.write(&tree.out(), &mut |_| second = Some(tree.export()), &AtomicBool::new(false)).unwrap();
    let error = second.unwrap().unwrap_err().to_string();
    assert!(error.contains("another export is writing"), "{error}");
    Bundle::open(&tree.out()).unwrap();
}

#[test]
fn a_killed_export_is_gone_on_with() {
    let tree = Tree::new();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_export_that_is_killed", "--nocapture"])
        .env(KILLED, tree.path(""))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.map(Result::unwrap).find(|line| line.contains("low-noise expert begun")).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(partial(&tree).exists() && !tree.out().exists());

    let exported = tree.export().unwrap();
    assert_eq!(kept(&exported), [22, 69, 0, 0]);
    assert_eq!(digests(&tree, &exported), whole());
    assert!(!partial(&tree).exists());
}

/// The child of [`a_killed_export_is_gone_on_with`]; by itself it has nothing to do.
#[test]
fn the_export_that_is_killed() {
    let Some(root) = std::env::var_os(KILLED) else { return };
    let options = support::options(Path::new(&root));
    let wait = |progress: onnx_export::export::Progress| {
        if progress.net == Net::TransformerLow {
            println!("low-noise expert begun");
            loop {
                std::thread::park();
            }
        }
    };
    let out = Path::new(&root).join("out/bundle");
    Plan::check(&options)
        .unwrap()
        .write(&out, &mut |progress| wait(progress), &AtomicBool::new(false))
        .unwrap();
}
