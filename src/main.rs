//! The `storymem` command.

use clap::{Parser, Subcommand};
use storymem::cli::{demo, export, openapi, serve, worker};
use storymem::config;

/// Makes StoryMem videos: many shots, one memory.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Export(Box<export::Args>),
    Demo(demo::Args),
    Serve(Box<serve::Args>),
    Worker(Box<worker::Args>),
    Openapi(openapi::Args),
}

fn main() -> anyhow::Result<()> {
    match config::parse::<Cli>().command {
        Command::Export(args) => export::run(*args),
        Command::Demo(args) => demo::run(args),
        Command::Serve(args) => serve::run(*args),
        Command::Worker(args) => worker::run(*args),
        Command::Openapi(args) => openapi::run(args),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        super::Cli::command().debug_assert();
    }
}
