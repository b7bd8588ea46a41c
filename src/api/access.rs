//! Who asks.
//!
//! Without any API key the service is open to whoever reaches it, and nobody owns a job. From the first key on, be it
//! revoked since, each request to jobs and uploads needs one, and what belongs to another owner does not exist.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;

use super::App;
use super::problem::{ErrorCode, Problem};
use crate::queue::{Job, Queue, QueueError, Room};

/// How long "there is no key" is believed.
const BELIEVED: Duration = Duration::from_secs(1);

/// Whoever asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Whose key it is; nobody's without keys.
    pub owner: Option<String>,
    max_jobs: Option<u32>,
}

impl Caller {
    /// Whether a job may be seen.
    pub fn owns(&self, job: &Job) -> bool {
        job.origin.owner == self.owner
    }

    /// What a new job must fit in.
    pub fn room(&self, queued: u64) -> Room {
        Room { queued: Some(queued), owned: self.max_jobs.map(u64::from) }
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        if !app.keys.exist(&app.queue).await? {
            return Ok(Self::default());
        }
        let refused = |detail| Problem::new(ErrorCode::Unauthorized, detail);
        let header = parts.headers.get(header::AUTHORIZATION);
        let header = header.ok_or_else(|| refused("send the API key: `Authorization: Bearer sm_…`"))?;
        let bearer = header.to_str().ok().and_then(|text| text.split_once(' '));
        let key =
            bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, key)| key.trim());
        let key = key.ok_or_else(|| refused("the scheme of `Authorization` must be `Bearer`"))?;
        match app.queue.check_key(key).await? {
            Some(record) => Ok(Self { owner: Some(record.owner), max_jobs: record.max_jobs }),
            None => Err(refused("the API key is unknown or revoked")),
        }
    }
}

/// Whether there are keys, without a read for each request of an open service.
#[derive(Debug, Default)]
pub(super) struct Keys {
    exist: AtomicBool,
    looked: Mutex<Option<Instant>>,
}

impl Keys {
    /// Whether there are keys.
    pub(super) async fn exist(&self, queue: &Queue) -> Result<bool, QueueError> {
        // Keys are revoked, but never removed: once there is one, there always is.
        if self.exist.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let looked = *self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.is_some_and(|at| at.elapsed() < BELIEVED) {
            return Ok(false);
        }
        let exist = queue.has_keys().await?;
        self.exist.store(exist, Ordering::Relaxed);
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Ok(exist)
    }
}
