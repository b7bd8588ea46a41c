//! Paths on the command line.

use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};

/// Takes a path relative to the folder the process was started in, whatever folder it changes into later: an NPU's
/// compiled graphs lie in the working directory.
pub fn absolute_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(std::path::absolute)
}
