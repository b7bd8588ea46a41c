//! A story as clients see it.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::api::jobs::progress::ProgressView;
use crate::api::jobs::result::ResultView;
use crate::api::jobs::view::ErrorView;
use crate::api::jobs::words::variant_words;
use crate::pipeline::Variant;
use crate::queue::{BankFrame, FailureCode, Film, FilmShot, Status, Story, StoryShot};

/// A story.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Story)]
pub struct StoryView {
    /// A UUIDv7: ids sort by the time of the request.
    pub id: Uuid,
    /// Where it stands. `succeeded`, `failed` and `cancelled` last until a shot is asked for again.
    pub status: Status,
    /// How far it has come.
    pub progress: StoryProgress,
    /// The request, with the facts of its images in place of their bytes.
    #[schema(value_type = Object)]
    pub request: Value,
    /// Its shots, in order.
    pub shots: Vec<ShotView>,
    /// What it remembers, in story order.
    pub memory: Vec<FrameView>,
    /// The latest film. While shots are made anew, it is still the one before.
    #[schema(required)]
    pub film: Option<FilmView>,
    /// Why it failed.
    #[schema(required)]
    pub error: Option<StoryError>,
    /// When it was asked for.
    pub created_at: DateTime<Utc>,
    /// When it became final.
    #[schema(required)]
    pub finished_at: Option<DateTime<Utc>>,
    /// Where to go from here.
    pub links: StoryLinks,
}

/// How far a story has come.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct StoryProgress {
    /// Shots that are made.
    pub made: usize,
    /// Shots.
    pub shots: usize,
    /// Of the whole story.
    #[schema(minimum = 0, maximum = 100)]
    pub percent: f64,
}

/// A shot of a story.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Shot)]
pub struct ShotView {
    /// Which, from 1.
    pub shot: u32,
    /// `scene_num` of its scene.
    pub scene: u32,
    /// What happens in it.
    pub prompt: String,
    /// Whether it begins afresh instead of going on from the one before.
    pub cut: bool,
    /// How it is made.
    #[schema(schema_with = variant_words)]
    pub mode: Variant,
    /// Seed of its initial noise.
    pub seed: u64,
    /// How often it was asked for.
    pub revision: u32,
    /// The job that makes it.
    pub job: Uuid,
    /// Where the job stands.
    pub status: Status,
    /// How far it has come.
    pub progress: ProgressView,
    /// What to know about it.
    pub warnings: Vec<String>,
    /// Why it failed.
    #[schema(required)]
    pub error: Option<ErrorView>,
    /// What it has made.
    #[schema(required)]
    pub result: Option<ResultView>,
}

/// A frame that a story remembers.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = MemoryFrame)]
pub struct FrameView {
    /// Its number, to pin or drop it by.
    pub id: i64,
    /// The shot it comes after, in story order; 0 before the first.
    pub shot: u32,
    /// Its index in the video of that shot; null for one that was given.
    #[schema(required)]
    pub frame: Option<u32>,
    /// Where it is, as PNG or as it was given.
    pub image_url: String,
    /// SHA-256 of the image, in hex.
    pub sha256: String,
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Whether every shot to come remembers it.
    pub pinned: bool,
    /// Whether no shot to come does.
    pub dropped: bool,
}

/// A film.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Film)]
pub struct FilmView {
    /// Where it is; null when it has expired.
    #[schema(required)]
    pub video_url: Option<String>,
    /// Whether it is of the shots as they are now; false while some are made anew.
    pub current: bool,
    /// Size of the file.
    pub bytes: u64,
    /// SHA-256 of the file, in hex.
    pub sha256: String,
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Frames.
    pub frames: usize,
    /// Frames in a second.
    pub fps: u32,
    /// Length of the film.
    pub seconds: f64,
    /// Which shot is where in it.
    pub shots: Vec<FilmShot>,
}

/// Why a story failed.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct StoryError {
    /// The shot that failed. It can be redone.
    pub shot: u32,
    /// For programs.
    pub code: FailureCode,
    /// For people.
    pub detail: String,
}

