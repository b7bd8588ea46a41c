//! Films: many videos in one, by copying their samples.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mp4_atom::{Any, DecodeMaybe, Moov};
use serde_json::{Value, json};
use storymem::pipeline::{Frames, Size};
use storymem::storage::Digest;
use storymem::video::{VideoError, join, read_frames, write_mp4};
use tempfile::TempDir;

const SIZE: Size = Size { width: 96, height: 64 };

/// A slope of light that moves, in a colour of its own for each video.
fn moving(size: Size, count: usize, colour: u8) -> Frames {
    let pixel = |t: usize, x: usize, y: usize| [(x * 2 + t * 3) as u8, (y * 3 + t) as u8, colour];
    let Size { width, height } = size;
    let all = (0..count).flat_map(|t| (0..height).flat_map(move |y| (0..width).map(move |x| (t, x, y))));
    Frames { size, rgb: all.flat_map(|(t, x, y)| pixel(t, x, y)).collect() }
}

/// Noise does not fit the usual quantiser: the encoder restarts midway with a coarser one.
fn noise(count: usize) -> Frames {
    let mut random = fastrand::Rng::with_seed(5);
    let rgb = (0..count * SIZE.width * SIZE.height * 3).map(|_| random.u8(..)).collect();
    Frames { size: SIZE, rgb }
}

fn written(folder: &TempDir, name: &str, frames: &Frames, fps: u32) -> PathBuf {
    let path = folder.path().join(name);
    write_mp4(&path, frames, fps).unwrap();
    path
}

fn moov(path: &Path) -> Moov {
    let file = fs::read(path).unwrap();
    let mut rest = &file[..];
    let mut next = || Any::decode_maybe(&mut rest).unwrap();
    let (Some(Any::Ftyp(_)), Some(Any::Moov(moov)), Some(Any::Mdat(_)), None) =
        (next(), next(), next(), next())
    else {
        panic!("the file is not `ftyp`, `moov`, `mdat`");
    };
    moov
}

/// What FFmpeg sees.
fn decoded_independently(path: &Path) -> Value {
    let python = std::env::var_os("STORYMEM_PYTHON").expect("`make test` sets `STORYMEM_PYTHON`");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/check_mp4.py");
    let output = Command::new(python).arg(script).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_film_is_its_videos_one_after_the_other() {
    let folder = TempDir::new().unwrap();
    let videos = [moving(SIZE, 40, 10), noise(3), moving(SIZE, 1, 90), moving(SIZE, 33, 200)];
    let parts: Vec<_> = videos
        .iter()
        .enumerate()
        .map(|(n, video)| written(&folder, &format!("{n}.mp4"), video, 16))
        .collect();
    let film = folder.path().join("film.mp4");
    let facts = join(&film, &parts).unwrap();
    let bytes = fs::read(&film).unwrap();
    assert_eq!((facts.frames, facts.fps, facts.bytes), (77, 16, bytes.len() as u64));
    assert_eq!(facts.sha256, Digest::of(&bytes).as_str());
    join(&film, &parts).unwrap();
    assert!(fs::read(&film).unwrap() == bytes, "the same videos give the same bytes");

    let apart: Vec<u8> = parts.iter().flat_map(|part| read_frames(part).unwrap().rgb).collect();
    assert!(read_frames(&film).unwrap().rgb == apart, "nothing is coded anew");

    // Exact times, on one clock, and every video begins where it can be sought.
    let moov = moov(&film);
    let track = &moov.trak[0];
    assert_eq!((moov.mvhd.timescale, moov.mvhd.duration, track.mdia.mdhd.duration), (16_000, 77_000, 77_000));
    let runs: Vec<_> =
        track.mdia.minf.stbl.stts.entries.iter().map(|run| (run.sample_count, run.sample_delta)).collect();
    assert_eq!(runs, [(77, 1000)]);
    let seen = decoded_independently(&film);
    assert_eq!(
        (&seen["frames"], &seen["rate"], &seen["duration"]),
        (&json!(77), &json!("16"), &json!("77/16"))
    );
    for (n, time) in seen["times"].as_array().unwrap().iter().enumerate() {
        let (over, under) = time.as_str().unwrap().split_once('/').unwrap_or((time.as_str().unwrap(), "1"));
        let time = over.parse::<f64>().unwrap() / under.parse::<f64>().unwrap();
        assert_eq!(time, n as f64 / 16.0);
    }
    let keys: Vec<u64> =
        seen["key_frames"].as_array().unwrap().iter().map(|key| key.as_u64().unwrap()).collect();
    for first in [0, 40, 43, 44] {
        assert!(keys.contains(&first), "{first}: {keys:?}");
    }
    let sync: Vec<u64> =
        track.mdia.minf.stbl.stss.iter().flat_map(|stss| &stss.entries).map(|&n| u64::from(n) - 1).collect();
    assert_eq!(sync, keys);
}

#[test]
fn videos_of_several_kinds_are_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let first = written(&folder, "first.mp4", &moving(SIZE, 5, 0), 16);
    let film = folder.path().join("film.mp4");
    let taller = Size { height: 80, ..SIZE };
    for (other, what) in [
        (written(&folder, "taller.mp4", &moving(taller, 5, 0), 16), "size"),
        (written(&folder, "faster.mp4", &moving(SIZE, 5, 0), 24), "frame rate"),
    ] {
        let error = join(&film, &[&first, &first, &other]).unwrap_err();
        assert!(matches!(&error, VideoError::Unlike { path, .. } if *path == other), "{error:?}");
        assert!(error.to_string().contains(what), "{error}");
    }
    let damaged = folder.path().join("damaged.mp4");
    let whole = fs::read(&first).unwrap();
    for length in [0, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(&damaged, &whole[..length]).unwrap();
        let error = join(&film, &[&first, &damaged]).unwrap_err();
        assert!(
            matches!(&error, VideoError::Unreadable { path, .. } if *path == damaged),
            "{length}: {error:?}"
        );
    }
    let missing = folder.path().join("missing.mp4");
    assert!(matches!(join(&film, &[&first, &missing]), Err(VideoError::Io { .. })));
    assert!(matches!(join(&film, &[] as &[&Path]), Err(VideoError::NoFrames)));
    assert!(!film.exists(), "and nothing is left behind");
}
