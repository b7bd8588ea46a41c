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
mod error;
mod events;
mod fold;
mod group;
mod job;
mod keys;
mod lease;
mod made;
mod measures;
mod once;
mod open;
mod outbox;
mod read;
mod recover;
mod remove;
mod retention;
mod story;
mod submit;
mod turn;
mod uploads;
mod watcher;
mod word;
mod workers;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::SqlitePool;
use sqlx::{Sqlite, Transaction};

use group::Group;

pub use clock::{Clock, Millis, SystemClock};
pub use error::QueueError;
pub use events::Event;
pub use job::{Failure, FailureCode, Image, Job, JobInput, NewJob, Origin, Reached, Role, Spec, Status};
pub use keys::{ApiKey, KeyRecord};
pub use lease::{Claim, Ending, Lease, Order};
pub use made::{Made, Remembered};
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
