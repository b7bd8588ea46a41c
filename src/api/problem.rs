//! Every error of the API, as `application/problem+json` (RFC 9457).
//!
//! The table below is the only place where an error code, its status and its title are defined: answers, the
//! documentation and the OpenAPI document are made from it. A handler returns a [`Problem`]; [`render`], around
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
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::response::{Response as ResponseDoc, ResponseBuilder};
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::{ContentBuilder, Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use super::videos;
use crate::queue::QueueError;
use crate::storage::StorageError;

/// The media type of a problem.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// Seconds after which it is worth asking again for a place in the queue: jobs take minutes.
const FULL_SECONDS: u32 = 30;

macro_rules! error_codes {
    ($($name:ident, $code:literal, $status:ident, $title:literal, $meaning:literal;)*) => {
        /// A stable word for each kind of error; its meaning never changes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        pub enum ErrorCode {
            $(
                #[doc = $meaning]
                #[serde(rename = $code)]
                $name,
            )*
        }

        impl ErrorCode {
            /// Every code, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The word.
            pub fn code(self) -> &'static str {
                match self { $(Self::$name => $code),* }
            }

            /// The HTTP status it comes with.
            pub fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status),* }
            }

            /// What it is, in a few words that do not depend on the occurrence.
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title),* }
            }

            /// When it occurs and what to do, for the documentation.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning),* }
            }
        }
    };
}

