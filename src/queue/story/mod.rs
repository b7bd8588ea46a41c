//! Stories: films of several shots.
//!
//! A shot is made by a job like any other, in the same queue and under the same leases, so that everything that is
//! true of jobs is true of shots: they survive crashes, interleave with other work, and have one result. Three things
//! make jobs a story:
//!
//! - *Order.* A job waits `after` another one: the claim leaves it out until that one has succeeded.
//! - *Memory.* What a shot remembers and goes on from is only known when its turn comes; the claim fixes it, as the
//!   inputs of the job, in its own transaction.
//! - *What counts.* Final states never change, so a shot that is made again gets another job. `story_shots` names the
//!   job that counts; frames count as long as the job they are of. Nothing has to be taken back.
//!
//! The status of a story follows from its jobs by a trigger, so that no way for a job to end can forget it.

mod bank;
mod change;
mod claim;
mod end;
mod memory;
mod read;
mod redo;
mod remove;
mod submit;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

pub use claim::{Part, ShotClaim};
pub use end::{Keyframe, ShotMade};
pub use memory::MemoryChange;
pub use read::{StoryFilter, StorySummary};
pub use redo::Redo;
pub use submit::{NewShot, NewStory, StoryAnswer};

pub(super) use claim::prepare;
pub(super) use end::keep;

use super::{Image, Job, Millis, Status};

/// Which shot of which story a job makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShotOf {
    /// The story.
    pub story: Uuid,
    /// Which shot, from 1.
    pub shot: u32,
    /// The job that must have succeeded before this one begins.
    pub after: Option<Uuid>,
    /// How many of its last frames the next shot goes on from.
    pub tail: u32,
}

/// A story, and how far it has come.
#[derive(Clone, Debug, PartialEq)]
pub struct Story {
    /// Its id.
    pub id: Uuid,
    /// Whose key asked for it; nobody's without keys.
    pub owner: Option<String>,
    /// Where it stands.
    pub status: Status,
    /// What the client asked, as it is shown.
    pub request: serde_json::Value,
    /// Most frames a shot remembers.
    pub max_memory: u32,
    /// Of these, the earliest that always count.
    pub fixed_memory: u32,
    /// The latest film. While shots are made anew it is still the one before.
    pub film: Option<Film>,
    /// Whether that is still there.
    pub film_kept: bool,
    /// When it was asked for.
    pub created_at: Millis,
    /// When it became final.
    pub finished_at: Option<Millis>,
    /// Its shots, in order.
    pub shots: Vec<StoryShot>,
    /// What is remembered, in story order.
    pub memory: Vec<BankFrame>,
}

/// A shot of a story.
#[derive(Clone, Debug, PartialEq)]
pub struct StoryShot {
    /// Which, from 1.
    pub shot: u32,
    /// `scene_num` of its scene.
    pub scene: u32,
    /// Whether it begins afresh instead of going on from the one before.
    pub cut: bool,
    /// How often it was asked for.
    pub revision: u32,
    /// The job that counts.
    pub job: Job,
}

/// A frame that is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BankFrame {
    /// Its number in the story.
    pub id: i64,
    /// The shot it comes after, in story order; 0 before the first.
    pub shot: u32,
    /// Whose video it is of, and where in it; nothing for one that the client has given.
    pub frame: Option<(Uuid, u32)>,
    /// The image.
    pub image: Image,
    /// Whether every shot to come remembers it.
    pub pinned: bool,
    /// Whether no shot to come does.
    pub dropped: bool,
}

/// A film: where it is, and which shot is where in it. Kept as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Film {
    /// The job that made the last shot, and with it the film.
    pub job: Uuid,
    /// The token of its attempt: the name of the folder.
    pub token: Uuid,
    /// Size of the file.
    pub bytes: u64,
    /// SHA-256 of the file in lower-case hex.
    pub sha256: String,
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Frames in a second.
    pub fps: u32,
    /// Frames.
    pub frames: usize,
    /// Which shot is where.
    pub shots: Vec<FilmShot>,
}

/// Where in a film a shot is, and what it was made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FilmShot {
    /// Which, from 1.
    pub shot: u32,
    /// `scene_num` of its scene.
    pub scene: u32,
    /// The job that made it.
    pub job: Uuid,
    /// Its first frame in the film.
    pub start_frame: usize,
    /// Its frames.
    pub frames: usize,
    /// When it begins, in seconds.
    pub start_seconds: f64,
    /// How long it is, in seconds.
    pub seconds: f64,
    /// Seed of its initial noise.
    pub seed: u64,
    /// What happens in it.
    pub prompt: String,
}
