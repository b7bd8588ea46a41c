//! What can go wrong with a call.

use std::fmt::Write as _;

use serde::Deserialize;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address of the service is none.
    #[error("`{address}` is not the address of a service, such as `http://127.0.0.1:8080`")]
    Address {
        /// What was given.
        address: String,
    },
    /// The service said no.
    #[error("{0}")]
    Problem(Box<Problem>),
    /// The answer is not one of this API.
    #[error("`{url}` answers with status {status} and no problem document; is it a StoryMem service?")]
    Foreign {
        /// What was asked.
        url: String,
        /// The answer's status.
        status: u16,
    },
    /// The service can't be reached, or the connection broke.
    #[error("can't reach the service: {}", chain(.0))]
    Network(#[from] reqwest::Error),
    /// What was received can't be written.
    #[error("can't write what was received: {0}")]
    Write(#[from] std::io::Error),
}

impl Error {
    /// The code of the service's problem, such as `queue_full`.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Problem(problem) => Some(&problem.code),
            _ => None,
        }
    }
}

/// What the service answers when it says no: `application/problem+json` (RFC 9457).
#[derive(Clone, Debug, Deserialize)]
pub struct Problem {
    /// A stable word for programs.
    pub code: String,
    /// What it is, whatever the occurrence.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened here.
    #[serde(default)]
    pub detail: String,
    /// What is wrong with which field, when the request is not valid.
    #[serde(default)]
    pub errors: Vec<FieldError>,
}

/// What is wrong with one field.
#[derive(Clone, Debug, Deserialize)]
pub struct FieldError {
    /// JSON pointer into the request.
    pub pointer: String,
    /// What is wrong, and what would be right.
    pub detail: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = if self.detail.is_empty() { &self.title } else { &self.detail };
        write!(f, "{what} (`{}`)", self.code)?;
        self.errors.iter().try_for_each(|error| write!(f, "\n  {}: {}", error.pointer, error.detail))
    }
}

/// An error and what caused it: reqwest's own text stops short of the cause.
fn chain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        // Writing to a string does not fail.
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}
