//! The queue: jobs, leases, attempts and workers. All SQL is here.
//!
//! The queue is the interface between the API and the workers: processes that know nothing of one another but the
//! same rows. Its promises, and what keeps each of them:
//!
//! - *A job whose 202 was sent is never lost.* One transaction, `synchronous=FULL`, committed before the answer.
//! - *A job has one result.* A claim puts a fresh fencing token into the row; every later write of that attempt
//!   names the token and the states it expects. No row touched means the lease is lost ([`QueueError::LeaseLost`]),
//!   and whoever lost it can change nothing. A lease says only who may write, never how long a job may take.
//! - *A worker that dies gives its job back.* Its lease runs out, or its supervisor reports the exit; see
//!   [`recover`](Queue::recover). Attempts are counted when claimed, so a job that kills its workers ends too.
//! - *Final states are final.* No statement has a final state among those it expects.
//!
//! SQLite is in WAL mode with one writing connection a process, on which jobs that arrive together share a
//! transaction (see `group`); every write transaction is `BEGIN IMMEDIATE`, so
//! that it waits its turn at the start instead of failing in the middle, and reads go through read-only
//! connections. Clocks and ids come from the program and the SQL is plain, so that another database can follow.

mod clock;
mod events;
mod fold;
mod group;
mod job;
mod keys;
mod lease;
mod measures;
mod once;
mod open;
mod outbox;
mod read;
mod recover;
mod remove;
mod retention;
mod submit;
mod turn;
mod uploads;
mod watcher;
mod word;
mod workers;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::migrate::MigrateError;
use sqlx::sqlite::SqlitePool;
use sqlx::{Sqlite, Transaction};
use uuid::Uuid;

use group::Group;

pub use clock::{Clock, Millis, SystemClock};
pub use events::Event;
pub use job::{
    Failure, FailureCode, Image, Job, JobInput, Made, NewJob, Origin, Reached, Role, Spec, Status,
};
pub use keys::{ApiKey, KeyRecord};
pub use lease::{Claim, Ending, Lease, Order};
pub use measures::{Distribution, Measures};
pub use once::Once;
pub use outbox::{Delivered, Delivery, Tried};
pub use read::{Attempt, Filter, Outcome};
pub use recover::Wanted;
pub use retention::Keep;
pub use submit::{Answer, Room, Submitted};
pub use watcher::{Subscription, Watcher};
pub use workers::Worker;

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
fn result_code(error: &sqlx::Error) -> Option<u32> {
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

/// The numbers that decide how patient the queue is, and how generous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How long a lease lasts when it is not renewed.
    pub lease: Duration,
    /// Attempts a job has before it fails with [`FailureCode::WorkerLost`].
    pub attempts: u32,
    /// How long the files of a result are kept, from the end of the job.
    pub results: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self { lease: Duration::from_secs(15), attempts: 3, results: Duration::from_hours(7 * 24) }
    }
}

/// A handle on the queue; clones share its connections.
#[derive(Clone, Debug)]
pub struct Queue {
    writer: SqlitePool,
    reader: SqlitePool,
    group: Group,
    folder: SqlitePool,
    clock: Arc<dyn Clock>,
    policy: Policy,
    path: Arc<Path>,
}

impl Queue {
    /// The present moment, by the queue's clock.
    pub fn now(&self) -> Millis {
        self.clock.now()
    }

    /// How patient the queue is.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Begins and abandons a write, to see that the database takes one.
    ///
    /// # Errors
    /// What a write would fail with.
    pub async fn check_writable(&self) -> Result<(), QueueError> {
        Ok(self.write().await?.rollback().await?)
    }

    /// Closes the connections; the last process to do so folds the write-ahead log into the database.
    pub async fn close(&self) {
        self.reader.close().await;
        self.folder.close().await;
        self.writer.close().await;
    }

    async fn write(&self) -> Result<Transaction<'static, Sqlite>, QueueError> {
        Ok(turn::begin(&self.writer).await?)
    }
}
