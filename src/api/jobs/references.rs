//! Images and addresses that a request only names: uploads, URLs, frames of other jobs, webhooks.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use uuid::Uuid;

use super::fields::Errors;
use super::keyframe::published;
use super::request::{Content, CreateJob, GivenImage, ImageSource};
use crate::api::App;
use crate::api::access::Caller;
use crate::api::problem::Problem;
use crate::outbound::Outbound;
use crate::pipeline::images::MAX_BYTES;
use crate::queue::Status;
use crate::storage::Digest;

/// Most images of one request that are fetched at a time.
const AT_A_TIME: usize = 4;

/// How long fetching one image may take.
pub const FETCH_TIMEOUT: Duration = Duration::from_secs(30);

/// Says what is wrong with the address of a webhook, as far as that can be told without calling it.
pub fn check_webhook(app: &App, request: &CreateJob, errors: &mut Errors) {
    let Some(url) = &request.webhook_url else {
        return;
    };
    match &app.webhooks {
        Some(guard) => {
            errors.keep("/webhook_url", guard.check(url));
        }
        None => {
            errors.add("/webhook_url", "webhooks are off here; follow the job with `GET /jobs/{id}/events`")
        }
    }
}

/// Finds the images that a request names. What can't be found is reported at the pointer of each. URLs come last, and
/// only if nothing else is wrong: nobody is bothered for a request that is refused.
///
/// # Errors
/// When the database or the storage fails.
pub async fn find(
    app: &App,
    caller: &Caller,
    mut images: Vec<&mut GivenImage>,
    errors: &mut Errors,
) -> Result<(), Problem> {
    for image in &mut images {
        let found = match &image.source {
            ImageSource::Data { .. } => continue,
            ImageSource::Url { .. } => continue,
            ImageSource::Upload { upload } => uploaded(app, caller, upload).await?.map_err(|e| ("upload", e)),
            ImageSource::Frame { job, keyframe } => frame(app, caller, *job, keyframe).await?,
        };
        match found {
            Ok(content) => image.content = Some(content),
            Err((field, detail)) => errors.add(format!("{}/{field}", image.pointer), detail),
        }
    }
    let is_url = |image: &&mut GivenImage| matches!(image.source, ImageSource::Url { .. });
    let urls: Vec<&mut GivenImage> = images.into_iter().filter(is_url).collect();
    let Some(client) = &app.images else {
        let off = "images by URL are off here; send the image as `data`, as a part of a form, or to `POST /uploads`";
        urls.iter().for_each(|image| errors.add(format!("{}/url", image.pointer), off));
        return Ok(());
    };
    if !errors.is_empty() {
        return Ok(());
    }
    let mut fetches = Vec::new();
    for image in urls {
        fetches.push(fetch(client, image));
    }
    let failed: Vec<_> = stream::iter(fetches).buffered(AT_A_TIME).collect().await;
    failed.into_iter().flatten().for_each(|(pointer, detail)| errors.add(pointer, detail));
    Ok(())
}

/// Fetches an image by its URL; the pointer and the error, if that fails.
async fn fetch(client: &Outbound, image: &mut GivenImage) -> Option<(String, String)> {
    let ImageSource::Url { url } = &image.source else {
        return None;
    };
    match client.fetch(url, MAX_BYTES).await {
        Ok(bytes) => {
            image.content = Some(Content::Bytes(bytes.into()));
            None
        }
        Err(e) => Some((format!("{}/url", image.pointer), e.to_string())),
    }
}

async fn uploaded(app: &App, caller: &Caller, upload: &str) -> Result<Result<Content, String>, Problem> {
    let image = match Digest::parse(upload) {
        Some(digest) => app.queue.upload(caller.owner.as_deref(), &digest).await?,
        None => None,
    };
    Ok(image
        .map(Content::Stored)
        .ok_or_else(|| format!("there is no upload `{upload}`; send it to `POST /uploads`")))
}

type Found = Result<Content, (&'static str, String)>;

async fn frame(app: &App, caller: &Caller, id: Uuid, frame: &str) -> Result<Found, Problem> {
    let job = app.queue.job(id).await?.filter(|job| caller.owns(job));
    let Some(job) = job else {
        return Ok(Err(("job", format!("there is no job `{id}`"))));
    };
    if job.expired_at.is_some() {
        return Ok(Err(("job", format!("the frames of job `{id}` have expired"))));
    }
    let made = match (job.status, &job.made) {
        (Status::Succeeded, Some(made)) => made,
        _ => return Ok(Err(("job", format!("job `{id}` has no frames: it has not succeeded")))),
    };
    let Some(path) = published(app, &job, made, frame).await else {
        return Ok(Err(("keyframe", format!("job `{id}` has no frame `{frame}`; there is `last`"))));
    };
    match tokio::fs::read(&path).await {
        Ok(bytes) => Ok(Ok(Content::Bytes(bytes.into()))),
        Err(e) => Err(Problem::internal(&e)),
    }
}
