//! Files: images by the hash of their bytes, results by job and attempt.
//!
//! ```text
//! DATA/
//!   storymem.sqlite             the queue's database (see `queue`)
//!   storymem.<place>.lock       held by the worker of a device (see `places`)
//!   inputs/ab/abcdef…           an image, named by the SHA-256 of its bytes
//!   results/<job>/<token>/      what one attempt of a job has made: video.mp4, thumbnail.jpg, last.png; film.mp4 and
//!                               film.json, too, if it was the last shot of a story
//!   checkpoints/<job>/<token>   how far the denoising of an unfinished job has come (see `checkpoints`)
//!   tmp/process-…/              whatever a process is writing (see `scratch`)
//! ```
//!
//! Nothing outside the data directory is ever written or read. A path is made only of a [`Digest`] or of ids that
//! the program itself has drawn, never of a name that came from a client. A file is written in `tmp/`, synced and
//! then renamed to its place, and the folder it lands in is synced too: whatever has a name is whole.
//!
//! Results are kept by the token of the attempt, so that an attempt that has lost its job can't touch the files of
//! the one that has it.

mod checkpoints;
mod digest;
mod durable;
mod inputs;
mod places;
mod scratch;
mod space;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use uuid::Uuid;

use self::scratch::Scratch;
use crate::breakpoint::{self, Point};
use crate::files;
pub use digest::Digest;
use durable::Durable;
pub use places::{Holder, Place};
pub use space::Space;

/// The file a video has in a result folder.
pub const VIDEO: &str = "video.mp4";

/// The file a thumbnail has in a result folder.
pub const THUMBNAIL: &str = "thumbnail.jpg";

/// The file the last frame of a video has in a result folder.
pub const LAST_FRAME: &str = "last.png";

/// The file a film has in the result folder of its last shot.
pub const FILM: &str = "film.mp4";

/// The file that says which shot is where in a film, beside it.
pub const FILM_INDEX: &str = "film.json";

/// Why a file could not be kept or found.
#[derive(Debug, thiserror::Error)]
#[error("can't {action} `{}`: {cause}", path.display())]
pub struct StorageError {
    action: &'static str,
    path: PathBuf,
    /// Part of the text, hence not a source: a chain of errors would say it twice.
    cause: io::Error,
}

impl StorageError {
    /// The kind of the system's error.
    pub fn kind(&self) -> io::ErrorKind {
        self.cause.kind()
    }
}

/// The data directory; clones share it. Its calls block: from async code use a blocking task.
#[derive(Clone, Debug)]
pub struct Storage {
    root: PathBuf,
    floor: u64,
    durable: Arc<Durable>,
    scratch: Arc<Scratch>,
}

impl Storage {
    /// Opens a data directory, makes what is missing of it, and removes what killed processes were writing.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn open(root: &Path) -> Result<Self, StorageError> {
        for folder in ["inputs", "results", "checkpoints", "tmp"] {
            make_folder(&root.join(folder))?;
        }
        let root = root.canonicalize().map_err(failed("open", root))?;
        let scratch = Arc::new(Scratch::open(&root.join("tmp"))?);
        Ok(Self { root, floor: 0, durable: Arc::default(), scratch })
    }

    /// The same data directory with a floor: new images, checkpoints and results are refused while less than `bytes` are
    /// free. What is left below it is the database's.
    #[must_use]
    pub fn with_floor(self, bytes: u64) -> Self {
        Self { floor: bytes, ..self }
    }

    /// Where the queue's database is.
    pub fn database(&self) -> PathBuf {
        self.root.join("storymem.sqlite")
    }

    /// Keeps the bytes of an image. When this returns, they survive a power cut. The same bytes are kept once.
    ///
    /// # Errors
    /// When they can't be written, or the disk is at its floor.
    pub fn put_input(&self, bytes: &[u8]) -> Result<Digest, StorageError> {
        self.check_room()?;
        let digest = Digest::of(bytes);
        let path = self.input_path(&digest);
        let folder = path.parent().unwrap_or(&self.root);
        make_folder(folder)?;
        if let Some(file) = self.refresh_input(&path)? {
            // Whoever wrote it may not have synced the folder yet.
            return self.durable.once(file, || sync_folder(folder)).map(|()| digest);
        }
        let tmp = self.tmp();
        let mut file = files::to_keep("input-").tempfile_in(tmp).map_err(failed("write to", tmp))?;
        file.write_all(bytes).map_err(failed("write", file.path()))?;
        file.as_file().sync_all().map_err(failed("sync", file.path()))?;
        // A second writer of the same bytes may come between: its file is as good as ours.
        file.persist(&path).map_err(|e| failed("write", &path)(e.error))?;
        sync_folder(folder)?;
        Ok(digest)
    }

    /// The bytes of an image.
    ///
    /// # Errors
    /// When there are none of that digest, or they can't be read.
    pub fn input(&self, digest: &Digest) -> Result<Vec<u8>, StorageError> {
        let path = self.input_path(digest);
        fs::read(&path).map_err(failed("read", &path))
    }

    /// A place to write the result of an attempt before it is published.
    ///
    /// # Errors
    /// When it can't be made, or the disk is at its floor.
    pub fn stage_result(&self, job: Uuid, token: Uuid) -> Result<StagedResult, StorageError> {
        self.check_room()?;
        let tmp = self.tmp();
        let folder = files::folder_to_keep("result-").tempdir_in(tmp).map_err(failed("write to", tmp))?;
        Ok(StagedResult { folder, target: self.result_folder(job, token) })
    }

    /// The video of an attempt. It exists when the attempt was published and is not removed.
    pub fn video(&self, job: Uuid, token: Uuid) -> PathBuf {
        self.result_folder(job, token).join(VIDEO)
    }

    /// The thumbnail of an attempt; see [`video`](Self::video).
    pub fn thumbnail(&self, job: Uuid, token: Uuid) -> PathBuf {
        self.result_folder(job, token).join(THUMBNAIL)
    }

    /// The last frame of an attempt's video; see [`video`](Self::video). Attempts of earlier versions have none.
    pub fn last_frame(&self, job: Uuid, token: Uuid) -> PathBuf {
        self.result_folder(job, token).join(LAST_FRAME)
    }

    /// The film that an attempt at the last shot of a story has made of all of them; see [`video`](Self::video).
    pub fn film(&self, job: Uuid, token: Uuid) -> PathBuf {
        self.result_folder(job, token).join(FILM)
    }

    /// Removes what an attempt has published; nothing to remove is no error.
    ///
    /// # Errors
    /// When something can't be removed.
    pub fn remove_result(&self, job: Uuid, token: Uuid) -> Result<(), StorageError> {
        let folder = self.result_folder(job, token);
        match fs::remove_dir_all(&folder) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failed("remove", &folder)(e)),
            _ => Ok(()),
        }
    }

    /// Removes what every attempt of a job has published; nothing to remove is no error.
    ///
    /// # Errors
    /// When something can't be removed.
    pub fn remove_results(&self, job: Uuid) -> Result<(), StorageError> {
        let folder = self.job_folder(job);
        match fs::remove_dir_all(&folder) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failed("remove", &folder)(e)),
            _ => Ok(()),
        }
    }

    /// The attempts that have published something, by job, and the jobs that have a folder without any.
    ///
    /// # Errors
    /// When the folders can't be read.
    pub fn results(&self) -> Result<BTreeMap<Uuid, Vec<Uuid>>, StorageError> {
        let root = self.root.join("results");
        let jobs = ids_in(&root)?.into_iter();
        jobs.map(|job| Ok((job, ids_in(&self.job_folder(job))?))).collect()
    }

    /// The jobs that have saved a checkpoint.
    ///
    /// # Errors
    /// When the folder can't be read.
    pub fn jobs_with_checkpoints(&self) -> Result<Vec<Uuid>, StorageError> {
        ids_in(&self.root.join("checkpoints"))
    }

    /// Where this process writes what has no name yet.
    fn tmp(&self) -> &Path {
        self.scratch.path()
    }

    /// Where an image is.
    pub fn input_path(&self, digest: &Digest) -> PathBuf {
        self.root.join("inputs").join(&digest.as_str()[..2]).join(digest.as_str())
    }

    fn job_folder(&self, job: Uuid) -> PathBuf {
        self.root.join("results").join(job.hyphenated().to_string())
    }

    fn result_folder(&self, job: Uuid, token: Uuid) -> PathBuf {
        self.job_folder(job).join(token.hyphenated().to_string())
    }
}

