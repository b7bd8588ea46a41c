//! SHA-256 of files.

use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use sha2::{Digest, Sha256};

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

/// Size and SHA-256 (lower-case hex) of a file, or nothing once `go_on` says no.
///
/// # Errors
/// When the file can't be read.
pub fn sha256_file(path: &Path, go_on: impl Fn() -> bool) -> std::io::Result<Option<(u64, String)>> {
    let mut file = File::open(path)?;
    let (mut hasher, mut bytes, mut chunk) = (Sha256::new(), 0, vec![0; CHUNK]);
    loop {
        if !go_on() {
            return Ok(None);
        }
        match file.read(&mut chunk) {
            Ok(0) => return Ok(Some((bytes, hex(&hasher.finalize())))),
            Ok(read) => {
                hasher.update(&chunk[..read]);
                bytes += read as u64;
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// SHA-256 (lower-case hex) of a file; `tick` is called for each mebibyte.
///
/// # Errors
/// When the file can't be read.
pub(crate) fn sha256_whole(path: &Path, tick: &dyn Fn()) -> std::io::Result<String> {
    let go_on = || {
        tick();
        true
    };
    let (_, sha256) = sha256_file(path, go_on)?.expect("hashing goes on to the end");
    Ok(sha256)
}

pub(super) fn hex(digest: &[u8]) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything written to it");
        text
    })
}
