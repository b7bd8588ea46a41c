//! The table of error codes: the only place where a code, its status, its title and its meaning are defined. Answers, the
//! documentation and the OpenAPI document are made from it.

use axum::http::StatusCode;
use serde::Serialize;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

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
