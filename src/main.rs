//! The `storymem` command.

use std::process::ExitCode;

use storymem::{cli, config};

fn main() -> ExitCode {
    match config::parse::<cli::Command>().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
