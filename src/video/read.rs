//! The way back: the frames of an MP4.
//!
//! Made for the files this module writes, and content with any other MP4 whose first H.264 track has one size and no
//! reordered frames.

use std::fs;
use std::path::Path;

use mp4_atom::{Any, Avc1, Avcc, Codec, DecodeMaybe, Moov, Stbl, StszSamples, Trak};
use openh264::decoder::Decoder;
use openh264::formats::YUVSource;

use crate::pipeline::{Frames, Size};

use super::VideoError;
use super::yuv::Planes;

const START_CODE: [u8; 4] = [0, 0, 0, 1];

/// Decodes all frames of the H.264 track of `path`, BT.709 limited range to RGB.
///
/// # Errors
/// [`VideoError::Io`] if the file cannot be read, [`VideoError::Unreadable`] if it is no such MP4 or is damaged.
pub fn read_frames(path: &Path) -> Result<Frames, VideoError> {
    let file = fs::read(path).map_err(VideoError::read(path))?;
    decode(&file).map_err(|reason| VideoError::unreadable(path, reason))
}

fn decode(file: &[u8]) -> Result<Frames, String> {
    let moov = find_moov(file)?;
    let (track, avc1) = h264_track(&moov)?;
    let (avcc, table) = (&avc1.avcc, &track.mdia.minf.stbl);

    let mut decoder = Decoder::new().map_err(|error| error.to_string())?;
    let mut packet = parameter_sets(avcc);
    let mut frames: Option<Frames> = None;
    for range in sample_ranges(table, file.len())? {
        let sample = file.get(range).ok_or("a sample lies outside of the file")?;
        append_annex_b(sample, usize::from(avcc.length_size), &mut packet)?;
        let picture = decoder.decode(&packet).map_err(|error| error.to_string())?;
        append(&picture.ok_or("a sample gave no frame")?, &mut frames)?;
        packet.clear();
    }
    frames.ok_or_else(|| "it has no frames".into())
}

/// The first H.264 track, and what describes its samples.
pub(super) fn h264_track(moov: &Moov) -> Result<(&Trak, &Avc1), String> {
    let mut described = moov.trak.iter().filter_map(|track| match track.mdia.minf.stbl.stsd.codecs.first() {
        Some(Codec::Avc1(avc1)) => Some((track, avc1)),
        _ => None,
    });
    described.next().ok_or_else(|| "it has no H.264 track".into())
}

pub(super) fn find_moov(mut file: &[u8]) -> Result<Moov, String> {
    while let Some(atom) = Any::decode_maybe(&mut file).map_err(|error| error.to_string())? {
        if let Any::Moov(moov) = atom {
            return Ok(moov);
        }
    }
    Err("it has no `moov` box".into())
}

fn parameter_sets(avcc: &Avcc) -> Vec<u8> {
    let sets = avcc.sequence_parameter_sets.iter().chain(&avcc.picture_parameter_sets);
    sets.flat_map(|set| START_CODE.iter().chain(set)).copied().collect()
}

/// Where each sample lies in the file: chunks hold runs of samples, back to back.
pub(super) fn sample_ranges(table: &Stbl, file_len: usize) -> Result<Vec<std::ops::Range<usize>>, String> {
    let sizes: Vec<u32> = match &table.stsz.samples {
        // Bounded by the file, so that a damaged count asks for no memory.
        StszSamples::Identical { count, size } if *count as usize <= file_len => vec![*size; *count as usize],
        StszSamples::Identical { .. } => return Err("it has more samples than bytes".into()),
        StszSamples::Different { sizes } => sizes.clone(),
    };
    let chunks: Vec<u64> = match (&table.stco, &table.co64) {
        (Some(stco), _) => stco.entries.iter().map(|&offset| offset.into()).collect(),
        (None, Some(co64)) => co64.entries.clone(),
        (None, None) => return Err("it has no chunk offsets".into()),
    };
    let mut ranges = Vec::with_capacity(sizes.len());
    let mut sizes = sizes.into_iter();
    for (number, offset) in (1..).zip(chunks) {
        let runs = table.stsc.entries.iter();
        let run = runs.take_while(|run| run.first_chunk <= number).last().ok_or("a chunk has no samples")?;
        let mut start = usize::try_from(offset).map_err(|error| error.to_string())?;
        for size in sizes.by_ref().take(run.samples_per_chunk as usize) {
            let end = start.checked_add(size as usize).ok_or("a sample lies outside of the file")?;
            ranges.push(start..end);
            start = end;
        }
    }
    match sizes.len() {
        0 => Ok(ranges),
        missing => Err(format!("{missing} samples belong to no chunk")),
    }
}

/// Replaces the length in front of each NAL unit by a start code.
fn append_annex_b(mut sample: &[u8], length_size: usize, packet: &mut Vec<u8>) -> Result<(), String> {
    while !sample.is_empty() {
        let (length, rest) = sample.split_at_checked(length_size).ok_or("a NAL unit is cut")?;
        let length = length.iter().fold(0, |length, &byte| length << 8 | usize::from(byte));
        let (nal, rest) = rest.split_at_checked(length).ok_or("a NAL unit is cut")?;
        packet.extend(START_CODE);
        packet.extend_from_slice(nal);
        sample = rest;
    }
    Ok(())
}

fn append(picture: &impl YUVSource, frames: &mut Option<Frames>) -> Result<(), String> {
    let (width, height) = picture.dimensions();
    let size = Size { width, height };
    if width < 2 || height < 2 || width % 2 + height % 2 != 0 {
        return Err(format!("its size `{size}` is not even"));
    }
    let frames = frames.get_or_insert_with(|| Frames { size, rgb: Vec::new() });
    if frames.size != size {
        return Err(format!("the size changes from `{}` to `{size}`", frames.size));
    }
    let (y_stride, c_stride, _) = picture.strides();
    let (y, cb, cr) = (picture.y(), picture.u(), picture.v());
    Planes { width, height, y, cb, cr, y_stride, c_stride }.append_rgb(&mut frames.rgb);
    Ok(())
}
