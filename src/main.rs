//! The `storymem` command.

use clap::Parser;
use storymem::cli;

#[derive(Parser)]
#[expect(clippy::large_enum_variant, reason = "there is one, and it lives as long as the process")]
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
