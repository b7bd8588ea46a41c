//! The claim loop of a worker process.

use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::checkpoint::{self, Saver};
use super::failure;
use super::inputs;
use super::keeper::Keeper;
use super::publish::{self, Published};
use super::story::{self, ChooseError, Chosen};
use crate::pipeline::memory::QualityGate;
use crate::pipeline::{Bundles, Observer as _, PipelineError, Progress, Shot, Stage, StopToken, Variant};
use crate::queue::{
    Claim, Ending, Failure, FailureCode, Lease, Queue, QueueError, ShotClaim, ShotMade, Status,
};
use crate::storage::Storage;

/// How long an idle worker waits before it looks again.
const POLL: Duration = Duration::from_millis(200);

/// How often an idle worker shows that it is alive.
const SHOW: Duration = Duration::from_secs(5);

/// How long a worker waits when the database fails.
const DATABASE_PAUSE: Duration = Duration::from_secs(1);

/// How often a worker tries to end a job while the database fails. What it has made is worth some patience.
const END_TRIES: u32 = 30;

/// How often a worker tries to publish a video while the disk is full.
const PUBLISH_TRIES: u32 = 60;

/// How long it waits in between.
const DISK_PAUSE: Duration = Duration::from_secs(1);

/// A worker: takes jobs from the queue, one after the other, and makes them.
#[derive(Clone, Debug)]
pub struct Worker {
    /// Its name, which no other process has; see [`new_name`](super::new_name).
    pub name: String,
    /// Its device.
    pub device: String,
    /// Where the jobs are.
    pub queue: Queue,
    /// Where the files are.
    pub storage: Storage,
    /// Runs the queue's calls and the keeper, beside the thread that computes.
    pub runtime: Handle,
    /// The least time between two checkpoints of a job; zero to save each step, whatever it costs.
    pub checkpoint_every: Duration,
    /// Tells the worker to take no more jobs, and to end when it has none.
    pub drain: CancellationToken,
    /// Tells the worker to stop: the job it has is saved and goes back to the queue.
    pub shutdown: CancellationToken,
}

impl Worker {
    /// Works until told to stop. Blocks; must not be called on a thread of the runtime.
    ///
    /// # Errors
    /// When the database refuses the worker's first entry.
    pub fn run(&self, bundles: &mut Bundles, gate: &mut dyn QualityGate) -> Result<(), QueueError> {
        let serves = bundles.modes();
        self.show(&serves)?;
        tracing::info!(worker.name = self.name, worker.serves = ?serves, "the worker waits for jobs");
        let mut idle = Duration::ZERO;
        while !self.is_ending() {
            let pause = match self.runtime.block_on(self.queue.claim(&self.name, &serves)) {
                Ok(Some(claim)) => {
                    self.work(&claim, bundles, gate);
                    continue;
                }
                Ok(None) => POLL,
                Err(e) => {
                    tracing::warn!(error = %e, "no job could be claimed");
                    DATABASE_PAUSE
                }
            };
            self.rest(pause);
            idle += pause;
            if idle >= SHOW {
                idle = Duration::ZERO;
                if let Err(e) = self.show(&serves) {
                    tracing::warn!(error = %e, "the worker could not show that it is alive");
                }
            }
        }
        tracing::info!(worker.name = self.name, "the worker stops");
        if let Err(e) = self.runtime.block_on(self.queue.worker_ended(&self.name, "it was told to stop")) {
            tracing::warn!(error = %e, "the worker could not sign off");
        }
        Ok(())
    }

    fn show(&self, serves: &[Variant]) -> Result<(), QueueError> {
        self.runtime.block_on(self.queue.worker_seen(&self.name, &self.device, serves))
    }

    /// Waits, but not when told to stop.
    fn rest(&self, pause: Duration) {
        self.runtime.block_on(async {
            let _ = tokio::time::timeout(pause, async {
                tokio::select! { () = self.drain.cancelled() => {}, () = self.shutdown.cancelled() => {} }
            })
            .await;
        });
    }

    /// Waits, even when told to stop.
    fn sleep(&self, pause: Duration) {
        // A timer must be made within the runtime.
        self.runtime.block_on(async { tokio::time::sleep(pause).await });
    }

    fn is_ending(&self) -> bool {
        self.drain.is_cancelled() || self.shutdown.is_cancelled()
    }

    /// One attempt at one job, from claim to end.
    fn work(&self, claim: &Claim, bundles: &mut Bundles, gate: &mut dyn QualityGate) {
        let lease = claim.lease;
        let span = tracing::info_span!(
            "job",
            job.id = %lease.job,
            job.attempt = lease.attempt,
            traceparent = claim.traceparent
        );
        let _entered = span.enter();
        tracing::info!("a job begins");
        let stop = StopToken::default();
        let mut keeper = Keeper::start(self, lease, stop.clone());
        let (ending, left) = match self.make(claim, bundles, gate, &mut keeper, &stop) {
            Ok((ending, left)) => (ending, left),
            Err(ending) => (ending, None),
        };
        let kept = self.runtime.block_on(keeper.finish());
        if kept {
            self.end(&lease, &ending, left.as_ref());
        } else {
            self.lost(&lease);
        }
    }

    /// Leaves nothing of an attempt that has no right to its job any more.
    fn lost(&self, lease: &Lease) {
        tracing::warn!("the lease was lost; what was made is thrown away");
        self.discard(lease);
    }

