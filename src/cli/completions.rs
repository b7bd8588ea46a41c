//! `storymem completions`: what a shell needs to complete commands and flags.

use std::io;

use clap::CommandFactory;
use clap_complete::Shell;

/// Prints a script that makes a shell complete commands, flags and their values.
///
/// For example `storymem completions bash > /etc/bash_completion.d/storymem`, or for one user
/// `storymem completions fish > ~/.config/fish/completions/storymem.fish`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The shell
    shell: Shell,
}

/// Runs the command.
///
/// # Errors
/// Never.
pub fn run(args: Args) -> anyhow::Result<()> {
    clap_complete::generate(args.shell, &mut super::Command::command(), "storymem", &mut io::stdout());
    Ok(())
}
