//! Files of a job, whole or in part.

use std::io;
use std::path::Path;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use axum::response::Response;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tower::ServiceExt;
use tower_http::services::ServeFile;
use uuid::Uuid;

use super::{POLL_SECONDS, find};
use crate::api::App;
use crate::api::access::Caller;
use crate::api::problem::{ErrorCode, Problem};
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
pub(super) async fn made(app: &App, caller: &Caller, id: Uuid) -> Result<(Job, Made), Problem> {
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

/// A kind of file.
#[derive(Clone, Copy, Debug)]
pub(in crate::api) struct Kind {
    /// Its media type.
    pub media_type: &'static str,
    /// How its name ends.
    pub extension: &'static str,
}

/// A file that never changes, whole or in part. Its `ETag` is strong: a result is written once.
pub(in crate::api) async fn serve(
    path: &Path,
    kind: Kind,
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
        let disposition = HeaderValue::try_from(disposition(name, id, kind.extension));
        let disposition = disposition.map_err(|e| Problem::internal(&e))?;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind.media_type));
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
