//! Asking twice does once: the answer to a request that has a key of the client's own is kept in the transaction that
//! does what was asked, and given again to whoever repeats the request.

use std::time::Duration;

use sqlx::{Executor, Sqlite, SqliteConnection};

use super::{Millis, Queue, QueueError};
use crate::storage::Digest;

/// How long an answer is kept.
const KEPT: Duration = Duration::from_hours(24);

/// A request that is to be done once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Once {
    /// Who asks; keys of different owners are different.
    pub owner: Option<String>,
    /// What the client calls the request.
    pub key: String,
    /// Of everything that was asked.
    pub fingerprint: Digest,
}

impl Queue {
    /// The answer that was given to the same request before.
    ///
    /// # Errors
    /// [`QueueError::KeyReused`] when the key stands for another request, or a database failure.
    pub async fn answered(&self, once: &Once) -> Result<Option<String>, QueueError> {
        once.before(&self.reader, self.now()).await
    }
}

impl Once {
    pub(super) async fn before<'e>(
        &self,
        db: impl Executor<'e, Database = Sqlite>,
        now: Millis,
    ) -> Result<Option<String>, QueueError> {
        let row: Option<(String, String, Millis)> = sqlx::query_as(
            "SELECT fingerprint, answer, created_at FROM idempotency WHERE owner = $1 AND key = $2",
        )
        .bind(self.owner())
        .bind(&self.key)
        .fetch_optional(db)
        .await?;
        match row {
            Some((_, _, created_at)) if created_at.after(KEPT) < now => Ok(None),
            Some((fingerprint, answer, _)) if fingerprint == self.fingerprint.as_str() => Ok(Some(answer)),
            Some(_) => Err(QueueError::KeyReused),
            None => Ok(None),
        }
    }

    /// Keeps the answer, and lets go of those that are old.
    pub(super) async fn keep(
        &self,
        db: &mut SqliteConnection,
        answer: &str,
        now: Millis,
    ) -> Result<(), QueueError> {
        sqlx::query("DELETE FROM idempotency WHERE created_at < $1")
            .bind(now.before(KEPT))
            .execute(&mut *db)
            .await?;
        sqlx::query(
            "INSERT INTO idempotency (owner, key, fingerprint, answer, created_at) VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(self.owner())
        .bind(&self.key)
        .bind(self.fingerprint.as_str())
        .bind(answer)
        .bind(now)
        .execute(db)
        .await?;
        Ok(())
    }

    fn owner(&self) -> &str {
        self.owner.as_deref().unwrap_or_default()
    }
}
