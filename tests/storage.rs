//! The data directory: whole files or none, by hash and id, and nothing outside.

#![allow(clippy::unwrap_used, reason = "a test that fails here says where")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use common::queue::publish;
use proptest::prelude::*;
use storymem::storage::{Digest, Storage};
use tempfile::TempDir;
use uuid::Uuid;

fn open() -> (TempDir, Storage) {
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::open(&folder.path().join("deep/data")).unwrap();
    (folder, storage)
}

/// Every file below a folder, by its path from there.
fn files(root: &Path) -> BTreeSet<PathBuf> {
    fn walk(folder: &Path, root: &Path, found: &mut BTreeSet<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => walk(&path, root, found),
                false => drop(found.insert(path.strip_prefix(root).unwrap().to_owned())),
            }
        }
    }
    let mut found = BTreeSet::new();
    walk(root, root, &mut found);
    found
}

#[test]
fn an_input_is_found_by_the_hash_of_its_bytes() {
    let (folder, storage) = open();
    let digest = storage.put_input(b"abc").unwrap();
    assert_eq!(digest.as_str(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(storage.input(&digest).unwrap(), b"abc");
    assert_eq!(storage.put_input(b"abc").unwrap(), digest);
    let path = format!("deep/data/inputs/ba/{digest}");
    assert_eq!(files(folder.path()), BTreeSet::from([PathBuf::from(path)]));
    let missing = storage.input(&Digest::of(b"another")).unwrap_err().to_string();
    assert!(missing.starts_with("can't read `"), "{missing}");
}

#[test]
fn many_writers_of_the_same_bytes_agree() {
    let (folder, storage) = open();
    let bytes = vec![7; 100_000];
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(storage.put_input(&bytes).unwrap(), Digest::of(&bytes)));
        }
    });
    assert_eq!(files(folder.path()).len(), 1, "nothing is left in tmp");
    assert_eq!(storage.input(&Digest::of(&bytes)).unwrap(), bytes);
}

#[test]
fn a_result_appears_whole_or_not_at_all() {
    let (folder, storage) = open();
    let (job, token) = (Uuid::now_v7(), Uuid::now_v7());
    let staged = storage.stage_result(job, token).unwrap();
    fs::write(staged.video(), b"half").unwrap();
    assert!(!storage.video(job, token).exists(), "it is not there before it is published");
    drop(staged);
    assert!(files(folder.path()).is_empty(), "what is not published is removed");

    let staged = storage.stage_result(job, token).unwrap();
    fs::write(staged.video(), b"a video").unwrap();
    let error = staged.publish().unwrap_err().to_string();
    assert!(error.contains("thumbnail.jpg"), "a result without its thumbnail is no result: {error}");
    assert!(files(folder.path()).is_empty());

    publish(&storage, job, token, b"a video", b"a frame");
    assert_eq!(fs::read(storage.video(job, token)).unwrap(), b"a video");
    assert_eq!(fs::read(storage.thumbnail(job, token)).unwrap(), b"a thumbnail");
    assert_eq!(fs::read(storage.last_frame(job, token)).unwrap(), b"a frame");
    assert_eq!(files(folder.path()).len(), 3, "nothing is left in tmp");
}

#[test]
fn attempts_do_not_touch_one_anothers_results() {
    let (_folder, storage) = open();
    let job = Uuid::now_v7();
    let tokens = [Uuid::now_v7(), Uuid::now_v7()];
    for token in tokens {
        publish(&storage, job, token, token.as_bytes(), b"");
    }
    storage.remove_result(job, tokens[0]).unwrap();
    storage.remove_result(job, tokens[0]).unwrap();
    assert!(!storage.video(job, tokens[0]).exists());
    assert_eq!(fs::read(storage.video(job, tokens[1])).unwrap(), tokens[1].as_bytes());
    storage.remove_results(job).unwrap();
    storage.remove_results(job).unwrap();
    assert!(!storage.video(job, tokens[1]).exists());
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a file");
    fs::write(&file, b"").unwrap();
    let error = Storage::open(&file).unwrap_err().to_string();
    assert!(error.contains("a file"), "{error}");
}

