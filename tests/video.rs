//! Videos and pictures as others see them: the boxes through `mp4-atom`, the frames through FFmpeg and our own reader.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::Command;

use mp4_atom::{Any, Avc1, Codec, Colr, DecodeMaybe, Ftyp, Moov, StszSamples, SttsEntry};
use proptest::prelude::*;
use serde_json::json;
use sha2::{Digest, Sha256};
use storymem::pipeline::{Frames, Size};
use storymem::video::{self, DEFAULT_FPS, Mp4Writer, VideoError, read_frames, write_mp4};
use tempfile::TempDir;

const HD: Size = Size { width: 832, height: 480 };
const SMALL: Size = Size { width: 96, height: 64 };
/// Neither side a multiple of 16: cropped in the SPS.
const CROPPED: Size = Size { width: 100, height: 60 };
const TINY: Size = Size { width: 16, height: 16 };

/// A white noise that is the same everywhere.
fn hash(seed: usize) -> u8 {
    let mixed = (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 56) as u8
}

fn frames(size: Size, count: usize, pixel: impl Fn(usize, usize, usize) -> [u8; 3]) -> Frames {
    let mut rgb = Vec::with_capacity(count * size.width * size.height * 3);
    for t in 0..count {
        for y in 0..size.height {
            for x in 0..size.width {
                rgb.extend(pixel(t, x, y));
            }
        }
    }
    Frames { size, rgb }
}

/// Film-like: smooth light, fine texture that moves, a hard-edged disc that moves against it, grain.
fn film(size: Size, count: usize) -> Frames {
    let Size { width, height } = size;
    frames(size, count, |t, x, y| {
        let (fx, fy, ft) = (x as f32, y as f32, t as f32);
        let light = 90.0
            + 60.0 * (fx / width as f32 * 3.0 + ft * 0.02).sin()
            + 30.0 * (fy / height as f32 * 5.0).cos();
        let texture = 14.0 * ((fx + 1.5 * ft) * 0.9).sin() * ((fy - ft) * 0.7).cos()
            + 8.0 * ((fx - fy + ft) * 0.35).sin();
        let (dx, dy) = (fx - width as f32 * (0.3 + 0.004 * ft), fy - height as f32 * 0.5);
        let disc = if dx * dx + dy * dy < (height * height) as f32 / 16.0 { 55.0 } else { 0.0 };
        let grain = f32::from(hash((t * height + y) * width + x)) / 255.0 * 6.0 - 3.0;
        let level = light + texture + grain;
        [level + disc, level * 0.85 + 12.0, level * 0.6 + 40.0 - disc * 0.5].map(|value| value as u8)
    })
}

fn noise(size: Size, count: usize) -> Frames {
    frames(size, count, |t, x, y| [0, 1, 2].map(|c| hash(((t * size.height + y) * size.width + x) * 3 + c)))
}

/// Eight columns of the 75 % colour bars.
const BARS: [[u8; 3]; 8] = [
    [191, 191, 191],
    [191, 191, 0],
    [0, 191, 191],
    [0, 191, 0],
    [191, 0, 191],
    [191, 0, 0],
    [0, 0, 191],
    [16, 16, 16],
];

fn bars(size: Size, count: usize) -> Frames {
    frames(size, count, |_, x, _| BARS[x * BARS.len() / size.width])
}

struct Boxes {
    ftyp: Ftyp,
    moov: Moov,
    /// Where the payload of `mdat` begins, and its length.
    mdat: (usize, usize),
}

/// The boxes of a file that must be `ftyp`, `moov`, `mdat` and nothing else.
fn boxes(file: &[u8]) -> Boxes {
    let mut rest = file;
    let mut next = || Any::decode_maybe(&mut rest).unwrap();
    let (Some(Any::Ftyp(ftyp)), Some(Any::Moov(moov)), Some(Any::Mdat(mdat)), None) =
        (next(), next(), next(), next())
    else {
        panic!("the file is not `ftyp`, `moov`, `mdat`");
    };
    Boxes { ftyp, moov, mdat: (file.len() - mdat.data.len(), mdat.data.len()) }
}