/// A result that is being written. Dropped without [`publish`](Self::publish), it is removed.
#[derive(Debug)]
pub struct StagedResult {
    folder: TempDir,
    target: PathBuf,
}

impl StagedResult {
    /// Where to write the video.
    pub fn video(&self) -> PathBuf {
        self.folder.path().join(VIDEO)
    }

    /// Where to write the thumbnail.
    pub fn thumbnail(&self) -> PathBuf {
        self.folder.path().join(THUMBNAIL)
    }

    /// Where to write the last frame.
    pub fn last_frame(&self) -> PathBuf {
        self.folder.path().join(LAST_FRAME)
    }

    /// Where to write the film, if it is the last shot of a story.
    pub fn film(&self) -> PathBuf {
        self.folder.path().join(FILM)
    }

    /// Where to write which shot is where in the film.
    pub fn film_index(&self) -> PathBuf {
        self.folder.path().join(FILM_INDEX)
    }

    /// Syncs the files and moves them to their place in one rename.
    ///
    /// # Errors
    /// When that fails; then nothing is published.
    pub fn publish(self) -> Result<(), StorageError> {
        let films = [self.film(), self.film_index()].into_iter().filter(|path| path.exists());
        for path in [self.video(), self.thumbnail(), self.last_frame()].into_iter().chain(films) {
            File::open(&path).and_then(|file| file.sync_all()).map_err(failed("sync", &path))?;
        }
        sync_folder(self.folder.path())?;
        let parent = self.target.parent().unwrap_or(&self.target);
        make_folder(parent)?;
        breakpoint::reach(Point::BeforePublish).map_err(failed("publish", &self.target))?;
        fs::rename(self.folder.path(), &self.target).map_err(failed("publish", &self.target))?;
        // The folder is no longer where it was made: there is nothing left to remove there.
        let _ = self.folder.keep();
        sync_folder(parent)
    }
}

/// The names in a folder that are ids; none when there is no such folder.
fn ids_in(folder: &Path) -> Result<Vec<Uuid>, StorageError> {
    let entries = match fs::read_dir(folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed("read", folder))?,
    };
    let mut ids = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed("read", folder))?.file_name();
        ids.extend(name.to_str().and_then(|name| Uuid::try_parse(name).ok()));
    }
    Ok(ids)
}

/// Makes a folder and those above it, and syncs the one it appears in.
fn make_folder(path: &Path) -> Result<(), StorageError> {
    if path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path).map_err(failed("make the folder", path))?;
    match path.parent() {
        Some(parent) if parent != Path::new("") => sync_folder(parent),
        _ => Ok(()),
    }
}

fn sync_folder(path: &Path) -> Result<(), StorageError> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(failed("sync the folder", path))
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StorageError {
    move |cause| StorageError { action, path: path.to_path_buf(), cause }
}
