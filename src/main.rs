//! The `storymem` command.

use std::process::ExitCode;

use clap::Parser;
use storymem::{cli, config};

#[derive(Parser)]
#[command(version, about)]
enum Command {
    Export(cli::export::Args),
    Inspect(cli::inspect::Args),
    Demo(cli::demo::Args),
    Generate(cli::generate::Args),
    Serve(cli::serve::Args),
    Worker(cli::worker::Args),
    Keys(cli::keys::Args),
    Doctor(cli::doctor::Args),
    Compare(cli::compare::Args),
    Openapi(cli::openapi::Args),
}

fn main() -> ExitCode {
    let result = match config::parse::<Command>() {
        Command::Export(args) => cli::export::run(args),
        Command::Inspect(args) => cli::inspect::run(args),
        Command::Demo(args) => cli::demo::run(args),
        Command::Generate(args) => cli::generate::run(args),
        Command::Serve(args) => cli::serve::run(args),
        Command::Worker(args) => cli::worker::run(args),
        Command::Keys(args) => cli::keys::run(args),
        Command::Doctor(args) => cli::doctor::run(args),
        Command::Compare(args) => cli::compare::run(args),
        Command::Openapi(args) => cli::openapi::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        super::Command::command().debug_assert();
    }
}
