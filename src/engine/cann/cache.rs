//! Compiled graphs on disk.
//!
//! The provider keeps what it has compiled in the process's working directory, under the graph's name and the shapes of
//! its inputs, and loads whatever file has that name: with other contents, compiled by another CANN or for another chip,
//! in another precision, it is loaded all the same. So each combination of chip, CANN, provider and lowering has a folder
//! of its own, into which the process changes, and a graph's name tells its whole content. Weights are no part of a graph,
//! so all bundles share what they have in common.
//!
//! A file that is being written has its final name already. Whoever may cause one to be written holds a lock, which also
//! makes several devices compile each graph once; and should the process end meanwhile, the next one knows of it and
//! removes what was left.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::engine::EngineError;

/// Held by whoever may write a compiled graph.
const LOCK: &str = "lock";
/// Names the graph that is being compiled.
const PENDING: &str = "compiling";
/// What the provider puts before a graph's name.
const PROVIDER: &str = "CANNExecutionProvider_";

/// The folder of compiled graphs.
pub(super) struct GraphCache {
    folder: PathBuf,
}

impl GraphCache {
    /// Makes the folder for graphs compiled under the circumstances `parts`, and changes the process into it.
    pub(super) fn enter(root: Option<&Path>, parts: &[&str]) -> Result<Self, EngineError> {
        let root = root.map(Path::to_owned).or_else(default_root).ok_or_else(|| EngineError::GraphCache {
            path: "~/.cache/storymem/graphs".into(),
            reason: io::Error::other("there is no home directory"),
        })?;
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |reason| EngineError::GraphCache { path, reason }
        };
        let folder = std::path::absolute(&root).map_err(failed(&root))?.join(folder_name(parts));
        fs::create_dir_all(&folder).map_err(failed(&folder))?;
        // The lock tells at once whether the folder can be written to, and not after a graph was compiled.
        lock_file(&folder).map_err(failed(&folder))?;
        std::env::set_current_dir(&folder).map_err(failed(&folder))?;
        Ok(Self { folder })
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs a graph for the first time in this process, when the provider loads or compiles it; `is_whole` says of the
    /// result whether what may have been compiled is to be kept.
    pub(super) fn first_run<T>(
        &self,
        graph: &str,
        run: impl FnOnce() -> T,
        is_whole: impl FnOnce(&T) -> bool,
    ) -> Result<T, EngineError> {
        let failed = |reason| EngineError::GraphCache { path: self.folder.clone(), reason };
        let _lock = self.lock().map_err(failed)?;
        self.remove_pending().map_err(failed)?;
        if !self.files(graph).map_err(failed)?.is_empty() {
            return Ok(run());
        }
        tracing::info!(graph.name = graph, "a graph is compiled; on an NPU this takes minutes, once");
        fs::write(self.folder.join(PENDING), graph).map_err(failed)?;
        let result = run();
        if is_whole(&result) {
            fs::remove_file(self.folder.join(PENDING)).map_err(failed)?;
        } else {
            self.remove_pending().map_err(failed)?;
        }
        Ok(result)
    }

    /// The memory that a compiled graph was found to take.
    pub(super) fn measured(&self, graph: &str) -> Option<u64> {
        fs::read_to_string(self.size_file(graph)).ok()?.parse().ok()
    }

    /// Notes the memory that a compiled graph was found to take, for plans to come.
    pub(super) fn measure(&self, graph: &str, bytes: u64) -> Result<(), EngineError> {
        let path = self.size_file(graph);
        fs::write(&path, bytes.to_string()).map_err(|reason| EngineError::GraphCache { path, reason })
    }

    fn size_file(&self, graph: &str) -> PathBuf {
        self.folder.join(format!("{graph}.bytes"))
    }

    fn lock(&self) -> io::Result<File> {
        let file = lock_file(&self.folder)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                tracing::info!("another process compiles graphs; waiting for it");
                file.lock()?;
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        Ok(file)
    }

    /// Removes what a process has left that ended while it compiled.
    fn remove_pending(&self) -> io::Result<()> {
        let pending = self.folder.join(PENDING);
        let graph = match fs::read_to_string(&pending) {
            Ok(graph) => graph,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        // A name that was not written whole names nothing that could have been compiled.
        if !graph.is_empty() {
            for file in self.files(&graph)? {
                tracing::warn!(graph.name = graph, graph.file = %file.display(), "a graph that may be cut short is removed");
                fs::remove_file(file)?;
            }
        }
        fs::remove_file(pending)
    }

    /// The compiled forms of a graph.
    fn files(&self, graph: &str) -> io::Result<Vec<PathBuf>> {
        let start = format!("{PROVIDER}{graph}_");
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(&start) {
                files.push(entry.path());
            }
        }
        Ok(files)
    }
}

fn lock_file(folder: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(folder.join(LOCK))
}

/// The user's cache, by the XDG base directory specification.
fn default_root() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    cache.map(|cache| cache.join("storymem/graphs"))
}

/// One folder name of several parts, with nothing in it that a path could take for something else.
fn folder_name(parts: &[&str]) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '-' };
    let parts: Vec<String> = parts.iter().map(|part| part.chars().map(kept).collect()).collect();
    parts.join("_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> (tempfile::TempDir, GraphCache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = GraphCache { folder: folder.path().into() };
        (folder, cache)
    }

    fn file(cache: &GraphCache, graph: &str) -> PathBuf {
        cache.folder.join(format!("{PROVIDER}{graph}_1_0_0_2.om"))
    }

    #[test]
    fn what_was_compiled_is_kept_and_what_failed_is_not() {
        let (_folder, cache) = cache();
        let compile = |graph: &str| fs::write(file(&cache, graph), "om").unwrap();
        cache.first_run("good", || compile("good"), |()| true).unwrap();
        cache.first_run("bad", || compile("bad"), |()| false).unwrap();
        assert!(file(&cache, "good").exists() && !file(&cache, "bad").exists());
        // Once it is there it is no more in question, whatever becomes of a run.
        cache.first_run("good", || (), |()| false).unwrap();
        assert!(file(&cache, "good").exists());
        assert!(!cache.folder.join(PENDING).exists());
    }

    #[test]
    fn what_a_process_left_that_ended_while_it_compiled_is_removed() {
        let (_folder, cache) = cache();
        for graph in ["cut", "whole", "cut_too"] {
            fs::write(file(&cache, graph), "om").unwrap();
        }
        fs::write(cache.folder.join(PENDING), "cut").unwrap();
        cache.first_run("another", || (), |()| true).unwrap();
        let there = ["cut", "whole", "another"].map(|graph| file(&cache, graph).exists());
        assert_eq!(there, [false, true, false]);
    }

    #[test]
    fn folder_names_are_plain() {
        assert_eq!(folder_name(&["Ascend910B2", "8.2/RC1 b", "../x"]), "Ascend910B2_8.2-RC1-b_..-x");
    }
}
