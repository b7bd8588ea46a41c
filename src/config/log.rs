//! What is logged, and how.

use std::io::{self, IsTerminal as _};

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

/// The shape of a line of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Settings of the log, which goes to standard error.
#[derive(Clone, Debug, Args)]
pub struct LogConfig {
    /// What to log: a level, or directives such as `info,storymem=debug`
    #[arg(long = "log", value_name = "FILTER", default_value = "info,ort=warn", value_parser = parse_filter)]
    pub filter: String,
    /// How a line looks
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub log_format: LogFormat,
}

impl LogConfig {
    /// Starts logging, with a line that tells the settings. To be called once in a process.
    ///
    /// # Errors
    /// When the process logs already.
    pub fn init(&self) -> anyhow::Result<()> {
        let builder = tracing_subscriber::fmt()
            .with_writer(io::stderr)
            // Told on standard error, too: if that is closed, the attempt would panic where the log was written.
            .log_internal_errors(false)
            .with_ansi(io::stderr().is_terminal())
            .with_env_filter(EnvFilter::new(&self.filter));
        match self.log_format {
            LogFormat::Text => builder.try_init(),
            LogFormat::Json => builder.json().flatten_event(true).with_span_list(false).try_init(),
        }
        .map_err(|e| anyhow::anyhow!("can't start logging: {e}"))?;
        let settings = super::effective().join(" ");
        tracing::info!(version = env!("CARGO_PKG_VERSION"), settings, "the settings of this process");
        Ok(())
    }

    /// The flags that make another process log in the same way.
    pub fn to_args(&self) -> [String; 4] {
        let format = match self.log_format {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        };
        ["--log".into(), self.filter.clone(), "--log-format".into(), format.into()]
    }
}

/// A filter of the log, if it is one.
///
/// # Errors
/// What is wrong with it.
pub fn parse_filter(text: &str) -> Result<String, String> {
    EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|e| e.to_string())
}
