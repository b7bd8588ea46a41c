//! A flag wins over its environment variable, that over the file, that over the default.
//!
//! `--data-dir` is `STORYMEM_DATA_DIR` and the key `data-dir` (or `data_dir`). The file serves all commands: a key
//! that belongs to another command than the one that runs is left alone, one that belongs to none is an error.
//! Hidden flags are between processes of this program and are flags only.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, Parser, ValueHint, value_parser};
use toml::{Table, Value};

const CONFIG: &str = "config";

static SETTINGS: OnceLock<Vec<String>> = OnceLock::new();

/// Parses this process's arguments; prints help or what is wrong, and ends the process, where clap would.
pub fn parse<P: Parser>() -> P {
    try_parse_from(std::env::args_os()).unwrap_or_else(|error| error.exit())
}

/// Parses `args`, the first of which is the program's name.
///
/// # Errors
/// As clap; also when the file can't be read, or has a key that is no flag or a value that can't be one.
pub fn try_parse_from<P: Parser>(args: impl IntoIterator<Item = OsString>) -> Result<P, clap::Error> {
    let args: Vec<OsString> = args.into_iter().collect();
    let Layered { command, .. } = layered(P::command(), &args)?;
    let matches = command.clone().try_get_matches_from(args)?;
    // A process parses once; a test that does so again keeps what was first.
    let _ = SETTINGS.set(settings(&command, &matches));
    P::from_arg_matches(&matches)
}

/// A command whose flags know their environment variables, and the file's values as their defaults.
pub(super) struct Layered {
    pub(super) command: Command,
    /// The flags whose defaults are the file's.
    pub(super) from_file: Vec<String>,
}

/// Puts the environment and the file that `args` name under `command`'s flags.
pub(super) fn layered(command: Command, args: &[OsString]) -> Result<Layered, clap::Error> {
    let command = with_environment(
        command.arg(
            Arg::new(CONFIG)
                .long(CONFIG)
                .global(true)
                .value_name("FILE")
                .value_hint(ValueHint::FilePath)
                .value_parser(value_parser!(PathBuf))
                .help("A TOML file with a key for each flag that is not given otherwise"),
        ),
    );
    // Whatever else is wrong comes up in the second parse.
    let first = command.clone().ignore_errors(true).try_get_matches_from(args);
    match first.ok().as_ref().and_then(config_file) {
        Some(path) => with_file(command, &path),
        None => Ok(Layered { command, from_file: Vec::new() }),
    }
}

/// What this process runs with, defaults included: `flag=value` for each flag of its command. Secrets are not told.
pub fn effective() -> &'static [String] {
    SETTINGS.get().map_or(&[], Vec::as_slice)
}

fn settings(command: &Command, matches: &ArgMatches) -> Vec<String> {
    if let Some((name, matches)) = matches.subcommand()
        && let Some(command) = command.find_subcommand(name)
    {
        return settings(command, matches);
    }
    let value = |arg: &Arg| {
        let flag = arg.get_long()?;
        let values = matches.try_get_raw(arg.get_id().as_str()).ok()??;
        let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
        let shown = if arg.is_hide_env_values_set() { "(set)".to_owned() } else { values.join(",") };
        Some(format!("{flag}={shown}"))
    };
    command.get_arguments().filter_map(value).collect()
}

fn config_file(matches: &ArgMatches) -> Option<PathBuf> {
    let deeper = matches.subcommand().and_then(|(_, matches)| config_file(matches));
    deeper.or_else(|| matches.try_get_one::<PathBuf>(CONFIG).ok().flatten().cloned())
}

fn with_environment(command: Command) -> Command {
    let variable = |arg: Arg| match arg.get_long() {
        Some(long) if arg.get_env().is_none() && !arg.is_hide_set() => {
            let name = format!("STORYMEM_{}", long.to_uppercase().replace('-', "_"));
            arg.env(name)
        }
        _ => arg,
    };
    command.mut_args(variable).mut_subcommands(with_environment)
}

fn with_file(mut command: Command, path: &Path) -> Result<Layered, clap::Error> {
    let text = fs::read_to_string(path).map_err(|e| {
        command.error(ErrorKind::Io, format!("can't read the configuration file `{}`: {e}", path.display()))
    })?;
    let table: Table = text.parse().map_err(|e| {
        command.error(ErrorKind::ValueValidation, format!("`{}` is not valid TOML: {e}", path.display()))
    })?;
    let mut from_file = Vec::with_capacity(table.len());
    for (key, value) in &table {
        let long = key.replace('_', "-");
        if long == CONFIG || !has_flag(&command, &long) {
            let message = format!(
                "`{}` has the key `{key}`, which is no flag of any command; see `storymem help serve` for what there is",
                path.display()
            );
            return Err(command.error(ErrorKind::UnknownArgument, message));
        }
        let Some(values) = flag_values(value) else {
            let message = format!(
                "`{key}` in `{}` must be a string, a number, a boolean or a list of these",
                path.display()
            );
            return Err(command.error(ErrorKind::ValueValidation, message));
        };
        if values.len() != 1 && !takes_list(&command, &long) {
            let message =
                format!("`{key}` in `{}` must be one value, not a list of {}", path.display(), values.len());
            return Err(command.error(ErrorKind::ValueValidation, message));
        }
        command = with_default(command, &long, &values);
        from_file.push(long);
    }
    Ok(Layered { command, from_file })
}

fn is_flag(arg: &Arg, long: &str) -> bool {
    arg.get_long() == Some(long) && !arg.is_hide_set()
}

fn has_flag(command: &Command, long: &str) -> bool {
    command.get_arguments().any(|arg| is_flag(arg, long))
        || command.get_subcommands().any(|command| has_flag(command, long))
}

/// Whether any command takes several values for a flag.
fn takes_list(command: &Command, long: &str) -> bool {
    let mut flags = command.get_arguments().filter(|arg| is_flag(arg, long));
    flags.any(|arg| matches!(arg.get_action(), ArgAction::Append))
        || command.get_subcommands().any(|command| takes_list(command, long))
}

fn with_default(command: Command, long: &str, values: &[String]) -> Command {
    command
        .mut_args(|arg| {
            let takes_all = values.len() == 1 || matches!(arg.get_action(), ArgAction::Append);
            match is_flag(&arg, long) && takes_all {
                true => arg.required(false).default_values(values.iter().cloned()),
                false => arg,
            }
        })
        .mut_subcommands(|command| with_default(command, long, values))
}

fn flag_values(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(vec![text.clone()]),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => Some(vec![value.to_string()]),
        Value::Array(values) => {
            values.iter().map(|v| if v.is_array() { None } else { flag_values(v)?.pop() }).collect()
        }
        Value::Datetime(_) | Value::Table(_) => None,
    }
}
