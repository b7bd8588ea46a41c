//! Lets go of what is old: results, jobs, images, tombstones.
//!
//! Rows go first, in transactions; files follow. An image's file is never removed because a row was: each round looks
//! at the files there are and removes those that no row names. So a crash between the two leaves nothing behind for
//! good, and what an aborted upload has left goes the same way.
//!
//! A file may also be *older* than its row: the API keeps an image first and queues its job a moment later. Two
//! things keep that file: putting an image that is there already makes it young again, and a file is only removed
//! when it was young for none of the last [`GRACE`]. See [`Storage::remove_input_if_old`] for how the two exclude each
//! other, in any number of processes.

use std::time::{Duration, SystemTime};

use uuid::Uuid;

use crate::queue::{Keep, Queue, QueueError};
use crate::storage::{Storage, StorageError};

/// How long a file without a row is left alone: longer than any request lasts.
pub const GRACE: Duration = Duration::from_hours(1);

/// Why a round was broken off.
#[derive(Debug, thiserror::Error)]
pub enum RetentionError {
    /// The rows could not be changed or read.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The files could not be listed or removed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A task was broken off.
    #[error("the files could not be removed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// What a round has let go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Results whose files were removed; the jobs remain.
    pub results: usize,
    /// Jobs that were removed.
    pub jobs: usize,
    /// Files of images that were removed.
    pub inputs: usize,
}

/// One round. Files that no row names and that are older than `grace` go too.
///
/// # Errors
/// When the database or the data directory fails; what was done until then stays done.
pub async fn round(
    queue: &Queue,
    storage: &Storage,
    keep: &Keep,
    grace: Duration,
) -> Result<Round, RetentionError> {
    let mut round = Round::default();
    loop {
        let ids = queue.expire_results().await?;
        if ids.is_empty() {
            break;
        }
        round.results += ids.len();
        remove_results(storage, ids).await?;
    }
    loop {
        let ids = queue.expire_jobs(keep).await?;
        if ids.is_empty() {
            break;
        }
        round.jobs += ids.len();
        remove_results(storage, ids).await?;
    }
    while queue.forget(keep).await? > 0 {}
    round.inputs = sweep_inputs(queue, storage, grace).await?;
    Ok(round)
}

async fn remove_results(storage: &Storage, jobs: Vec<Uuid>) -> Result<(), RetentionError> {
    let storage = storage.clone();
    let removed =
        tokio::task::spawn_blocking(move || jobs.into_iter().try_for_each(|job| storage.remove_results(job)));
    Ok(removed.await??)
}

/// Removes the files of images that no row names. Returns how many there were.
async fn sweep_inputs(queue: &Queue, storage: &Storage, grace: Duration) -> Result<usize, RetentionError> {
    let Some(before) = SystemTime::now().checked_sub(grace) else {
        return Ok(0);
    };
    let listing = storage.clone();
    let mut removed = 0;
    for digest in tokio::task::spawn_blocking(move || listing.inputs_before(before)).await?? {
        if queue.knows_input(&digest).await? {
            continue;
        }
        let storage = storage.clone();
        let gone =
            tokio::task::spawn_blocking(move || storage.remove_input_if_old(&digest, before)).await??;
        removed += usize::from(gone);
    }
    Ok(removed)
}
