//! Folders that are written to.

use std::io;
use std::path::Path;

use super::Report;
use crate::engine::Bytes;

/// Less space than this is soon used up.
const LITTLE: u64 = 10 << 30;
/// With less than this a job's files may find no place.
const TOO_LITTLE: u64 = 1 << 30;

/// Whether files can be made in `folder`, or it can be made itself, and how much space there is.
pub fn check_folder(report: &mut Report, name: &'static str, folder: &Path) {
    let shown = folder.display();
    let Some(there) = folder.ancestors().find(|path| path.exists()) else {
        report.problem(name, format_args!("`{shown}` can't be reached; name another folder"));
        return;
    };
    // A file made and gone again: permissions do not tell of read-only or full file systems.
    if let Err(error) = tempfile::tempfile_in(there) {
        let there = there.display();
        report.problem(
            name,
            format_args!("`{there}` can't be written to ({error}); change its owner or name another folder"),
        );
        return;
    }
    check_space(report, name, folder);
}

/// How much space there is for what is written to `folder`.
pub fn check_space(report: &mut Report, name: &'static str, folder: &Path) {
    let shown = folder.display();
    match free_space(folder) {
        Err(error) => {
            report.warn(name, format_args!("the free space of `{shown}` is not known ({error}); see `df`"))
        }
        Ok(free) if free < TOO_LITTLE => {
            report.problem(name, format_args!("`{shown}` has only {} left; make room", Bytes(free)));
        }
        Ok(free) if free < LITTLE => {
            report.warn(name, format_args!("`{shown}` has only {} left; make room soon", Bytes(free)));
        }
        Ok(free) => report.ok(name, format_args!("`{shown}`, {} free", Bytes(free))),
    }
}

/// Bytes that can be written below `folder`, which need not exist yet.
fn free_space(folder: &Path) -> io::Result<u64> {
    let there = folder.ancestors().find(|path| path.exists()).ok_or(io::ErrorKind::NotFound)?;
    let system = rustix::fs::statvfs(there)?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}
