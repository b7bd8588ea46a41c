//! Whether this machine can do the work, found out before the work fails.
//!
//! Each check is one line: what was found, and if that is not good what to do about it. None of them changes anything;
//! but checking an NPU takes it into use as the service does, which is the only proof that it can be.

mod bundle;
mod device;
mod folder;

use std::fmt;

pub use bundle::{check_bundle, check_graphs, check_plan, show_plan};
pub use device::{check_device, check_runtime};
pub use folder::{check_folder, check_space};

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should be.
    Ok,
    /// It works, but perhaps not as it is meant to.
    Warning,
    /// It does not work.
    Problem,
}

/// A line of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was checked.
    pub name: &'static str,
    /// How it came out.
    pub outcome: Outcome,
    /// What was found, and the remedy.
    pub text: String,
}

/// Everything that was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// In the order of checking: the first problem is often the cause of others.
    pub checks: Vec<Check>,
}

impl Report {
    /// What is as it should be.
    pub fn ok(&mut self, name: &'static str, text: impl fmt::Display) {
        self.add(name, Outcome::Ok, text);
    }

    /// What works, but perhaps not as it is meant to.
    pub fn warn(&mut self, name: &'static str, text: impl fmt::Display) {
        self.add(name, Outcome::Warning, text);
    }

    /// What does not work.
    pub fn problem(&mut self, name: &'static str, text: impl fmt::Display) {
        self.add(name, Outcome::Problem, text);
    }

    fn add(&mut self, name: &'static str, outcome: Outcome, text: impl fmt::Display) {
        self.checks.push(Check { name, outcome, text: text.to_string() });
    }

    /// How many checks came out like that.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.checks.iter().filter(|check| check.outcome == outcome).count()
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = match self.outcome {
            Outcome::Ok => "ok",
            Outcome::Warning => "warning",
            Outcome::Problem => "problem",
        };
        write!(f, "{outcome:<8} {}: {}", self.name, self.text)
    }
}