fn avc1(moov: &Moov) -> &Avc1 {
    match &moov.trak[0].mdia.minf.stbl.stsd.codecs[..] {
        [Codec::Avc1(avc1)] => avc1,
        other => panic!("{other:?}"),
    }
}

fn write(frames: &Frames, fps: u32) -> (TempDir, Vec<u8>, video::Mp4Facts) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("v.mp4");
    let facts = write_mp4(&path, frames, fps).unwrap();
    assert_eq!(entries(directory.path()), ["v.mp4"]);
    let file = fs::read(path).unwrap();
    (directory, file, facts)
}

fn entries(directory: &Path) -> Vec<String> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// What FFmpeg sees in the video of `frames`.
fn decode_independently(frames: &Frames, fps: u32) -> serde_json::Value {
    let python = std::env::var_os("STORYMEM_PYTHON").expect(
        "`STORYMEM_PYTHON` is not set; run `make test`, which sets it to a Python with tests/python/requirements.txt",
    );
    let (directory, ..) = write(frames, fps);
    let reference = directory.path().join("reference.rgb");
    fs::write(&reference, &frames.rgb).unwrap();
    let output = Command::new(python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/check_mp4.py"))
        .arg(directory.path().join("v.mp4"))
        .arg("--reference")
        .arg(reference)
        .output()
        .expect("`STORYMEM_PYTHON` cannot be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn psnr(a: &[u8], b: &[u8]) -> f64 {
    assert_eq!(a.len(), b.len());
    let squares: f64 = a.iter().zip(b).map(|(&a, &b)| f64::from(a.abs_diff(b)).powi(2)).sum();
    10.0 * (255.0 * 255.0 * a.len() as f64 / squares).log10()
}

#[test]
fn boxes_say_what_players_need() {
    for (size, count, fps) in [
        (SMALL, 81, 16),
        (HD, 5, 16),
        (CROPPED, 49, 24),
        (TINY, 3, 1),
        (Size { width: 480, height: 832 }, 2, 60),
    ] {
        let (_directory, file, facts) = write(&film(size, count), fps);
        let Boxes { ftyp, moov, mdat } = boxes(&file);
        assert!(ftyp.compatible_brands.contains(&b"avc1".into()));

        let avc1 = avc1(&moov);
        let (width, height) = (size.width as u16, size.height as u16);
        assert_eq!((avc1.visual.width, avc1.visual.height), (width, height));
        assert_eq!((avc1.avcc.avc_profile_indication, avc1.avcc.length_size), (100, 4));
        assert_eq!(avc1.colr, Some(Colr::new(1, 1, 1, false).unwrap()));

        let track = &moov.trak[0];
        assert_eq!((track.tkhd.width.integer(), track.tkhd.height.integer()), (width, height));
        assert!(track.tkhd.enabled && track.tkhd.in_movie);
        let (movie, media) = (&moov.mvhd, &track.mdia.mdhd);
        for (timescale, duration) in [(movie.timescale, movie.duration), (media.timescale, media.duration)] {
            assert_eq!(duration * u64::from(fps), count as u64 * u64::from(timescale), "durations are exact");
        }
        assert_eq!(track.tkhd.duration, movie.duration);
        let clocks =
            [movie.creation_time, movie.modification_time, media.creation_time, media.modification_time];
        assert_eq!(clocks, [0; 4], "no clock leaks into the file");

        let table = &track.mdia.minf.stbl;
        let delta = media.timescale / fps;
        assert_eq!(table.stts.entries, [SttsEntry { sample_count: count as u32, sample_delta: delta }]);
        assert!(table.ctts.is_none(), "frames are stored in the order in which they are shown");
        let sync: Vec<u32> = (1..=count as u32).step_by(2 * fps as usize).collect();
        assert_eq!(table.stss.as_ref().unwrap().entries, sync);
        let StszSamples::Different { sizes } = &table.stsz.samples else { panic!("{:?}", table.stsz) };
        assert_eq!(sizes.len(), count);
        assert_eq!(sizes.iter().sum::<u32>() as usize, mdat.1);
        assert_eq!(table.stco.as_ref().unwrap().entries, [mdat.0 as u32]);

        assert_eq!((facts.frames, facts.fps, facts.bytes), (count, fps, file.len() as u64));
        assert_eq!(facts.seconds(), count as f64 / f64::from(fps));
        assert_eq!(facts.sha256, format!("{:x}", Sha256::digest(&file)));
    }
}

#[test]
fn parameter_sets_follow_from_size_and_rate_alone() {
    let sets = |frames: &Frames| {
        let file = write(frames, 16).1;
        avc1(&boxes(&file).moov).avcc.clone()
    };
    let film = sets(&film(SMALL, 3));
    for other in [bars(SMALL, 1), noise(SMALL, 40)] {
        assert_eq!(sets(&other), film);
    }
    assert_ne!(sets(&bars(CROPPED, 1)), film);
}

#[test]
fn levels_fit_the_size() {
    for (size, level) in [(TINY, 10), (SMALL, 12), (HD, 41), (Size { width: 1280, height: 720 }, 41)] {
        let file = write(&bars(size, 1), 16).1;
        assert_eq!(avc1(&boxes(&file).moov).avcc.avc_level_indication, level, "{size}");
    }
}

#[test]
fn the_same_frames_give_the_same_bytes() {
    for frames in [film(SMALL, 35), noise(CROPPED, 35), film(HD, 3)] {
        assert_eq!(write(&frames, 16).1, write(&frames, 16).1);
    }
}

#[test]
fn ffmpeg_sees_every_frame_at_its_time_and_in_its_colours() {
    for (size, fps) in [(SMALL, 16), (CROPPED, 24), (TINY, 16), (HD, 16)] {
        let count = 35;
        let seen = decode_independently(&bars(size, count), fps);
        let times: Vec<String> = (0..count).map(|frame| reduced(frame, fps)).collect();
        let key_frames: Vec<usize> = (0..count).step_by(2 * fps as usize).collect();
        let want = json!({
            "codec": "h264",
            "codec_tag": "avc1",
            "profile": "High",
            "reordered": false,
            "width": size.width,
            "height": size.height,
            "pix_fmt": "yuv420p",
            // FFmpeg's numbers: limited range, and BT.709 for all the rest.
            "color_range": 1,
            "colorspace": 1,
            "color_primaries": 1,
            "color_trc": 1,
            "frame_colorspace": 1,
            "rate": fps.to_string(),
            "duration": reduced(count, fps),
            "frames": count,
            "times": times,
            "key_frames": key_frames,
        });
        for (key, want) in want.as_object().unwrap() {
            assert_eq!(&seen[key], want, "{key} at {size}");
        }
        if size.width < 64 {
            continue; // Bars narrower than a block of chroma are not flat.
        }
        for row in seen["grid"].as_array().unwrap() {
            for (column, pixel) in row.as_array().unwrap().iter().enumerate() {
                let x = 4 + 8 * column;
                let bar = x * BARS.len() / size.width;
                let edge = |x: usize| x.min(size.width - 1) * BARS.len() / size.width;
                if edge(x.saturating_sub(4)) != bar || edge(x + 4) != bar {
                    continue;
                }
                for (got, want) in pixel.as_array().unwrap().iter().zip(BARS[bar]) {
                    let error = got.as_i64().unwrap().abs_diff(want.into());
                    assert!(error <= 3, "{pixel} in bar {bar} {:?} at {size}", BARS[bar]);
                }
            }
        }
    }
}

/// `frames / fps` as Python writes a fraction.
fn reduced(frames: usize, fps: u32) -> String {
    let (mut a, mut b) = (frames, fps as usize);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    match (frames / a, fps as usize / a) {
        (whole, 1) => whole.to_string(),
        (over, under) => format!("{over}/{under}"),
    }
}

#[test]
fn quality_is_near_transparent() {
    for (frames, least) in
        [(film(HD, 17), 45.0), (film(CROPPED, 17), 45.0), (noise(HD, 3), 38.0), (noise(TINY, 3), 38.0)]
    {
        let seen = decode_independently(&frames, DEFAULT_FPS);
        let luma = seen["psnr_luma"].as_f64().unwrap();
        assert!(luma >= least, "{luma} dB at {}", frames.size);
    }
}

#[test]
fn a_cut_to_noise_keeps_every_frame() {
    // Flat, then noise that does not fit the usual quantiser, then flat again: the encoder restarts midway.
    let mut frames = bars(SMALL, 20);
    frames.rgb.extend(noise(SMALL, 5).rgb);
    frames.rgb.extend(bars(SMALL, 25).rgb);
    let seen = decode_independently(&frames, 16);
    assert_eq!(seen["frames"], 50);
    assert_eq!(seen["key_frames"], json!([0, 20, 32]));
    let luma = seen["psnr_luma"].as_f64().unwrap();
    assert!(luma >= 38.0, "{luma} dB");
}

#[test]
fn videos_read_back() {
    for (frames, least) in [(film(HD, 3), 40.0), (film(CROPPED, 40), 38.0), (film(TINY, 3), 30.0)] {
        let (directory, ..) = write(&frames, 16);
        let back = read_frames(&directory.path().join("v.mp4")).unwrap();
        assert_eq!((back.size, back.len()), (frames.size, frames.len()));
        let psnr = psnr(&back.rgb, &frames.rgb);
        assert!(psnr >= least, "{psnr} dB at {}", frames.size);
    }
}

#[test]
fn what_is_no_video_is_refused_by_name() {
    let (directory, file, _) = write(&film(SMALL, 4), 16);
    let path = directory.path().join("damaged.mp4");
    for length in [0, 4, 100, file.len() / 2, file.len() - 1] {
        fs::write(&path, &file[..length]).unwrap();
        let error = read_frames(&path).unwrap_err();
        assert!(matches!(error, VideoError::Unreadable { .. }), "{error:?}");
        assert!(error.to_string().contains("damaged.mp4"), "{error}");
    }
    let error = read_frames(&directory.path().join("missing.mp4")).unwrap_err();
    assert!(matches!(&error, VideoError::Io { path, .. } if path.ends_with("missing.mp4")), "{error:?}");
}

#[test]
fn what_cannot_be_encoded_is_refused_and_leaves_nothing() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("v.mp4");
    let write = |width, height, bytes, fps| {
        let frames = Frames { size: Size { width, height }, rgb: vec![0; bytes] };
        write_mp4(&path, &frames, fps).unwrap_err()
    };
    use VideoError as E;
    let small = 96 * 64 * 3;
    assert!(matches!(write(97, 64, 97 * 64 * 3, 16), E::OddSize(size) if size.width == 97));
    assert!(matches!(write(96, 63, 96 * 63 * 3, 16), E::OddSize(size) if size.height == 63));
    for (width, height) in
        [(0, 0), (96, 0), (14, 64), (96, 14), (3842, 64), (2400, 2400), (usize::MAX, usize::MAX)]
    {
        assert!(matches!(write(width, height, small, 16), E::SizeOutOfRange(_)), "{width}x{height}");
    }
    assert!(matches!(write(96, 64, 0, 16), E::NoFrames));
    for bytes in [1, small - 1, small + 1, 2 * small + 3] {
        assert!(matches!(write(96, 64, bytes, 16), E::FrameLength { got, .. } if got == bytes));
    }
    for fps in [0, 61, u32::MAX] {
        assert!(matches!(write(96, 64, small, fps), E::FrameRate(got) if got == fps));
    }
    let mut writer = Mp4Writer::new(&path, SMALL, 16).unwrap();
    assert!(
        matches!(writer.push(&[0; 5]), Err(E::FrameLength { got: 5, expected, .. }) if expected == small)
    );
    assert_eq!(entries(directory.path()), [""; 0]);
}

#[test]
fn a_failed_write_names_the_file_and_leaves_nothing() {
    let directory = TempDir::new().unwrap();
    let missing = directory.path().join("no/such/v.mp4");
    let error = write_mp4(&missing, &bars(SMALL, 1), 16).unwrap_err();
    assert!(matches!(&error, VideoError::Io { path, .. } if *path == missing), "{error:?}");
    assert!(error.to_string().contains("no/such/v.mp4"), "{error}");
    assert_eq!(entries(directory.path()), [""; 0]);

    // All is written, but the name is taken by a directory.
    let taken = directory.path().join("taken");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("inside"), "").unwrap();
    assert!(matches!(write_mp4(&taken, &bars(SMALL, 1), 16), Err(VideoError::Io { .. })));
    assert_eq!(entries(directory.path()), ["taken"]);
}

