//! The pipeline itself: a request, a bundle and a device make a shot.
//!
//! Each stage opens what it needs and lets go of it when it is over, so that the text encoder's, the autoencoder's and
//! the transformer's graphs never hold memory side by side.

use std::path::Path;
use std::time::Instant;

use image::RgbImage;
use ndarray::{Array2, Array3, Array4, ArrayView4, Axis, s};
use onnx_export::bundle::{Bundle, BundleVariant, Manifest};
use onnx_export::models::wan::LatentGrid;
use onnx_export::models::{Net, vae};

use super::codec::VideoCodec;
use super::condition::{LATENT_CHANNELS, condition, positions};
use super::denoiser::{Denoiser, Expert};
use super::memory::ClipSimilarity;
use super::noise::randn;
use super::resize::resize;
use super::solver::Solver;
use super::text::{Tokenizer, Tokens};
use super::text_encoder::TextEncoder;
use super::{
    Checkpoint, CheckpointView, Conditioning, Dimensions, Effective, Frames, Generator, Guidance, Observer,
    PipelineError, Profile, Progress, Recording, Shot, ShotRequest, Size, Stage, StopToken, Timings, Variant,
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

    /// Compiles the graphs for shots of a profile and runs each of them, so that the first such shot need not wait
    /// for it. On an NPU compiling takes minutes the first time; the log says where it stands.
    ///
    /// # Errors
    /// When the bundle makes no such shots, a graph fails, or the run is stopped.
    pub fn warm_up(&self, profile: &Profile, stop: &StopToken) -> Result<(), PipelineError> {
        let Manifest { nets, sampling, .. } = self.bundle.manifest();
        let dimensions = profile.dimensions()?;
        let (grid, Dimensions { lat_h, lat_w, lat_t, frames, .. }) = (profile.grid(dimensions), dimensions);
        let start = Instant::now();
        let report = |stage: Stage| {
            let seconds = start.elapsed().as_secs_f64();
            tracing::info!(warm_up.shot = %profile, warm_up.seconds = seconds, "warmed up: {}", stage.name());
        };
        let (text_len, text_dim) = (nets.transformer.text_len, nets.transformer.text_dim);
        TextEncoder::new(&self.engine, &nets.text_encoder, &self.text_encoder).encode(
            &[0],
            text_len,
            stop,
        )?;
        report(Stage::Text);

        let condition = nets.transformer.condition_channels();
        // Two chunks are one of each kind.
        let (lat_t, frames) = (lat_t.min(2), frames.min(1 + vae::TEMPORAL));
        if condition > 0 {
            let mut codec = VideoCodec::new(&self.engine, &nets.vae, &self.vae, lat_h, lat_w);
            codec.encode_clip(&[], frames, stop, || Ok(()))?;
            report(Stage::Encode);
        }

        let latents = |channels: usize| Array4::zeros([channels, grid.frames, grid.height, grid.width]);
        let times = positions(profile.memory, grid.frames - profile.memory, sampling.memory_stride);
        let known = (condition > 0).then(|| latents(condition));
        let known = known.as_ref().map(|latents| latents.view());
        let mut denoiser = Denoiser::new(&self.engine, &nets.transformer, &self.high, grid, &times, known)?;
        let prompt = Array2::zeros([text_len, text_dim]);
        let mut expert = denoiser.expert(&self.high, &prompt, &prompt, stop)?;
        denoiser.velocity(&mut expert, &latents(LATENT_CHANNELS), 999, 1.0, stop)?;
        drop((expert, denoiser));
        report(Stage::Denoise);

        let mut codec = VideoCodec::new(&self.engine, &nets.vae, &self.vae, lat_h, lat_w);
        codec.decode(Array4::zeros([LATENT_CHANNELS, lat_t, lat_h, lat_w]).view(), stop, |_| Ok(()))?;
        report(Stage::Decode);
        Ok(())
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

    /// Embeddings of the prompt and of the negative prompt, and the number of the prompt's tokens.
    fn encode_text(
        &self,
        run: &mut Run<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(usize, [Array2<f32>; 2]), PipelineError> {
        let nets = &self.bundle.manifest().nets;
        let text_len = nets.transformer.text_len;
        run.progress(Stage::Text, 0, 2)?;
        let mut encoder = TextEncoder::new(&self.engine, &nets.text_encoder, &self.text_encoder);
        let mut encode = |run: &mut Run<'_>, what: &str, done: usize, text: &str| {
            let Tokens { ids, truncated_from } = self.tokenizer.encode(text, text_len)?;
            if let Some(tokens) = truncated_from {
                warnings.push(format!("the {what} has {tokens} tokens; only the first {text_len} count"));
            }
            let embeds = encoder.encode(&ids, text_len, run.stop)?;
            run.progress(Stage::Text, done, 2)?;
            Ok::<_, PipelineError>((ids.len(), embeds))
        };
        let (tokens, prompt) = encode(run, "prompt", 1, &run.request.prompt)?;
        let (_, negative) = encode(run, "negative prompt", 2, &run.request.negative_prompt)?;
        run.keep("prompt_embeds", &prompt);
        run.keep("negative_prompt_embeds", &negative);
        Ok((tokens, [prompt, negative]))
    }

    /// The condition `[20, M + T, h, w]`; none for a model that knows no frames.
    fn encode_frames(
        &mut self,
        run: &mut Run<'_>,
        variant: Variant,
        dimensions: Dimensions,
    ) -> Result<Option<Array4<f32>>, PipelineError> {
        let nets = &self.bundle.manifest().nets;
        if nets.transformer.condition_channels() == 0 {
            return Ok(None);
        }
        let Dimensions { width, height, lat_w, lat_h, frames, lat_t } = dimensions;
        let ShotRequest { memory, conditioning, .. } = run.request;
        let units = memory.len() + lat_t;
        run.progress(Stage::Encode, 0, units)?;
        let mut codec = VideoCodec::new(&self.engine, &nets.vae, &self.vae, lat_h, lat_w);

        let mut memory_latents = Array4::zeros([LATENT_CHANNELS, memory.len(), lat_h, lat_w]);
        for (i, image) in memory.iter().enumerate() {
            let latents = codec.encode_image(resize(image, width, height).view(), run.stop)?;
            memory_latents.index_axis_mut(Axis(1), i).assign(&latents);
            run.progress(Stage::Encode, i + 1, units)?;
        }
        let known: Vec<Array3<f32>> = match conditioning {
            Conditioning::None => Vec::new(),
            Conditioning::FirstFrame(frame) => vec![resize(frame, width, height)],
            Conditioning::Motion(frames) => frames.iter().map(|f| resize(f, width, height)).collect(),
        };
        let video_latents = match &self.grey {
            Some((of, latents)) if known.is_empty() && *of == dimensions => latents.clone(),
            _ => {
                let mut done = memory.len();
                let stop = run.stop;
                let latents = codec.encode_clip(&known, frames, stop, || {
                    done += 1;
                    run.progress(Stage::Encode, done, units)
                })?;
                if known.is_empty() {
                    self.grey = Some((dimensions, latents.clone()));
                }
                latents
            }
        };
        let condition = condition(variant, memory_latents.view(), video_latents.view())
            .expect("memory and video are encoded at one size");
        run.keep("condition", &condition);
        Ok(Some(condition))
    }

    /// Noise and a sampler before its first step; or what `resume` holds, if it fits.
    fn start(
        &self,
        run: &mut Run<'_>,
        dimensions: Dimensions,
        solver: Solver,
        resume: Option<Checkpoint>,
    ) -> Sample {
        let ShotRequest { sampling, memory, .. } = run.request;
        let shape = [LATENT_CHANNELS, memory.len() + dimensions.lat_t, dimensions.lat_h, dimensions.lat_w];
        if let Some(checkpoint) = resume {
            match checkpoint.restore(sampling, shape) {
                Some((latents, solver)) => return Sample { latents, solver },
                None => tracing::warn!("a checkpoint does not fit its request; denoising starts anew"),
            }
        }
        let latents = randn(sampling.seed, shape);
        run.keep("noise", &latents);
        Sample { latents, solver }
    }

    /// Brings a sample to its last step.
    fn denoise(
        &self,
        run: &mut Run<'_>,
        dimensions: Dimensions,
        mut sample: Sample,
        condition: Option<ArrayView4<'_, f32>>,
        embeds: &[Array2<f32>; 2],
    ) -> Result<Sample, PipelineError> {
        let done = self.steps(run, dimensions, &mut sample, condition, embeds);
        done.inspect_err(|e| run.offer_if_stopped(e, &sample))?;
        run.keep("latent", &sample.latents);
        Ok(sample)
    }

    /// The steps that `sample` has still to go. When this fails, `sample` is as the last whole step left it.
    fn steps(
        &self,
        run: &mut Run<'_>,
        dimensions: Dimensions,
        sample: &mut Sample,
        condition: Option<ArrayView4<'_, f32>>,
        [prompt, negative]: &[Array2<f32>; 2],
    ) -> Result<(), PipelineError> {
        let Manifest { nets, sampling: defaults, .. } = self.bundle.manifest();
        let sampling = &run.request.sampling;
        let memory = run.request.memory.len();
        let grid = LatentGrid {
            frames: memory + dimensions.lat_t,
            height: dimensions.lat_h,
            width: dimensions.lat_w,
        };
        let times = positions(memory, dimensions.lat_t, defaults.memory_stride);
        let mut denoiser =
            Denoiser::new(&self.engine, &nets.transformer, &self.high, grid, &times, condition)?;
        let mut expert: Option<(bool, Expert<'_>)> = None;
        let (first, steps) = (sample.solver.step_index(), sampling.steps);
        run.progress(Stage::Denoise, first, steps)?;
        for (i, timestep) in sample.solver.timesteps().to_vec().into_iter().enumerate().skip(first) {
            let is_high = timestep as f64 >= defaults.boundary * 1000.0;
            let (weights, guidance) = if is_high {
                (&self.high, sampling.guidance.high)
            } else {
                (&self.low, sampling.guidance.low)
            };
            // The experts take turns once, at the boundary; one goes before the other comes.
            let (_, working) = match expert.take().filter(|(of_high, _)| *of_high == is_high) {
                Some(same) => expert.insert(same),
                None => expert.insert((is_high, denoiser.expert(weights, prompt, negative, run.stop)?)),
            };
            let velocity = denoiser.velocity(working, &sample.latents, timestep, guidance, run.stop)?;
            let Sample { latents, solver } = sample;
            let values = latents.as_slice_mut().expect("noise is contiguous");
            solver.step(&velocity, values)?;
            check_latents(values, i + 1, steps)?;
            if run.recording.is_some() {
                let velocity = Array4::from_shape_vec(latents.raw_dim(), velocity)
                    .expect("a velocity has the shape of its latents");
                run.keep("predictions", &velocity);
            }
            run.observer.step_done(sample.checkpoint());
            run.progress(Stage::Denoise, i + 1, steps)?;
        }
        Ok(())
    }

    /// The frames of the video part of the latents, known ones dropped.
    fn decode(
        &self,
        run: &mut Run<'_>,
        variant: Variant,
        dimensions: Dimensions,
        latents: ArrayView4<'_, f32>,
    ) -> Result<Frames, PipelineError> {
        let Dimensions { lat_w, lat_h, frames, lat_t, .. } = dimensions;
        let mut codec =
            VideoCodec::new(&self.engine, &self.bundle.manifest().nets.vae, &self.vae, lat_h, lat_w);
        let frame_bytes = dimensions.width * dimensions.height * 3;
        let mut rgb = Vec::with_capacity(frames * frame_bytes);
        let mut done = 0;
        run.progress(Stage::Decode, 0, lat_t)?;
        let stop = run.stop;
        codec.decode(latents, stop, |chunk| {
            if !chunk.iter().all(|x| x.is_finite()) {
                return Err(PipelineError::NanFrames { latent_frame: done + 1, latent_frames: lat_t });
            }
            // [3, frames, height, width] to [frames, height, width, 3]
            rgb.extend(chunk.permuted_axes([1, 2, 3, 0]).iter().map(|&x| to_byte(x)));
            run.keep("frames", &chunk);
            done += 1;
            run.progress(Stage::Decode, done, lat_t)
        })?;
        rgb.drain(..variant.dropped_frames() * frame_bytes);
        check_frames(&rgb)?;
        Ok(Frames { size: dimensions.size(), rgb })
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

/// Latents on their way, and the sampler that moves them.
struct Sample {
    /// `[16, M + T, h, w]`
    latents: Array4<f32>,
    solver: Solver,
}

impl Sample {
    fn checkpoint(&self) -> CheckpointView<'_> {
        let latents = self.latents.as_slice().expect("noise is contiguous");
        CheckpointView { latents, solver: self.solver.state() }
    }
}

/// One run: what is asked for, and who is told of it.
struct Run<'r> {
    request: &'r ShotRequest,
    observer: &'r mut dyn Observer,
    stop: &'r StopToken,
    recording: Option<&'r mut Recording>,
}

impl Run<'_> {
    /// Reports where the run stands, unless it was stopped.
    fn progress(&mut self, stage: Stage, step: usize, steps: usize) -> Result<(), PipelineError> {
        self.stop.check()?;
        self.observer.progress(Progress { stage, step, steps });
        Ok(())
    }

    /// Offers the last step that was done, if the run ends because it was stopped.
    fn offer_if_stopped(&mut self, error: &PipelineError, sample: &Sample) {
        if matches!(error, PipelineError::Stopped) && sample.solver.step_index() > 0 {
            self.observer.stopped(sample.checkpoint());
        }
    }

    fn keep<S, D>(&mut self, name: &'static str, array: &ndarray::ArrayBase<S, D>)
    where
        S: ndarray::Data<Elem = f32>,
        D: ndarray::Dimension,
    {
        if let Some(recording) = &mut self.recording {
            recording.keep(name, array);
        }
    }
}

/// Whether a bundle can use the inputs of a request.
fn check_inputs(manifest: &Manifest, request: &ShotRequest) -> Result<(), PipelineError> {
    let refuse = |text: String| Err(PipelineError::Request(text));
    let Guidance { high, low } = request.sampling.guidance;
    if !high.is_finite() || !low.is_finite() {
        return refuse(format!("guidance scales must be finite numbers, not {high} and {low}"));
    }
    let (memory, most) = (request.memory.len(), manifest.sampling.max_memory);
    let name = &manifest.name;
    if manifest.variant == BundleVariant::T2v {
        return if memory == 0 && matches!(request.conditioning, Conditioning::None) {
            Ok(())
        } else {
            refuse(format!("bundle `{name}` makes video from text alone; leave out memory and known frames"))
        };
    }
    if memory == 0 {
        return refuse(format!("bundle `{name}` needs at least one memory image"));
    }
    if memory > most {
        return refuse(format!("{memory} memory images are too many; the model takes up to {most}"));
    }
    match (&request.conditioning, manifest.variant) {
        (Conditioning::FirstFrame(_), variant) if variant != BundleVariant::Mi2v => refuse(format!(
            "bundle `{name}` can't begin at a first frame; use one exported with `--variant mi2v`"
        )),
        (Conditioning::Motion(_), variant) if variant != BundleVariant::Mm2v => {
            refuse(format!("bundle `{name}` can't continue motion; use one exported with `--variant mm2v`"))
        }
        _ => Ok(()),
    }
}

/// Whether latents can still become a picture.
fn check_latents(latents: &[f32], step: usize, steps: usize) -> Result<(), PipelineError> {
    if !latents.iter().all(|x| x.is_finite()) {
        return Err(PipelineError::NanLatents { step, steps });
    }
    match latents.split_first() {
        Some((&value, rest)) if rest.iter().all(|&x| x == value) => {
            Err(PipelineError::ConstantLatents { value, step, steps })
        }
        _ => Ok(()),
    }
}

/// Whether there is anything to see.
fn check_frames(rgb: &[u8]) -> Result<(), PipelineError> {
    match rgb.as_chunks::<3>().0 {
        [first, rest @ ..] if rest.iter().all(|pixel| pixel == first) => {
            Err(PipelineError::ConstantFrames { rgb: *first })
        }
        _ => Ok(()),
    }
}

fn size_of(image: &RgbImage) -> Size {
    Size { width: image.width() as usize, height: image.height() as usize }
}

/// [-1, 1] to 0…255, truncated as StoryMem does.
fn to_byte(x: f32) -> u8 {
    ((x + 1.0) / 2.0 * 255.0) as u8
}

fn timed<T>(seconds: &mut f64, stage: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = stage();
    *seconds = start.elapsed().as_secs_f64();
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latents_that_are_no_picture_are_refused() {
        assert!(check_latents(&[0.5, 0.5, 0.25], 1, 4).is_ok());
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let error = check_latents(&[0.5, bad, 0.25], 1, 4).unwrap_err();
            assert_eq!(error.code(), "nan_latents");
        }
        let error = check_latents(&[0.5; 8], 3, 4).unwrap_err();
        assert_eq!(error.code(), "constant_latents");
        assert_eq!(
            error.to_string(),
            "the latents are all `0.5` after step 3 of 4, which is no picture; try another seed or guidance scale"
        );
    }

    #[test]
    fn frames_without_anything_to_see_are_refused() {
        assert!(check_frames(&[0, 0, 0, 0, 0, 1]).is_ok());
        // Flat, and yet its bytes differ.
        let error = check_frames(&[255, 128, 0, 255, 128, 0]).unwrap_err();
        assert_eq!(error.code(), "constant_frames");
        assert_eq!(
            error.to_string(),
            "all pixels of the video have the colour `#ff8000`, which is no picture; try another seed"
        );
    }
}
