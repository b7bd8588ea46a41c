//! The boxes around the samples (ISO/IEC 14496-12 and -15): `ftyp`, `moov`, then `mdat` with all samples in one chunk.
//!
//! `moov` comes first, so that a player can start before the file has arrived; as its length does not depend on the
//! offset in it, it is written twice and measured once. Times are in units of 1/1000 frame, in the movie as in the
//! track: every duration is exact at every whole frame rate. No box holds a clock.

use mp4_atom::{
    Avc1, Avcc, AvccExt, Codec, Colr, Dinf, Dref, Encode, Ftyp, Hdlr, Header, Mdhd, Mdia, Minf, Moov, Mvhd,
    Stbl, Stco, Stsc, StscEntry, Stsd, Stss, Stsz, StszSamples, Stts, SttsEntry, Tkhd, Trak, Url, Visual,
    Vmhd,
};

use crate::pipeline::Size;

use super::VideoError;
use super::h264::ParameterSets;

/// Units of time in a frame.
pub(super) const TICKS_PER_FRAME: u32 = 1000;

/// `colr` codes of ITU-T H.273: BT.709 primaries, transfer and matrix.
const BT709: u16 = 1;

/// What the boxes say of one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its length.
    pub(super) bytes: u32,
    /// Whether decoding can start here.
    pub(super) sync: bool,
}

/// Everything before the first sample: `ftyp`, `moov` and the header of `mdat`.
pub(super) fn head(
    size: Size,
    fps: u32,
    sets: &ParameterSets,
    samples: &[Entry],
) -> Result<Vec<u8>, VideoError> {
    let payload: u64 = samples.iter().map(|sample| u64::from(sample.bytes)).sum();
    let measured = encode(size, fps, sets, samples, payload, 0)?.len();
    let total = measured as u64 + payload;
    if total > u64::from(u32::MAX) {
        return Err(VideoError::TooLarge(total));
    }
    encode(size, fps, sets, samples, payload, measured as u32)
}

fn encode(
    size: Size,
    fps: u32,
    sets: &ParameterSets,
    samples: &[Entry],
    payload: u64,
    offset: u32,
) -> Result<Vec<u8>, VideoError> {
    let mut out = Vec::new();
    let ftyp = Ftyp {
        major_brand: b"isom".into(),
        minor_version: 0x200,
        compatible_brands: [b"isom", b"iso2", b"avc1", b"mp41"].map(Into::into).to_vec(),
    };
    let mdat = Header { kind: b"mdat".into(), size: Some(payload as usize) };
    ftyp.encode(&mut out)
        .and_then(|()| moov(size, fps, sets, samples, offset)?.encode(&mut out))
        .and_then(|()| mdat.encode(&mut out))
        .map_err(VideoError::Container)?;
    Ok(out)
}

fn moov(
    size: Size,
    fps: u32,
    sets: &ParameterSets,
    samples: &[Entry],
    offset: u32,
) -> Result<Moov, mp4_atom::Error> {
    let timescale = fps * TICKS_PER_FRAME;
    let duration = samples.len() as u64 * u64::from(TICKS_PER_FRAME);
    // Sides fit: the encoder takes no more than 3840.
    let (width, height) = (size.width as u16, size.height as u16);

    let mvhd = Mvhd {
        creation_time: 0,
        modification_time: 0,
        timescale,
        duration,
        rate: 1.into(),
        volume: 1.into(),
        matrix: Default::default(),
        next_track_id: 2,
    };
    let tkhd = Tkhd {
        track_id: 1,
        duration,
        enabled: true,
        in_movie: true,
        width: width.into(),
        height: height.into(),
        ..Default::default()
    };
    let mdia = Mdia {
        mdhd: Mdhd { creation_time: 0, modification_time: 0, timescale, duration, language: "und".into() },
        hdlr: Hdlr { handler: b"vide".into(), name: "VideoHandler".into() },
        minf: Minf {
            vmhd: Some(Vmhd::default()),
            // An empty location: the samples are in this file.
            dinf: Dinf { dref: Dref { urls: vec![Url { location: String::new() }] } },
            stbl: sample_table(width, height, sets, samples, offset)?,
            ..Default::default()
        },
    };
    let trak = Trak { tkhd, edts: None, meta: None, mdia, senc: None, tref: None, udta: None };
    Ok(Moov { mvhd, meta: None, mvex: None, trak: vec![trak], udta: None, ainf: None })
}

fn sample_table(
    width: u16,
    height: u16,
    sets: &ParameterSets,
    samples: &[Entry],
    offset: u32,
) -> Result<Stbl, mp4_atom::Error> {
    let count = samples.len() as u32;
    let visual = Visual { data_reference_index: 1, width, height, ..Default::default() };
    let avc1 = Avc1 {
        visual,
        // High profile: 4:2:0 and 8 bits are told here too.
        avcc: Avcc { ext: Some(AvccExt::default()), ..Avcc::new(&sets.sps, &sets.pps)? },
        colr: Some(Colr::new(BT709, BT709, BT709, false)?),
        ..Default::default()
    };
    let sizes = samples.iter().map(|sample| sample.bytes).collect();
    let sync = (1..).zip(samples).filter(|(_, sample)| sample.sync).map(|(number, _)| number).collect();
    Ok(Stbl {
        stsd: Stsd { codecs: vec![Codec::Avc1(avc1)] },
        stts: Stts { entries: vec![SttsEntry { sample_count: count, sample_delta: TICKS_PER_FRAME }] },
        stss: Some(Stss { entries: sync }),
        stsc: Stsc {
            entries: vec![StscEntry {
                first_chunk: 1,
                samples_per_chunk: count,
                sample_description_index: 1,
            }],
        },
        stsz: Stsz { samples: StszSamples::Different { sizes } },
        stco: Some(Stco { entries: vec![offset] }),
        ..Default::default()
    })
}
