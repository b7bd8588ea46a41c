//! Every error of the API, as `application/problem+json` (RFC 9457).
//!
//! What kinds there are is in one table (`codes`). A handler returns a [`Problem`]; [`render`], around
//! the whole service, writes it out. Whatever else ends with an error status — a path or method that does not
//! exist, a body that is too large, a panic — becomes a problem there too, so that no client ever meets another
//! kind of error.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::fmt::Write as _;
use std::io;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::response::{Response as ResponseDoc, ResponseBuilder};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{ContentBuilder, Ref, RefOr};

pub use super::codes::ErrorCode;
use super::videos;
use crate::queue::QueueError;
use crate::storage::StorageError;

/// The media type of a problem.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// Seconds after which it is worth asking again for a place in the queue: jobs take minutes.
const FULL_SECONDS: u32 = 30;

/// One thing that is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldError {
    /// A JSON pointer (RFC 6901) to the field in the request; a file part counts as the field it stands for.
    #[schema(example = "/memory/0/data")]
    pub pointer: String,
    /// What is wrong, and what would be right.
    pub detail: String,
}

/// An error on its way out.
#[derive(Clone, Debug)]
pub struct Problem(Box<Document>);

/// An error, as RFC 9457 has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct Document {
    /// Names the kind of problem; the last part is `code`.
    #[serde(rename = "type")]
    #[schema(example = "urn:storymem:problem:validation_failed")]
    kind: String,
    /// The kind of problem in words.
    title: &'static str,
    /// The HTTP status.
    pub(super) status: u16,
    /// What is wrong this time.
    pub(super) detail: String,
    /// The path of the request.
    instance: String,
    /// The kind of problem for programs.
    pub(super) code: ErrorCode,
    /// Everything that is wrong with the request, for `validation_failed`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub(super) errors: Vec<FieldError>,
    #[serde(skip)]
    #[schema(ignore)]
    retry_after: Option<u32>,
}

impl Problem {
    /// A problem of a kind, and what is wrong this time.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self(Box::new(Document {
            kind: format!("urn:storymem:problem:{}", code.code()),
            title: code.title(),
            status: code.status().as_u16(),
            detail: detail.into(),
            instance: String::new(),
            code,
            errors: Vec::new(),
            retry_after: None,
        }))
    }

    /// Everything that is wrong with a request.
    pub fn validation(errors: Vec<FieldError>) -> Self {
        let detail = match errors.as_slice() {
            [one] => format!("`{}`: {}", one.pointer, one.detail),
            many => format!("{} fields are not valid", many.len()),
        };
        let mut problem = Self::new(ErrorCode::ValidationFailed, detail);
        problem.0.errors = errors;
        problem
    }

    /// A body of more bytes than the operator allows.
    pub fn too_large(most: usize) -> Self {
        let detail = format!(
            "the body has more than the {most} bytes ({:.0} MiB) this service takes; send images ahead to `POST /uploads`",
            most as f64 / f64::from(1 << 20)
        );
        Self::new(ErrorCode::PayloadTooLarge, detail)
    }

    /// A fault of the service. Its cause goes to the log, and only there.
    pub fn internal(cause: &(dyn Error + 'static)) -> Self {
        let mut chain = cause.to_string();
        let mut next = cause.source();
        while let Some(cause) = next {
            // Writing to a string can't fail.
            let _ = write!(chain, ": {cause}");
            next = cause.source();
        }
        tracing::error!(error = chain, "a request failed");
        Self::new(ErrorCode::Internal, "the request could not be served; the service's log says why")
    }

    /// The same problem with a time after which to try again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.0.retry_after = Some(seconds);
        self
    }

    fn of_status(status: StatusCode, body_bytes: usize) -> Self {
        if status == StatusCode::PAYLOAD_TOO_LARGE {
            return Self::too_large(body_bytes);
        }
        let same = |code: &&ErrorCode| code.status() == status;
        let code = match ErrorCode::ALL.iter().find(same) {
            Some(&code) => code,
            None if status.is_client_error() => ErrorCode::BadRequest,
            None => ErrorCode::Internal,
        };
        Self::new(code, code.meaning())
    }
}

/// For people who have no HTTP client to show it: everything that is wrong, a line each.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.errors.as_slice() {
            [] => f.write_str(&self.0.detail),
            errors => {
                errors.iter().try_for_each(|error| write!(f, "\n  `{}`: {}", error.pointer, error.detail))
            }
        }
    }
}

