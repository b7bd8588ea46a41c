//! Files that are there whole or not at all, with the mode of any new file.
//!
//! A temporary file is for its owner alone, and stays so when it is renamed. What others may be meant to read gets what
//! the umask leaves instead.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

/// Makes files that are kept later, whose names begin with `prefix` until then.
pub fn to_keep(prefix: &str) -> Builder<'_, 'static> {
    of_mode(prefix, 0o666)
}

/// Makes folders that are kept later, whose names begin with `prefix` until then.
pub fn folder_to_keep(prefix: &str) -> Builder<'_, 'static> {
    of_mode(prefix, 0o777)
}

/// The umask takes its part of `mode`.
fn of_mode(prefix: &str, mode: u32) -> Builder<'_, 'static> {
    let mut builder = Builder::new();
    builder.prefix(prefix).permissions(Permissions::from_mode(mode));
    builder
}

/// A file that is being written, beside the place it is for. Dropped without [`keep`](Self::keep), it is removed.
#[derive(Debug)]
pub struct Aside {
    file: NamedTempFile,
    path: PathBuf,
}

impl Aside {
    /// Begins what will be at `path`.
    ///
    /// # Errors
    /// What the file system says.
    pub fn of(path: &Path) -> io::Result<Self> {
        let file = to_keep(".partial-").tempfile_in(directory(path))?;
        Ok(Self { file, path: path.into() })
    }

    /// To be written to.
    pub fn file(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Syncs it and puts it in its place.
    ///
    /// # Errors
    /// What the file system says; the file that was there, if any, is then untouched.
    pub fn keep(self) -> io::Result<()> {
        let Self { file, path } = self;
        file.as_file().sync_all()?;
        file.persist(&path)?;
        // The rename itself is on disk only with its directory.
        File::open(directory(&path))?.sync_all()
    }
}

/// Writes a file: aside, synced, then renamed to `path`.
///
/// # Errors
/// What `write` or the file system says; the file that was at `path`, if any, is then untouched and nothing else is left.
pub fn write_whole(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let mut aside = Aside::of(path)?;
    write(aside.file())?;
    aside.keep()
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode()
    }

    #[test]
    fn what_is_kept_has_the_mode_of_any_new_file_or_folder() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "").unwrap();
        std::fs::create_dir(at("folder")).unwrap();

        write_whole(&at("written"), |file| file.write_all(b"whole")).unwrap();
        assert_eq!(std::fs::read(at("written")).unwrap(), b"whole");
        assert_eq!(mode(&at("written")), mode(&at("file")));
        let made = folder_to_keep("made-").tempdir_in(folder.path()).unwrap().keep();
        assert_eq!(mode(&made), mode(&at("folder")));
    }

    #[test]
    fn what_fails_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "before").unwrap();
        let failed = write_whole(&path, |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("no more"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "no more");
        assert_eq!(std::fs::read(&path).unwrap(), b"before");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
