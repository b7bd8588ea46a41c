//! OpenH264 and the settings that make it a constant-quality, reproducible encoder.
//!
//! OpenH264 is made for calls: by default it drops frames, denoises what it takes for background and lets a bit rate
//! decide the quality. All of that is off. Its one quiet way to a constant quantiser is the *buffer-based* mode with a
//! range of one value: no model runs, nothing is skipped, and the bit rate decides nothing but the level in the SPS.
//!
//! A coded frame has room for the bytes of the raw one. Noise of full contrast does not fit at our quantiser, so such
//! a frame is coded as a keyframe with a coarser one, by a fresh encoder, until the next regular keyframe.

use openh264::OpenH264API;
use openh264::Timestamp;
use openh264::encoder::{
    BitRate, Complexity, EncodedBitStream, EncoderConfig, FrameRate, FrameType, IntraFramePeriod, Profile,
    QpRange, RateControlMode, SpsPpsStrategy, VuiConfig,
};
use openh264::formats::YUVSlices;

use crate::pipeline::Size;

use super::VideoError;
use super::yuv::Yuv420;

/// Smallest side OpenH264 takes: one macroblock.
pub(super) const MIN_SIDE: usize = 16;
/// Largest long side OpenH264 takes.
pub(super) const MAX_LONG_SIDE: usize = 3840;
/// Largest short side OpenH264 takes.
pub(super) const MAX_SHORT_SIDE: usize = 2160;
/// Largest frame rate OpenH264 computes a level for.
pub(super) const MAX_FPS: u32 = 60;

/// The quantiser of every macroblock: 46 to 48 dB of luma on film-like frames, in files as large as x264 makes them at
/// CRF 10, which is what the reference uses.
const QP: u8 = 14;
/// How much coarser the quantiser gets when a frame does not fit.
const QP_STEP: u8 = 4;
/// The coarsest quantiser of H.264.
const QP_MAX: u8 = 51;

/// Seconds from one keyframe to the next.
const KEYFRAME_SECONDS: usize = 2;

/// Bits per pixel that the level in the SPS allows for. Film-like frames with strong grain take 2.6.
const NOMINAL_BITS_PER_PIXEL: u64 = 4;

/// OpenH264's `cmMallocMemeError`: the coded frame outgrew its buffer.
const NATIVE_OVERFLOW: i64 = 3;

const NAL_SPS: u8 = 7;
const NAL_PPS: u8 = 8;

/// One coded frame as MP4 wants it.
pub(super) struct Sample {
    /// NAL units, each after its length in 4 big-endian bytes; no parameter sets.
    pub(super) data: Vec<u8>,
    /// Whether decoding can start here.
    pub(super) sync: bool,
}

/// What a decoder must know before the first sample: NAL units without start codes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ParameterSets {
    pub(super) sps: Vec<u8>,
    pub(super) pps: Vec<u8>,
}

/// Encodes frames of one size in order.
pub(super) struct Encoder {
    inner: openh264::encoder::Encoder,
    qp: u8,
    size: Size,
    fps: u32,
    picture: Yuv420,
    frames: usize,
    parameter_sets: ParameterSets,
}

impl Encoder {
    pub(super) fn new(size: Size, fps: u32) -> Result<Self, VideoError> {
        check(size, fps)?;
        let inner = open(size, fps, QP).map_err(|error| failed(0, error.to_string()))?;
        let picture = Yuv420::new(size.width, size.height);
        Ok(Self { inner, qp: QP, size, fps, picture, frames: 0, parameter_sets: ParameterSets::default() })
    }

    /// Encodes one frame, `[height, width, 3]` RGB.
    pub(super) fn encode(&mut self, rgb: &[u8]) -> Result<Sample, VideoError> {
        let expected = self.size.width * self.size.height * 3;
        if rgb.len() != expected {
            return Err(VideoError::FrameLength { size: self.size, got: rgb.len(), expected });
        }
        self.picture.read_rgb(rgb);

        if self.frames.is_multiple_of(KEYFRAME_SECONDS * self.fps as usize) {
            if self.qp == QP {
                self.inner.force_intra_frame();
            } else {
                self.reopen(QP)?;
            }
        }
        let sample = loop {
            match self.code()? {
                Some(sample) => break sample,
                None => self.reopen(self.qp + QP_STEP)?,
            }
        };
        self.frames += 1;
        Ok(sample)
    }

    /// The parameter sets; empty before the first frame.
    pub(super) fn into_parameter_sets(self) -> ParameterSets {
        self.parameter_sets
    }

    /// Goes on with a fresh encoder, whose first frame is a keyframe.
    fn reopen(&mut self, qp: u8) -> Result<(), VideoError> {
        self.inner = open(self.size, self.fps, qp).map_err(|error| failed(self.frames, error.to_string()))?;
        self.qp = qp;
        Ok(())
    }

