//! A job as OpenAI's clients see a video.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{ID, MODEL};
use crate::api::jobs::progress::ProgressView;
use crate::api::jobs::view::JobView;
use crate::queue::{Job, Status};

/// A video.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Video)]
pub struct VideoView {
    /// The job's id behind `video_`.
    #[schema(example = "video_0190b0a0-0000-7000-8000-000000000000")]
    id: String,
    /// Always `video`.
    #[schema(example = "video")]
    object: &'static str,
    /// The name the client gave, else the model's digest once that is known, else `storymem`.
    model: String,
    /// Where it stands. A cancelled job is a failed video.
    status: VideoStatus,
    /// Percent that are done.
    progress: u8,
    /// What happens in it.
    prompt: String,
    /// Length, as text.
    #[schema(example = "5")]
    seconds: String,
    /// `WxH`.
    #[schema(example = "832x480")]
    size: String,
    /// When it was asked for, in seconds since 1970.
    created_at: i64,
    /// When it was ready.
    #[schema(required)]
    completed_at: Option<i64>,
    /// Until when its files are kept at least.
    #[schema(required)]
    expires_at: Option<i64>,
    /// Why it failed.
    #[schema(required)]
    error: Option<VideoError>,
    /// Always null: nothing is remixed here.
    #[schema(required, value_type = Option<String>)]
    remixed_from_video_id: (),
}

/// Where a video stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum VideoStatus {
    /// Waits.
    Queued,
    /// Is being made.
    InProgress,
    /// Is ready.
    Completed,
    /// Will never be.
    Failed,
}

/// Why a video failed.
#[derive(Debug, Serialize, ToSchema)]
pub struct VideoError {
    /// A code of this API, or `cancelled`.
    code: &'static str,
    /// The same for people.
    message: String,
}

impl VideoView {
    /// `fps` is that of the bundle that makes it.
    pub fn new(job: Job, fps: u32) -> Self {
        let model = job.request["metadata"][MODEL].as_str().map(str::to_owned);
        let digest = job.made.as_ref().map(|made| made.model.clone());
        let status = match job.status {
            Status::Queued => VideoStatus::Queued,
            Status::Running | Status::Cancelling => VideoStatus::InProgress,
            Status::Succeeded => VideoStatus::Completed,
            Status::Failed | Status::Cancelled => VideoStatus::Failed,
        };
        let error = match (job.status, &job.failure) {
            (Status::Cancelled, _) => {
                Some(VideoError { code: "cancelled", message: "the job was cancelled".to_owned() })
            }
            (_, Some(failure)) => {
                Some(VideoError { code: failure.code.code(), message: failure.detail.clone() })
            }
            _ => None,
        };
        let progress = ProgressView::new(job.status, job.reached).percent as u8;
        let prompt = job.spec.prompt.clone();
        let view = JobView::new(job, None);
        let asked = &view.request["size"];
        let size = match (&view.effective.width, &view.effective.height) {
            (Some(width), Some(height)) => format!("{width}x{height}"),
            _ => asked.as_str().map_or_else(|| Value::to_string(asked), str::to_owned),
        };
        let seconds = view.effective.frames as f64 / f64::from(fps);
        Self {
            id: format!("{ID}{}", view.id),
            object: "video",
            model: model.or(digest).unwrap_or_else(|| "storymem".to_owned()),
            status,
            progress,
            prompt,
            seconds: format!("{}", (seconds * 100.0).round() / 100.0),
            size,
            created_at: view.created_at.timestamp(),
            completed_at: view
                .finished_at
                .filter(|_| status == VideoStatus::Completed)
                .map(|at| at.timestamp()),
            expires_at: view.expires_at.map(|at| at.timestamp()),
            error,
            remixed_from_video_id: (),
        }
    }
}
