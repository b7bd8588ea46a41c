//! Removes files that no row names.
//!
//! A file and a row can't change in one step. A worker that is killed between the two leaves a video that was not
//! published, or the checkpoint of a job that has ended; a request that is broken off leaves an image. Nobody is ever
//! shown any of these; this removes them.
//!
//! *Results and checkpoints* are listed before the rows are read. A result's token is either live, and then the job's
//! lease names it, or the job's result names it, or it is void for good; so what no row names after the listing will
//! never be named.
//!
//! *An image* may be older than its row: the API keeps it first and queues its job a moment later. Two things keep that
//! file: putting an image that is there already makes it young again, and a file is only removed when it was young for
//! none of the last [`GRACE`]. See [`Storage::remove_input_if_old`] for how the two exclude each other, in any number of
//! processes.

use std::time::{Duration, SystemTime};

use super::{RetentionError, on_disk};
use crate::queue::{Queue, Wanted};
use crate::storage::Storage;

/// How long an image without a row is left alone: longer than any request lasts.
pub const GRACE: Duration = Duration::from_hours(1);

/// Removes the files of images that no row names and that are older than `grace`. Returns how many there were.
///
/// # Errors
/// When the database or the data directory fails; what was done until then stays done.
pub async fn inputs(queue: &Queue, storage: &Storage, grace: Duration) -> Result<usize, RetentionError> {
    let Some(before) = SystemTime::now().checked_sub(grace) else {
        return Ok(0);
    };
    let mut removed = 0;
    for digest in on_disk(storage, move |storage| storage.inputs_before(before)).await? {
        if queue.knows_input(&digest).await? {
            continue;
        }
        let gone = on_disk(storage, move |storage| storage.remove_input_if_old(&digest, before)).await?;
        removed += usize::from(gone);
    }
    Ok(removed)
}

/// Removes results that no job names. Returns how many there were.
///
/// # Errors
/// As [`inputs`].
pub async fn results(queue: &Queue, storage: &Storage) -> Result<usize, RetentionError> {
    let mut removed = 0;
    for (job, tokens) in on_disk(storage, Storage::results).await? {
        let Wanted { lease, result, .. } = queue.wanted(job).await?;
        let void = |token: &&_| lease != Some(**token) && result != Some(**token);
        for &token in tokens.iter().filter(void) {
            on_disk(storage, move |storage| storage.remove_result(job, token)).await?;
            tracing::info!(job.id = %job, "files of an attempt that came to nothing were removed");
            removed += 1;
        }
        if lease.is_none() && result.is_none() {
            on_disk(storage, move |storage| storage.remove_results(job)).await?;
        }
    }
    Ok(removed)
}

/// Removes checkpoints of jobs that have ended. Returns how many jobs had some.
///
/// # Errors
/// As [`inputs`].
pub async fn checkpoints(queue: &Queue, storage: &Storage) -> Result<usize, RetentionError> {
    let mut removed = 0;
    for job in on_disk(storage, Storage::jobs_with_checkpoints).await? {
        if !queue.wanted(job).await?.unfinished {
            on_disk(storage, move |storage| storage.remove_checkpoints(job)).await?;
            tracing::info!(job.id = %job, "the checkpoint of a job that has ended was removed");
            removed += 1;
        }
    }
    Ok(removed)
}
