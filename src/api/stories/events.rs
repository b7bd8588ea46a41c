//! `GET /stories/{id}/events`.
//!
//! A story has no events of its own: these are the events of its jobs, in the order of commits, each with its number
//! as its id. So whoever comes back with the last one misses nothing, whichever process answers.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, stream};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::find;
use super::view::StoryView;
use crate::api::App;
use crate::api::access::Caller;
use crate::api::extract::StoryId;
use crate::api::jobs::events::{COMMENT, RECONNECT, StreamEvent, event, last_event_id};
use crate::api::jobs::progress::ProgressView;
use crate::api::problem::{Problem, problems};
use crate::queue::{Event, Status, Story, Subscription};

/// The data of `state` and `progress`.
#[derive(Serialize, ToSchema)]
#[schema(as = StoryChange)]
pub struct StoryChangeView {
    /// Where the story stands from here on.
    status: Status,
    /// Which of its shots has changed.
    shot: u32,
    /// The job that makes it.
    job: Uuid,
    /// Where the job stands.
    job_status: Status,
    /// How far the shot has come.
    progress: ProgressView,
}

problems!(EventsProblems: StoryNotFound, StoryDeleted);

/// Follows a story to its end
///
/// A stream of server-sent events. `snapshot` comes first, with the whole story; then `state` when a shot has begun or ended and
/// `progress` when it has come farther (`StoryChange`); at last `end`, with the whole story, and the stream closes. The `id`
/// rises. A stream that is asked for with `Last-Event-ID` goes on after that event, without a snapshot. When nothing happens, a
/// comment comes every 10 seconds.
#[utoipa::path(
    get,
    path = "/stories/{id}/events",
    tag = "stories",
    params(
        ("id" = Uuid, Path, description = "The story"),
        ("Last-Event-ID" = Option<String>, Header, description = "The `id` of the last event that was received"),
    ),
    responses(
        (
            status = 200,
            description = "The events",
            content_type = "text/event-stream",
            body = StreamEvent,
            example = "id: 71\nevent: snapshot\ndata: {\"id\":\"…\",\"status\":\"running\",…}\n\nid: 74\nevent: progress\ndata: {\"status\":\"running\",\"shot\":2,\"job\":\"…\",…}\n\n",
        ),
        (status = 204, description = "The story has ended and `Last-Event-ID` is its last event: don't connect again"),
        EventsProblems,
    )
)]
pub async fn follow_story(
    State(app): State<App>,
    caller: Caller,
    StoryId(id): StoryId,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    // First to subscribe, then to read: what happens in between is not missed.
    let subscription = app.watcher.subscribe(id);
    // The number before the story: what comes in between is told twice, not missed.
    let latest = app.queue.latest_story_event(id).await?;
    let story = find(&app, &caller, id).await?;
    let last = last_event_id(&headers).and_then(|last| i64::try_from(last).ok());
    if story.status.is_final() && last == Some(latest) && latest > 0 {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let follower = Follower::start(app, caller, subscription, story, latest, last).await?;
    let keep_alive = KeepAlive::new().interval(COMMENT);
    Ok(Sse::new(follower.stream()).keep_alive(keep_alive).into_response())
}

/// One stream.
struct Follower {
    app: App,
    caller: Caller,
    id: Uuid,
    subscription: Subscription,
    /// The number of the last event that was taken.
    seen: i64,
    /// Where the story stood then.
    status: Status,
    ready: VecDeque<SseEvent>,
    ended: bool,
}

impl Follower {
    async fn start(
        app: App,
        caller: Caller,
        subscription: Subscription,
        story: Story,
        latest: i64,
        last: Option<i64>,
    ) -> Result<Self, Problem> {
        let (id, status) = (story.id, story.status);
        let mut this = Self {
            app,
            caller,
            id,
            subscription,
            seen: latest,
            status,
            ready: VecDeque::new(),
            ended: false,
        };
        // A number from the future is of another life of the database.
        if let Some(last) = last.filter(|&last| last > 0 && last <= latest) {
            this.seen = last;
            this.catch_up().await?;
        } else {
            let view = StoryView::new(&story);
            this.ready.push_back(event(number(latest), "snapshot", &view)?.retry(RECONNECT));
            if status.is_final() {
                this.end(&story, latest)?;
            }
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
                event = self.subscription.next_numbered() => event,
                () = shutdown.cancelled() => return None,
            };
            let taken = match received {
                Some((seq, _)) if seq <= self.seen => Ok(()),
                Some((seq, event)) => self.take(seq, &event).await,
                None => self.catch_up().await,
            };
            // The client connects again with the id it has, and misses nothing.
            if taken.is_err() {
                return None;
            }
        }
    }

    /// Takes what the database has beyond what was sent.
    async fn catch_up(&mut self) -> Result<(), Problem> {
        for (seq, event) in self.app.queue.story_events(self.id, self.seen).await? {
            if !self.ended {
                self.take(seq, &Arc::new(event)).await?;
            }
        }
        Ok(())
    }

    async fn take(&mut self, seq: i64, change: &Arc<Event>) -> Result<(), Problem> {
        self.seen = seq;
        if change.moved {
            let story = find(&self.app, &self.caller, self.id).await?;
            self.status = story.status;
            if story.status.is_final() {
                let latest = self.app.queue.latest_story_event(self.id).await?;
                return self.end(&story, latest);
            }
        }
        let (_, shot) = change.shot.unwrap_or((self.id, 0));
        let name = if change.moved { "state" } else { "progress" };
        let change = StoryChangeView {
            status: self.status,
            shot,
            job: change.job,
            job_status: change.status,
            progress: ProgressView::new(change.status, change.reached),
        };
        self.ready.push_back(event(number(seq), name, &change)?);
        Ok(())
    }

    fn end(&mut self, story: &Story, seq: i64) -> Result<(), Problem> {
        self.ended = true;
        self.ready.push_back(event(number(seq), "end", &StoryView::new(story))?);
        Ok(())
    }
}

/// An event's number as its id.
fn number(seq: i64) -> u64 {
    u64::try_from(seq).unwrap_or_default()
}
