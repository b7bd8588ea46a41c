//! Images that nobody needs any more.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use super::durable::FileId;
use super::{Digest, Storage, StorageError, failed};

impl Storage {
    /// The images whose files were last put before `time`.
    ///
    /// # Errors
    /// When the folders can't be read.
    pub fn inputs_before(&self, time: SystemTime) -> Result<Vec<Digest>, StorageError> {
        let root = self.root.join("inputs");
        let mut digests = Vec::new();
        for folder in fs::read_dir(&root).map_err(failed("read", &root))? {
            let folder = folder.map_err(failed("read", &root))?.path();
            for file in fs::read_dir(&folder).map_err(failed("read", &folder))? {
                let file = file.map_err(failed("read", &folder))?;
                let digest = file.file_name().to_str().and_then(Digest::parse);
                if let Some(digest) = digest
                    && put_before(&file.path(), time)?
                {
                    digests.push(digest);
                }
            }
        }
        Ok(digests)
    }

    /// Removes the file of an image, unless somebody has put it since `time`. Returns whether it is gone.
    ///
    /// Another process may be putting the image at this very moment. The file is therefore taken away by its name
    /// first, and looked at then: whoever found it before that has made it young, and it is put back; whoever comes
    /// after does not find it, and writes it anew.
    ///
    /// # Errors
    /// When it can't be removed.
    pub fn remove_input_if_old(&self, digest: &Digest, time: SystemTime) -> Result<bool, StorageError> {
        let path = self.input_path(digest);
        let tmp = self.tmp();
        let aside =
            tempfile::Builder::new().prefix("unused-").tempdir_in(tmp).map_err(failed("write to", tmp))?;
        let taken = aside.path().join(digest.as_str());
        match fs::rename(&path, &taken) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            moved => moved.map_err(failed("remove", &path))?,
        }
        if put_before(&taken, time)? {
            fs::remove_file(&taken).map_err(failed("remove", &path))?;
            return Ok(true);
        }
        // Whatever has come to its place meanwhile has the same bytes.
        fs::rename(&taken, &path).map_err(failed("put back", &path))?;
        Ok(false)
    }

    /// Makes the file of an image young. Returns which file that is, if there is one.
    pub(super) fn refresh_input(&self, path: &Path) -> Result<Option<FileId>, StorageError> {
        let refreshed = File::open(path).and_then(|file| {
            file.set_modified(SystemTime::now())?;
            let facts = file.metadata()?;
            // Where the system does not tell when a file was made, each moment is another file.
            Ok((facts.ino(), facts.created().unwrap_or_else(|_| SystemTime::now())))
        });
        match refreshed {
            // Opened before it was taken aside, and made young after it was looked at? Then it has no name now.
            Ok(file) => Ok(path.exists().then_some(file)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(failed("touch", path)(e)),
        }
    }
}

/// False, too, for a file that is gone.
fn put_before(path: &Path, time: SystemTime) -> Result<bool, StorageError> {
    match fs::metadata(path).and_then(|facts| facts.modified()) {
        Ok(modified) => Ok(modified < time),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(failed("look at", path)(e)),
    }
}
