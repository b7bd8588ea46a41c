//! Files of a job, whole or in part.

use std::collections::BTreeMap;
use std::io;
use std::marker::PhantomData;
use std::path::Path;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use axum::response::Response;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tower::ServiceExt;
use tower_http::services::ServeFile;
use utoipa::openapi::response::{Response as ResponseDoc, ResponseBuilder};
use utoipa::openapi::{ContentBuilder, RefOr, Type};
use utoipa::{IntoParams, IntoResponses, PartialSchema, ToSchema};
use uuid::Uuid;

use super::{POLL_SECONDS, find};
use crate::api::App;
use crate::api::access::Caller;
use crate::api::problem::{ErrorCode, Problem, documented, header_doc};
use crate::queue::{Job, Made, Status};

/// What RFC 8187 leaves as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// Most characters of a prompt in a file's name.
const NAME_CHARS: usize = 60;

/// A job that has succeeded, and what it has made; or why there is nothing.
pub(in crate::api) async fn made(app: &App, caller: &Caller, id: Uuid) -> Result<(Job, Made), Problem> {
    let mut job = find(app, caller, id).await?;
    if job.expired_at.is_some() {
        return Err(Problem::new(ErrorCode::ResultExpired, format!("the result of job `{id}` has expired")));
    }
    match (job.status, job.made.take()) {
        (Status::Succeeded, Some(made)) => Ok((job, made)),
        (Status::Queued | Status::Running | Status::Cancelling, _) => {
            let detail = format!("job `{id}` has not ended yet");
            Err(Problem::new(ErrorCode::ResultNotReady, detail).retry_after(POLL_SECONDS))
        }
        _ => Err(Problem::new(ErrorCode::NoResult, format!("job `{id}` ended without a result"))),
    }
}

/// What a request asks of a file.
#[derive(Clone, FromRequestParts)]
pub struct Asked {
    method: Method,
    headers: HeaderMap,
}

/// A kind of file that a job or a story has.
pub(in crate::api) trait Kind {
    /// Its media type.
    const MEDIA_TYPE: &'static str;
    /// How its name ends.
    const EXTENSION: &'static str;
    /// What it is, for the documentation.
    const WHAT: &'static str;
    /// Its other media types, for the documentation.
    const OR: &'static [&'static str] = &[];
    /// Why there may be none.
    const MISSING: &'static [ErrorCode] = &[
        ErrorCode::JobNotFound,
        ErrorCode::JobDeleted,
        ErrorCode::ResultExpired,
        ErrorCode::ResultNotReady,
        ErrorCode::NoResult,
    ];
    /// What can be wrong besides.
    const PROBLEMS: &'static [ErrorCode] = &[];
}

/// The headers that such a request may have.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "only its schema is used: tower-http reads the headers")]
pub(in crate::api) struct FileHeaders {
    /// A range of bytes; several at once get the whole
    #[param(rename = "Range", example = "bytes=0-1023")]
    range: Option<String>,
    /// The `ETag` the range is of; if the file is another, the whole comes
    #[param(rename = "If-Range")]
    if_range: Option<String>,
    /// The `ETag` of an earlier answer
    #[param(rename = "If-None-Match")]
    if_none_match: Option<String>,
}

/// The bytes of a file, for the documentation: `[u8]` is derived to a list of numbers.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[allow(dead_code, reason = "only its schema is used")]
pub(in crate::api) struct FileBytes(Vec<u8>);

/// How such a request is answered, for the documentation.
pub(in crate::api) struct FileAnswers<K>(PhantomData<K>);

impl<K: Kind> IntoResponses for FileAnswers<K> {
    fn responses() -> BTreeMap<String, RefOr<ResponseDoc>> {
        let any = [ErrorCode::PreconditionFailed, ErrorCode::RangeNotSatisfiable];
        let text = |description| header_doc(description, Type::String);
        let tag = || text("Names the bytes of the whole file; it is strong");
        let bytes = |description| {
            let content = ContentBuilder::new().schema(Some(FileBytes::schema())).build();
            let types = std::iter::once(&K::MEDIA_TYPE).chain(K::OR);
            types.fold(ResponseBuilder::new().description(description), |response, &media_type| {
                response.content(media_type, content.clone())
            })
        };
        let whole = bytes(K::WHAT)
            .header("ETag", tag())
            .header("Accept-Ranges", text("`bytes`"))
            .header("Content-Disposition", text("A name to save it under (RFC 6266, RFC 8187)"));
        let range = bytes("The range")
            .header("ETag", tag())
            .header("Content-Range", text("Which bytes these are, and of how many"));
        let same = ResponseBuilder::new()
            .description("The file is the one whose `ETag` or date was given")
            .header("ETag", tag());
        let mut answers = documented(&[K::MISSING, &any, K::PROBLEMS].concat());
        answers.extend(
            [("200", whole), ("206", range), ("304", same)]
                .map(|(status, answer)| (status.to_owned(), answer.build().into())),
        );
        answers
    }
}