/// Leaves the writing to [`render`], which knows the path.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.0.code.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<QueueError> for Problem {
    fn from(error: QueueError) -> Self {
        match &error {
            QueueError::Unknown(_) => Self::new(ErrorCode::JobNotFound, error.to_string()),
            QueueError::Ended { .. } => Self::new(ErrorCode::JobEnded, error.to_string()),
            QueueError::NotEnded(_) => Self::new(ErrorCode::JobNotEnded, error.to_string()),
            QueueError::NoSuchShot { .. } => Self::new(ErrorCode::ShotNotFound, error.to_string()),
            QueueError::ShotNotReady { .. } => Self::new(ErrorCode::ShotNotReady, error.to_string()),
            QueueError::KeyReused => Self::new(ErrorCode::IdempotencyKeyReused, error.to_string()),
            QueueError::Full { .. } => {
                Self::new(ErrorCode::QueueFull, error.to_string()).retry_after(FULL_SECONDS)
            }
            QueueError::QuotaSpent { .. } => {
                Self::new(ErrorCode::QuotaSpent, error.to_string()).retry_after(FULL_SECONDS)
            }
            QueueError::Database(_) if error.is_busy() => {
                tracing::warn!(error = %error, "the job database was busy for too long");
                Self::new(ErrorCode::DatabaseBusy, ErrorCode::DatabaseBusy.meaning()).retry_after(1)
            }
            QueueError::Database(_) if error.is_full() => {
                tracing::error!(error = %error, "the disk is full");
                Self::new(ErrorCode::DiskFull, ErrorCode::DiskFull.meaning())
            }
            _ => Self::internal(&error),
        }
    }
}

impl From<StorageError> for Problem {
    fn from(error: StorageError) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                tracing::error!(error = %error, "the disk is full");
                Self::new(ErrorCode::DiskFull, ErrorCode::DiskFull.meaning())
            }
            _ => Self::internal(&error),
        }
    }
}

/// Writes problems out, and makes one of every other error. Headers such as `Allow` and `Content-Range` stay.
/// `body_bytes` are the most that a body may have.
pub async fn render(State(body_bytes): State<usize>, request: Request, next: Next) -> Response {
    let instance = request.uri().path().to_owned();
    let response = next.run(request).await;
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let (mut parts, _) = response.into_parts();
    let Problem(mut problem) =
        parts.extensions.remove().unwrap_or_else(|| Problem::of_status(status, body_bytes));
    problem.instance.clone_from(&instance);
    parts.status = problem.code.status();
    for name in [header::CONTENT_LENGTH, header::CONTENT_ENCODING, header::ETAG, header::LAST_MODIFIED] {
        parts.headers.remove(name);
    }
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    if problem.code == ErrorCode::Unauthorized {
        parts.headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"storymem\""));
    }
    if let Some(seconds) = problem.retry_after {
        parts.headers.insert(header::RETRY_AFTER, seconds.into());
    }
    let body = match instance.starts_with(videos::PREFIX) {
        true => {
            parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            serde_json::to_vec(&videos::ErrorView::from(&*problem))
        }
        false => serde_json::to_vec(&problem),
    };
    match body {
        Ok(body) => Response::from_parts(parts, body.into()),
        Err(e) => {
            tracing::error!(error = %e, "a problem could not be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Documents the errors of an operation: an empty type for `responses(…)`, made from the codes.
macro_rules! problems {
    ($name:ident: $($code:ident),* $(,)?) => {
        pub(crate) struct $name;

        impl utoipa::IntoResponses for $name {
            fn responses()
            -> std::collections::BTreeMap<String, utoipa::openapi::RefOr<utoipa::openapi::response::Response>> {
                $crate::api::problem::documented(&[$($crate::api::problem::ErrorCode::$code),*])
            }
        }
    };
}
pub(crate) use problems;

/// One response for each status, naming the codes it can come with. What can happen anywhere is added.
pub(crate) fn documented(codes: &[ErrorCode]) -> BTreeMap<String, RefOr<ResponseDoc>> {
    let anywhere = [ErrorCode::BadRequest, ErrorCode::Internal, ErrorCode::DatabaseBusy];
    responses(&[codes, &anywhere].concat())
}

/// One response for each status, naming the codes it can come with.
pub(crate) fn responses(codes: &[ErrorCode]) -> BTreeMap<String, RefOr<ResponseDoc>> {
    let mut by_status = BTreeMap::<u16, Vec<ErrorCode>>::new();
    for &code in codes {
        by_status.entry(code.status().as_u16()).or_default().push(code);
    }
    let response = |codes: Vec<ErrorCode>| {
        let lines: Vec<_> =
            codes.iter().map(|code| format!("`{}`: {}", code.code(), code.meaning())).collect();
        let schema = Ref::from_schema_name("Problem");
        ResponseBuilder::new()
            .description(lines.join("\n\n"))
            .content(MEDIA_TYPE, ContentBuilder::new().schema(Some(schema)).build())
            .build()
            .into()
    };
    by_status.into_iter().map(|(status, codes)| (status.to_string(), response(codes))).collect()
}

/// Documents a header of an answer.
pub(crate) fn header_doc(description: &str, kind: Type) -> Header {
    let schema = ObjectBuilder::new().schema_type(kind).build();
    HeaderBuilder::new().schema(Some(schema)).description(Some(description)).build()
}
