//! Saves how far the denoising of a job has come, and finds it again.
//!
//! A checkpoint is good for exactly the request, the bundle and the program that made it: a digest of these goes with
//! it and is compared. Whatever doesn't match, or can't be read, is left out of account with a warning: the worst that
//! a checkpoint can do is to save nothing.
//!
//! At full size it is four arrays of some 13 MB. So it is saved when the time since the last one is well above what
//! saving costs, and whenever the worker is told to stop.

use std::collections::HashMap;
use std::mem;
use std::time::{Duration, Instant};

use bytemuck::cast_slice;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::keeper::Keeper;
use crate::breakpoint::{self, Point};
use crate::pipeline::solver::SolverState;
use crate::pipeline::{Checkpoint, CheckpointView, Observer, Progress};
use crate::queue::{Claim, Lease};
use crate::storage::{Digest, Storage};

/// Saving may take at most this share of the time.
const COST: u32 = 20;

const ARRAYS: [&str; 4] = ["latents", "last_sample", "x0_1", "x0_2"];

/// What a checkpoint must have been made for: everything that decides the latents.
pub(super) fn identity(claim: &Claim, model: &str) -> Digest {
    let inputs: Vec<_> =
        claim.inputs.iter().map(|input| json!([input.role, input.image.sha256.as_str()])).collect();
    let whole = json!({
        "program": env!("CARGO_PKG_VERSION"),
        "model": model,
        "job": claim.lease.job,
        "spec": claim.spec,
        "inputs": inputs,
    });
    Digest::of(whole.to_string().as_bytes())
}

/// The checkpoint of a job that has come farthest; none when there is none that can be used.
pub(super) fn load(storage: &Storage, lease: &Lease, identity: &Digest) -> Option<Checkpoint> {
    let saved = storage.checkpoints(lease.job).unwrap_or_else(|e| {
        tracing::warn!(error = %e, "checkpoints can't be looked for; denoising starts anew");
        Vec::new()
    });
    let usable = saved.iter().filter_map(|bytes| match decode(bytes, identity) {
        Ok(checkpoint) => Some(checkpoint),
        Err(reason) => {
            tracing::warn!(reason, "a checkpoint is left out of account");
            None
        }
    });
    usable.max_by_key(|checkpoint| checkpoint.solver.step)
}

fn encode(at: CheckpointView<'_>, identity: &Digest) -> Result<Vec<u8>, String> {
    let [x0_1, x0_2] = &at.solver.x0;
    let arrays = [at.latents, &at.solver.last_sample, x0_1, x0_2];
    let mut views = Vec::with_capacity(ARRAYS.len());
    for (name, values) in ARRAYS.into_iter().zip(arrays) {
        let view = TensorView::new(Dtype::F32, vec![values.len()], cast_slice(values));
        views.push((name, view.map_err(|e| e.to_string())?));
    }
    let facts = [("identity", identity.to_string()), ("step", at.solver.step.to_string())];
    let facts: HashMap<_, _> = facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    safetensors::serialize(views, Some(facts)).map_err(|e| e.to_string())
}

fn decode(bytes: &[u8], identity: &Digest) -> Result<Checkpoint, String> {
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|e| e.to_string())?;
    let fact = |name: &str| header.metadata().as_ref()?.get(name).cloned();
    if fact("identity").as_deref() != Some(identity.as_str()) {
        return Err("it was made for another request, bundle or program".to_owned());
    }
    let step = fact("step").and_then(|step| step.parse().ok()).ok_or("it does not say its step")?;
    let file = SafeTensors::deserialize(bytes).map_err(|e| e.to_string())?;
    let array = |name: &str| {
        let tensor = file.tensor(name).map_err(|e| e.to_string())?;
        let (values, rest) = tensor.data().as_chunks();
        match (tensor.dtype(), rest) {
            (Dtype::F32, []) => Ok(values.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()),
            (other, _) => Err(format!("`{name}` is {other:?}")),
        }
    };
    let [latents, last_sample, x0_1, x0_2] = ARRAYS.map(array);
    let solver = SolverState { step, last_sample: last_sample?, x0: [x0_1?, x0_2?] };
    Ok(Checkpoint { latents: latents?, solver })
}