error_codes! {
    BadRequest, "bad_request", BAD_REQUEST, "The request is malformed",
        "The request breaks the rules of HTTP or of this API in a way no other code names.";
    InvalidJson, "invalid_json", BAD_REQUEST, "The body is not valid JSON",
        "The JSON can't be parsed; `detail` gives line and column.";
    InvalidMultipart, "invalid_multipart", BAD_REQUEST, "The body is not valid multipart",
        "The multipart body is broken or ends too early.";
    InvalidQuery, "invalid_query", BAD_REQUEST, "The query is not valid",
        "A parameter of the query is unknown or has a value it can't have.";
    Unauthorized, "unauthorized", UNAUTHORIZED, "An API key is needed",
        "This service has API keys and the request has none that is good; send `Authorization: Bearer sm_…`.";
    NotFound, "not_found", NOT_FOUND, "There is nothing here",
        "No route has this path; see `/openapi.json`.";
    JobNotFound, "job_not_found", NOT_FOUND, "There is no such job",
        "No job has this id, or it is another owner's.";
    KeyframeNotFound, "keyframe_not_found", NOT_FOUND, "There is no such frame",
        "The job has published no frame of this name, or the story remembers none.";
    StoryNotFound, "story_not_found", NOT_FOUND, "There is no such story",
        "No story has this id, or it is another owner's.";
    ShotNotFound, "shot_not_found", NOT_FOUND, "The story has no such shot",
        "The shots of a story are counted from 1.";
    NoWebhook, "no_webhook", NOT_FOUND, "The job has no webhook",
        "The job was asked for without a `webhook_url`.";
    MethodNotAllowed, "method_not_allowed", METHOD_NOT_ALLOWED, "The method is not allowed here",
        "The path exists, the method does not; the `Allow` header lists those that do.";
    Timeout, "timeout", REQUEST_TIMEOUT, "The request took too long",
        "The request did not arrive in time; send it again.";
    JobEnded, "job_ended", CONFLICT, "The job has already ended",
        "What was asked is only possible before a job ends.";
    ResultNotReady, "result_not_ready", CONFLICT, "The job has no result yet",
        "The job has not ended yet; ask again after `Retry-After` seconds.";
    NoResult, "no_result", CONFLICT, "The job ended without a result",
        "The job failed or was cancelled; it will never have a video.";
    JobNotEnded, "job_not_ended", CONFLICT, "The job has not ended yet",
        "What was asked is only possible once a job has ended; cancel it first.";
    NothingToRetry, "nothing_to_retry", CONFLICT, "The job succeeded",
        "Only jobs that failed or were cancelled can be tried again.";
    PartOfStory, "part_of_story", CONFLICT, "The job makes a shot of a story",
        "What was asked is only possible for the story as a whole, or by redoing the shot.";
    StoryEnded, "story_ended", CONFLICT, "The story has already ended",
        "What was asked is only possible before a story ends.";
    StoryNotEnded, "story_not_ended", CONFLICT, "The story has not ended yet",
        "What was asked is only possible once a story has ended; cancel it first.";
    ShotNotReady, "shot_not_ready", CONFLICT, "A shot before it is missing",
        "A shot before this one failed, was cancelled or has expired; redo that one first.";
    StoryDeleted, "story_deleted", GONE, "The story was deleted",
        "There was a story of this id; it, its jobs and their files are gone.";
    JobDeleted, "job_deleted", GONE, "The job was deleted",
        "There was a job of this id; it and its files are gone.";
    ResultExpired, "result_expired", GONE, "The result has expired",
        "The job's files were kept until its `expires_at`, and are gone; run it again.";
    PreconditionFailed, "precondition_failed", PRECONDITION_FAILED, "A precondition failed",
        "A condition in the request's headers, such as `If-Match`, does not hold.";
    PayloadTooLarge, "payload_too_large", PAYLOAD_TOO_LARGE, "The body is too large",
        "The body has more bytes than the operator allows; `detail` says how many those are.";
    UnsupportedMediaType, "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "The media type is not supported",
        "The `Content-Type` is none of those the operation takes.";
    RangeNotSatisfiable, "range_not_satisfiable", RANGE_NOT_SATISFIABLE, "The range can't be satisfied",
        "The `Range` lies outside the file or asks for several parts; `Content-Range` gives the size.";
    ValidationFailed, "validation_failed", UNPROCESSABLE_ENTITY, "The request is not valid",
        "`errors` lists everything that is wrong, each with a JSON pointer into the request.";
    IdempotencyKeyReused, "idempotency_key_reused", UNPROCESSABLE_ENTITY, "The idempotency key was used before",
        "Another request was sent under this `Idempotency-Key` within the last 24 hours; draw a new key.";
    InvalidImage, "invalid_image", UNPROCESSABLE_ENTITY, "The image can't be used",
        "The body is no PNG, JPEG or WebP that decodes, or has more pixels or bytes than are taken.";
    QueueFull, "queue_full", TOO_MANY_REQUESTS, "The queue is full",
        "As many jobs wait as may; try again after `Retry-After` seconds.";
    QuotaSpent, "quota_spent", TOO_MANY_REQUESTS, "The quota is spent",
        "The key's owner has as many unfinished jobs as the key allows; wait for one to end.";
    Internal, "internal", INTERNAL_SERVER_ERROR, "Something went wrong in the service",
        "A fault of the service; its log says more.";
    NotReady, "not_ready", SERVICE_UNAVAILABLE, "The service is not ready",
        "`detail` says what is missing.";
    DatabaseBusy, "database_busy", SERVICE_UNAVAILABLE, "The job database is busy",
        "Another process held the database for too long; send the request again after `Retry-After` seconds.";
    DiskFull, "disk_full", INSUFFICIENT_STORAGE, "The disk is full",
        "There is no room left for images or jobs; the operator has to make some.";
}

// By hand: the derive does not see names that come out of a macro.
impl ToSchema for ErrorCode {}

impl PartialSchema for ErrorCode {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(Self::ALL.iter().map(|code| code.code())))
            .description(Some("A stable word for each kind of error; its meaning never changes."))
            .build()
            .into()
    }
}

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
            QueueError::Database(cause) if is_busy(cause) => {
                tracing::warn!(error = %error, "the job database was busy for too long");
                Self::new(ErrorCode::DatabaseBusy, ErrorCode::DatabaseBusy.meaning()).retry_after(1)
            }
            QueueError::Database(cause) if is_full(cause) => {
                tracing::error!(error = %error, "the disk is full");
                Self::new(ErrorCode::DiskFull, ErrorCode::DiskFull.meaning())
            }
            _ => Self::internal(&error),
        }
    }
}

/// `SQLITE_BUSY` in any of its forms, or no connection free in time.
fn is_busy(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::PoolTimedOut => true,
        sqlx::Error::Database(cause) => {
            cause.code().and_then(|code| code.parse::<u32>().ok()).is_some_and(|code| code & 0xff == 5)
        }
        _ => false,
    }
}

/// `SQLITE_FULL`.
fn is_full(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Database(cause) if cause.code().as_deref() == Some("13"))
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
