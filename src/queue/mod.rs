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
mod outbox;
mod read;
mod recover;
mod remove;
mod retention;
mod story;
mod submit;
mod uploads;
mod watcher;
mod word;
mod workers;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{Connection as _, Sqlite, Transaction};
use uuid::Uuid;

use group::Group;

pub use clock::{Clock, Millis, SystemClock};
pub use events::Event;
pub use job::{
    Failure, FailureCode, Image, Job, JobInput, Made, NewJob, Origin, Reached, Remembered, Role, Spec, Status,
};
pub use keys::{ApiKey, KeyRecord};
pub use lease::{Claim, Ending, Lease, Order};
pub use measures::{Distribution, Measures};
pub use once::Once;
pub use outbox::{Delivered, Delivery, Tried};
pub use read::{Attempt, Filter, Outcome};
pub use recover::Wanted;
pub use retention::Keep;
pub use story::{
    BankFrame, Film, FilmShot, Keyframe, MemoryChange, NewShot, NewStory, Part, Redo, ShotClaim, ShotMade,
    ShotOf, Story, StoryAnswer, StoryFilter, StoryShot, StorySummary,
};
pub use submit::{Answer, Room, Submitted};
pub use watcher::{Subscription, Watcher};
pub use workers::Worker;

/// The schema, step by step.
static MIGRATIONS: Migrator = sqlx::migrate!();

/// How long a writer waits for another process's transaction.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a caller waits for a connection of its own process.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(15);

/// Connections for reading.
const READERS: u32 = 4;

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
    /// Opens the database at `path`, makes it if there is none, and brings its schema up to date.
    ///
    /// # Errors
    /// When the file can't be opened, is no database, or belongs to a newer version of the program.
    pub async fn open(path: &Path, clock: Arc<dyn Clock>, policy: Policy) -> Result<Self, QueueError> {
        // Two processes that begin on the same new file would both make its tables.
        let _turn = turn(path)?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .busy_timeout(BUSY_TIMEOUT)
            .foreign_keys(true)
            .synchronous(SqliteSynchronous::Full)
            .pragma("wal_autocheckpoint", fold::PAGES_AT_MOST);
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            // When the disk is full, SQLite itself rolls back; sqlx's own attempt then fails, and its connection
            // would refuse to begin another transaction for ever. A fresh one takes its place.
            .before_acquire(|connection, _| Box::pin(async { Ok(!connection.is_in_transaction()) }))
            .connect_with(options.clone().create_if_missing(true).journal_mode(SqliteJournalMode::Wal))
            .await
            .map_err(|e| of_opening(path, e))?;
        MIGRATIONS.run(&writer).await.map_err(|e| match e {
            MigrateError::Execute(e) | MigrateError::ExecuteMigration(e, _) => of_opening(path, e),
            e => QueueError::Migrate(Arc::new(e)),
        })?;
        let reader = SqlitePoolOptions::new()
            .max_connections(READERS)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .connect_with(options.clone().read_only(true))
            .await
            .map_err(|e| of_opening(path, e))?;
        let group = Group::start(writer.clone());
        let folder = SqlitePoolOptions::new().max_connections(1).connect_lazy_with(options);
        Ok(Self { writer, reader, group, folder, clock, policy, path: path.into() })
    }

    /// Looks the whole database over. To be called once, before anything relies on it: it takes a while where there
    /// are very many jobs.
    ///
    /// # Errors
    /// [`QueueError::Damaged`], or what reading fails with.
    pub async fn check_whole(&self) -> Result<(), QueueError> {
        let found: Vec<String> = sqlx::query_scalar("PRAGMA quick_check(5)")
            .fetch_all(&self.reader)
            .await
            .map_err(|e| of_opening(&self.path, e))?;
        if found != ["ok"] {
            return Err(QueueError::Damaged { path: self.path.to_path_buf(), found: found.join("; ") });
        }
        Ok(())
    }

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

    /// Sees that the schema is the one this program knows: another version may have changed it since.
    ///
    /// # Errors
    /// [`QueueError::Schema`], or a database failure.
    pub async fn check_schema(&self) -> Result<(), QueueError> {
        let known = MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or_default();
        let latest = "SELECT COALESCE(MAX(version), 0) FROM _sqlx_migrations WHERE success";
        let found: i64 = sqlx::query_scalar(latest).fetch_one(&self.reader).await?;
        if found == known { Ok(()) } else { Err(QueueError::Schema { known, found }) }
    }

    /// Closes the connections; the last process to do so folds the write-ahead log into the database.
    pub async fn close(&self) {
        self.reader.close().await;
        self.folder.close().await;
        self.writer.close().await;
    }

    async fn write(&self) -> Result<Transaction<'static, Sqlite>, QueueError> {
        Ok(self.writer.begin_with("BEGIN IMMEDIATE").await?)
    }
}

/// What it means when the database can't be opened or looked over.
fn of_opening(path: &Path, cause: sqlx::Error) -> QueueError {
    let path = path.to_path_buf();
    let code = match &cause {
        sqlx::Error::Database(error) => error.code().and_then(|code| code.parse::<u32>().ok()),
        _ => None,
    };
    // The primary result codes of SQLite are the low bytes of the extended ones.
    let remedy = match code.map(|code| code & 0xff) {
        // SQLITE_CORRUPT, SQLITE_NOTADB
        Some(11 | 26) => return QueueError::Damaged { path, found: cause.to_string() },
        // SQLITE_ERROR: a statement does not fit the tables
        Some(1) => "its tables are not those of this version of the program: use the one that wrote it",
        // SQLITE_BUSY
        Some(5) => "another process holds it: end that, or wait until it lets go",
        // SQLITE_FULL
        Some(13) => "the disk is full: make room",
        // SQLITE_PERM, SQLITE_READONLY, SQLITE_CANTOPEN
        Some(3 | 8 | 14) => "the folder and the file must be writable by this user",
        // SQLITE_IOERR
        Some(10) => "see that the disk is sound and has room, and that the folder is writable",
        _ => "see whether this user can write there",
    };
    QueueError::Open { path, cause: Arc::new(cause), remedy }
}

/// Waits until no other process opens the database; its turn ends when the file is closed.
fn turn(database: &Path) -> Result<File, QueueError> {
    let path = database.with_extension("lock");
    let locked = File::create(&path).and_then(|file| file.lock().map(|()| file));
    locked.map_err(|cause| QueueError::Lock { path, cause: cause.into() })
}
