//! What clients change: they put jobs in and cancel them.

use sqlx::Row;
use sqlx::types::Json;
use uuid::Uuid;

use super::word::Word;
use super::{Job, NewJob, Queue, QueueError, Status};

impl Queue {
    /// Queues a job and returns its row. When this returns, the job survives a crash and a power cut.
    ///
    /// The bytes of its images must already be in storage.
    ///
    /// # Errors
    /// When the database fails; then the job is not queued.
    pub async fn submit(&self, job: &NewJob) -> Result<Job, QueueError> {
        let now = self.now();
        let mut tx = self.write().await?;
        let queued = sqlx::query_as(
            "INSERT INTO jobs (id, status, priority, requires, request, spec, created_at)
             VALUES ($1, 'queued', $2, $3, $4, $5, $6) RETURNING *",
        )
        .bind(job.id.hyphenated())
        .bind(job.priority)
        .bind(Word(job.spec.variant))
        .bind(Json(&job.request))
        .bind(Json(&job.spec))
        .bind(now)
        .fetch_one(&mut *tx)
        .await?;
        for (position, input) in (0_i64..).zip(&job.inputs) {
            let image = &input.image;
            sqlx::query(
                "INSERT INTO inputs (sha256, media_type, bytes, width, height, created_at)
                 VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (sha256) DO NOTHING",
            )
            .bind(image.sha256.as_str())
            .bind(&image.media_type)
            .bind(i64::try_from(image.bytes).unwrap_or(i64::MAX))
            .bind(u32::try_from(image.size.width).unwrap_or(u32::MAX))
            .bind(u32::try_from(image.size.height).unwrap_or(u32::MAX))
            .bind(now)
            .execute(&mut *tx)
            .await?;
            sqlx::query("INSERT INTO job_inputs (job, role, position, sha256) VALUES ($1, $2, $3, $4)")
                .bind(job.id.hyphenated())
                .bind(Word(input.role))
                .bind(position)
                .bind(image.sha256.as_str())
                .execute(&mut *tx)
                .await?;
        }
        tx.commit().await?;
        Ok(queued)
    }

    /// Cancels a job: at once while it is queued; while it runs, by asking its worker to let go. Asking twice is
    /// no error. Returns the job's new status.
    ///
    /// # Errors
    /// [`QueueError::Unknown`], [`QueueError::Ended`], or a database failure.
    pub async fn cancel(&self, id: Uuid) -> Result<Status, QueueError> {
        let mut tx = self.write().await?;
        let row = sqlx::query(
            "UPDATE jobs SET
                version = version + (status <> 'cancelling'),
                finished_at = CASE status WHEN 'queued' THEN $2 END,
                status = CASE status WHEN 'queued' THEN 'cancelled' ELSE 'cancelling' END
             WHERE id = $1 AND status IN ('queued', 'running', 'cancelling')
             RETURNING status",
        )
        .bind(id.hyphenated())
        .bind(self.now())
        .fetch_optional(&mut *tx)
        .await?;
        if let Some(row) = row {
            tx.commit().await?;
            return Ok(row.try_get::<Word<Status>, _>("status")?.0);
        }
        let row = sqlx::query("SELECT status FROM jobs WHERE id = $1")
            .bind(id.hyphenated())
            .fetch_optional(&mut *tx)
            .await?;
        match row {
            None => Err(QueueError::Unknown(id)),
            Some(row) => Err(QueueError::Ended { id, status: row.try_get::<Word<Status>, _>("status")?.0 }),
        }
    }
}
