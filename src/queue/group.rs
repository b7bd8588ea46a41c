//! Group commit: writes that arrive together share one transaction, and with it one sync of the disk.
//!
//! A sync takes a millisecond or more and everything else some ten microseconds, so a transaction of its own for each
//! job would make the disk the limit. While one transaction is being synced the next writes gather; they are then
//! written together, each in a savepoint, so that one that fails takes nothing else with it. Nobody is answered
//! before the commit, so the promise to each is the same as with a transaction of its own.

use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;
use sqlx::sqlite::SqlitePool;
use sqlx::{Connection, SqliteConnection};
use tokio::sync::{mpsc, oneshot};

use super::{QueueError, turn};

/// Most writes of one transaction, so that the first of them does not wait long for the last.
const MOST: usize = 64;

/// Writes that may wait before callers wait to be let in.
const WAITING: usize = 1024;

/// The time between two transactions. Other processes have their turn in it: SQLite has no queue for its lock, and
/// whoever waits tries again every now and then (see `turn`).
const GAP: Duration = Duration::from_millis(1);

/// Collects writes and commits them together. Ends when its last handle is dropped.
#[derive(Clone)]
pub(super) struct Group(mpsc::Sender<Box<dyn Write>>);

/// A write in waiting.
trait Write: Send {
    /// Does it, within the transaction; whether it is to be kept.
    fn run<'c>(&'c mut self, db: &'c mut SqliteConnection) -> BoxFuture<'c, bool>;

    /// Tells how it ended. An error is the transaction's: nothing was kept.
    fn finish(self: Box<Self>, committed: Result<(), QueueError>);
}

struct Waiting<F, T> {
    work: Option<F>,
    result: Option<Result<T, QueueError>>,
    answer: oneshot::Sender<Result<T, QueueError>>,
}

impl Group {
    /// Starts collecting for `writer`. Must be called within a runtime.
    pub(super) fn start(writer: SqlitePool) -> Self {
        let (sender, mut receiver) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            let mut writes = Vec::with_capacity(MOST);
            while receiver.recv_many(&mut writes, MOST).await > 0 {
                let committed = commit(&writer, &mut writes).await;
                writes.drain(..).for_each(|write: Box<dyn Write>| write.finish(committed.clone()));
                tokio::time::sleep(GAP).await;
            }
        });
        Self(sender)
    }

    /// Does `work` in a transaction that it may share. What it returns comes back when that is committed; an error
    /// undoes what it has written, and only that.
    ///
    /// # Errors
    /// Those of `work`, or a failure of the transaction.
    pub(super) async fn write<T, F>(&self, work: F) -> Result<T, QueueError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, QueueError>> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let waiting = Box::new(Waiting { work: Some(work), result: None, answer });
        // Both fail only when the runtime is being shut down.
        let closed = || QueueError::from(sqlx::Error::PoolClosed);
        self.0.send(waiting).await.map_err(|_| closed())?;
        answered.await.map_err(|_| closed())?
    }
}

impl<T, F> Write for Waiting<F, T>
where
    T: Send,
    F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, QueueError>> + Send,
{
    fn run<'c>(&'c mut self, db: &'c mut SqliteConnection) -> BoxFuture<'c, bool> {
        Box::pin(async move {
            let Some(work) = self.work.take() else {
                return false;
            };
            let result = work(db).await;
            self.result.insert(result).is_ok()
        })
    }

    fn finish(self: Box<Self>, committed: Result<(), QueueError>) {
        let result = match (self.result, committed) {
            (Some(Err(own)), _) => Err(own),
            (Some(Ok(_)) | None, Err(shared)) => Err(shared),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (None, Ok(())) => return,
        };
        // Whoever asked may have gone; what was written stays.
        let _ = self.answer.send(result);
    }
}

async fn commit(writer: &SqlitePool, writes: &mut [Box<dyn Write>]) -> Result<(), QueueError> {
    let mut tx = turn::begin(writer).await?;
    for write in writes {
        let mut savepoint = tx.begin().await?;
        match write.run(&mut savepoint).await {
            true => savepoint.commit().await?,
            false => savepoint.rollback().await?,
        }
    }
    Ok(tx.commit().await?)
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Group")
    }
}