/// A file that never changes, whole or in part. Its `ETag` is strong: a result is written once.
pub(in crate::api) async fn serve<K: Kind>(
    path: &Path,
    name: &str,
    id: Uuid,
    asked: Asked,
) -> Result<Response, Problem> {
    serve_as((K::MEDIA_TYPE, K::EXTENSION), path, name, id, asked).await
}

/// As [`serve`], for a kind of file that has several types.
pub(in crate::api) async fn serve_as(
    (media_type, extension): (&'static str, &str),
    path: &Path,
    name: &str,
    id: Uuid,
    mut asked: Asked,
) -> Result<Response, Problem> {
    if !if_range_holds(path, &asked.headers).await {
        // RFC 9110, 13.1.5: the part the client has is of another file, so it gets the whole.
        asked.headers.remove(header::RANGE);
    }
    let mut response = file(path, asked).await;
    if response.status() == StatusCode::NOT_FOUND {
        let missing = io::Error::other(format!("`{}` is missing from the data directory", path.display()));
        return Err(Problem::internal(&missing));
    }
    if !response.status().is_client_error() {
        let disposition = HeaderValue::try_from(disposition(name, id, extension));
        let disposition = disposition.map_err(|e| Problem::internal(&e))?;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        response.headers_mut().insert(header::CONTENT_DISPOSITION, disposition);
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    }
    Ok(response)
}

async fn file(path: &Path, asked: Asked) -> Response {
    let mut request = Request::new(Body::empty());
    *request.method_mut() = asked.method;
    *request.headers_mut() = asked.headers;
    // Several ranges at once are answered with the whole file, as RFC 9110 allows.
    match ServeFile::new(path).ignore_multi_range_requests(true).oneshot(request).await {
        Ok(response) => response.map(Body::new),
        Err(never) => match never {},
    }
}

/// Whether `If-Range` is absent or names the file as it is.
async fn if_range_holds(path: &Path, headers: &HeaderMap) -> bool {
    let Some(given) = headers.get(header::IF_RANGE) else {
        return true;
    };
    let head = file(path, Asked { method: Method::HEAD, headers: HeaderMap::new() }).await;
    [header::ETAG, header::LAST_MODIFIED].iter().any(|name| head.headers().get(name) == Some(given))
}

/// The name to save the file under: the id for old clients, the prompt (RFC 8187) for all others.
fn disposition(name: &str, id: Uuid, extension: &str) -> String {
    let name = file_name(name);
    let name = utf8_percent_encode(&name, ENCODED);
    format!("inline; filename=\"storymem-{id}.{extension}\"; filename*=UTF-8''{name}.{extension}")
}

/// The beginning of a prompt as a name that every file system takes.
fn file_name(prompt: &str) -> String {
    let odd = |c: char| c.is_control() || c.is_whitespace() || r#"/\:*?"<>|"#.contains(c);
    let words = prompt.split(odd).filter(|word| !word.is_empty());
    let name: String = words.collect::<Vec<_>>().join(" ").chars().take(NAME_CHARS).collect();
    match name.trim_matches([' ', '.']) {
        "" => "storymem".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_becomes_a_name_that_can_do_no_harm() {
        for (prompt, name) in [
            ("A fox in the snow", "A fox in the snow"),
            ("../../etc/passwd", "etc passwd"),
            ("Füchse\r\nSet-Cookie: x", "Füchse Set-Cookie x"),
            ("\u{0}.", "storymem"),
            (" . ", "storymem"),
            ("狐狸", "狐狸"),
        ] {
            assert_eq!(file_name(prompt), name);
        }
        assert_eq!(file_name(&"x".repeat(4000)).len(), NAME_CHARS);
    }
}
