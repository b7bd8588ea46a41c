//! Removes files that no job names.
//!
//! A file and a row can't change in one step. A worker that is killed between the two leaves a video that was not
//! published, or the checkpoint of a job that has ended. Nobody is ever shown either; this removes them.
//!
//! Files are listed before the rows are read. A result's token is either live, and then the job's lease names it, or
//! the job's result names it, or it is void for good; so what no row names after the listing will never be named.

use crate::queue::{Queue, QueueError, Wanted};
use crate::storage::{Storage, StorageError};

/// Why files could not be cleared away.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The rows could not be read.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The files could not be listed or removed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The listing was broken off.
    #[error("the files could not be listed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// Removes results that no job names. Returns how many there were.
///
/// # Errors
/// When the database or the data directory fails; what was done until then stays done.
pub async fn results(queue: &Queue, storage: &Storage) -> Result<usize, SweepError> {
    let listing = storage.clone();
    let listed = tokio::task::spawn_blocking(move || listing.results()).await??;
    let mut removed = 0;
    for (job, tokens) in listed {
        let Wanted { lease, result, .. } = queue.wanted(job).await?;
        let void = |token: &&_| lease != Some(**token) && result != Some(**token);
        for &token in tokens.iter().filter(void) {
            storage.remove_result(job, token)?;
            tracing::info!(job.id = %job, "files of an attempt that came to nothing were removed");
            removed += 1;
        }
        if lease.is_none() && result.is_none() {
            storage.remove_results(job)?;
        }
    }
    Ok(removed)
}

/// Removes checkpoints of jobs that have ended. Returns how many jobs had some.
///
/// # Errors
/// As [`results`].
pub async fn checkpoints(queue: &Queue, storage: &Storage) -> Result<usize, SweepError> {
    let listing = storage.clone();
    let listed = tokio::task::spawn_blocking(move || listing.jobs_with_checkpoints()).await??;
    let mut removed = 0;
    for job in listed {
        if !queue.wanted(job).await?.unfinished {
            storage.remove_checkpoints(job)?;
            tracing::info!(job.id = %job, "the checkpoint of a job that has ended was removed");
            removed += 1;
        }
    }
    Ok(removed)
}
