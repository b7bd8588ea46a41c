//! A job as clients see it.
//!
//! Everything here follows from the row alone (and the place in the queue), never from the clock: the same row gives
//! the same JSON, so that a version is enough for an `ETag`.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::progress::ProgressView;
use super::result::ResultView;
use super::words::{fit_words, solver_words, variant_words};
use crate::pipeline::{Fit, SolverKind, Variant};
use crate::queue::{Failure, FailureCode, Job, Made, Status};

/// A job.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Job)]
pub struct JobView {
    /// A UUIDv7: ids sort by the time of the request.
    pub id: Uuid,
    /// Where it stands; `succeeded`, `failed` and `cancelled` are final.
    pub status: Status,
    /// The place among the jobs that wait, from 1; null for one that does not wait.
    #[schema(required)]
    pub queue_position: Option<u64>,
    /// How often a worker has taken it.
    pub attempt: u32,
    /// How far it has come.
    pub progress: ProgressView,
    /// The request as it came, with the facts of its images in place of their bytes.
    #[schema(value_type = Object)]
    pub request: Value,
    /// The settings that count, defaults filled in.
    pub effective: EffectiveView,
    /// What to know about the result: a prompt that was cut, …
    pub warnings: Vec<String>,
    /// Why it failed.
    #[schema(required)]
    pub error: Option<ErrorView>,
    /// What it has made.
    #[schema(required)]
    pub result: Option<ResultView>,
    /// Where the time went.
    pub timings: TimingsView,
    /// When it was asked for.
    pub created_at: DateTime<Utc>,
    /// When the latest attempt began.
    #[schema(required)]
    pub started_at: Option<DateTime<Utc>>,
    /// When it became final.
    #[schema(required)]
    pub finished_at: Option<DateTime<Utc>>,
    /// Until when the files of the result are kept at least.
    #[schema(required)]
    pub expires_at: Option<DateTime<Utc>>,
    /// Who took it last.
    #[schema(required)]
    pub worker: Option<String>,
    /// The job this one tries again.
    #[schema(required)]
    pub retry_of: Option<Uuid>,
    /// Of which story it is a shot.
    #[schema(required)]
    pub story: Option<ShotOfView>,
    /// Where to go from here.
    pub links: LinksView,
}

/// Of which story a job makes a shot.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[schema(as = ShotOfStory)]
pub struct ShotOfView {
    /// The story.
    pub id: Uuid,
    /// Which shot, from 1.
    pub shot: u32,
}

/// The settings that count. What only the model can tell is null until the job has succeeded.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Effective)]
pub struct EffectiveView {
    /// The mode.
    #[schema(schema_with = variant_words)]
    pub variant: Variant,
    /// Pixels in a row of the video.
    #[schema(required)]
    pub width: Option<usize>,
    /// Rows of the video.
    #[schema(required)]
    pub height: Option<usize>,
    /// How the size of the video was found.
    #[schema(schema_with = fit_words)]
    pub fit: Fit,
    /// Frames in the video.
    pub frames: usize,
    /// Denoising steps.
    pub steps: usize,
    /// Shift of the noise schedule.
    pub shift: f64,
    /// Guidance of each expert.
    pub guidance_scale: GuidanceView,
    /// The sampler.
    #[schema(schema_with = solver_words)]
    pub solver: SolverKind,
    /// Seed of the initial noise.
    pub seed: u64,
    /// What to steer away from.
    pub negative_prompt: String,
    /// Tokens of the prompt.
    #[schema(required)]
    pub prompt_tokens: Option<usize>,
    /// Digest of the model.
    #[schema(required)]
    pub model: Option<String>,
}

/// Guidance of each expert.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Guidance)]
pub struct GuidanceView {
    /// Of the high-noise expert.
    pub high: f32,
    /// Of the low-noise expert.
    pub low: f32,
}

/// Why a job failed.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = JobError)]
pub struct ErrorView {
    /// For programs.
    pub code: FailureCode,
    /// For people.
    pub detail: String,
}

/// Where the time went; null is not known yet.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Timings)]
pub struct TimingsView {
    /// From the request to the start of the latest attempt.
    #[schema(required)]
    pub queued_seconds: Option<f64>,
    /// From the start of the latest attempt to the end.
    #[schema(required)]
    pub running_seconds: Option<f64>,
    /// Encoding the prompts.
    #[schema(required)]
    pub text_seconds: Option<f64>,
    /// Encoding the images.
    #[schema(required)]
    pub encode_seconds: Option<f64>,
    /// Denoising.
    #[schema(required)]
    pub denoise_seconds: Option<f64>,
    /// Decoding the frames.
    #[schema(required)]
    pub decode_seconds: Option<f64>,
    /// Writing the MP4.
    #[schema(required)]
    pub mp4_seconds: Option<f64>,
}

