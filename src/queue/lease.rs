//! What workers change, and only while they hold the lease.

use std::time::Duration;

use sqlx::types::Json;
use sqlx::{QueryBuilder, Row, Sqlite, SqliteConnection, Transaction};
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::read::Outcome;
use super::recover::Lost;
use super::story::{self, ShotClaim, ShotMade, ShotOf};
use super::word::Word;
use super::{Failure, JobInput, Made, Millis, Queue, QueueError, Spec, Status};
use crate::breakpoint::{self, Point};
use crate::pipeline::{Progress, Stage, Variant};
use crate::process;

/// The right to write to a job, for one attempt. `token` is the fence: it is fresh for each claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The job.
    pub job: Uuid,
    /// The fencing token.
    pub token: Uuid,
    /// Which claim of the job this is, from 1.
    pub attempt: u32,
}

/// A job a worker has just claimed.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The right to write to it.
    pub lease: Lease,
    /// What to make.
    pub spec: Spec,
    /// From what, by role and in order.
    pub inputs: Vec<JobInput>,
    /// What to know of the story it is a shot of.
    pub story: Option<ShotClaim>,
    /// When it was queued.
    pub created_at: Millis,
    /// The client's trace (W3C Trace Context).
    pub traceparent: Option<String>,
}

/// What a heartbeat brings back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Carry on.
    Continue,
    /// Stop and end the job with [`Ending::GivenBack`]: somebody cancelled it.
    Cancel,
}

/// How an attempt ends. A job that somebody asked to cancel becomes `cancelled` whichever of these comes.
#[derive(Clone, Debug)]
pub enum Ending {
    /// The video is in storage.
    Succeeded {
        /// What was made.
        made: Box<Made>,
        /// What the client should know.
        warnings: Vec<String>,
    },
    /// It can't be made.
    Failed(Failure),
    /// The worker stops; another may try, and this attempt does not count.
    GivenBack,
}

