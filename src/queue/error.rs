//! What can go wrong.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use sqlx::migrate::MigrateError;
use uuid::Uuid;

use super::{Status, turn};

/// Why the queue could not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// The database refused. Shared, since one transaction can be that of several callers.
    #[error("the job database failed: {0}")]
    Database(Arc<sqlx::Error>),
    /// Whose turn it is to open the database can't be found out.
    #[error("can't lock `{}`: {cause}", path.display())]
    Lock {
        /// The file that is locked.
        path: PathBuf,
        /// What the system said.
        cause: Arc<io::Error>,
    },
    /// The schema could not be brought up to date.
    #[error("the job database could not be migrated: {0}; was it written by a newer version?")]
    Migrate(Arc<MigrateError>),
    /// The schema was changed by another version of the program.
    #[error(
        "the schema of the job database is at step {found}, this program's at {known}; run one version only"
    )]
    Schema {
        /// The last step this program knows.
        known: i64,
        /// The last that was made.
        found: i64,
    },
    /// The file is not what it should be.
    #[error(
        "the job database `{}` is damaged: {found}; put a copy back in its place, or move it and the files \
         beside it (`…-wal`, `…-shm`) away to begin with an empty queue", path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        found: String,
    },
    /// The file can't be opened.
    #[error("the job database `{}` can't be opened: {cause}; {remedy}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        cause: Arc<sqlx::Error>,
        /// What may help.
        remedy: &'static str,
    },
    /// Another attempt holds the job, or it has ended: what was to be written must be thrown away.
    #[error("the lease of job `{0}` is lost")]
    LeaseLost(Uuid),
    /// No such job.
    #[error("there is no job `{0}`")]
    Unknown(Uuid),
    /// The job has ended before.
    #[error("job `{id}` has already ended")]
    Ended {
        /// The job.
        id: Uuid,
        /// How it ended.
        status: Status,
    },
    /// The job has not ended yet.
    #[error("job `{0}` has not ended yet; cancel it first")]
    NotEnded(Uuid),
    /// As many jobs wait as may.
    #[error("{queued} jobs wait already, which is as many as may; try again later")]
    Full {
        /// Jobs that wait.
        queued: u64,
    },
    /// The owner has as many unfinished jobs as the key allows.
    #[error(
        "{owned} of your jobs have not ended, and the key allows {most}; wait for one to end, or cancel one"
    )]
    QuotaSpent {
        /// Jobs of the owner that have not ended.
        owned: u64,
        /// How many may be.
        most: u64,
    },
    /// The story has no such shot.
    #[error("story `{story}` has no shot `{shot}`")]
    NoSuchShot {
        /// The story.
        story: Uuid,
        /// The shot that was named.
        shot: u32,
    },
    /// A shot can't be made again, because one before it is not there.
    #[error("shot `{shot}` failed, was cancelled or has expired; redo that one first")]
    ShotNotReady {
        /// The shot that is missing.
        shot: u32,
    },
    /// The story remembers no such frame.
    #[error("the story remembers no frame `{frame}`")]
    NoSuchFrame {
        /// The frame that was named.
        frame: i64,
    },
    /// Nothing would be left to remember.
    #[error("no frame would be left to remember; keep one, or add one")]
    NothingRemembered,
    /// More frames are pinned than a shot remembers.
    #[error("{pinned} frames would be pinned, and a shot remembers at most {most}; pin fewer")]
    TooManyPinned {
        /// How many.
        pinned: usize,
        /// How many may be.
        most: u32,
    },
    /// Something else was asked under the same idempotency key.
    #[error("the idempotency key was used for another request; draw a new one")]
    KeyReused,
}

impl QueueError {
    /// Whether the database was held by others for too long.
    pub fn is_busy(&self) -> bool {
        match self {
            Self::Database(cause) => matches!(**cause, sqlx::Error::PoolTimedOut) || turn::is_busy(cause),
            _ => false,
        }
    }

    /// Whether the disk is full.
    pub fn is_full(&self) -> bool {
        // SQLITE_FULL
        matches!(self, Self::Database(cause) if result_code(cause) == Some(13))
    }
}

/// The primary result code of SQLite, which is the low byte of the extended ones.
pub(super) fn result_code(error: &sqlx::Error) -> Option<u32> {
    let code: u32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(code & 0xff)
}

impl From<sqlx::Error> for QueueError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(Arc::new(error))
    }
}

impl From<MigrateError> for QueueError {
    fn from(error: MigrateError) -> Self {
        Self::Migrate(Arc::new(error))
    }
}