/// Runs itself again in a shell that limits the size of files: writing fails midway, as on a full disk.
#[test]
fn a_disk_that_fills_up_leaves_nothing() {
    const DIRECTORY: &str = "STORYMEM_TEST_LIMITED_DIRECTORY";
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        let path = Path::new(&directory).join("v.mp4");
        let error = write_mp4(&path, &noise(SMALL, 20), 16).unwrap_err();
        assert!(matches!(&error, VideoError::Io { path: named, .. } if *named == path), "{error:?}");
        return;
    }
    let directory = TempDir::new().unwrap();
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 16; exec \"$0\" --exact a_disk_that_fills_up_leaves_nothing"])
        .arg(std::env::current_exe().unwrap())
        .env(DIRECTORY, directory.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(entries(directory.path()), [""; 0]);
}

#[test]
fn a_video_replaces_the_one_before_only_when_done() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("v.mp4");
    write_mp4(&path, &bars(SMALL, 1), 16).unwrap();
    let before = fs::read(&path).unwrap();

    let mut writer = Mp4Writer::new(&path, SMALL, 16).unwrap();
    writer.push(&film(SMALL, 1).rgb).unwrap();
    drop(writer);
    assert_eq!(fs::read(&path).unwrap(), before);

    write_mp4(&path, &film(SMALL, 1), 16).unwrap();
    assert_ne!(fs::read(&path).unwrap(), before);
    assert_eq!(entries(directory.path()), ["v.mp4"]);
}

