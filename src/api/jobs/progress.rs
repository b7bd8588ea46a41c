//! How far a job has come, as clients see it.

use serde::Serialize;
use utoipa::ToSchema;

use crate::pipeline::Stage;
use crate::queue::{Reached, Status};

/// How far a job has come.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Progress)]
pub struct ProgressView {
    /// The part it is in.
    pub stage: StageView,
    /// Units of this stage that are done: denoising steps, …
    pub step: u32,
    /// Units of this stage.
    pub steps: u32,
    /// Of the whole job.
    #[schema(minimum = 0, maximum = 100)]
    pub percent: f64,
    /// Seconds that are left, as far as can be told after the first denoising step.
    #[schema(required)]
    pub eta_seconds: Option<f64>,
}

/// A part of making a shot, in the order in which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Stage)]
pub enum StageView {
    /// Waits.
    Queued,
    /// Opening the model.
    Loading,
    /// Encoding the prompts.
    Text,
    /// Encoding the images.
    Encode,
    /// The denoising steps.
    Denoise,
    /// Decoding the frames.
    Decode,
    /// Choosing the frames a story remembers.
    Keyframes,
    /// Writing the MP4.
    Mp4,
}

/// How much of a job each stage is held to be, in percent: denoising is nearly everything.
const STAGES: [(Stage, StageView, f64); 7] = [
    (Stage::Loading, StageView::Loading, 2.0),
    (Stage::Text, StageView::Text, 3.0),
    (Stage::Encode, StageView::Encode, 5.0),
    (Stage::Denoise, StageView::Denoise, 80.0),
    (Stage::Decode, StageView::Decode, 7.0),
    (Stage::Keyframes, StageView::Keyframes, 1.0),
    (Stage::Mp4, StageView::Mp4, 2.0),
];

impl ProgressView {
    /// For a job that stands at `status` and has come so far.
    pub fn new(status: Status, reached: Option<Reached>) -> Self {
        let Some(reached) = reached.filter(|_| status != Status::Queued) else {
            return Self { stage: StageView::Queued, step: 0, steps: 0, percent: 0.0, eta_seconds: None };
        };
        let mut before = 0.0;
        let mut stage = StageView::Mp4;
        let mut weight = 0.0;
        for (one, shown, share) in STAGES {
            if one == reached.stage {
                (stage, weight) = (shown, share);
                break;
            }
            before += share;
        }
        let done = f64::from(reached.step) / f64::from(reached.steps.max(1));
        let percent = match status {
            Status::Succeeded => 100.0,
            _ => ((before + weight * done.min(1.0)) * 10.0).round() / 10.0,
        };
        let eta_seconds = match status {
            Status::Running => eta(&reached),
            _ => None,
        };
        Self { stage, step: reached.step, steps: reached.steps, percent, eta_seconds }
    }
}

/// Seconds left at the moment of the last step, at the speed of the stage so far. The stages after denoising are held
/// to take their share of it.
fn eta(reached: &Reached) -> Option<f64> {
    let done = reached.step.saturating_sub(reached.from);
    if done == 0 {
        return None;
    }
    let one = reached.step_at.seconds_since(reached.stage_at) / f64::from(done);
    let left = one * f64::from(reached.steps.saturating_sub(reached.step));
    let later = one * f64::from(reached.steps) * 10.0 / 80.0;
    let seconds = match reached.stage {
        Stage::Denoise => left + later,
        Stage::Decode => left,
        _ => return None,
    };
    Some((seconds * 10.0).round() / 10.0)
}
