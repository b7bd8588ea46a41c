//! The pipeline itself: a request, a bundle and a device make a shot.
//!
//! Each stage opens what it needs and lets go of it when it is over, so that the text encoder's, the autoencoder's and
//! the transformer's graphs never hold memory side by side.

mod checks;
mod decode;
mod denoise;
mod encode;
mod run;
mod warm_up;

use std::path::Path;
use std::time::Instant;

use image::RgbImage;
use ndarray::{Array4, s};
use onnx_export::bundle::{Bundle, Manifest};
use onnx_export::models::Net;

use self::checks::check_inputs;
use self::run::Run;
use super::memory::ClipSimilarity;
use super::solver::Solver;
use super::text::Tokenizer;
use super::{
    Checkpoint, Conditioning, Dimensions, Effective, Generator, Observer, PipelineError, Recording, Shot,
    ShotRequest, Size, StopToken, Timings, Variant,
};
use crate::engine::{DeviceOptions, Engine, Runtime, Weights};

/// A bundle on a device, ready to make shots.
pub struct ShotPipeline {
    bundle: Bundle,
    tokenizer: Tokenizer,
    engine: Engine,
    text_encoder: Weights,
    high: Weights,
    low: Weights,
    vae: Weights,
    clip: Option<Weights>,
    /// The encoded clip of mid-grey frames that a shot without known frames is given; it depends on the size alone.
    grey: Option<(Dimensions, Array4<f32>)>,
}

impl ShotPipeline {
    /// Opens the bundle in `path` on a device. Weights are mapped, not read. An NPU changes the process's working
    /// directory; see [`Engine::open`].
    ///
    /// # Errors
    /// When the bundle is not whole or the device can't be used.
    pub fn open(
        path: &Path,
        runtime: Runtime,
        options: impl Into<DeviceOptions>,
    ) -> Result<Self, PipelineError> {
        let bundle = Bundle::open(path)?;
        let tokenizer = Tokenizer::open(&bundle.tokenizer_path())?;
        let open = |net| bundle.weights(net).map(Weights::new);
        let (text_encoder, vae) = (open(Net::TextEncoder)?, open(Net::Vae)?);
        let (high, low) = (open(Net::TransformerHigh)?, open(Net::TransformerLow)?);
        let clip = bundle.manifest().nets.clip.is_some().then(|| open(Net::Clip)).transpose()?;
        // Last, as paths may mean something else after it.
        let engine = Engine::open(runtime, options)?;
        if bundle.manifest().random_weights {
            tracing::warn!(
                bundle.name = bundle.manifest().name,
                "the bundle has random weights: videos show noise"
            );
        }
        Ok(Self { bundle, tokenizer, engine, text_encoder, high, low, vae, clip, grey: None })
    }

    /// The bundle's digest; see [`Bundle::digest`].
    pub fn digest(&self) -> &str {
        self.bundle.digest()
    }

    /// As [`Generator::generate`], also keeping what each stage computed.
    ///
    /// # Errors
    /// As there.
    pub fn generate_recorded(
        &mut self,
        request: &ShotRequest,
        resume: Option<Checkpoint>,
        observer: &mut dyn Observer,
        stop: &StopToken,
        recording: Option<&mut Recording>,
    ) -> Result<Shot, PipelineError> {
        let mut run = Run { request, observer, stop, recording };
        let Plan { variant, dimensions, solver } = self.plan(request)?;
        let mut timings = Timings::default();
        let mut warnings = Vec::new();

        let (prompt_tokens, embeds) =
            timed(&mut timings.text_seconds, || self.encode_text(&mut run, &mut warnings))?;
        let condition =
            timed(&mut timings.encode_seconds, || self.encode_frames(&mut run, variant, dimensions))?;
        let start = self.start(&mut run, dimensions, solver, resume);
        let denoised = timed(&mut timings.denoise_seconds, || {
            self.denoise(&mut run, dimensions, start, condition.as_ref().map(|c| c.view()), &embeds)
        })?;
        let video = denoised.latents.slice(s![.., request.memory.len().., .., ..]);
        let frames = timed(&mut timings.decode_seconds, || self.decode(&mut run, variant, dimensions, video));
        let frames = frames.inspect_err(|e| run.offer_if_stopped(e, &denoised))?;

        let effective = Effective { size: dimensions.size(), frames: frames.len(), variant, prompt_tokens };
        Ok(Shot { frames, effective, warnings, timings })
    }

    /// Plans a request, checked against what the bundle can do, before anything is computed.
    fn plan(&self, request: &ShotRequest) -> Result<Plan, PipelineError> {
        let manifest = self.bundle.manifest();
        let variant = request.variant();
        check_inputs(manifest, request)?;
        let lead = match &request.conditioning {
            Conditioning::None => request.memory.first(),
            Conditioning::FirstFrame(frame) => Some(frame),
            Conditioning::Motion(frames) => Some(&frames[0]),
        };
        let sampling = &request.sampling;
        Ok(Plan {
            variant,
            dimensions: Dimensions::new(sampling, variant, lead.map(size_of))?,
            solver: Solver::new(sampling.solver, sampling.steps, sampling.shift)?,
        })
    }
}

impl Generator for ShotPipeline {
    fn manifest(&self) -> &Manifest {
        self.bundle.manifest()
    }

    fn generate(
        &mut self,
        request: &ShotRequest,
        resume: Option<Checkpoint>,
        observer: &mut dyn Observer,
        stop: &StopToken,
    ) -> Result<Shot, PipelineError> {
        self.generate_recorded(request, resume, observer, stop, None)
    }

    fn clip(&self) -> Option<ClipSimilarity<'_>> {
        let config = self.bundle.manifest().nets.clip.as_ref()?;
        Some(ClipSimilarity::new(&self.engine, config, self.clip.as_ref()?))
    }
}

/// What will be made of a request.
struct Plan {
    variant: Variant,
    dimensions: Dimensions,
    solver: Solver,
}

fn size_of(image: &RgbImage) -> Size {
    Size { width: image.width() as usize, height: image.height() as usize }
}

fn timed<T>(seconds: &mut f64, stage: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = stage();
    *seconds = start.elapsed().as_secs_f64();
    result
}