impl Queue {
    /// Takes the next job that a worker able to make `serves` can run: the highest priority first, then the oldest.
    /// Jobs whose lease ran out are given back first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn claim(&self, worker: &str, serves: &[Variant]) -> Result<Option<Claim>, QueueError> {
        // A look without the writers' lock: most of the time there is nothing.
        if !self.has_work(serves).await? {
            return Ok(None);
        }
        let now = self.now();
        let token = Uuid::now_v7();
        let mut tx = self.write().await?;
        self.give_back(&mut tx, Lost::Expired, now).await?;
        let mut sql =
            QueryBuilder::<Sqlite>::new("UPDATE jobs SET status = 'running', version = version + 1");
        sql.push(", attempt = attempt + 1, worker = ").push_bind(worker);
        sql.push(", lease_token = ").push_bind(token.hyphenated());
        sql.push(", lease_until = ").push_bind(now.after(self.policy.lease));
        sql.push(", stage = ").push_bind(Word(Stage::Loading)).push(", step = 0, steps = 1, stage_from = 0");
        sql.push(", stage_at = ").push_bind(now).push(", step_at = ").push_bind(now);
        sql.push(", started_at = ").push_bind(now);
        sql.push(" WHERE id = (SELECT id FROM jobs WHERE ");
        push_claimable(&mut sql, serves);
        sql.push(" ORDER BY priority DESC, id LIMIT 1) RETURNING *");
        let Some(row) = sql.build().fetch_optional(&mut *tx).await? else {
            // What ran out was given back, but is not for this worker.
            tx.commit().await?;
            return Ok(None);
        };
        let lease = Lease {
            job: row.try_get::<Hyphenated, _>("id")?.into_uuid(),
            token,
            attempt: row.try_get("attempt")?,
        };
        sqlx::query("INSERT INTO attempts (job, attempt, worker, started_at) VALUES ($1, $2, $3, $4)")
            .bind(lease.job.hyphenated())
            .bind(lease.attempt)
            .bind(worker)
            .bind(now)
            .execute(&mut *tx)
            .await?;
        let spec: Spec = row.try_get::<Json<_>, _>("spec")?.0;
        let story = match ShotOf::from_row(&row)? {
            Some(of) => Some(story::prepare(&mut tx, lease.job, of, spec.variant).await?),
            None => None,
        };
        let inputs = sqlx::query_as(
            "SELECT role, inputs.* FROM job_inputs JOIN inputs USING (sha256) WHERE job = $1 ORDER BY position",
        )
        .bind(lease.job.hyphenated())
        .fetch_all(&mut *tx)
        .await?;
        let claim = Claim {
            lease,
            spec,
            inputs,
            story,
            created_at: row.try_get("created_at")?,
            traceparent: row.try_get("traceparent")?,
        };
        breakpoint::reach(Point::InClaim).map_err(sqlx::Error::Io)?;
        tx.commit().await?;
        breakpoint::reach(Point::AfterClaim).map_err(sqlx::Error::Io)?;
        Ok(Some(claim))
    }

    async fn has_work(&self, serves: &[Variant]) -> Result<bool, QueueError> {
        let mut sql = QueryBuilder::<Sqlite>::new("SELECT 1 WHERE EXISTS (SELECT 1 FROM jobs WHERE ");
        push_claimable(&mut sql, serves);
        sql.push(") OR EXISTS (SELECT 1 FROM jobs WHERE lease_token IS NOT NULL AND lease_until < ");
        sql.push_bind(self.now()).push(")");
        Ok(sql.build().fetch_optional(&self.reader).await?.is_some())
    }

    /// Renews a lease, says how far the attempt has come, and learns whether it shall go on. Shows that the worker
    /// is alive, too.
    ///
    /// # Errors
    /// [`QueueError::LeaseLost`]: stop, and write nothing more. Or a database failure: try again.
    pub async fn heartbeat(&self, lease: &Lease, progress: Progress) -> Result<Order, QueueError> {
        let now = self.now();
        let mut tx = self.write().await?;
        // A column on the right of `=` is its value before the update.
        let row = sqlx::query(
            "UPDATE jobs SET
                lease_until = $3,
                version = version + (stage <> $4 OR step <> $5 OR steps <> $6),
                stage_at = CASE WHEN stage = $4 THEN stage_at ELSE $7 END,
                stage_from = CASE WHEN stage = $4 THEN stage_from ELSE $5 END,
                step_at = CASE WHEN stage = $4 AND step = $5 THEN step_at ELSE $7 END,
                stage = $4, step = $5, steps = $6
             WHERE id = $1 AND lease_token = $2 AND status IN ('running', 'cancelling')
             RETURNING status",
        )
        .bind(lease.job.hyphenated())
        .bind(lease.token.hyphenated())
        .bind(now.after(self.policy.lease))
        .bind(Word(progress.stage))
        .bind(u32::try_from(progress.step).unwrap_or(u32::MAX))
        .bind(u32::try_from(progress.steps).unwrap_or(u32::MAX))
        .bind(now)
        .fetch_optional(&mut *tx)
        .await?;
        let Some(row) = row else {
            return Err(lease_lost(tx, lease.job).await);
        };
        let status = row.try_get::<Word<Status>, _>("status")?.0;
        sqlx::query(
            "UPDATE workers SET seen_at = $2, resident_bytes = $3 WHERE name = (SELECT worker FROM jobs WHERE id = $1)",
        )
            .bind(lease.job.hyphenated())
            .bind(now)
            .bind(process::resident_bytes())
            .execute(&mut *tx)
            .await?;
        breakpoint::reach(Point::InHeartbeat).map_err(sqlx::Error::Io)?;
        tx.commit().await?;
        Ok(if status == Status::Cancelling { Order::Cancel } else { Order::Continue })
    }

    /// Learns whether an attempt shall go on, without writing anything.
    ///
    /// # Errors
    /// [`QueueError::LeaseLost`]: stop, and write nothing more. Or a database failure: try again.
    pub async fn order(&self, lease: &Lease) -> Result<Order, QueueError> {
        let row = sqlx::query("SELECT status FROM jobs WHERE id = $1 AND lease_token = $2")
            .bind(lease.job.hyphenated())
            .bind(lease.token.hyphenated())
            .fetch_optional(&self.reader)
            .await?
            .ok_or(QueueError::LeaseLost(lease.job))?;
        let status = row.try_get::<Word<Status>, _>("status")?.0;
        Ok(if status == Status::Cancelling { Order::Cancel } else { Order::Continue })
    }

    /// Ends an attempt, and with it the job unless it is given back. Returns what became of the job: `cancelled`
    /// if somebody asked for that before, whatever `ending` is.
    ///
    /// # Errors
    /// [`QueueError::LeaseLost`]: nothing was written; throw away what was made. Or a database failure: the job
    /// may or may not have ended; ask again with the same lease.
    pub async fn end(&self, lease: &Lease, ending: &Ending) -> Result<Status, QueueError> {
        self.end_shot(lease, ending, None).await
    }

    /// Ends an attempt at a shot of a story as [`end`](Self::end) does, and with the job's success gives the story what the
    /// shot leaves to it.
    ///
    /// # Errors
    /// As there.
    pub async fn end_shot(
        &self,
        lease: &Lease,
        ending: &Ending,
        shot: Option<&ShotMade>,
    ) -> Result<Status, QueueError> {
        let now = self.now();
        let mut tx = self.write().await?;
        let cancelled = sqlx::query(
            "UPDATE jobs SET status = 'cancelled', version = version + 1, finished_at = $3,
                lease_token = NULL, lease_until = NULL
             WHERE id = $1 AND lease_token = $2 AND status = 'cancelling'",
        )
        .bind(lease.job.hyphenated())
        .bind(lease.token.hyphenated())
        .bind(now)
        .execute(&mut *tx)
        .await?
        .rows_affected();
        let (status, outcome) = if cancelled == 1 {
            (Status::Cancelled, Outcome::Cancelled)
        } else {
            match end_running(&mut tx, lease, ending, now, self.policy.results).await {
                Err(QueueError::LeaseLost(job)) => return Err(lease_lost(tx, job).await),
                ended => ended?,
            }
        };
        if let Some(shot) = shot.filter(|_| status == Status::Succeeded) {
            story::keep(&mut tx, lease, shot, now).await?;
        }
        end_attempt(&mut tx, lease.job, lease.attempt, now, outcome, None).await?;
        breakpoint::reach(Point::InEnd).map_err(sqlx::Error::Io)?;
        tx.commit().await?;
        breakpoint::reach(Point::AfterEnd).map_err(sqlx::Error::Io)?;
        Ok(status)
    }
}

