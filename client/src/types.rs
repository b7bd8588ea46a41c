//! What goes over the wire, as far as clients need it typed. Fields that are not here are ignored.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What `POST /jobs` takes. What is `None` is for the service to choose.
#[derive(Clone, Debug, Default, Serialize)]
pub struct JobRequest {
    /// What happens in the shot.
    pub prompt: String,
    /// What to steer away from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub negative_prompt: Option<String>,
    /// Frames to remember, in story order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<ImageRef>,
    /// The frame to begin with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_frame: Option<ImageRef>,
    /// Five frames whose motion goes on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub motion_frames: Vec<ImageRef>,
    /// `WxH` in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// `size`, or `reference`: the size's area in the shape of the first image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fit: Option<String>,
    /// Frames to generate, 4n+1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames: Option<u32>,
    /// Denoising steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// Shift of the noise schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shift: Option<f64>,
    /// Guidance scale of both experts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guidance_scale: Option<f64>,
    /// `unipc` or `dpm++`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub solver: Option<String>,
    /// Seed of the noise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// From -10 to 10; higher comes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Where to send word of the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<String>,
    /// Whatever the client wants to find again.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// An image of a request.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum ImageRef {
    /// One that was uploaded.
    Upload {
        /// The upload's id.
        upload: String,
    },
    /// One to be fetched by the service, where its operator allows that.
    Url {
        /// Where it is.
        url: String,
    },
    /// The last frame of another job.
    Job {
        /// The job.
        job: Uuid,
        /// `last`.
        keyframe: String,
    },
}

/// What `POST /uploads` answers.
#[derive(Clone, Debug, Deserialize)]
pub struct Upload {
    /// The same bytes have the same id.
    pub id: String,
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

/// A job.
#[derive(Clone, Debug, Deserialize)]
pub struct Job {
    /// Its id.
    pub id: Uuid,
    /// Where it stands.
    pub status: Status,
    /// Its place among those that wait, from 1.
    pub queue_position: Option<u64>,
    /// How often a worker has taken it.
    pub attempt: u32,
    /// How far it has come.
    pub progress: Progress,
    /// What to know about the result.
    pub warnings: Vec<String>,
    /// Why it failed.
    pub error: Option<JobError>,
    /// What it has made.
    pub result: Option<JobResult>,
    /// When it was asked for.
    pub created_at: DateTime<Utc>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Waits for a worker.
    Queued,
    /// Is being made.
    Running,
    /// Is being made, and to be cancelled.
    Cancelling,
    /// The video is ready.
    Succeeded,
    /// It ended with an error.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl Status {
    /// Whether nothing will change any more.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Cancelling => "cancelling",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        })
    }
}

/// How far a job has come.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Progress {
    /// The part it is in: `denoise`, …
    pub stage: String,
    /// Units of this part that are done.
    pub step: u32,
    /// Units of this part.
    pub steps: u32,
    /// Of the whole job.
    pub percent: f64,
    /// Seconds left, once that can be told.
    pub eta_seconds: Option<f64>,
}

/// Why a job failed.
#[derive(Clone, Debug, Deserialize)]
pub struct JobError {
    /// For programs.
    pub code: String,
    /// For people.
    pub detail: String,
}

/// What a job has made.
#[derive(Clone, Debug, Deserialize)]
pub struct JobResult {
    /// Size of the MP4.
    pub bytes: u64,
    /// SHA-256 of the MP4, in hex.
    pub sha256: String,
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Frames.
    pub frames: u32,
    /// Frames in a second.
    pub fps: u32,
    /// Length.
    pub seconds: f64,
}

/// A page of jobs, newest first.
#[derive(Clone, Debug, Deserialize)]
pub struct Jobs {
    /// The jobs.
    pub items: Vec<Job>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}
