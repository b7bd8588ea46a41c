//! `POST /uploads`.

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::access::Caller;
use crate::api::jobs::file::FileBytes;
use crate::api::jobs::images;
use crate::api::problem::{ErrorCode, Problem, problems};
use crate::api::{App, once};
use crate::pipeline::images::{ImageError, MAX_BYTES};
use crate::queue::Image;
use crate::storage::Digest;

/// An image that is kept.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Upload)]
pub struct UploadView {
    /// To be named as `{"upload": id}`; the same bytes have the same id.
    #[schema(value_type = String, example = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae")]
    id: Digest,
    /// SHA-256 of the bytes, in hex.
    #[schema(value_type = String)]
    sha256: Digest,
    /// Pixels in a row, EXIF orientation applied.
    width: usize,
    /// Rows.
    height: usize,
    /// Size of the file.
    bytes: u64,
}

problems!(
    UploadProblems:
    PayloadTooLarge,
    UnsupportedMediaType,
    InvalidImage,
    IdempotencyKeyReused,
    DiskFull,
);

/// Keeps an image for jobs to use
///
/// The body is the file itself: PNG, JPEG or WebP, at most 20 MiB and 40 megapixels. Its header is checked before it is
/// decoded; what counts is the content, not the `Content-Type`.
#[utoipa::path(
    post,
    path = "/uploads",
    tag = "uploads",
    params(
        ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$", description = "Drawn by the client; not needed, since the same bytes give the same answer"),
    ),
    request_body(content(
        (inline(FileBytes) = "image/png"),
        (inline(FileBytes) = "image/jpeg"),
        (inline(FileBytes) = "image/webp"),
        (inline(FileBytes) = "application/octet-stream"),
    )),
    responses((status = 201, description = "The image is kept", body = UploadView), UploadProblems)
)]
pub async fn create_upload(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Response, Problem> {
    check_media_type(&request)?;
    let key = once::key(request.headers())?;
    let bytes = read(request.into_body(), app.limits.body_bytes).await?;
    let turn = app.intake.clone().acquire_owned().await.map_err(|e| Problem::internal(&e))?;
    let (storage, asking) = (app.storage.clone(), caller.clone());
    let kept = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let once = key.map(|key| once::once(key, &asking, "POST /uploads", [bytes.as_ref()]));
        let invalid = |e: ImageError| Problem::new(ErrorCode::InvalidImage, e.to_string());
        let image: Image = images::check(bytes).map_err(invalid)?.keep(&storage)?;
        Ok::<_, Problem>((image, once))
    });
    let (image, once) = kept.await.map_err(|e| Problem::internal(&e))??;
    let view = UploadView {
        id: image.sha256.clone(),
        sha256: image.sha256.clone(),
        width: image.size.width,
        height: image.size.height,
        bytes: image.bytes,
    };
    let answer = serde_json::to_string(&view).map_err(|e| Problem::internal(&e))?;
    let once = once.as_ref().map(|once| (once, answer.as_str()));
    app.queue.keep_upload(caller.owner.as_deref(), &image, once).await?;
    tracing::info!(image.sha256 = %image.sha256, image.size_bytes = image.bytes, "an image was uploaded");
    Ok((StatusCode::CREATED, [(header::CONTENT_TYPE, "application/json")], answer).into_response())
}

/// Forms and texts are refused: their content is no image, whatever it holds.
fn check_media_type(request: &Request) -> Result<(), Problem> {
    let Some(given) = request.headers().get(header::CONTENT_TYPE) else {
        return Ok(());
    };
    let essence = given.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    if essence.starts_with("image/") || essence == "application/octet-stream" {
        return Ok(());
    }
    let detail = format!(
        "send the bytes of the image as `image/png`, `image/jpeg` or `image/webp`, not as `{essence}`"
    );
    Err(Problem::new(ErrorCode::UnsupportedMediaType, detail))
}

/// The body; stops reading one that is too large.
async fn read(body: Body, most: usize) -> Result<Bytes, Problem> {
    let mut bytes = Vec::new();
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|e| body_problem(&e, most))?;
        let length = bytes.len() + chunk.len();
        if length > MAX_BYTES {
            let detail = ImageError::TooManyBytes { bytes: length }.to_string();
            return Err(Problem::new(ErrorCode::PayloadTooLarge, detail));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.into())
}

/// The operator's own limit for bodies may be lower than that for images.
fn body_problem(error: &axum::Error, most: usize) -> Problem {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<http_body_util::LengthLimitError>() {
            return Problem::too_large(most);
        }
        cause = error.source();
    }
    Problem::new(ErrorCode::BadRequest, format!("the body could not be read: {error}"))
}