proptest! {
    // Each case syncs files to the disk.
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn only_a_digest_is_a_digest(text in "[0-9a-fA-F./\\\\]{0,70}") {
        let valid = text.len() == 64 && text.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
        prop_assert_eq!(Digest::parse(&text).is_some(), valid);
    }

    #[test]
    fn any_bytes_come_back(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let (_folder, storage) = open();
        let digest = storage.put_input(&bytes).unwrap();
        prop_assert_eq!(storage.input(&digest).unwrap(), bytes);
        prop_assert_eq!(Digest::parse(digest.as_str()), Some(digest));
    }
}

#[test]
fn nothing_new_is_kept_below_the_floor_and_what_is_there_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::open(folder.path()).unwrap();
    let digest = storage.put_input(b"an image").unwrap();
    let before = files(folder.path());
    let space = storage.space().unwrap();
    assert!(space.free <= space.size && space.size > 0, "{space:?}");
    storage.clone().with_floor(1).check_room().unwrap();

    let full = storage.with_floor(u64::MAX);
    let (job, token) = (Uuid::now_v7(), Uuid::now_v7());
    for error in [
        full.check_room().unwrap_err(),
        full.put_input(b"another image").unwrap_err(),
        full.put_checkpoint(job, token, b"some steps").unwrap_err(),
        full.stage_result(job, token).unwrap_err(),
    ] {
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
    }
    assert_eq!(full.input(&digest).unwrap(), b"an image");
    assert_eq!(files(folder.path()), before);
}

#[test]
fn a_place_is_held_by_one_at_a_time() {
    let (_folder, storage) = open();
    let place = storage.take_place("cann:0").unwrap().unwrap();
    let holder = storage.take_place("cann:0").unwrap().unwrap_err();
    assert_eq!(holder.pid, Some(std::process::id()));
    let other = storage.take_place("cann:1").unwrap().unwrap();
    drop(place);
    storage.take_place("cann:0").unwrap().unwrap();
    drop(other);
}

#[test]
fn what_a_process_was_writing_is_removed_when_it_has_ended() {
    let (folder, storage) = open();
    let data = folder.path().join("deep/data");
    let staged = storage.stage_result(Uuid::now_v7(), Uuid::now_v7()).unwrap();
    fs::write(staged.video(), b"half").unwrap();
    // As a killed process leaves it: a folder that nobody has locked.
    let abandoned = data.join("tmp/process-gone");
    fs::create_dir(&abandoned).unwrap();
    fs::write(abandoned.join("checkpoint-abc"), b"half").unwrap();

    let other = Storage::open(&data).unwrap();
    assert!(!abandoned.exists());
    assert!(staged.video().exists(), "a living process keeps what it writes");
    assert_eq!(fs::read_dir(data.join("tmp")).unwrap().count(), 2);
    drop(other);
    assert_eq!(fs::read_dir(data.join("tmp")).unwrap().count(), 1);
}

#[test]
fn a_checkpoint_replaces_those_of_earlier_attempts_and_no_later_one() {
    let (folder, storage) = open();
    let job = Uuid::now_v7();
    let [first, second] = [Uuid::now_v7(), Uuid::now_v7()];
    storage.put_checkpoint(job, first, b"one").unwrap();
    storage.put_checkpoint(job, first, b"two").unwrap();
    assert_eq!(storage.checkpoints(job).unwrap(), [b"two"]);
    storage.put_checkpoint(job, second, b"three").unwrap();
    assert_eq!(storage.checkpoints(job).unwrap(), [b"three"]);
    // The first attempt was only stopped for a while.
    storage.put_checkpoint(job, first, b"late").unwrap();
    assert!(storage.checkpoints(job).unwrap().contains(&b"three".to_vec()));
    storage.remove_checkpoint(job, first).unwrap();
    assert_eq!(storage.checkpoints(job).unwrap(), [b"three"]);

    let path = PathBuf::from(format!("deep/data/checkpoints/{job}/{second}"));
    assert_eq!(files(folder.path()), BTreeSet::from([path.clone()]));
    let path = folder.path().join(path);
    let whole = fs::read(&path).unwrap();
    for n in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[n] ^= 0x10;
        fs::write(&path, &damaged).unwrap();
        assert!(storage.checkpoints(job).unwrap().is_empty(), "byte {n}");
        fs::write(&path, &whole[..n]).unwrap();
        assert!(storage.checkpoints(job).unwrap().is_empty(), "{n} bytes");
    }
    storage.remove_checkpoints(job).unwrap();
    storage.remove_checkpoints(job).unwrap();
    assert!(storage.jobs_with_checkpoints().unwrap().is_empty());
}