#[test]
fn thumbnails_are_small_jpegs_of_the_same_picture() {
    for (size, want) in [(HD, (480, 277)), (Size { width: 480, height: 832 }, (277, 480)), (SMALL, (96, 64))]
    {
        let jpeg = video::thumbnail(&bars(size, 1).rgb, size).unwrap();
        assert_eq!(image::guess_format(&jpeg).unwrap(), image::ImageFormat::Jpeg);
        let picture = image::load_from_memory(&jpeg).unwrap().to_rgb8();
        assert_eq!(picture.dimensions(), want);
        for (bar, colour) in BARS.iter().enumerate() {
            let centre = picture.get_pixel((want.0 * (2 * bar as u32 + 1)) / 16, want.1 / 2);
            for (got, want) in centre.0.iter().zip(colour) {
                assert!(got.abs_diff(*want) <= 8, "{centre:?} in bar {bar} {colour:?} at {size}");
            }
        }
    }
    assert!(matches!(video::thumbnail(&[0; 3], SMALL), Err(VideoError::FrameLength { got: 3, .. })));
    assert!(matches!(
        video::thumbnail(&[], Size { width: 0, height: 0 }),
        Err(VideoError::FrameLength { .. })
    ));
}

#[test]
fn pngs_are_exact() {
    let frame = noise(CROPPED, 1).rgb;
    let png = video::png(&frame, CROPPED).unwrap();
    assert_eq!(image::guess_format(&png).unwrap(), image::ImageFormat::Png);
    assert_eq!(image::load_from_memory(&png).unwrap().to_rgb8().into_raw(), frame);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_even_size_and_rate_reads_back(width in 8usize..80, height in 8usize..80, count in 1usize..6, fps in 1u32..=60) {
        let size = Size { width: 2 * width, height: 2 * height };
        let (directory, file, _) = write(&noise(size, count), fps);
        let visual = &avc1(&boxes(&file).moov).visual.clone();
        prop_assert_eq!((visual.width as usize, visual.height as usize), (size.width, size.height));
        let back = read_frames(&directory.path().join("v.mp4")).unwrap();
        prop_assert_eq!((back.size, back.len()), (size, count));
    }

    #[test]
    fn a_damaged_table_never_panics(at in any::<prop::sample::Index>(), value in any::<u8>()) {
        let (directory, mut file, _) = write(&bars(TINY, 2), 16);
        let head = boxes(&file).mdat.0;
        file[at.index(head)] = value;
        let path = directory.path().join("v.mp4");
        fs::write(&path, file).unwrap();
        // Either way is fine: many bytes of the boxes do not matter to the frames.
        if let Err(error) = read_frames(&path) {
            prop_assert!(matches!(error, VideoError::Unreadable { .. }), "{error:?}");
        }
    }
}
