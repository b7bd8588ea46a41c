//! What a job is.

use serde::{Deserialize, Serialize};
use sqlx::sqlite::SqliteRow;
use sqlx::types::Json;
use sqlx::{FromRow, Row};
use utoipa::ToSchema;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::Millis;
use super::made::Made;
use super::story::ShotOf;
use super::word::Word;
use crate::pipeline::{Sampling, Size, Stage, Variant};
use crate::storage::Digest;

/// Where a job stands. The last three are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = JobStatus)]
pub enum Status {
    /// Waits for a worker.
    Queued,
    /// A worker holds its lease.
    Running,
    /// Somebody asked to cancel it, and its worker has not let go yet.
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

/// Why a job failed: a stable word for programs. [`FailureCode::meaning`] is its documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureCode {
    /// See [`FailureCode::meaning`].
    WorkerLost,
    /// See [`FailureCode::meaning`].
    NanLatents,
    /// See [`FailureCode::meaning`].
    ConstantLatents,
    /// See [`FailureCode::meaning`].
    NanFrames,
    /// See [`FailureCode::meaning`].
    ConstantFrames,
    /// See [`FailureCode::meaning`].
    InvalidRequest,
    /// See [`FailureCode::meaning`].
    EngineError,
    /// See [`FailureCode::meaning`].
    BundleError,
    /// See [`FailureCode::meaning`].
    InputUnreadable,
    /// See [`FailureCode::meaning`].
    DiskFull,
    /// See [`FailureCode::meaning`].
    PublishFailed,
}

impl FailureCode {
    /// Every code, in the order in which they are documented.
    pub const ALL: [Self; 11] = [
        Self::WorkerLost,
        Self::NanLatents,
        Self::ConstantLatents,
        Self::NanFrames,
        Self::ConstantFrames,
        Self::InvalidRequest,
        Self::EngineError,
        Self::BundleError,
        Self::InputUnreadable,
        Self::DiskFull,
        Self::PublishFailed,
    ];

    /// The word.
    pub fn code(self) -> &'static str {
        match self {
            Self::WorkerLost => "worker_lost",
            Self::NanLatents => "nan_latents",
            Self::ConstantLatents => "constant_latents",
            Self::NanFrames => "nan_frames",
            Self::ConstantFrames => "constant_frames",
            Self::InvalidRequest => "invalid_request",
            Self::EngineError => "engine_error",
            Self::BundleError => "bundle_error",
            Self::InputUnreadable => "input_unreadable",
            Self::DiskFull => "disk_full",
            Self::PublishFailed => "publish_failed",
        }
    }

    /// What happened, for the documentation.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::WorkerLost => "its worker ended or fell silent in each of the attempts a job has",
            Self::NanLatents => {
                "the latents became NaN or infinite; another seed or a lower guidance scale may help"
            }
            Self::ConstantLatents => {
                "the latents became one value everywhere; another seed or guidance scale may help"
            }
            Self::NanFrames => "the decoded frames are NaN or infinite; another seed or f32 weights may help",
            Self::ConstantFrames => "every pixel of the video has the same colour; another seed may help",
            Self::InvalidRequest => "the bundle of the worker that took it can't serve the request",
            Self::EngineError => "the device or ONNX Runtime failed; most often the memory does not suffice",
            Self::BundleError => "the model's bundle is damaged or changed while it was served",
            Self::InputUnreadable => "a stored image could not be read or decoded any more",
            Self::DiskFull => {
                "the disk was full for too long when the video was to be written; retry the job"
            }
            Self::PublishFailed => "the video could not be encoded or written",
        }
    }
}

/// Why a job failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// For programs.
    pub code: FailureCode,
    /// For people.
    pub detail: String,
}

/// What a worker makes: the request with every setting filled in, so that a job gives the same video whatever
/// the defaults are when its turn comes. The images are in [`JobInput`]s.
///
/// It is kept as JSON: a field added to it, or to what it holds, needs a default for the rows that are there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// What happens in the shot.
    pub prompt: String,
    /// What to steer away from.
    pub negative_prompt: String,
    /// The mode.
    pub variant: Variant,
    /// The numbers.
    pub sampling: Sampling,
}

/// What an image is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A frame to remember.
    Memory,
    /// The frame the shot starts from.
    FirstFrame,
    /// A frame of the motion the shot continues.
    Motion,
}

/// An image in storage and the facts read from its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Names the bytes.
    pub sha256: Digest,
    /// `image/png`, `image/jpeg` or `image/webp`.
    pub media_type: String,
    /// Size of the file.
    pub bytes: u64,
    /// Its size, upright.
    pub size: Size,
}

/// One image of a job. Images of one role are ordered as given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobInput {
    /// What it is for.
    pub role: Role,
    /// The image.
    pub image: Image,
}

/// A job to be queued.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// Its id; made with [`Uuid::now_v7`], so that ids sort by arrival.
    pub id: Uuid,
    /// Higher runs first.
    pub priority: i32,
    /// What the client asked, as it will be shown.
    pub request: serde_json::Value,
    /// What the worker makes.
    pub spec: Spec,
    /// Its images.
    pub inputs: Vec<JobInput>,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where a job comes from, and whom to tell when it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Whose key asked for it; nobody's without keys.
    pub owner: Option<String>,
    /// The client's trace (W3C Trace Context).
    pub traceparent: Option<String>,
    /// The job this one tries again.
    pub retry_of: Option<Uuid>,
    /// Where to post the job when it has ended.
    pub webhook_url: Option<String>,
    /// The shot of a story it makes.
    pub shot: Option<ShotOf>,
}

