//! Lets go of what is old, and of files that no row names.
//!
//! Rows go first, in transactions; files follow. Results of a job whose row says so are removed at once. An image's
//! file is never removed because a row was: [`sweep`] looks at the files there are and removes those that no row names.
//! So a crash between the two leaves nothing behind for good, and what an aborted upload has left goes the same way.

pub mod sweep;

use std::fmt::Display;
use std::time::Duration;

use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::queue::{Keep, Queue, QueueError};
use crate::storage::{Storage, StorageError};

/// The time between two rounds.
const ROUND: Duration = Duration::from_secs(60);

/// Files are looked over, which takes a while where there are many, in one round of so many.
const SWEEP_EVERY: u32 = 10;

/// Why something could not be let go.
#[derive(Debug, thiserror::Error)]
pub enum RetentionError {
    /// The rows could not be changed or read.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The files could not be listed or removed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A task was broken off.
    #[error("the files could not be looked over: {0}")]
    Task(#[from] JoinError),
}

/// Goes round until told to stop: for what is due, for workers that are gone, and now and then for stray files.
pub async fn run(queue: Queue, storage: Storage, keep: Keep, shutdown: CancellationToken) {
    for round in 0_u32.. {
        if shutdown.is_cancelled() {
            break;
        }
        match expire(&queue, &storage, &keep).await {
            Ok(Expired { results: 0, jobs: 0 }) => {}
            Ok(Expired { results, jobs }) => {
                tracing::info!(expired.results = results, expired.jobs = jobs, "what is old was let go");
            }
            Err(e) => tracing::warn!(error = %e, "what is old could not be let go"),
        }
        if let Err(e) = queue.clear_workers().await {
            tracing::warn!(error = %e, "workers that are gone could not be cleared away");
        }
        if round.is_multiple_of(SWEEP_EVERY) {
            report("images", sweep::inputs(&queue, &storage, sweep::GRACE).await);
            report("results", sweep::results(&queue, &storage).await);
            report("checkpoints", sweep::checkpoints(&queue, &storage).await);
        }
        let _ = tokio::time::timeout(ROUND, shutdown.cancelled()).await;
    }
}

fn report(what: &str, removed: Result<usize, impl Display>) {
    match removed {
        Ok(0) => {}
        Ok(count) => tracing::info!(sweep.what = what, sweep.count = count, "stray files were removed"),
        Err(e) => tracing::warn!(sweep.what = what, error = %e, "stray files could not be removed"),
    }
}

/// What was due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Results whose files were removed; the jobs remain.
    pub results: usize,
    /// Jobs that were removed.
    pub jobs: usize,
}

/// Lets go of everything that is due: results, jobs, and the rows of images, tombstones and webhooks.
///
/// # Errors
/// When the database or the data directory fails; what was done until then stays done.
pub async fn expire(queue: &Queue, storage: &Storage, keep: &Keep) -> Result<Expired, RetentionError> {
    let results = in_batches(storage, || queue.expire_results()).await?;
    let single = in_batches(storage, || queue.expire_jobs(keep)).await?;
    let of_stories = in_batches(storage, || queue.expire_stories(keep)).await?;
    while queue.forget(keep).await? > 0 {}
    Ok(Expired { results, jobs: single + of_stories })
}

/// Lets go of the files of jobs, as long as `next` has any. Returns how many jobs there were.
async fn in_batches<F>(storage: &Storage, next: impl Fn() -> F) -> Result<usize, RetentionError>
where
    F: Future<Output = Result<Vec<Uuid>, QueueError>>,
{
    let mut count = 0;
    loop {
        let jobs = next().await?;
        if jobs.is_empty() {
            return Ok(count);
        }
        count += jobs.len();
        remove_results(storage, jobs).await?;
    }
}

async fn remove_results(storage: &Storage, jobs: Vec<Uuid>) -> Result<(), RetentionError> {
    on_disk(storage, move |storage| jobs.into_iter().try_for_each(|job| storage.remove_results(job))).await
}

/// Calls to the storage block.
async fn on_disk<T: Send + 'static>(
    storage: &Storage,
    call: impl FnOnce(&Storage) -> Result<T, StorageError> + Send + 'static,
) -> Result<T, RetentionError> {
    let storage = storage.clone();
    Ok(tokio::task::spawn_blocking(move || call(&storage)).await??)
}
