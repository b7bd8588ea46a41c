//! Where each setting of a command comes from, for people who wonder why a service runs as it does.

use std::ffi::OsString;
use std::fmt;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use toml::Value;

use super::layers::layered;

/// Who said what a setting is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The environment variable of this name.
    Environment(String),
    /// The configuration file.
    File,
    /// Nobody; it is the program's choice.
    Default,
    /// Nobody, and the program does without.
    Unset,
    /// Nobody, and the command does not run without.
    Missing,
}

/// A setting, its value and who gave it. Shown as a line of a configuration file.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The flag without its dashes, and the key of the file.
    pub key: String,
    /// The value; several where a flag may be given several times. Empty when it is not set, or a secret.
    pub values: Vec<String>,
    /// Who gave it.
    pub source: Source,
    secret: bool,
    list: bool,
}

/// The settings of the command `name` of `root`, as it would run without flags, in the environment of this process and
/// with the configuration file that `args` name.
///
/// # Errors
/// When there is no such command, the file can't be read, or a value is none.
pub fn explain(root: Command, name: &str, args: &[OsString]) -> Result<Vec<Setting>, clap::Error> {
    let mut layered = layered(root, args)?;
    let Some(command) = layered.command.find_subcommand(name).cloned() else {
        let message = format!("there is no command `{name}`; see `storymem help`");
        return Err(layered.command.error(clap::error::ErrorKind::InvalidSubcommand, message));
    };
    let matches = command.clone().mut_args(|arg| arg.required(false)).try_get_matches_from([name])?;
    let shown = |arg: &&Arg| {
        !arg.is_hide_set()
            && !matches!(arg.get_action(), ArgAction::Help | ArgAction::HelpLong | ArgAction::Version)
    };
    Ok(command
        .get_arguments()
        .filter(shown)
        .filter_map(|arg| setting(arg, &matches, &layered.from_file))
        .collect())
}

fn setting(arg: &Arg, matches: &ArgMatches, from_file: &[String]) -> Option<Setting> {
    let key = arg.get_long()?.to_owned();
    let id = arg.get_id().as_str();
    let source = match matches.value_source(id) {
        Some(ValueSource::EnvVariable) => {
            Source::Environment(arg.get_env().map(|name| name.to_string_lossy().into_owned())?)
        }
        Some(_) if from_file.contains(&key) => Source::File,
        Some(_) => Source::Default,
        None if arg.is_required_set() => Source::Missing,
        None => Source::Unset,
    };
    let secret = arg.is_hide_env_values_set();
    let raw = matches.get_raw(id).filter(|_| !secret);
    let values = raw.map(|values| values.map(|value| value.to_string_lossy().into_owned()).collect());
    let list = matches!(arg.get_action(), ArgAction::Append);
    Some(Setting { key, values: values.unwrap_or_default(), source, secret, list })
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, values, source, .. } = self;
        match (source, values.as_slice()) {
            (Source::Unset | Source::Missing, _) => write!(f, "# {key} = ")?,
            (_, _) if self.secret => write!(f, "# {key} is set and not shown")?,
            (_, [value]) if !self.list => write!(f, "{key} = {}", toml_value(value))?,
            (_, values) => {
                write!(f, "{key} = {}", Value::Array(values.iter().map(|v| toml_value(v)).collect()))?
            }
        }
        match source {
            Source::Environment(name) => write!(f, "  # from {name}"),
            Source::File => write!(f, "  # from the file"),
            Source::Default => write!(f, "  # default"),
            Source::Unset => write!(f, "  # not set"),
            Source::Missing => write!(f, "  # not set, and needed"),
        }
    }
}

/// The value as a file has it: a number or a boolean where it reads as one.
fn toml_value(text: &str) -> Value {
    let plain = |value: &Value| value.to_string() == text;
    let number = text.parse().ok().map(Value::Integer).filter(plain);
    let other = || text.parse().ok().map(Value::Boolean).filter(plain);
    number.or_else(other).unwrap_or_else(|| Value::String(text.to_owned()))
}
