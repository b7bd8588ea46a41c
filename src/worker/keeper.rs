//! Keeps the lease of a running job: renews it, carries progress up, brings "cancel" down.

use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::Worker;
use crate::pipeline::{Observer, Progress, Stage, StopToken};
use crate::queue::{Lease, Order, QueueError};

/// How often orders are looked for, which only reads: a cancelled job should not hold the device for longer.
const TICK: Duration = Duration::from_millis(50);

/// How often progress is written at most, however short the steps.
const PROGRESS: Duration = Duration::from_millis(250);

/// How often the lease is renewed when nothing has changed.
const BEAT: Duration = Duration::from_secs(1);

/// The handle the working thread has. As an [`Observer`] it takes the run's progress.
pub(super) struct Keeper {
    progress: watch::Sender<Progress>,
    done: CancellationToken,
    task: JoinHandle<bool>,
}

struct Task {
    lease: Lease,
    worker: Worker,
    progress: watch::Receiver<Progress>,
    stop: StopToken,
    done: CancellationToken,
}

impl Keeper {
    /// Starts keeping `lease`, and will set `stop` when the job is cancelled, when its lease is lost, and when the
    /// worker is told to stop.
    pub(super) fn start(worker: &Worker, lease: Lease, stop: StopToken) -> Self {
        let (sender, receiver) = watch::channel(Progress { stage: Stage::Loading, step: 0, steps: 1 });
        let done = CancellationToken::new();
        let task = Task { lease, worker: worker.clone(), progress: receiver, stop, done: done.clone() };
        Self { progress: sender, done, task: worker.runtime.spawn(task.keep()) }
    }

    /// Stops keeping. Whether the lease was held to the end, as far as is known.
    pub(super) async fn finish(self) -> bool {
        self.done.cancel();
        // A keeper that panicked knows nothing; the queue will tell when the job is ended.
        self.task.await.unwrap_or(true)
    }
}

impl Observer for Keeper {
    fn progress(&mut self, progress: Progress) {
        self.progress.send_replace(progress);
    }
}

impl Task {
    /// Beats until done; false when the lease was lost.
    async fn keep(mut self) -> bool {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first progress is written at once.
        let mut last = Instant::now().checked_sub(PROGRESS).unwrap_or_else(Instant::now);
        let mut stopped = false;
        loop {
            tokio::select! {
                biased;
                () = self.done.cancelled() => return true,
                // The lease is kept while the run comes to a halt.
                () = self.worker.shutdown.cancelled(), if !stopped => {
                    self.stop.stop();
                    stopped = true;
                    continue;
                }
                _ = ticks.tick() => {}
            }
            let progressed = self.progress.has_changed().unwrap_or(false);
            let due = if progressed { PROGRESS } else { BEAT };
            let order = if last.elapsed() >= due {
                last = Instant::now();
                self.beat().await
            } else if stopped {
                continue;
            } else {
                self.worker.queue.order(&self.lease).await
            };
            match order {
                Ok(Order::Continue) => {}
                Ok(Order::Cancel) => {
                    self.stop.stop();
                    stopped = true;
                }
                Err(QueueError::LeaseLost(_)) => {
                    self.stop.stop();
                    return false;
                }
                Err(e) => {
                    tracing::warn!(job.id = %self.lease.job, error = %e, "a lease could not be renewed")
                }
            }
        }
    }

    async fn beat(&mut self) -> Result<Order, QueueError> {
        let progress = *self.progress.borrow_and_update();
        self.worker.queue.heartbeat(&self.lease, progress).await
    }
}
