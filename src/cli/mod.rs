//! The commands of `storymem`, one file each: its arguments and what it does with them.

use clap::Parser;

pub mod compare;
pub mod completions;
pub mod config;
pub mod demo;
pub mod doctor;
pub mod export;
pub mod generate;
pub mod inspect;
mod interrupt;
pub mod keys;
pub mod openapi;
pub mod remote;
pub mod serve;
pub mod settings;
mod signals;
pub mod story;
pub mod worker;

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "storymem", version, about)]
#[expect(missing_docs, reason = "what a command does is said where its arguments are")]
pub enum Command {
    Export(export::Args),
    Inspect(inspect::Args),
    Demo(demo::Args),
    Generate(generate::Args),
    Story(Box<story::Args>),
    Serve(serve::Args),
    Worker(worker::Args),
    Keys(keys::Args),
    Submit(remote::submit::Args),
    Status(remote::status::Args),
    Watch(remote::watch::Args),
    Fetch(remote::fetch::Args),
    Cancel(remote::cancel::Args),
    Doctor(doctor::Args),
    Compare(compare::Args),
    Config(config::Args),
    Completions(completions::Args),
    Openapi(openapi::Args),
}

impl Command {
    /// Does what was asked.
    ///
    /// # Errors
    /// As the command.
    pub fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Export(args) => export::run(args),
            Self::Inspect(args) => inspect::run(args),
            Self::Demo(args) => demo::run(args),
            Self::Generate(args) => generate::run(args),
            Self::Story(args) => story::run(*args),
            Self::Serve(args) => serve::run(args),
            Self::Worker(args) => worker::run(args),
            Self::Keys(args) => keys::run(args),
            Self::Submit(args) => remote::submit::run(args),
            Self::Status(args) => remote::status::run(args),
            Self::Watch(args) => remote::watch::run(args),
            Self::Fetch(args) => remote::fetch::run(args),
            Self::Cancel(args) => remote::cancel::run(args),
            Self::Doctor(args) => doctor::run(args),
            Self::Compare(args) => compare::run(args),
            Self::Config(args) => config::run(args),
            Self::Completions(args) => completions::run(args),
            Self::Openapi(args) => openapi::run(args),
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
