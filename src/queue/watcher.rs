//! One look at the database for everyone who follows a job.
//!
//! Workers are other processes: their changes can only be seen in the database. A single task reads the events that
//! were committed since its last look and hands them to the subscribers of each job, so that a thousand followers
//! cost no more reads than one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use uuid::Uuid;

use super::{Event, Queue, QueueError};

/// The time between two looks.
const INTERVAL: Duration = Duration::from_millis(100);

/// Most events of one read.
const BATCH: u32 = 500;

/// Events a follower may be behind; whoever falls further behind reads them from the database.
const BACKLOG: usize = 64;

/// An event and its number.
type Numbered = (i64, Arc<Event>);

type Followed = Mutex<HashMap<Uuid, broadcast::Sender<Numbered>>>;

/// Watches the database as long as it lives.
#[derive(Debug)]
pub struct Watcher {
    followed: Arc<Followed>,
    task: JoinHandle<()>,
}

/// The events of one job from now on, or those of the jobs of one story.
#[derive(Debug)]
pub struct Subscription {
    id: Uuid,
    events: broadcast::Receiver<Numbered>,
    followed: Arc<Followed>,
}

impl Watcher {
    /// Starts to watch for what happens from now on.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn start(queue: Queue) -> Result<Self, QueueError> {
        let seen = queue.latest_event().await?;
        let followed = Arc::<Followed>::default();
        let task = tokio::spawn(watch(queue, Arc::clone(&followed), seen));
        Ok(Self { followed, task })
    }

    /// Follows a job or a story. To miss nothing, subscribe first and then read the job: events up to the version that was
    /// read may come, and are to be skipped.
    pub fn subscribe(&self, id: Uuid) -> Subscription {
        let mut followed = lock(&self.followed);
        let sender = followed.entry(id).or_insert_with(|| broadcast::channel(BACKLOG).0);
        Subscription { id, events: sender.subscribe(), followed: Arc::clone(&self.followed) }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Subscription {
    /// The next event; nothing when some were missed, and are to be read with [`Queue::events`]. Waits for ever when
    /// nothing happens.
    pub async fn next(&mut self) -> Option<Arc<Event>> {
        self.next_numbered().await.map(|(_, event)| event)
    }

    /// As [`next`](Self::next), with the number of the event in the order of commits.
    pub async fn next_numbered(&mut self) -> Option<(i64, Arc<Event>)> {
        match self.events.recv().await {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(_)) => None,
            // The watcher has ended, and the service is about to.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut followed = lock(&self.followed);
        // This one still counts.
        if followed.get(&self.id).is_some_and(|sender| sender.receiver_count() <= 1) {
            followed.remove(&self.id);
        }
    }
}

async fn watch(queue: Queue, followed: Arc<Followed>, mut seen: i64) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failing = false;
    loop {
        ticks.tick().await;
        let looked = look(&queue, &followed, &mut seen).await;
        if let Err(e) = &looked
            && !failing
        {
            tracing::warn!(error = %e, "changes of jobs can't be read");
        }
        failing = looked.is_err();
    }
}

/// Hands out what was committed since the last look.
async fn look(queue: &Queue, followed: &Followed, seen: &mut i64) -> Result<(), QueueError> {
    loop {
        let events = queue.events_since(*seen, BATCH).await?;
        let count = events.len();
        let followed = lock(followed);
        for (seq, event) in events {
            *seen = seq;
            let event = Arc::new(event);
            for id in [Some(event.job), event.shot.map(|(story, _)| story)].into_iter().flatten() {
                if let Some(sender) = followed.get(&id) {
                    // Fails when the last subscriber has just gone.
                    let _ = sender.send((seq, Arc::clone(&event)));
                }
            }
        }
        if count < BATCH as usize {
            return Ok(());
        }
    }
}

/// The map is whole whatever happened to another holder.
fn lock(followed: &Followed) -> MutexGuard<'_, HashMap<Uuid, broadcast::Sender<Numbered>>> {
    followed.lock().unwrap_or_else(PoisonError::into_inner)
}
