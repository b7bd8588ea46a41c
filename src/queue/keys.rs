//! API keys: who may use the service, and how much of it.
//!
//! A key is `sm_<id>_<secret>`. The id finds the row; of the whole key only a SHA-256 is kept, which is enough since the
//! secret has 256 random bits and can't be guessed from it.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sqlx::FromRow;
use subtle::ConstantTimeEq;

use super::{Millis, Queue, QueueError};
use crate::storage::Digest;

const PREFIX: &str = "sm_";

/// A key that was just made; its text is shown once and is then nowhere.
#[derive(Debug)]
pub struct ApiKey {
    /// What the client sends.
    pub text: String,
    /// What is kept of it.
    pub record: KeyRecord,
}

/// What is kept of a key.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub struct KeyRecord {
    /// The part that is no secret.
    pub id: String,
    /// Whose jobs it makes and sees.
    pub owner: String,
    /// SHA-256 of the key.
    hash: String,
    /// Most jobs of the owner that have not ended.
    pub max_jobs: Option<u32>,
    /// When it was made.
    pub created_at: Millis,
    /// Since when it opens nothing.
    pub revoked_at: Option<Millis>,
}

impl Queue {
    /// Makes a key for an owner. From the first one on, the API is closed to whoever has none.
    ///
    /// # Errors
    /// When the database or the system's source of random numbers fails.
    pub async fn add_key(&self, owner: &str, max_jobs: Option<u32>) -> Result<ApiKey, QueueError> {
        let mut random = [0; 38];
        getrandom::fill(&mut random).map_err(|e| sqlx::Error::Io(e.into()))?;
        let mut id = String::with_capacity(12);
        for byte in &random[..6] {
            // Writing to a string can't fail.
            let _ = write!(id, "{byte:02x}");
        }
        let text = format!("{PREFIX}{id}_{}", BASE64_URL_SAFE_NO_PAD.encode(&random[6..]));
        let record = KeyRecord {
            id,
            owner: owner.to_owned(),
            hash: Digest::of(text.as_bytes()).to_string(),
            max_jobs,
            created_at: self.now(),
            revoked_at: None,
        };
        let mut tx = self.write().await?;
        sqlx::query(
            "INSERT INTO api_keys (id, owner, hash, max_jobs, created_at) VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(&record.id)
        .bind(&record.owner)
        .bind(&record.hash)
        .bind(record.max_jobs)
        .bind(record.created_at)
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(ApiKey { text, record })
    }

    /// Every key, the oldest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn keys(&self) -> Result<Vec<KeyRecord>, QueueError> {
        Ok(sqlx::query_as("SELECT * FROM api_keys ORDER BY created_at, id").fetch_all(&self.reader).await?)
    }

    /// Whether there is any key, be it revoked: whether the API is closed.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn has_keys(&self) -> Result<bool, QueueError> {
        Ok(sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM api_keys)").fetch_one(&self.reader).await?)
    }

    /// The record of a key, if the key is good. The comparison takes as long whichever part is wrong.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn check_key(&self, text: &str) -> Result<Option<KeyRecord>, QueueError> {
        let id = text.strip_prefix(PREFIX).and_then(|rest| rest.split_once('_')).map(|(id, _)| id);
        let Some(id) = id else {
            return Ok(None);
        };
        let record: Option<KeyRecord> =
            sqlx::query_as("SELECT * FROM api_keys WHERE id = $1 AND revoked_at IS NULL")
                .bind(id)
                .fetch_optional(&self.reader)
                .await?;
        let hash = Digest::of(text.as_bytes());
        Ok(record.filter(|record| record.hash.as_bytes().ct_eq(hash.as_str().as_bytes()).into()))
    }

    /// Revokes a key; whether there was one of this id that was good.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn revoke_key(&self, id: &str) -> Result<bool, QueueError> {
        let mut tx = self.write().await?;
        let revoked = sqlx::query("UPDATE api_keys SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL")
            .bind(id)
            .bind(self.now())
            .execute(&mut *tx)
            .await?
            .rows_affected();
        tx.commit().await?;
        Ok(revoked > 0)
    }
}
