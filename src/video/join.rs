//! One film of many videos, by copying their samples.
//!
//! Nothing is decoded: shots of one size and rate have the same parameter sets and begin with a keyframe each, so their
//! coded samples one after the other are a video. A new sample table is written in front, on the same clock, in which
//! every frame takes the same time: no gap, no overlap, and the film is as long as its shots together.

use std::fs;
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::files;
use crate::pipeline::Size;

use super::h264::ParameterSets;
use super::mp4::{self, Entry, TICKS_PER_FRAME};
use super::read::{find_moov, h264_track, sample_ranges};
use super::{Mp4Facts, VideoError};

/// A video as a film needs it.
struct Part {
    size: Size,
    fps: u32,
    sets: ParameterSets,
    entries: Vec<Entry>,
    /// Its samples, one after the other.
    samples: Vec<u8>,
}

/// Writes the videos at `parts`, one after the other, to `path` as one MP4. The same videos give the same bytes.
///
/// Made for videos that [`write_mp4`](super::write_mp4) wrote with one size and frame rate.
///
/// # Errors
/// [`VideoError::NoFrames`] without parts, [`VideoError::Unlike`] for videos of several kinds,
/// [`VideoError::Unreadable`] for what is no such video, [`VideoError::TooLarge`] above 4 GiB, or
/// [`VideoError::Io`]. Nothing is left behind then.
pub fn join(path: &Path, parts: &[impl AsRef<Path>]) -> Result<Mp4Facts, VideoError> {
    let mut film: Option<Part> = None;
    for video in parts {
        let video = video.as_ref();
        let bytes = fs::read(video).map_err(VideoError::read(video))?;
        let part = read(&bytes).map_err(|reason| VideoError::unreadable(video, reason))?;
        match &mut film {
            None => film = Some(part),
            Some(film) => {
                film.append(part).map_err(|what| VideoError::Unlike { path: video.into(), what })?
            }
        }
    }
    let Part { size, fps, sets, entries, samples } = film.ok_or(VideoError::NoFrames)?;
    let head = mp4::head(size, fps, &sets, &entries)?;
    let content = || [&head[..], &samples[..]];
    files::write_whole(path, |file| content().into_iter().try_for_each(|part| file.write_all(part)))
        .map_err(VideoError::write(path))?;
    let mut hash = Sha256::new();
    content().into_iter().for_each(|part| hash.update(part));
    Ok(Mp4Facts {
        bytes: (head.len() + samples.len()) as u64,
        sha256: format!("{:x}", hash.finalize()),
        frames: entries.len(),
        fps,
    })
}

impl Part {
    /// Adds a video at the end, or says what differs.
    fn append(&mut self, next: Self) -> Result<(), &'static str> {
        if next.size != self.size {
            return Err("size");
        }
        if next.fps != self.fps {
            return Err("frame rate");
        }
        if next.sets != self.sets {
            return Err("set of H.264 parameters");
        }
        self.entries.extend(next.entries);
        self.samples.extend(next.samples);
        Ok(())
    }
}

fn read(file: &[u8]) -> Result<Part, String> {
    let moov = find_moov(file)?;
    let (track, avc1) = h264_track(&moov)?;
    let table = &track.mdia.minf.stbl;
    let timescale = track.mdia.mdhd.timescale;
    let even = table.stts.entries.iter().all(|run| run.sample_delta == TICKS_PER_FRAME);
    if !even || timescale == 0 || !timescale.is_multiple_of(TICKS_PER_FRAME) {
        return Err("its frames are not evenly spaced".into());
    }
    let ranges = sample_ranges(table, file.len())?;
    let sync: Vec<u32> = table.stss.iter().flat_map(|stss| stss.entries.iter().copied()).collect();
    let entry = |(number, range): (u32, &Range<usize>)| Entry {
        bytes: range.len() as u32,
        sync: sync.binary_search(&number).is_ok(),
    };
    let entries: Vec<Entry> = (1..).zip(&ranges).map(entry).collect();
    if !entries.first().is_some_and(|first| first.sync) {
        return Err("it does not begin with a keyframe".into());
    }
    let mut samples = Vec::with_capacity(ranges.iter().map(Range::len).sum());
    for range in ranges {
        samples.extend_from_slice(file.get(range).ok_or("a sample lies outside of the file")?);
    }
    let set = |sets: &[Vec<u8>]| match sets {
        [one] => Ok(one.clone()),
        _ => Err("it has not one set of parameters".to_owned()),
    };
    let avcc = &avc1.avcc;
    Ok(Part {
        size: Size { width: avc1.visual.width.into(), height: avc1.visual.height.into() },
        fps: timescale / TICKS_PER_FRAME,
        sets: ParameterSets {
            sps: set(&avcc.sequence_parameter_sets)?,
            pps: set(&avcc.picture_parameter_sets)?,
        },
        entries,
        samples,
    })
}
