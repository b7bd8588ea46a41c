//! A problem in the shape of OpenAI's errors.

use serde::Serialize;
use utoipa::ToSchema;

use crate::api::problem::{Document, ErrorCode};

/// Why a call failed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = VideosError)]
pub struct ErrorView<'a> {
    #[schema(inline)]
    error: Detail<'a>,
}

#[derive(Debug, Serialize, ToSchema)]
struct Detail<'a> {
    /// Everything that is wrong, in words.
    message: String,
    /// The kind of error, by OpenAI's names.
    #[serde(rename = "type")]
    #[schema(example = "invalid_request_error")]
    kind: &'static str,
    /// The first field that is wrong.
    #[schema(required)]
    param: Option<&'a str>,
    /// The kind of error, by this API's names.
    code: ErrorCode,
}

impl<'a> From<&'a Document> for ErrorView<'a> {
    fn from(problem: &'a Document) -> Self {
        let kind = match problem.status {
            401 => "authentication_error",
            404 | 410 => "not_found_error",
            429 => "rate_limit_error",
            400..500 => "invalid_request_error",
            _ => "server_error",
        };
        let lines = problem.errors.iter().map(|error| format!("`{}`: {}", error.pointer, error.detail));
        let message = match problem.errors.is_empty() {
            true => problem.detail.clone(),
            false => lines.collect::<Vec<_>>().join("; "),
        };
        let param = problem.errors.first().map(|error| error.pointer.trim_start_matches('/'));
        Self { error: Detail { message, kind, param, code: problem.code } }
    }
}
