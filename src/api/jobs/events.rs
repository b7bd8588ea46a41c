//! `GET /jobs/{id}/events`.
//!
//! The id of an event is the job's version from there on, so ids rise by one and a stream that broke off can go on
//! where it was, whichever process serves it. The events themselves come from the one watcher of the queue; the
//! database is only read at the beginning, at the end, and when a stream has fallen behind.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::Stream;
use futures::stream;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::progress::ProgressView;
use super::view::JobView;
use super::{find, view};
use crate::api::App;
use crate::api::access::Caller;
use crate::api::extract::JobId;
use crate::api::problem::{ErrorCode, Problem, problems};
use crate::queue::{Event, Job, Status, Subscription};

/// How long nothing may be sent before a comment is.
pub(in crate::api) const COMMENT: Duration = Duration::from_secs(10);

/// How long a browser waits before it connects again.
pub(in crate::api) const RECONNECT: Duration = Duration::from_secs(2);

/// The data of `state` and `progress`.
#[derive(Serialize, ToSchema)]
#[schema(as = JobChange)]
pub struct ChangeView {
    /// Where the job stands from here on.
    status: Status,
    /// How often a worker has taken it.
    attempt: u32,
    /// How far it has come.
    progress: ProgressView,
}

/// The fields of an event, as they come line by line.
#[derive(ToSchema)]
#[allow(dead_code, reason = "only its schema is used")]
pub struct StreamEvent {
    /// The job's version from there on.
    id: String,
    /// `snapshot`, `state`, `progress` or `end`.
    event: String,
    /// JSON: the whole job (`Job`), or what has changed (`JobChange`).
    data: String,
}

problems!(EventsProblems: JobNotFound, JobDeleted);

/// Follows a job to its end
///
/// A stream of server-sent events. `snapshot` comes first, with the whole job; then `state` when the status has changed
/// and `progress` when only the progress has (`JobChange`); at last `end`, with the whole job, and the stream closes. The
/// `id` rises by one. A stream that is asked for with `Last-Event-ID` goes on after that event, without a snapshot.
/// When nothing happens, a comment comes every 10 seconds.
#[utoipa::path(
    get,
    path = "/jobs/{id}/events",
    tag = "jobs",
    params(
        ("id" = Uuid, Path, description = "The job"),
        ("Last-Event-ID" = Option<String>, Header, description = "The `id` of the last event that was received"),
    ),
    responses(
        (
            status = 200,
            description = "The events",
            content_type = "text/event-stream",
            body = StreamEvent,
            example = "id: 1\nevent: snapshot\ndata: {\"id\":\"…\",\"status\":\"queued\",…}\n\nid: 2\nevent: state\ndata: {\"status\":\"running\",\"attempt\":1,\"progress\":{…}}\n\n",
        ),
        (status = 204, description = "The job has ended and `Last-Event-ID` is its last event: don't connect again"),
        EventsProblems,
    )
)]
pub async fn follow_job(
    State(app): State<App>,
    caller: Caller,
    JobId(id): JobId,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    // First to subscribe, then to read: what happens in between is not missed.
    let subscription = app.watcher.subscribe(id);
    let job = find(&app, &caller, id).await?;
    let last = last_event_id(&headers);
    if job.status.is_final() && last == Some(job.version) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let follower = Follower::start(app, caller, subscription, job, last).await?;
    let keep_alive = KeepAlive::new().interval(COMMENT);
    Ok(Sse::new(follower.stream()).keep_alive(keep_alive).into_response())
}

/// `Last-Event-ID`.
pub(in crate::api) fn last_event_id(headers: &HeaderMap) -> Option<u64> {
    headers.get("last-event-id")?.to_str().ok()?.trim().parse().ok()
}

/// One stream.
struct Follower {
    app: App,
    caller: Caller,
    id: Uuid,
    subscription: Subscription,
    /// The version that was sent or is about to be.
    version: u64,
    ready: VecDeque<SseEvent>,
    ended: bool,
}

impl Follower {
    async fn start(
        app: App,
        caller: Caller,
        subscription: Subscription,
        job: Job,
        last: Option<u64>,
    ) -> Result<Self, Problem> {
        let (id, version, ended) = (job.id, job.version, job.status.is_final());
        let mut this = Self { app, caller, id, subscription, version, ready: VecDeque::new(), ended: false };
        // An id from the future is of another life of the database.
        if let Some(last) = last.filter(|&last| last > 0 && last <= version) {
            this.version = last;
            this.catch_up().await?;
        } else {
            let name = if ended { "end" } else { "snapshot" };
            let snapshot = view(&this.app, job).await?;
            if ended {
                // Both: a client that looks for one of them finds it.
                let first = event(version.saturating_sub(1), "snapshot", &snapshot)?;
                this.ready.push_back(first);
            }
            this.ready.push_back(event(version, name, &snapshot)?.retry(RECONNECT));
            this.ended = ended;
        }
        Ok(this)
    }

    fn stream(self) -> impl Stream<Item = Result<SseEvent, Infallible>> {
        stream::unfold(self, |mut this| async move {
            let next = this.next().await?;
            Some((Ok(next), this))
        })
    }

    /// The next event to send; nothing at the end, or when the service stops or fails.
    async fn next(&mut self) -> Option<SseEvent> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            if self.ended {
                return None;
            }
            let shutdown = self.app.shutdown.clone();
            let received = tokio::select! {
                event = self.subscription.next() => event,
                () = shutdown.cancelled() => return None,
            };
            let taken = match received {
                Some(event) if event.version <= self.version => Ok(()),
                Some(event) if event.version == self.version + 1 => self.take(&event).await,
                Some(_) | None => self.catch_up().await,
            };
            // The client connects again with the id it has, and misses nothing.
            if taken.is_err() {
                return None;
            }
        }
    }

    /// Takes what the database has beyond the version that was sent.
    async fn catch_up(&mut self) -> Result<(), Problem> {
        for event in self.app.queue.events(self.id, self.version).await? {
            self.take(&event).await?;
        }
        Ok(())
    }

    async fn take(&mut self, change: &Event) -> Result<(), Problem> {
        self.version = change.version;
        let sent = if change.status.is_final() {
            self.ended = true;
            let job = find(&self.app, &self.caller, self.id).await?;
            event(change.version, "end", &JobView::new(job, None))?
        } else {
            let progress = ProgressView::new(change.status, change.reached);
            let name = if change.moved { "state" } else { "progress" };
            let change = ChangeView { status: change.status, attempt: change.attempt, progress };
            event(self.version, name, &change)?
        };
        self.ready.push_back(sent);
        Ok(())
    }
}

/// An event with JSON for its data.
pub(in crate::api) fn event(id: u64, name: &str, data: &impl Serialize) -> Result<SseEvent, Problem> {
    let event = SseEvent::default().id(id.to_string()).event(name).json_data(data);
    event.map_err(|e| Problem::new(ErrorCode::Internal, e.to_string()))
}
