//! `storymem generate`: one shot, without a service.

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use image::RgbImage;
use indicatif::{ProgressBar, ProgressStyle};
use onnx_export::bundle::Manifest;
use serde::Serialize;

use super::interrupt;
use super::settings::ShotSettings;
use crate::config::{DeviceConfig, OneDevice, RuntimeConfig, absolute_path};
use crate::engine::Runtime;
use crate::pipeline::{
    Conditioning, Generator, Observer, Progress, Recording, Sampling, ShotPipeline, ShotRequest, Size, Stage,
    StopToken, draw_seed, images,
};
use crate::video;

/// Makes one shot and writes it to an MP4 file
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A folder written by `storymem export` or `storymem demo`
    #[arg(long, value_name = "DIR", value_parser = absolute_path())]
    bundle: PathBuf,
    /// What happens in the shot
    #[arg(long, value_name = "TEXT")]
    prompt: String,
    /// Frames to remember, in story order: PNG, JPEG or WebP
    #[arg(long, value_name = "IMAGE", num_args = 1.., value_parser = absolute_path())]
    memory: Vec<PathBuf>,
    /// Begin with this frame; it is not part of the video
    #[arg(long, value_name = "IMAGE", conflicts_with = "motion", value_parser = absolute_path())]
    first_frame: Option<PathBuf>,
    /// Continue the motion of these five frames; they are not part of the video
    #[arg(long, value_name = "IMAGE", num_args = 5, value_parser = absolute_path())]
    motion: Vec<PathBuf>,
    #[command(flatten)]
    settings: ShotSettings,
    #[command(flatten)]
    on: OneDevice,
    #[command(flatten)]
    runtime: RuntimeConfig,
    #[command(flatten)]
    use_of: DeviceConfig,
    /// The MP4 file to write
    #[arg(long, value_name = "FILE", value_parser = absolute_path())]
    out: PathBuf,
    /// Also write what each stage computed, as safetensors
    #[arg(long, value_name = "FILE", value_parser = absolute_path())]
    dump: Option<PathBuf>,
    /// Also write how long each part took, as JSON
    #[arg(long, value_name = "FILE", value_parser = absolute_path())]
    timings: Option<PathBuf>,
}

/// Makes the shot.
///
/// # Errors
/// What is wrong with the arguments, the bundle or the device, in words.
pub fn run(args: Args) -> anyhow::Result<()> {
    let start = Instant::now();
    let parent = args.out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    ensure!(parent.is_dir(), "`{}` is no folder; create it first", parent.display());

    let device = args.on.device();
    let runtime = Runtime::load(&args.runtime.options(device))?;
    let mut pipeline = ShotPipeline::open(&args.bundle, runtime, args.use_of.options(device))?;
    let request = request(&args, pipeline.manifest())?;
    let stop = StopToken::default();
    let on_interrupt = stop.clone();
    interrupt::on_interrupt(move || on_interrupt.stop())?;

    let mut recording = args.dump.is_some().then(Recording::default);
    let mut display = Display::new(start);
    let shot = pipeline.generate_recorded(&request, None, &mut display, &stop, recording.as_mut())?;
    display.finish();
    for warning in &shot.warnings {
        eprintln!("warning: {warning}");
    }

    let fps = pipeline.manifest().sampling.fps;
    let facts = video::write_mp4(&args.out, &shot.frames, fps)?;
    if let (Some(path), Some(recording)) = (&args.dump, recording) {
        recording.save(path).with_context(|| format!("can't write `{}`", path.display()))?;
    }
    if let Some(path) = &args.timings {
        let timings = Timings {
            start_to_first_step_seconds: display.seconds_to_first_step(),
            step_seconds: display.step_seconds(),
            total_seconds: start.elapsed().as_secs_f64(),
            stages: shot.timings,
        };
        fs::write(path, serde_json::to_string_pretty(&timings)?)
            .with_context(|| format!("can't write `{}`", path.display()))?;
    }
    println!(
        "{}: {} frames of {}, {:.2} s, {} bytes, seed {}",
        args.out.display(),
        shot.effective.frames,
        shot.effective.size,
        facts.seconds(),
        facts.bytes,
        request.sampling.seed
    );
    Ok(())
}

fn request(args: &Args, manifest: &Manifest) -> anyhow::Result<ShotRequest> {
    let (defaults, settings) = (&manifest.sampling, &args.settings);
    let own_size = Size { width: defaults.width, height: defaults.height };
    let conditioning = match (&args.first_frame, &args.motion[..]) {
        (Some(path), _) => Conditioning::FirstFrame(open_image(path)?),
        (None, []) => Conditioning::None,
        (None, paths) => {
            let frames: Vec<_> = paths.iter().map(|p| open_image(p)).collect::<Result<_, _>>()?;
            let Ok(frames) = frames.try_into() else { bail!("`--motion` takes five images") };
            Conditioning::Motion(Box::new(frames))
        }
    };
    Ok(ShotRequest {
        prompt: args.prompt.clone(),
        negative_prompt: settings.negative_prompt.clone().unwrap_or_else(|| defaults.negative_prompt.clone()),
        memory: args.memory.iter().map(|p| open_image(p)).collect::<Result<_, _>>()?,
        conditioning,
        sampling: Sampling {
            size: settings.size.unwrap_or(own_size),
            fit: settings.fit.into(),
            frames: settings.frames.unwrap_or(defaults.frames),
            steps: settings.steps.unwrap_or(defaults.steps),
            shift: settings.shift.unwrap_or(defaults.shift),
            guidance: settings.guidance.unwrap_or(defaults.guidance),
            solver: settings.solver,
            seed: settings.seed.map_or_else(draw_seed, Ok)?,
        },
    })
}

fn open_image(path: &Path) -> anyhow::Result<RgbImage> {
    let context = || format!("image `{}`", path.display());
    images::decode(&fs::read(path).with_context(context)?).with_context(context)
}

#[derive(Serialize)]
struct Timings {
    /// From the start of the command to the beginning of the first denoising step.
    start_to_first_step_seconds: f64,
    step_seconds: Vec<f64>,
    total_seconds: f64,
    #[serde(flatten)]
    stages: crate::pipeline::Timings,
}

/// Shows where the run stands: a bar on a terminal, a line for each stage elsewhere.
struct Display {
    start: Instant,
    bar: ProgressBar,
    stage: Option<Stage>,
    /// When denoising began, and when each of its steps was done.
    steps: Vec<Duration>,
}

impl Display {
    fn new(start: Instant) -> Self {
        let style = ProgressStyle::with_template("{msg:8} [{bar:40}] {pos}/{len}  {elapsed}  {eta} left")
            .expect("the template is valid");
        Self { start, bar: ProgressBar::no_length().with_style(style), stage: None, steps: Vec::new() }
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn seconds_to_first_step(&self) -> f64 {
        self.steps.first().map_or(0.0, Duration::as_secs_f64)
    }

    fn step_seconds(&self) -> Vec<f64> {
        self.steps.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect()
    }
}

impl Observer for Display {
    fn progress(&mut self, Progress { stage, step, steps }: Progress) {
        if stage == Stage::Denoise {
            self.steps.push(self.start.elapsed());
        }
        if self.stage != Some(stage) {
            self.stage = Some(stage);
            self.bar.reset();
            self.bar.set_message(stage.name());
            if !std::io::stderr().is_terminal() {
                eprintln!("{} …", stage.name());
            }
        }
        self.bar.set_length(steps as u64);
        self.bar.set_position(step as u64);
    }
}
