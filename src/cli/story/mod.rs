//! `storymem story`: a film of a script, without a service.
//!
//! It is the service without HTTP: the script becomes a story in a queue of its own, in a folder beside the film, and a
//! worker in this process makes its shots. So it resumes as the service does. Killed in whatever way, the same command goes on
//! at the shot it had reached, from its last saved step, and makes the same film.

mod progress;
mod work;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use axum::body::Bytes;
use onnx_export::bundle::Bundle;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::progress::Display;
use self::work::{Models, Work};
use super::settings::{FitFlag, ShotSettings};
use super::signals;
use crate::api::Catalog;
use crate::api::stories::request::{Connect, FirstShot, Seeds};
use crate::config::{
    BundleConfig, DeviceConfig, LogConfig, LogFormat, MemoryConfig, OneDevice, RuntimeConfig, absolute_path,
};
use crate::engine::Runtime;
use crate::pipeline::{Bundles, Fit, Model, ShotPipeline};
use crate::queue::{Queue, Status, Story};
use crate::worker::{self, Worker};

/// How often is looked how far the story has come.
const LOOK: Duration = Duration::from_millis(100);

/// Makes a film of a script and writes it to an MP4 file; the same command goes on where it was broken off
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// A script as StoryMem's own are written, in JSON or JSON5
    #[arg(value_name = "SCRIPT", value_parser = absolute_path())]
    script: PathBuf,
    #[command(flatten)]
    bundle: BundleConfig,
    /// Frames to remember from the beginning, in story order: PNG, JPEG or WebP
    #[arg(long, value_name = "IMAGE", num_args = 1.., value_parser = absolute_path())]
    memory: Vec<PathBuf>,
    /// How shots that are no cuts go on: from memory alone, from the last frame, or from the last five
    #[arg(long, value_enum, default_value_t)]
    connect: Connect,
    /// How the first shot is made: from its prompt, or from `--memory` [default: by what there is]
    #[arg(long, value_enum)]
    first_shot: Option<FirstShot>,
    /// Most frames a shot remembers [default: what the model takes]
    #[arg(long, value_name = "N")]
    max_memory: Option<u32>,
    /// Of these, the earliest that always count
    #[arg(long, value_name = "N", default_value_t = 3)]
    fixed_memory: u32,
    /// How the seeds of the shots follow from `--seed`: each has its own, or as StoryMem counts, in each scene anew
    #[arg(long, value_enum, default_value_t)]
    seeds: Seeds,
    #[command(flatten)]
    settings: ShotSettings,
    #[command(flatten)]
    remember: MemoryConfig,
    #[command(flatten)]
    on: OneDevice,
    #[command(flatten)]
    runtime: RuntimeConfig,
    #[command(flatten)]
    use_of: DeviceConfig,
    /// Least seconds between two saved steps, more when saving takes long; 0 saves each step
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    checkpoint_seconds: u64,
    /// What to log: a level, or directives such as `info,storymem=debug`
    #[arg(long = "log", value_name = "FILTER", default_value = "warn", value_parser = crate::config::parse_filter)]
    log: String,
    /// The folder with the shots and everything that is needed to go on [default: FILM with `.story` at its end]
    #[arg(long, value_name = "DIR", value_parser = absolute_path())]
    work: Option<PathBuf>,
    /// The film to write, an MP4 file; beside it a JSON file says which shot is where
    #[arg(long, value_name = "FILM", value_parser = absolute_path())]
    out: PathBuf,
}

/// Makes the film.
///
/// # Errors
/// What is wrong with the script, the bundles or the device, in words; or why a shot could not be made.
pub fn run(args: Args) -> anyhow::Result<()> {
    LogConfig { filter: args.log.clone(), log_format: LogFormat::Text }.init()?;
    let parent = args.out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    ensure!(parent.is_dir(), "`{}` is no folder; create it first", parent.display());
    let request = args.request()?;
    let memory = args.memory.iter().map(read).collect::<anyhow::Result<Vec<Bytes>>>()?;

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let work = runtime.block_on(Work::open(&args.work()))?;
    let id = runtime.block_on(work.begin(request, memory, &args.models()?))?;
    let story = make(&args, &runtime, &work, id)?;
    runtime.block_on(work.queue.close());
    match story.status {
        Status::Succeeded => finish(&args, &work, &story),
        Status::Failed => bail!("{}", failure(&story)),
        _ => bail!("broken off; the same command goes on from here"),
    }
}

impl Args {
    /// What `POST /stories` would be asked.
    fn request(&self) -> anyhow::Result<Value> {
        let script = fs::read_to_string(&self.script);
        let script = script.with_context(|| format!("can't read `{}`", self.script.display()))?;
        let ShotSettings { negative_prompt, size, fit, frames, steps, shift, guidance, solver, seed } =
            &self.settings;
        let fit = (*fit != FitFlag::Size).then_some(Fit::Reference);
        let request = json!({
            "script": script,
            "connect": self.connect,
            "first_shot": self.first_shot,
            "max_memory": self.max_memory,
            "fixed_memory": self.fixed_memory,
            "seeds": self.seeds,
            "negative_prompt": negative_prompt,
            "size": size,
            "fit": fit,
            "frames": frames,
            "steps": steps,
            "shift": shift,
            "guidance_scale": guidance,
            "solver": solver,
            "seed": seed,
        });
        // By way of text: a `Value` made of an `f32` has the digits of an `f64`.
        let mut request: Map<String, Value> = serde_json::from_str(&request.to_string())?;
        request.retain(|_, value| !value.is_null());
        Ok(request.into())
    }

