//! The folder of a film that is being made: a data directory as the service has it, for one story.

use std::fs::{self, File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use axum::body::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::clock;
use crate::api::{Catalog, Limits, stories};
use crate::files;
use crate::pipeline::size::{MAX_FRAMES, MAX_SIDE};
use crate::queue::{Policy, Queue, Redo, Room, Status, Story};
use crate::storage::{Digest, Storage};

/// Nobody else is asked for room, nor for what a machine can do.
const LIMITS: Limits = Limits {
    body_bytes: usize::MAX,
    frame_pixels: MAX_SIDE * MAX_SIDE,
    frames: MAX_FRAMES,
    queued_jobs: u64::MAX,
};

/// How long what is made is kept: as long as the folder.
const KEPT: Duration = Duration::from_hours(100 * 365 * 24);

/// Says which story the folder is for.
const NAME: &str = "story.json";

/// What makes the shots.
pub(super) struct Models {
    pub catalog: Catalog,
    /// Of the bundles.
    pub digests: Vec<String>,
}

/// The folder, held by this process.
pub(super) struct Work {
    pub queue: Queue,
    pub storage: Storage,
    folder: PathBuf,
    _lock: File,
}

/// What is written in [`NAME`].
#[derive(Serialize, Deserialize)]
struct Named {
    story: Uuid,
    /// Of everything that decides the film.
    fingerprint: Digest,
}

impl Work {
    /// Opens the folder, or makes it. Must be called within a runtime.
    ///
    /// # Errors
    /// When another process works in it, or it can't be used.
    pub async fn open(folder: &Path) -> anyhow::Result<Self> {
        let context = || format!("can't use the folder `{}`", folder.display());
        fs::create_dir_all(folder).with_context(context)?;
        let lock = File::create(folder.join("story.lock")).with_context(context)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!("another process is making this film; wait for it, or give another `--out`")
            }
            Err(TryLockError::Error(e)) => return Err(e).with_context(context),
        }
        let storage = Storage::open(folder)?;
        let policy = Policy { results: KEPT, ..Policy::default() };
        let queue = Queue::open(&storage.database(), clock(), policy).await?;
        queue.check_whole().await?;
        // Whoever worked here has ended: the lock says so. Its job is free at once.
        for worker in queue.workers_alive(KEPT).await? {
            queue.worker_ended(&worker.name, "the command was ended").await?;
        }
        Ok(Self { queue, storage, folder: folder.to_owned(), _lock: lock })
    }

    /// The story that is asked for: the one that is there, gone on with if it had come to an end, or a new one.
    ///
    /// # Errors
    /// When the request is not valid, or the folder is that of another story.
    pub async fn begin(&self, request: Value, memory: Vec<Bytes>, models: &Models) -> anyhow::Result<Uuid> {
        let fingerprint = fingerprint(&request, &memory, models);
        let name = self.folder.join(NAME);
        let named = match fs::read(&name) {
            Ok(text) => serde_json::from_slice(&text).with_context(|| format!("`{}`", name.display()))?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                Named { story: Uuid::now_v7(), fingerprint: fingerprint.clone() }
            }
            Err(e) => return Err(e).with_context(|| format!("can't read `{}`", name.display())),
        };
        if named.fingerprint != fingerprint {
            bail!(
                "`{}` has the shots of another script, other settings or another model; remove it to begin anew, or \
                 give another `--out`",
                self.folder.display()
            );
        }
        if let Some(story) = self.queue.story(named.story).await? {
            self.go_on(&story).await?;
            return Ok(named.story);
        }
        let story = stories::plan(request, memory, &models.catalog, &LIMITS, &self.storage);
        let story = crate::queue::NewStory { id: named.story, ..story.map_err(|e| anyhow::anyhow!("{e}"))? };
        // The name first: a story without its name would be begun twice.
        write_whole(&name, &serde_json::to_vec(&named)?)?;
        self.queue.submit_story(&story, Room::default(), None, |_| String::new()).await?;
        Ok(named.story)
    }

    /// Asks again for what is missing of a story that came to an end before its film.
    async fn go_on(&self, story: &Story) -> anyhow::Result<()> {
        if !matches!(story.status, Status::Failed | Status::Cancelled) {
            return Ok(());
        }
        let missing = story.shots.iter().find(|shot| shot.job.status != Status::Succeeded);
        if let Some(shot) = missing {
            let redo = Redo { shot: shot.shot, ..Redo::default() };
            self.queue.redo(story.id, &redo, Room::default(), None, |_| String::new()).await?;
        }
        Ok(())
    }

    /// The story as it stands.
    ///
    /// # Errors
    /// When it can't be read.
    pub async fn story(&self, id: Uuid) -> anyhow::Result<Story> {
        self.queue.story(id).await?.context("the story is gone from its folder")
    }
}

/// Of everything that decides the film.
fn fingerprint(request: &Value, memory: &[Bytes], models: &Models) -> Digest {
    let memory: Vec<Digest> = memory.iter().map(|image| Digest::of(image)).collect();
    Digest::of(serde_json::json!([request, memory, models.digests]).to_string().as_bytes())
}

/// Copies a file that is whole to a name where it is whole or not there.
///
/// # Errors
/// What the file system says.
pub(super) fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let bytes = fs::read(from).with_context(|| format!("can't read `{}`", from.display()))?;
    write_whole(to, &bytes)
}

/// Writes a file that is there whole or not at all.
///
/// # Errors
/// What the file system says.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    files::write_whole(path, |file| file.write_all(bytes))
        .with_context(|| format!("can't write `{}`", path.display()))
}
