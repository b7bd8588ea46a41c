//! `storymem openapi`: the API's description.

use std::io::{self, Write};

use crate::api;

/// Prints the OpenAPI 3.1 document of the HTTP API.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {}

/// Runs the command.
///
/// # Errors
/// When the output can't be written.
pub fn run(_: Args) -> anyhow::Result<()> {
    Ok(writeln!(io::stdout(), "{}", api::document().to_pretty_json()?)?)
}
