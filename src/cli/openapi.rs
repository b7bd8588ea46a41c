//! `storymem openapi`: the API's description.

use std::io::{self, Write};

use clap::ValueEnum;

use crate::api;

/// Prints the OpenAPI document of the HTTP API.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The version of OpenAPI it is written in; 3.0 is for tools that do not read 3.1
    #[arg(long, value_enum, value_name = "VERSION", default_value = "3.1")]
    spec: Spec,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Spec {
    #[value(name = "3.1")]
    V3_1,
    #[value(name = "3.0")]
    V3_0,
}

/// Runs the command.
///
/// # Errors
/// When the output can't be written.
pub fn run(args: Args) -> anyhow::Result<()> {
    let document = match args.spec {
        Spec::V3_1 => api::document().to_pretty_json()?,
        Spec::V3_0 => serde_json::to_string_pretty(&api::document_3_0())?,
    };
    Ok(writeln!(io::stdout(), "{document}")?)
}