    /// Makes and publishes the video, or says how else the attempt ends.
    fn make(
        &self,
        claim: &Claim,
        bundles: &mut Bundles,
        gate: &mut dyn QualityGate,
        keeper: &mut Keeper,
        stop: &StopToken,
    ) -> Result<(Ending, Option<ShotMade>), Ending> {
        // The claim named what the bundles serve, so there is one; if not, give the job to whoever can.
        let model = bundles.of_mode(claim.spec.variant).ok_or(Ending::GivenBack)?;
        let lease = claim.lease;
        let identity = checkpoint::identity(claim, &model.digest);
        let mut resume = None;
        if lease.attempt > 1 {
            // What earlier attempts have left was never published: this one has the job now.
            if let Err(e) = self.storage.remove_results(lease.job) {
                tracing::warn!(error = %e, "the files of an earlier attempt are left behind");
            }
            resume = checkpoint::load(&self.storage, &lease, &identity);
        }
        let request = inputs::request(&self.storage, claim).map_err(failed)?;
        let mut saver = Saver {
            keeper,
            storage: &self.storage,
            lease,
            identity,
            every: self.checkpoint_every,
            shutdown: self.shutdown.clone(),
            last: Instant::now(),
            cost: Duration::ZERO,
            failing: false,
        };
        let mut shot =
            model.generator.generate(&request, resume, &mut saver, stop).map_err(|e| self.ending_of(&e))?;
        let (digest, fps) = (model.digest.clone(), model.generator.manifest().sampling.fps);
        let chosen = match &claim.story {
            None => None,
            Some(of) => {
                keeper.progress(Progress { stage: Stage::Keyframes, step: 0, steps: 1 });
                let chosen = story::choose(&self.storage, of, &shot.frames, (bundles, gate), stop);
                let chosen = chosen.map_err(|e| match e {
                    ChooseError::Pipeline(e) => self.ending_of(&e),
                    ChooseError::Unreadable(failure) => failed(failure),
                })?;
                shot.warnings.extend_from_slice(&chosen.remembered.warnings);
                Some((of, chosen))
            }
        };
        keeper.progress(Progress { stage: Stage::Mp4, step: 0, steps: 1 });
        let story = chosen.as_ref().map(|(of, chosen)| (*of, chosen));
        let Published { made, left } = self.publish(claim, &shot, story, (&digest, fps), stop)?;
        keeper.progress(Progress { stage: Stage::Mp4, step: 1, steps: 1 });
        Ok((Ending::Succeeded { made, warnings: shot.warnings }, left))
    }

    /// How an attempt ends at which a graph failed or was stopped.
    fn ending_of(&self, error: &PipelineError) -> Ending {
        if error.is_device_lost() {
            tracing::error!(error = %error, "the device is lost to this process; another has to go on");
            self.shutdown.cancel();
        }
        match failure::of_pipeline(error) {
            Some(failure) => failed(failure),
            None => Ending::GivenBack,
        }
    }

    /// Publishes a video. A full disk is waited for: what was made is worth some patience.
    fn publish(
        &self,
        claim: &Claim,
        shot: &Shot,
        story: Option<(&ShotClaim, &Chosen)>,
        model: (&str, u32),
        stop: &StopToken,
    ) -> Result<Published, Ending> {
        for tries in 1.. {
            let failure = match publish::publish(&self.storage, claim, shot, story, model) {
                Ok(published) => return Ok(published),
                Err(e) => Failure::from(e),
            };
            if failure.code != FailureCode::DiskFull || tries == PUBLISH_TRIES {
                return Err(failed(failure));
            }
            tracing::warn!(
                error = failure.detail,
                tries,
                "the disk is full; the video is kept in memory and tried again"
            );
            self.sleep(DISK_PAUSE);
            if stop.is_stopped() {
                return Err(Ending::GivenBack);
            }
        }
        unreachable!("the last try returns")
    }

    /// Writes how the attempt ended, and throws away what it made if that does not count any more.
    fn end(&self, lease: &Lease, ending: &Ending, left: Option<&ShotMade>) {
        for tries in 1.. {
            match self.runtime.block_on(self.queue.end_shot(lease, ending, left)) {
                Ok(status) => {
                    self.log_end(status, ending);
                    self.discard(lease);
                    return;
                }
                Err(QueueError::LeaseLost(_)) => {
                    self.lost(lease);
                    return;
                }
                Err(e) if tries < END_TRIES => {
                    tracing::warn!(error = %e, tries, "the end of a job could not be written; trying again");
                    self.sleep(DATABASE_PAUSE);
                }
                Err(e) => {
                    tracing::error!(error = %e, "the end of a job could not be written; it will be made again");
                    return;
                }
            }
        }
    }

    fn log_end(&self, status: Status, ending: &Ending) {
        match (status, ending) {
            (Status::Failed, Ending::Failed(Failure { code, detail })) => {
                tracing::warn!(error.code = code.code(), error = detail, "a job failed");
            }
            (Status::Queued, _) => {
                tracing::info!("a job went back to the queue; this attempt does not count")
            }
            _ => tracing::info!(job.status = ?status, "a job ended"),
        }
    }

    /// Removes what the attempt has published, unless the job has come to be made of it after all: the answer to
    /// "end" can get lost where its effect did not. And checkpoints, if the job has ended.
    fn discard(&self, lease: &Lease) {
        let removed = match self.runtime.block_on(self.queue.wanted(lease.job)) {
            Ok(wanted) => {
                let result = match wanted.result == Some(lease.token) {
                    true => Ok(()),
                    false => self.storage.remove_result(lease.job, lease.token),
                };
                let checkpoints = match wanted.unfinished {
                    true => Ok(()),
                    false => self.storage.remove_checkpoints(lease.job),
                };
                result.and(checkpoints).map_err(|e| e.to_string())
            }
            Err(e) => Err(e.to_string()),
        };
        if let Err(error) = removed {
            tracing::warn!(error, "files of an attempt are left behind until they are swept up");
        }
    }
}

fn failed(failure: Failure) -> Ending {
    Ending::Failed(failure)
}