/// Watches a run: hands its progress to the keeper, and saves it.
pub(super) struct Saver<'w> {
    pub keeper: &'w mut Keeper,
    pub storage: &'w Storage,
    pub lease: Lease,
    pub identity: Digest,
    /// The least time between two checkpoints; zero to save each step, whatever it costs.
    pub every: Duration,
    /// Set when the worker was told to stop: then a stopped run is worth saving.
    pub shutdown: CancellationToken,
    pub last: Instant,
    pub cost: Duration,
    /// Whether the last one could not be saved: a full disk is told of once, not at each step.
    pub failing: bool,
}

impl Saver<'_> {
    fn save(&mut self, at: CheckpointView<'_>) {
        let begin = Instant::now();
        let step = at.solver.step;
        let saved = breakpoint::reach(Point::BeforeCheckpoint)
            .map_err(|e| e.to_string())
            .and_then(|()| encode(at, &self.identity))
            .and_then(|bytes| {
                let put = self.storage.put_checkpoint(self.lease.job, self.lease.token, &bytes);
                put.map_err(|e| e.to_string())
            })
            .and_then(|()| breakpoint::reach(Point::AfterCheckpoint).map_err(|e| e.to_string()));
        self.last = Instant::now();
        self.cost = begin.elapsed();
        let duration_ms = u64::try_from(self.cost.as_millis()).unwrap_or(u64::MAX);
        let failed_before = mem::replace(&mut self.failing, saved.is_err());
        match saved {
            Ok(()) => tracing::info!(denoise.step = step, duration_ms, "a checkpoint was saved"),
            Err(error) if failed_before => {
                tracing::debug!(denoise.step = step, error, "a checkpoint could still not be saved");
            }
            Err(error) => tracing::warn!(
                denoise.step = step,
                error,
                "a checkpoint could not be saved; a crash would cost the steps since the last one"
            ),
        }
    }
}

impl Observer for Saver<'_> {
    fn progress(&mut self, progress: Progress) {
        self.keeper.progress(progress);
    }

    fn step_done(&mut self, at: CheckpointView<'_>) {
        if self.every.is_zero() || self.last.elapsed() >= self.every.max(self.cost * COST) {
            self.save(at);
        }
    }

    fn stopped(&mut self, at: CheckpointView<'_>) {
        if self.shutdown.is_cancelled() {
            self.save(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn checkpoint() -> impl Strategy<Value = Checkpoint> {
        (1..50_usize, 1..40_usize).prop_flat_map(|(step, len)| {
            let array = || prop::collection::vec(any::<u32>().prop_map(f32::from_bits), len);
            (array(), array(), array(), array()).prop_map(move |(latents, last_sample, x0_1, x0_2)| {
                let solver = SolverState { step, last_sample, x0: [x0_1, x0_2] };
                Checkpoint { latents, solver }
            })
        })
    }

    fn bits(
        Checkpoint { latents, solver: SolverState { step, last_sample, x0: [a, b] } }: &Checkpoint,
    ) -> Vec<u32> {
        let values = [latents, last_sample, a, b].into_iter().flatten().map(|x| x.to_bits());
        values.chain([u32::try_from(*step).unwrap()]).collect()
    }

    proptest! {
        #[test]
        fn every_bit_comes_back(checkpoint in checkpoint()) {
            let identity = Digest::of(b"a job");
            let view = CheckpointView { latents: &checkpoint.latents, solver: &checkpoint.solver };
            let bytes = encode(view, &identity).unwrap();
            prop_assert_eq!(bits(&decode(&bytes, &identity).unwrap()), bits(&checkpoint));
            let error = decode(&bytes, &Digest::of(b"another job")).unwrap_err();
            prop_assert!(error.contains("another request"), "{}", error);
        }

        #[test]
        fn no_bytes_can_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(decode(&bytes, &Digest::of(b"a job")).is_err());
        }
    }
}
