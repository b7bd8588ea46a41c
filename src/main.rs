//! The `storymem` command.

use clap::Parser;
use storymem::cli;

#[derive(Parser)]
#[command(version, about)]
enum Command {
    Export(cli::export::Args),
    Demo(cli::demo::Args),
    Generate(cli::generate::Args),
}

fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Export(args) => cli::export::run(args),
        Command::Demo(args) => cli::demo::run(args),
        Command::Generate(args) => cli::generate::run(args),
    }
}