    fn work(&self) -> PathBuf {
        self.work.clone().unwrap_or_else(|| {
            let mut name = self.out.file_name().unwrap_or_default().to_owned();
            name.push(".story");
            self.out.with_file_name(name)
        })
    }

    /// What the bundles can make, and which they are.
    fn models(&self) -> anyhow::Result<Models> {
        let bundles = self.bundle.bundles.iter().map(|path| Ok(Bundle::open(path)?));
        let bundles = bundles.collect::<anyhow::Result<Vec<Bundle>>>()?;
        let manifests = bundles.iter().map(|bundle| bundle.manifest().clone()).collect();
        let digests = bundles.iter().map(|bundle| bundle.digest().to_owned()).collect();
        Ok(Models { catalog: Catalog::new(manifests), digests })
    }

    fn open(&self, runtime: &Runtime) -> anyhow::Result<Bundles> {
        let open = |path| {
            let options = self.use_of.options(self.on.device());
            Ok(Model::new(ShotPipeline::open(path, runtime.clone(), options)?))
        };
        let models = self.bundle.bundles.iter().map(|path| open(path)).collect::<anyhow::Result<_>>();
        models.map(Bundles::new)
    }
}

fn read(path: &PathBuf) -> anyhow::Result<Bytes> {
    fs::read(path).map(Bytes::from).with_context(|| format!("can't read `{}`", path.display()))
}

/// Runs a worker until the story has ended or the command is told to stop. Returns how the story stands then.
fn make(args: &Args, runtime: &tokio::runtime::Runtime, work: &Work, id: Uuid) -> anyhow::Result<Story> {
    let story = || runtime.block_on(work.story(id));
    if story()?.status == Status::Succeeded {
        return story();
    }
    let (drain, shutdown) = (CancellationToken::new(), CancellationToken::new());
    {
        let _context = runtime.enter();
        runtime.spawn(signals::cancel_on_signal(shutdown.clone()).context("can't listen to signals")?);
    }
    let ort = Runtime::load(&args.runtime.options(args.on.device()))?;
    let mut bundles = args.open(&ort)?;
    let mut gate = args.remember.open(&ort)?;
    let device = args.on.device().to_string();
    let worker = Worker {
        name: worker::new_name(&device),
        device,
        queue: work.queue.clone(),
        storage: work.storage.clone(),
        runtime: runtime.handle().clone(),
        checkpoint_every: Duration::from_secs(args.checkpoint_seconds),
        drain: drain.clone(),
        shutdown,
    };
    runtime.spawn(follow(work.queue.clone(), id, drain));
    worker.run(&mut bundles, &mut *gate)?;
    story()
}

/// Shows how far the story has come, and stops the worker at its end.
async fn follow(queue: Queue, id: Uuid, drain: CancellationToken) {
    let mut display = Display::default();
    let mut looks = tokio::time::interval(LOOK);
    while !drain.is_cancelled() {
        looks.tick().await;
        match queue.story(id).await {
            Ok(Some(story)) => {
                display.show(&story);
                if story.status.is_final() {
                    drain.cancel();
                }
            }
            Ok(None) => drain.cancel(),
            Err(e) => tracing::warn!(error = %e, "how far the story has come can't be read"),
        }
    }
    display.finish();
}

/// Puts the film where it is wanted, and the list of its shots beside it.
fn finish(args: &Args, work: &Work, story: &Story) -> anyhow::Result<()> {
    let film = story.film.as_ref().context("the story has no film")?;
    for shot in &story.shots {
        for warning in &shot.job.warnings {
            eprintln!("warning: shot {}: {warning}", shot.shot);
        }
    }
    let index = args.out.with_extension("json");
    work::write_whole(&index, &serde_json::to_vec_pretty(&film.shots)?)?;
    work::copy(&work.storage.film(film.job, film.token), &args.out)?;
    println!(
        "{}: {} shots, {} frames of {}x{}, {:.2} s, {} bytes; `{}` says which shot is where",
        args.out.display(),
        film.shots.len(),
        film.frames,
        film.width,
        film.height,
        film.frames as f64 / f64::from(film.fps),
        film.bytes,
        index.display()
    );
    Ok(())
}

fn failure(story: &Story) -> String {
    let failed = story.shots.iter().find_map(|shot| Some((shot.shot, shot.job.failure.as_ref()?)));
    match failed {
        Some((shot, failure)) => {
            format!("shot {shot} failed: {}; the same command tries it again", failure.detail)
        }
        None => "a shot failed; the same command tries it again".to_owned(),
    }
}

/// The queue's clock is the system's.
fn clock() -> Arc<dyn crate::queue::Clock> {
    Arc::new(crate::queue::SystemClock)
}