/// Counts that a write was refused. The refusal stands even if that fails.
async fn lease_lost(mut tx: Transaction<'_, Sqlite>, job: Uuid) -> QueueError {
    let counted = sqlx::query(
        "INSERT INTO counters (metric, label, value) VALUES ('lease_losses', '', 1)
         ON CONFLICT (metric, label) DO UPDATE SET value = value + 1",
    )
    .execute(&mut *tx)
    .await;
    let counted = match counted {
        Ok(_) => tx.commit().await,
        Err(e) => Err(e),
    };
    if let Err(e) = counted {
        tracing::warn!(job.id = %job, error = %e, "a lost lease could not be counted");
    }
    QueueError::LeaseLost(job)
}

async fn end_running(
    db: &mut SqliteConnection,
    lease: &Lease,
    ending: &Ending,
    now: Millis,
    results_kept: Duration,
) -> Result<(Status, Outcome), QueueError> {
    let (status, outcome) = match ending {
        Ending::Succeeded { .. } => (Status::Succeeded, Outcome::Succeeded),
        Ending::Failed(_) => (Status::Failed, Outcome::Failed),
        Ending::GivenBack => (Status::Queued, Outcome::GivenBack),
    };
    let mut sql = QueryBuilder::<Sqlite>::new("UPDATE jobs SET lease_token = NULL, lease_until = NULL");
    sql.push(", version = version + 1, status = ").push_bind(Word(status));
    match ending {
        Ending::Succeeded { made, warnings } => {
            sql.push(", finished_at = ").push_bind(now);
            sql.push(", expires_at = ").push_bind(now.after(results_kept));
            sql.push(", made = ").push_bind(Json(made));
            sql.push(", warnings = ").push_bind(Json(warnings));
            // The last heartbeat may have come earlier.
            sql.push(", stage = ").push_bind(Word(Stage::Mp4)).push(", step = 1, steps = 1");
        }
        Ending::Failed(failure) => {
            sql.push(", finished_at = ").push_bind(now);
            sql.push(", error_code = ").push_bind(Word(failure.code));
            sql.push(", error_detail = ").push_bind(&failure.detail);
        }
        Ending::GivenBack => {
            sql.push(", given_back = given_back + 1, stage = NULL");
        }
    }
    sql.push(" WHERE id = ").push_bind(lease.job.hyphenated());
    sql.push(" AND lease_token = ").push_bind(lease.token.hyphenated()).push(" AND status = 'running'");
    match sql.build().execute(&mut *db).await?.rows_affected() {
        0 => Err(QueueError::LeaseLost(lease.job)),
        _ => Ok((status, outcome)),
    }
}

/// Closes the record of an attempt.
pub(super) async fn end_attempt(
    db: &mut SqliteConnection,
    job: Uuid,
    attempt: u32,
    now: Millis,
    outcome: Outcome,
    detail: Option<&str>,
) -> Result<(), QueueError> {
    sqlx::query(
        "UPDATE attempts SET ended_at = $3, outcome = $4, detail = $5 WHERE job = $1 AND attempt = $2",
    )
    .bind(job.hyphenated())
    .bind(attempt)
    .bind(now)
    .bind(Word(outcome))
    .bind(detail)
    .execute(db)
    .await?;
    Ok(())
}

/// Which jobs may begin: those that wait, that are served, and that wait for no other one.
fn push_claimable(sql: &mut QueryBuilder<Sqlite>, serves: &[Variant]) {
    sql.push(
        "status = 'queued'
         AND (after IS NULL OR EXISTS
            (SELECT 1 FROM jobs AS before WHERE before.id = jobs.after AND before.status = 'succeeded'))
         AND requires IN (",
    );
    let mut list = sql.separated(", ");
    for &variant in serves {
        list.push_bind(Word(variant));
    }
    list.push_unseparated(")");
}
