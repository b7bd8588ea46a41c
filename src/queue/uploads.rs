//! Images that clients send ahead of the jobs that use them.

use super::submit::insert_image;
use super::{Image, Once, Queue, QueueError};
use crate::storage::Digest;

impl Queue {
    /// Remembers that `owner` has sent an image whose bytes are in storage. With `once`, `answer` is kept for whoever
    /// asks the same again.
    ///
    /// # Errors
    /// [`QueueError::KeyReused`] or a database failure.
    pub async fn keep_upload(
        &self,
        owner: Option<&str>,
        image: &Image,
        once: Option<(&Once, &str)>,
    ) -> Result<(), QueueError> {
        let now = self.now();
        let mut tx = self.write().await?;
        if let Some((once, answer)) = once
            && once.before(&mut *tx, now).await?.is_none()
        {
            once.keep(&mut tx, answer, now).await?;
        }
        insert_image(&mut tx, image, now).await?;
        sqlx::query(
            "INSERT INTO uploads (owner, sha256, created_at) VALUES ($1, $2, $3)
             ON CONFLICT (owner, sha256) DO UPDATE SET created_at = excluded.created_at",
        )
        .bind(owner.unwrap_or_default())
        .bind(image.sha256.as_str())
        .bind(now)
        .execute(&mut *tx)
        .await?;
        Ok(tx.commit().await?)
    }

    /// An image that `owner` has sent.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn upload(&self, owner: Option<&str>, sha256: &Digest) -> Result<Option<Image>, QueueError> {
        Ok(sqlx::query_as(
            "SELECT inputs.* FROM uploads JOIN inputs USING (sha256) WHERE owner = $1 AND sha256 = $2",
        )
        .bind(owner.unwrap_or_default())
        .bind(sha256.as_str())
        .fetch_optional(&self.reader)
        .await?)
    }
}
