//! `storymem config`: what a command would run with, and why.

use std::ffi::OsString;
use std::io::{self, Write};

use clap::CommandFactory;

use crate::config;

/// Prints what a command would run with, given no flags, and where each value comes from.
///
/// The output is a configuration file: `storymem config > storymem.toml`, edit, and give it with `--config`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The command
    #[arg(default_value = "serve")]
    command: String,
}

/// Runs the command.
///
/// # Errors
/// When there is no such command, a value of the environment or the file is none, or the output can't be written.
pub fn run(args: Args) -> anyhow::Result<()> {
    let given: Vec<OsString> = std::env::args_os().collect();
    let settings = config::explain(super::Command::command(), &args.command, &given)
        .unwrap_or_else(|error| error.exit());
    let mut out = io::stdout().lock();
    for setting in settings {
        writeln!(out, "{setting}")?;
    }
    Ok(())
}