    /// Encodes `picture`, or gives `None` if it does not fit but may with a coarser quantiser.
    fn code(&mut self) -> Result<Option<Sample>, VideoError> {
        let failed = |reason| failed(self.frames, reason);
        let Size { width, height } = self.size;
        let planes = (&self.picture.y[..], &self.picture.cb[..], &self.picture.cr[..]);
        let source = YUVSlices::new(planes, (width, height), (width, width / 2, width / 2));
        let time = Timestamp::from_millis(self.frames as u64 * 1000 / u64::from(self.fps));
        let stream = match self.inner.encode_at(&source, time) {
            Ok(stream) => stream,
            Err(error) if error.native_code() == NATIVE_OVERFLOW && self.qp + QP_STEP <= QP_MAX => {
                return Ok(None);
            }
            Err(error) => return Err(failed(error.to_string())),
        };
        let (sample, sets) = split(&stream).map_err(failed)?;
        if self.frames == 0 {
            self.parameter_sets = sets;
        } else if sample.sync && sets != self.parameter_sets {
            return Err(failed("the parameter sets changed".into()));
        }
        Ok(Some(sample))
    }
}

/// Takes a coded frame apart: the sample, and the parameter sets that come with a keyframe.
fn split(stream: &EncodedBitStream) -> Result<(Sample, ParameterSets), String> {
    let sync = match stream.frame_type() {
        FrameType::IDR => true,
        FrameType::P => false,
        other => return Err(format!("it made a frame of type {other:?}")),
    };
    let mut data = Vec::new();
    let mut sets = ParameterSets::default();
    for layer in (0..stream.num_layers()).filter_map(|index| stream.layer(index)) {
        for nal in (0..layer.nal_count()).filter_map(|index| layer.nal_unit(index)) {
            let nal = without_start_code(nal);
            match nal.first().map(|header| header & 0x1f) {
                Some(NAL_SPS) => sets.sps = nal.to_vec(),
                Some(NAL_PPS) => sets.pps = nal.to_vec(),
                Some(_) => {
                    let length = u32::try_from(nal.len()).map_err(|error| error.to_string())?;
                    data.extend(length.to_be_bytes());
                    data.extend_from_slice(nal);
                }
                None => return Err("it made an empty NAL unit".into()),
            }
        }
    }
    if sync && (sets.sps.is_empty() || sets.pps.is_empty()) {
        return Err("it made a keyframe without parameter sets".into());
    }
    Ok((Sample { data, sync }, sets))
}

fn without_start_code(nal: &[u8]) -> &[u8] {
    nal.strip_prefix(&[0, 0, 0, 1]).or_else(|| nal.strip_prefix(&[0, 0, 1])).unwrap_or(nal)
}

fn failed(frame: usize, reason: String) -> VideoError {
    VideoError::Encoder { frame, reason }
}

/// Whether the encoder takes frames of `size` at `fps`.
fn check(size: Size, fps: u32) -> Result<(), VideoError> {
    let (short, long) = (size.width.min(size.height), size.width.max(size.height));
    if short < MIN_SIDE || long > MAX_LONG_SIDE || short > MAX_SHORT_SIDE {
        return Err(VideoError::SizeOutOfRange(size));
    }
    if !size.width.is_multiple_of(2) || !size.height.is_multiple_of(2) {
        return Err(VideoError::OddSize(size));
    }
    if !(1..=MAX_FPS).contains(&fps) {
        return Err(VideoError::FrameRate(fps));
    }
    Ok(())
}

fn open(size: Size, fps: u32, qp: u8) -> Result<openh264::encoder::Encoder, openh264::Error> {
    let bits = (size.width * size.height) as u64 * u64::from(fps) * NOMINAL_BITS_PER_PIXEL;
    let config = EncoderConfig::new()
        .profile(Profile::High)
        .rate_control_mode(RateControlMode::Bufferbased)
        .qp(QpRange::new(qp, qp))
        // Below 2^31 at the largest size and rate. The level follows from this, the size and the rate.
        .bitrate(BitRate::from_bps(bits as u32))
        .max_frame_rate(FrameRate::from_hz(fps as f32))
        .skip_frames(false)
        .adaptive_quantization(false)
        .background_detection(false)
        .scene_change_detect(false)
        .long_term_reference(false)
        // At this quantiser the searches of higher complexity take longer and gain nothing.
        .complexity(Complexity::Low)
        // Keyframes are asked for one by one.
        .intra_frame_period(IntraFramePeriod::auto())
        .sps_pps_strategy(SpsPpsStrategy::ConstantId)
        // More threads would cut a frame into slices by the number of cores: other bytes on another machine.
        .num_threads(1)
        .vui(VuiConfig::bt709());
    openh264::encoder::Encoder::with_api_config(OpenH264API::from_source(), config)
}