/// Where an attempt stands, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The part it is in.
    pub stage: Stage,
    /// Units of the stage that are done.
    pub step: u32,
    /// Units of the stage.
    pub steps: u32,
    /// Units that were done when this attempt entered the stage: a resumed one doesn't begin at 0.
    pub from: u32,
    /// When the stage began.
    pub stage_at: Millis,
    /// When `step` last rose.
    pub step_at: Millis,
}

/// A row of the queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its id.
    pub id: Uuid,
    /// Where it stands.
    pub status: Status,
    /// Rises with every change that can be seen from outside.
    pub version: u64,
    /// Higher runs first.
    pub priority: i32,
    /// What the client asked, as it is shown.
    pub request: serde_json::Value,
    /// What the worker makes.
    pub spec: Spec,
    /// How often it was claimed.
    pub attempt: u32,
    /// Who claimed it last.
    pub worker: Option<String>,
    /// How far the present attempt has come.
    pub reached: Option<Reached>,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// What its maker should know.
    pub warnings: Vec<String>,
    /// What it has made.
    pub made: Option<Made>,
    /// Where it comes from.
    pub origin: Origin,
    /// When it was queued.
    pub created_at: Millis,
    /// When its latest attempt began.
    pub started_at: Option<Millis>,
    /// When it became final.
    pub finished_at: Option<Millis>,
    /// When the files of its result may be removed.
    pub expires_at: Option<Millis>,
    /// When they were given up.
    pub expired_at: Option<Millis>,
}

impl Reached {
    /// From a row that has its columns; nothing while `stage` is null.
    pub(super) fn from_row(row: &SqliteRow) -> sqlx::Result<Option<Self>> {
        let Some(Word(stage)) = row.try_get::<Option<Word<Stage>>, _>("stage")? else {
            return Ok(None);
        };
        Ok(Some(Self {
            stage,
            step: row.try_get("step")?,
            steps: row.try_get("steps")?,
            from: row.try_get::<Option<u32>, _>("stage_from")?.unwrap_or(0),
            stage_at: row.try_get("stage_at")?,
            step_at: row.try_get("step_at")?,
        }))
    }
}

impl FromRow<'_, SqliteRow> for Job {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        let failure = match row.try_get::<Option<Word<FailureCode>>, _>("error_code")? {
            None => None,
            Some(Word(code)) => Some(Failure { code, detail: row.try_get("error_detail")? }),
        };
        Ok(Self {
            id: row.try_get::<Hyphenated, _>("id")?.into_uuid(),
            status: row.try_get::<Word<Status>, _>("status")?.0,
            version: row.try_get("version")?,
            priority: row.try_get("priority")?,
            request: row.try_get::<Json<_>, _>("request")?.0,
            spec: row.try_get::<Json<_>, _>("spec")?.0,
            attempt: row.try_get("attempt")?,
            worker: row.try_get("worker")?,
            reached: Reached::from_row(row)?,
            failure,
            warnings: row.try_get::<Json<_>, _>("warnings")?.0,
            made: row.try_get::<Option<Json<_>>, _>("made")?.map(|Json(made)| made),
            origin: Origin {
                owner: row.try_get("owner")?,
                traceparent: row.try_get("traceparent")?,
                retry_of: row.try_get::<Option<Hyphenated>, _>("retry_of")?.map(Hyphenated::into_uuid),
                webhook_url: row.try_get("webhook_url")?,
                shot: ShotOf::from_row(row)?,
            },
            created_at: row.try_get("created_at")?,
            started_at: row.try_get("started_at")?,
            finished_at: row.try_get("finished_at")?,
            expires_at: row.try_get("expires_at")?,
            expired_at: row.try_get("expired_at")?,
        })
    }
}

impl ShotOf {
    /// From the row of a job; nothing when that belongs to no story.
    pub(super) fn from_row(row: &SqliteRow) -> sqlx::Result<Option<Self>> {
        let id = |name| {
            Ok::<_, sqlx::Error>(row.try_get::<Option<Hyphenated>, _>(name)?.map(Hyphenated::into_uuid))
        };
        let Some(story) = id("story")? else { return Ok(None) };
        Ok(Some(Self { story, shot: row.try_get("shot")?, after: id("after")?, tail: row.try_get("tail")? }))
    }
}

impl FromRow<'_, SqliteRow> for JobInput {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        Ok(Self { role: row.try_get::<Word<Role>, _>("role")?.0, image: Image::from_row(row)? })
    }
}

impl FromRow<'_, SqliteRow> for Image {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        let sha256: String = row.try_get("sha256")?;
        let digest = Digest::parse(&sha256)
            .ok_or_else(|| sqlx::Error::Decode(format!("`{sha256}` is not a SHA-256").into()))?;
        let side = |name| row.try_get::<u32, _>(name).map(|side| side as usize);
        Ok(Self {
            sha256: digest,
            media_type: row.try_get("media_type")?,
            bytes: row.try_get("bytes")?,
            size: Size { width: side("width")?, height: side("height")? },
        })
    }
}
