//! What a shot of a story is made from, fixed when its job is claimed for the first time.

use sqlx::types::Json;
use sqlx::{Row, SqliteConnection};
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::{BankFrame, ShotOf, bank};
use crate::pipeline::Variant;
use crate::queue::word::Word;
use crate::queue::{Image, Made, QueueError, Role, Spec};

/// What the worker has to know of the story a job belongs to.
#[derive(Clone, Debug)]
pub struct ShotClaim {
    /// The story.
    pub story: Uuid,
    /// Which shot, from 1.
    pub shot: u32,
    /// `scene_num` of its scene.
    pub scene: u32,
    /// Everything that is remembered so far: what is like one of these is not remembered again.
    pub bank: Vec<Image>,
    /// How many of its last frames the next shot goes on from.
    pub tail: u32,
    /// The shots before, for the last one, which makes the film of them.
    pub film: Option<Vec<Part>>,
}

/// A finished shot, to be part of a film.
#[derive(Clone, Debug)]
pub struct Part {
    /// Which, from 1.
    pub shot: u32,
    /// `scene_num` of its scene.
    pub scene: u32,
    /// The job that made it.
    pub job: Uuid,
    /// What was to be made.
    pub spec: Spec,
    /// What it has made.
    pub made: Made,
}

/// Fixes the inputs of a job that was just claimed, unless an earlier attempt has, and says what the worker has to know.
/// A shot stays what it was begun as, whatever is changed meanwhile: so an attempt can go on where another one ended.
pub(in crate::queue) async fn prepare(
    db: &mut SqliteConnection,
    job: Uuid,
    of: ShotOf,
    variant: Variant,
) -> Result<ShotClaim, QueueError> {
    let row = sqlx::query(
        "SELECT max_memory, fixed_memory, shots,
            (SELECT scene FROM story_shots WHERE story = stories.id AND shot = $2) AS scene
         FROM stories WHERE id = $1",
    )
    .bind(of.story.hyphenated())
    .bind(of.shot)
    .fetch_one(&mut *db)
    .await?;
    let bank = bank::of_story(db, of.story, of.shot).await?;
    let begun = sqlx::query("SELECT 1 FROM job_inputs WHERE job = $1 LIMIT 1").bind(job.hyphenated());
    if begun.fetch_optional(&mut *db).await?.is_none() {
        let most: u32 = row.try_get("max_memory")?;
        let fixed: u32 = row.try_get("fixed_memory")?;
        let window = bank::window(&bank, most as usize, fixed as usize);
        fix(db, job, of, variant, &window).await?;
    }
    let last = of.shot == row.try_get::<u32, _>("shots")?;
    Ok(ShotClaim {
        story: of.story,
        shot: of.shot,
        scene: row.try_get("scene")?,
        bank: bank.into_iter().filter(|frame| !frame.dropped).map(|frame| frame.image).collect(),
        tail: of.tail,
        film: if last { Some(parts(db, of).await?) } else { None },
    })
}

/// Writes the inputs of a job: what it remembers, and the frames it goes on from.
async fn fix(
    db: &mut SqliteConnection,
    job: Uuid,
    of: ShotOf,
    variant: Variant,
    window: &[&BankFrame],
) -> Result<(), QueueError> {
    if variant != Variant::T2v {
        for (position, frame) in (0_u32..).zip(window) {
            sqlx::query("INSERT INTO job_inputs (job, role, position, sha256) VALUES ($1, 'memory', $2, $3)")
                .bind(job.hyphenated())
                .bind(position)
                .bind(frame.image.sha256.as_str())
                .execute(&mut *db)
                .await?;
        }
    }
    let role = match variant {
        Variant::Mi2v => Role::FirstFrame,
        Variant::Mm2v => Role::Motion,
        Variant::M2v | Variant::T2v => return Ok(()),
    };
    let before = of.after.map(Uuid::hyphenated);
    sqlx::query(
        "INSERT INTO job_inputs (job, role, position, sha256)
         SELECT $1, $2, position, sha256 FROM job_tails WHERE job = $3",
    )
    .bind(job.hyphenated())
    .bind(Word(role))
    .bind(before)
    .execute(db)
    .await?;
    Ok(())
}

/// The shots before the last one.
async fn parts(db: &mut SqliteConnection, of: ShotOf) -> Result<Vec<Part>, QueueError> {
    let rows = sqlx::query(
        "SELECT story_shots.shot, story_shots.scene, jobs.id, jobs.spec, jobs.made
         FROM story_shots JOIN jobs ON jobs.id = story_shots.job
         WHERE story_shots.story = $1 AND story_shots.shot < $2 ORDER BY story_shots.shot",
    )
    .bind(of.story.hyphenated())
    .bind(of.shot)
    .fetch_all(db)
    .await?;
    rows.iter()
        .map(|row| {
            Ok(Part {
                shot: row.try_get("shot")?,
                scene: row.try_get("scene")?,
                job: row.try_get::<Hyphenated, _>("id")?.into_uuid(),
                spec: row.try_get::<Json<_>, _>("spec")?.0,
                made: row.try_get::<Json<_>, _>("made")?.0,
            })
        })
        .collect()
}
