//! Checkpoints of jobs that are being made: one file for each attempt, replaced whole.
//!
//! A file begins with the SHA-256 of what follows, so that damage of any kind is seen. What follows is the worker's
//! business. An attempt writes under its own token and can't clobber the file of another one.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::{Storage, StorageError, failed, make_folder, sync_folder};
use crate::breakpoint::{self, Point};
use crate::files;

/// Bytes of the checksum in front.
const CHECKSUM: usize = 32;

impl Storage {
    /// Keeps what an attempt has to save, in place of what it saved before, and removes what earlier attempts of the
    /// job have saved: tokens are UUIDv7 and sort by the time of their claims. When this returns, it survives a
    /// power cut.
    ///
    /// # Errors
    /// When it can't be written, or the disk is at its floor; then the old one is still there.
    pub fn put_checkpoint(&self, job: Uuid, token: Uuid, content: &[u8]) -> Result<(), StorageError> {
        self.check_room()?;
        let folder = self.checkpoint_folder(job);
        make_folder(&folder)?;
        let path = folder.join(token.hyphenated().to_string());
        let tmp = self.tmp();
        let mut file = files::to_keep("checkpoint-").tempfile_in(tmp).map_err(failed("write to", tmp))?;
        file.write_all(&Sha256::digest(content)).map_err(failed("write", file.path()))?;
        file.write_all(content).map_err(failed("write", file.path()))?;
        file.as_file().sync_all().map_err(failed("sync", file.path()))?;
        breakpoint::reach(Point::InCheckpoint).map_err(failed("write", &path))?;
        file.persist(&path).map_err(|e| failed("write", &path)(e.error))?;
        sync_folder(&folder)?;
        for earlier in self.checkpoint_files(job)?.into_iter().filter(|other| *other < path) {
            match fs::remove_file(&earlier) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed("remove", &earlier)(e)),
                _ => {}
            }
        }
        Ok(())
    }

    /// The checkpoints of a job that are whole. Damaged ones are left out with a warning.
    ///
    /// # Errors
    /// When they can't be looked for.
    pub fn checkpoints(&self, job: Uuid) -> Result<Vec<Vec<u8>>, StorageError> {
        let mut whole = Vec::new();
        for path in self.checkpoint_files(job)? {
            match fs::read(&path) {
                Ok(mut bytes) if is_whole(&bytes) => {
                    bytes.drain(..CHECKSUM);
                    whole.push(bytes);
                }
                Ok(_) => {
                    tracing::warn!(path = %path.display(), "a checkpoint is damaged and left out of account");
                }
                Err(e) => {
                    tracing::warn!(path = %path.display(), error = %e, "a checkpoint can't be read and is left out of account");
                }
            }
        }
        Ok(whole)
    }

    /// Removes what one attempt has saved; nothing to remove is no error.
    ///
    /// # Errors
    /// When it can't be removed.
    pub fn remove_checkpoint(&self, job: Uuid, token: Uuid) -> Result<(), StorageError> {
        let path = self.checkpoint_folder(job).join(token.hyphenated().to_string());
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failed("remove", &path)(e)),
            _ => Ok(()),
        }
    }

    /// Removes what every attempt of a job has saved; nothing to remove is no error.
    ///
    /// # Errors
    /// When something can't be removed.
    pub fn remove_checkpoints(&self, job: Uuid) -> Result<(), StorageError> {
        let folder = self.checkpoint_folder(job);
        match fs::remove_dir_all(&folder) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failed("remove", &folder)(e)),
            _ => Ok(()),
        }
    }

    fn checkpoint_folder(&self, job: Uuid) -> PathBuf {
        self.root.join("checkpoints").join(job.hyphenated().to_string())
    }

    fn checkpoint_files(&self, job: Uuid) -> Result<Vec<PathBuf>, StorageError> {
        let folder = self.checkpoint_folder(job);
        let entries = match fs::read_dir(&folder) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed("read", &folder))?,
        };
        entries.map(|entry| Ok(entry.map_err(failed("read", &folder))?.path())).collect()
    }
}

fn is_whole(bytes: &[u8]) -> bool {
    bytes.split_at_checked(CHECKSUM).is_some_and(|(sum, content)| sum == &Sha256::digest(content)[..])
}