/// Where to go from here.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Links)]
pub struct LinksView {
    /// The job itself.
    #[serde(rename = "self")]
    pub this: String,
    /// To follow it.
    pub events: String,
    /// To cancel it, while it has not ended.
    #[schema(required)]
    pub cancel: Option<String>,
    /// To try it again, once it has failed or was cancelled.
    #[schema(required)]
    pub retry: Option<String>,
    /// Its video, from when there is one until it has expired.
    #[schema(required)]
    pub video: Option<String>,
    /// The middle frame of its video, as long as there is one.
    #[schema(required)]
    pub thumbnail: Option<String>,
    /// How telling its `webhook_url` goes, if it has one.
    #[schema(required)]
    pub webhook: Option<String>,
}

impl JobView {
    /// `position` is the job's place in the queue, if it waits.
    pub fn new(job: Job, position: Option<u64>) -> Self {
        let path = format!("/jobs/{}", job.id);
        let made = job.made.as_ref();
        let files = made.filter(|_| job.expired_at.is_none());
        Self {
            id: job.id,
            status: job.status,
            queue_position: position,
            attempt: job.attempt,
            progress: ProgressView::new(job.status, job.reached),
            effective: EffectiveView::new(&job),
            error: job.failure.as_ref().map(ErrorView::new),
            result: made.map(|made| ResultView::new(&path, made)),
            timings: TimingsView::new(&job),
            created_at: job.created_at.to_utc(),
            started_at: job.started_at.map(|at| at.to_utc()),
            finished_at: job.finished_at.map(|at| at.to_utc()),
            expires_at: job.expires_at.map(|at| at.to_utc()),
            links: LinksView {
                events: format!("{path}/events"),
                retry: (job.origin.shot.is_none()
                    && matches!(job.status, Status::Failed | Status::Cancelled))
                .then(|| format!("{path}/retry")),
                cancel: (!job.status.is_final()).then(|| format!("{path}/cancel")),
                video: files.map(|_| format!("{path}/video")),
                thumbnail: files.map(|_| format!("{path}/thumbnail")),
                webhook: job.origin.webhook_url.as_ref().map(|_| format!("{path}/webhook")),
                this: path,
            },
            request: job.request,
            warnings: job.warnings,
            worker: job.worker,
            retry_of: job.origin.retry_of,
            story: job.origin.shot.map(|of| ShotOfView { id: of.story, shot: of.shot }),
        }
    }
}

impl EffectiveView {
    fn new(job: &Job) -> Self {
        let (spec, sampling) = (&job.spec, &job.spec.sampling);
        let made = job.made.as_ref();
        // With `fit: size` the size is what was asked; else the pipeline finds it.
        let size =
            made.map(|made| made.effective.size).or((sampling.fit == Fit::Size).then_some(sampling.size));
        Self {
            variant: spec.variant,
            width: size.map(|size| size.width),
            height: size.map(|size| size.height),
            fit: sampling.fit,
            frames: sampling.frames.saturating_sub(spec.variant.dropped_frames()),
            steps: sampling.steps,
            shift: sampling.shift,
            guidance_scale: GuidanceView { high: sampling.guidance.high, low: sampling.guidance.low },
            solver: sampling.solver,
            seed: sampling.seed,
            negative_prompt: spec.negative_prompt.clone(),
            prompt_tokens: made.map(|made| made.effective.prompt_tokens),
            model: made.map(|made| made.model.clone()),
        }
    }
}

impl ErrorView {
    /// From what the queue knows.
    pub fn new(failure: &Failure) -> Self {
        Self { code: failure.code, detail: failure.detail.clone() }
    }
}

impl TimingsView {
    fn new(job: &Job) -> Self {
        let made = job.made.as_ref();
        let stage = |seconds: fn(&Made) -> f64| made.map(seconds);
        Self {
            queued_seconds: job.started_at.map(|start| start.seconds_since(job.created_at)),
            running_seconds: job.finished_at.zip(job.started_at).map(|(end, start)| end.seconds_since(start)),
            text_seconds: stage(|made| made.timings.text_seconds),
            encode_seconds: stage(|made| made.timings.encode_seconds),
            denoise_seconds: stage(|made| made.timings.denoise_seconds),
            decode_seconds: stage(|made| made.timings.decode_seconds),
            mp4_seconds: stage(|made| made.mp4_seconds),
        }
    }
}
