//! Hashing a bundle's files again: whether they are still what was written.

use serde::Serialize;

use super::{Bundle, FileDigest, sha256_whole};

/// A file of a bundle, hashed again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileCheck {
    /// Path, relative to the bundle.
    pub path: String,
    /// SHA-256 that the manifest tells, in lower-case hex.
    pub sha256: String,
    /// What is wrong with the file, if it is not what was written.
    pub problem: Option<String>,
}

impl Bundle {
    /// Hashes every file that the manifest names, and `tick`s for each mebibyte. It reads the whole bundle.
    pub fn verify(&self, tick: &dyn Fn()) -> Vec<FileCheck> {
        let check = |file: &FileDigest| {
            let FileDigest { path, sha256, .. } = file.clone();
            let problem = match sha256_whole(&self.path().join(&path), tick) {
                Ok(found) if found == sha256 => None,
                Ok(_) => Some("has another content than when it was written".into()),
                Err(error) => Some(format!("can't be read ({error})")),
            };
            FileCheck { path, sha256, problem }
        };
        self.manifest().files.iter().map(check).collect()
    }
}
