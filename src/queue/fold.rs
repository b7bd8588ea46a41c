//! Folds the write-ahead log into the database.
//!
//! SQLite does so by itself, inside the commit that makes the log longer than a thousand pages: whoever waits for that
//! commit waits for some megabytes to be written and synced, and everyone behind it does. So the service folds the log
//! on a connection of its own while others go on writing. Each fold makes the commits beside it slower, so there are not
//! many; and none is so long that it would itself be felt.

use super::{Queue, QueueError};

/// Where a commit folds the log after all, because nobody else does: 32 MB.
pub(super) const PAGES_AT_MOST: &str = "8000";

impl Queue {
    /// Folds as much as can be without anyone waiting for it.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn fold(&self) -> Result<(), QueueError> {
        sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(&self.folder).await?;
        Ok(())
    }
}
