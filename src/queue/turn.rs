//! Waiting for one's turn to write.
//!
//! One process writes at a time, and SQLite has no queue for its lock: whoever finds it taken sleeps and tries again. Its
//! own pauses grow to 100 ms, some twenty times as long as a transaction takes: whoever met a heartbeat waited for nobody,
//! with all who share the transaction. So the pauses are ours, and short.

use std::time::{Duration, Instant};

use sqlx::sqlite::SqlitePool;
use sqlx::{Sqlite, SqliteConnection, Transaction};

use super::error::result_code;

/// How long a writer waits for another process's transaction.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// The first pause, and the least a timer can do.
const FIRST: Duration = Duration::from_millis(1);

/// The longest: by then somebody hangs, and nobody is in a hurry.
const LONGEST: Duration = Duration::from_millis(20);

/// Begins a transaction that writes.
///
/// # Errors
/// `SQLITE_BUSY` when it is not this process's turn within [`PATIENCE`], or what beginning fails with.
pub(super) async fn begin(writer: &SqlitePool) -> sqlx::Result<Transaction<'static, Sqlite>> {
    let start = Instant::now();
    loop {
        match writer.begin_with("BEGIN IMMEDIATE").await {
            Err(e) if is_busy(&e) && start.elapsed() < PATIENCE => {}
            begun => return begun,
        }
        // A twentieth of what was waited for already.
        tokio::time::sleep((start.elapsed() / 20).clamp(FIRST, LONGEST)).await;
    }
}

/// Has SQLite say at once that the lock is taken.
pub(super) async fn take_no_pauses(connection: &mut SqliteConnection) -> sqlx::Result<()> {
    sqlx::query("PRAGMA busy_timeout = 0").execute(connection).await.map(drop)
}

/// `SQLITE_BUSY` in any of its forms.
pub(super) fn is_busy(error: &sqlx::Error) -> bool {
    result_code(error) == Some(5)
}
