//! Files that are there whole or not at all.

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::VideoError;

/// Writes `parts` one after the other to `path`: aside in the same directory, synced, then renamed over it.
///
/// # Errors
/// What the file system says; the file that was at `path`, if any, is then untouched and nothing else is left.
pub(super) fn write_whole<'a>(
    path: &Path,
    parts: impl IntoIterator<Item = &'a [u8]>,
) -> Result<(), VideoError> {
    let failed = VideoError::write(path);
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut aside = tempfile::Builder::new()
        .prefix(".video-")
        // As for any new file: what the umask leaves of it.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)
        .map_err(&failed)?;
    for part in parts {
        aside.write_all(part).map_err(&failed)?;
    }
    aside.as_file().sync_all().map_err(&failed)?;
    aside.persist(path).map_err(|error| failed(error.error))?;
    // The rename itself is on disk only with its directory.
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(&failed)
}
