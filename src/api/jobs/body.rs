//! The body of `POST /jobs`: JSON, or a form with the images as files.

use axum::body::Bytes;
use axum::body::HttpBody as _;
use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{FromRequest, Multipart, Request};
use axum::http::{HeaderMap, StatusCode, header};
use serde_json::{Map, Value};

use super::fields::{Errors, pointer};
use super::limits::{MEMORY_IMAGES, MOTION_FRAMES};
use crate::api::problem::{ErrorCode, Problem};
use crate::pipeline::images::{ImageError, MAX_BYTES};

/// What came in, before it is looked at.
#[derive(Debug)]
pub struct Body {
    /// The request as JSON.
    pub json: Value,
    /// The images that came as files.
    pub files: Files,
}

/// Images that came as parts of a form.
#[derive(Debug, Default)]
pub struct Files {
    /// The parts `memory`, in order.
    pub memory: Vec<Bytes>,
    /// The part `first_frame`.
    pub first_frame: Option<Bytes>,
    /// The parts `motion_frames`, in order.
    pub motion_frames: Vec<Bytes>,
}

impl Files {
    /// Every file with the name of its part, in the order of the fields.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &[u8])> {
        let memory = self.memory.iter().map(|file| ("memory", file.as_ref()));
        let first = self.first_frame.iter().map(|file| ("first_frame", file.as_ref()));
        let motion = self.motion_frames.iter().map(|file| ("motion_frames", file.as_ref()));
        memory.chain(first).chain(motion)
    }
}

/// Reads the body, which may have `most` bytes.
///
/// # Errors
/// When it is of another type, broken, too large, or has parts it may not have.
pub async fn read(request: Request, most: usize) -> Result<Body, Problem> {
    match media_type(request.headers()).as_deref() {
        Some("application/json") => Ok(Body { json: whole(request, most).await?, files: Files::default() }),
        Some("multipart/form-data") => {
            let form = Multipart::from_request(request, &()).await;
            let form = form.map_err(|e| Problem::new(ErrorCode::InvalidMultipart, e.body_text()))?;
            read_form(form, most).await
        }
        other => {
            let what = other.map_or("none is given".to_owned(), |other| format!("it is `{other}`"));
            let detail =
                format!("the content type must be `application/json` or `multipart/form-data`; {what}");
            Err(Problem::new(ErrorCode::UnsupportedMediaType, detail))
        }
    }
}

/// Reads a body that may only be JSON.
///
/// # Errors
/// When it is of another type, broken or too large.
pub async fn read_json(request: Request, most: usize) -> Result<Value, Problem> {
    match media_type(request.headers()).as_deref() {
        Some("application/json") => whole(request, most).await,
        other => {
            let what = other.map_or("none is given".to_owned(), |other| format!("it is `{other}`"));
            let detail = format!("the content type must be `application/json`; {what}");
            Err(Problem::new(ErrorCode::UnsupportedMediaType, detail))
        }
    }
}

/// Reads a body that may only be JSON, or nothing, which stands for an empty object.
///
/// # Errors
/// As [`read_json`].
pub async fn read_json_if_any(request: Request, most: usize) -> Result<Value, Problem> {
    let (parts, body) = request.into_parts();
    if !parts.headers.contains_key(header::CONTENT_TYPE) && body.is_end_stream() {
        return Ok(Value::Object(Map::new()));
    }
    read_json(Request::from_parts(parts, body), most).await
}

async fn whole(request: Request, most: usize) -> Result<Value, Problem> {
    let bytes = Bytes::from_request(request, &()).await;
    let bytes = bytes.map_err(|e| body_problem(e.status(), ErrorCode::BadRequest, e.body_text(), most))?;
    parse(&bytes)
}

/// The media type without its parameters, in lower case.
pub(in crate::api) fn media_type(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let essence = text.split(';').next().unwrap_or(text);
    Some(essence.trim().to_ascii_lowercase())
}

fn parse(bytes: &[u8]) -> Result<Value, Problem> {
    serde_json::from_slice(bytes)
        .map_err(|e| Problem::new(ErrorCode::InvalidJson, format!("the JSON is broken: {e}")))
}

async fn read_form(mut form: Multipart, most: usize) -> Result<Body, Problem> {
    let form_problem =
        |e: MultipartError| body_problem(e.status(), ErrorCode::InvalidMultipart, e.body_text(), most);
    let mut json = None;
    let mut files = Files::default();
    let mut errors = Errors::default();
    while let Some(part) = form.next_field().await.map_err(form_problem)? {
        let name = part.name().unwrap_or_default().to_owned();
        match name.as_str() {
            "request" if json.is_none() => {
                json = Some(parse(&part.bytes().await.map_err(form_problem)?)?);
            }
            "memory" if files.memory.len() < MEMORY_IMAGES => {
                let pointer = format!("/memory/{}", files.memory.len());
                files.memory.push(image(part, &pointer, &mut errors).await.map_err(form_problem)?);
            }
            "motion_frames" if files.motion_frames.len() < MOTION_FRAMES => {
                let pointer = format!("/motion_frames/{}", files.motion_frames.len());
                files.motion_frames.push(image(part, &pointer, &mut errors).await.map_err(form_problem)?);
            }
            "first_frame" if files.first_frame.is_none() => {
                files.first_frame =
                    Some(image(part, "/first_frame", &mut errors).await.map_err(form_problem)?);
            }
            "memory" => errors.add("/memory", format!("must have at most {MEMORY_IMAGES} parts")),
            "motion_frames" => errors.add("/motion_frames", format!("must have {MOTION_FRAMES} parts")),
            "request" | "first_frame" => errors.add(format!("/{name}"), "must be one part"),
            _ => errors.add(
                pointer("", &name),
                "is not a part; the parts are `request`, `memory`, `first_frame` and `motion_frames`",
            ),
        }
        if !errors.is_empty() {
            // The rest may be large: don't read it for a request that can't be served.
            return Err(Problem::validation(errors.into_inner()));
        }
    }
    match json {
        Some(json) => Ok(Body { json, files }),
        None => {
            errors.add("/request", "is required: a part with the request as JSON");
            Err(Problem::validation(errors.into_inner()))
        }
    }
}

/// The bytes of a file; stops reading one that is too large.
async fn image(mut part: Field<'_>, pointer: &str, errors: &mut Errors) -> Result<Bytes, MultipartError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = part.chunk().await? {
        let length = bytes.len() + chunk.len();
        if length > MAX_BYTES {
            errors.add(pointer, ImageError::TooManyBytes { bytes: length }.to_string());
            return Ok(Bytes::new());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.into())
}

/// A body that could not be read: `code`, unless it was too large.
pub(in crate::api) fn body_problem(
    status: StatusCode,
    code: ErrorCode,
    detail: String,
    most: usize,
) -> Problem {
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::too_large(most),
        _ => Problem::new(code, detail),
    }
}