/// Where to go from here.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct StoryLinks {
    /// The story itself.
    #[serde(rename = "self")]
    pub this: String,
    /// To follow it.
    pub events: String,
    /// What it remembers.
    pub memory: String,
    /// Its jobs, those that count no more too.
    pub jobs: String,
    /// To cancel it, while it has not ended.
    #[schema(required)]
    pub cancel: Option<String>,
    /// The latest film, as long as there is one.
    #[schema(required)]
    pub video: Option<String>,
}

impl StoryView {
    /// From what the queue knows.
    pub fn new(story: &Story) -> Self {
        let path = format!("/stories/{}", story.id);
        let shots: Vec<ShotView> = story.shots.iter().map(ShotView::new).collect();
        let video = story.film.as_ref().filter(|_| story.film_kept).map(|_| format!("{path}/video"));
        let failed = story.shots.iter().find_map(|shot| Some((shot.shot, shot.job.failure.as_ref()?)));
        Self {
            id: story.id,
            status: story.status,
            progress: StoryProgress::new(&shots),
            request: story.request.clone(),
            memory: story.memory.iter().map(|frame| FrameView::new(&path, frame)).collect(),
            film: story.film.as_ref().map(|film| FilmView::new(story, film, video.clone())),
            error: failed.map(|(shot, failure)| StoryError {
                shot,
                code: failure.code,
                detail: failure.detail.clone(),
            }),
            created_at: story.created_at.to_utc(),
            finished_at: story.finished_at.map(|at| at.to_utc()),
            links: StoryLinks {
                events: format!("{path}/events"),
                memory: format!("{path}/memory"),
                jobs: format!("/jobs?story={}", story.id),
                cancel: (!story.status.is_final()).then(|| format!("{path}/cancel")),
                video,
                this: path,
            },
            shots,
        }
    }
}

impl StoryProgress {
    fn new(shots: &[ShotView]) -> Self {
        let made = shots.iter().filter(|shot| shot.status == Status::Succeeded).count();
        let percent: f64 = shots.iter().map(|shot| shot.progress.percent).sum();
        let percent = (percent * 10.0 / shots.len().max(1) as f64).round() / 10.0;
        Self { made, shots: shots.len(), percent }
    }
}

impl ShotView {
    /// From what the queue knows.
    pub fn new(of: &StoryShot) -> Self {
        let (spec, job) = (&of.job.spec, &of.job);
        let failure = job.failure.as_ref();
        Self {
            shot: of.shot,
            scene: of.scene,
            prompt: spec.prompt.clone(),
            cut: of.cut,
            mode: spec.variant,
            seed: spec.sampling.seed,
            revision: of.revision,
            job: job.id,
            status: job.status,
            progress: ProgressView::new(job.status, job.reached),
            warnings: job.warnings.clone(),
            error: failure.map(ErrorView::new),
            result: job.made.as_ref().map(|made| ResultView::new(&format!("/jobs/{}", job.id), made)),
        }
    }
}

impl FrameView {
    fn new(story: &str, frame: &BankFrame) -> Self {
        let BankFrame { id, shot, frame, image, pinned, dropped } = frame;
        Self {
            id: *id,
            shot: *shot,
            frame: frame.map(|(_, index)| index),
            image_url: format!("{story}/memory/{id}"),
            sha256: image.sha256.to_string(),
            width: image.size.width,
            height: image.size.height,
            pinned: *pinned,
            dropped: *dropped,
        }
    }
}

impl FilmView {
    fn new(story: &Story, film: &Film, video_url: Option<String>) -> Self {
        Self {
            video_url,
            current: story.shots.last().is_some_and(|last| last.job.id == film.job),
            bytes: film.bytes,
            sha256: film.sha256.clone(),
            width: film.width,
            height: film.height,
            frames: film.frames,
            fps: film.fps,
            seconds: film.frames as f64 / f64::from(film.fps),
            shots: film.shots.clone(),
        }
    }
}
