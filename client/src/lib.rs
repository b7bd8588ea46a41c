//! A typed client of StoryMem Serve's HTTP API.
//!
//! ```no_run
//! # async fn example() -> Result<(), storymem_client::Error> {
//! use storymem_client::{Client, ImageRef, JobRequest};
//!
//! let client = Client::new("http://127.0.0.1:8080", None)?;
//! let face = client.upload(std::fs::read("face.png")?).await?;
//! let request = JobRequest {
//!     prompt: "She opens the door".to_owned(),
//!     memory: vec![ImageRef::Upload { upload: face.id }],
//!     ..JobRequest::default()
//! };
//! let job = client.create(&request).await?;
//! let job = client.watch(job.id, |job| println!("{} %", job.progress.percent)).await?;
//! let mut file = std::fs::File::create("shot.mp4")?;
//! client.video(job.id, &mut file).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A call that failed on its way, or found the service busy or starting, is tried again: creating carries an
//! idempotency key, so that it can't happen twice.

mod error;
mod types;

use std::io::Write;
use std::time::Duration;

use futures::TryStreamExt as _;
use reqwest::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;
use url::Url;
use uuid::Uuid;

pub use error::{Error, FieldError, Problem};
pub use types::{ImageRef, Job, JobError, JobRequest, JobResult, Jobs, Progress, Status, Upload};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

/// How long the service may be silent; longer than it holds an answer back.
const SILENCE: Duration = Duration::from_secs(90);

/// Seconds that the service is asked to hold an answer back until something changes.
const HOLD: u32 = 30;

/// How often a call is made before its failure is told.
const TRIES: u32 = 5;

/// The pause before the second try; each later one is twice as long.
const PAUSE: Duration = Duration::from_millis(250);

/// Longest pause that a service may ask for before it is told that it is busy.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A service, and who we are to it. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    key: Option<String>,
}

impl Client {
    /// A client of the service at `address`, with the API key that it may ask for.
    ///
    /// # Errors
    /// When `address` is no `http` or `https` URL, or TLS can't be set up.
    pub fn new(address: &str, key: Option<String>) -> Result<Self, Error> {
        let bad = || Error::Address { address: address.to_owned() };
        let mut base = Url::parse(address).map_err(|_| bad())?;
        if !matches!(base.scheme(), "http" | "https") || base.host().is_none() {
            return Err(bad());
        }
        // What is joined to a path without a last slash takes the place of its last part.
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        let http = reqwest::Client::builder().connect_timeout(CONNECT).read_timeout(SILENCE).build()?;
        Ok(Self { http, base, key })
    }

    /// Sends an image: PNG, JPEG or WebP.
    ///
    /// # Errors
    /// When the service can't be reached or does not take it.
    pub async fn upload(&self, image: Vec<u8>) -> Result<Upload, Error> {
        let request =
            || self.request(Method::POST, "uploads").header(CONTENT_TYPE, "application/octet-stream");
        json(self.send(|| request().body(image.clone())).await?).await
    }

    /// Creates a job.
    ///
    /// # Errors
    /// When the service can't be reached or does not take it; [`Problem::errors`] names the fields.
    pub async fn create(&self, request: &JobRequest) -> Result<Job, Error> {
        let key = Uuid::now_v7().to_string();
        let post = || self.request(Method::POST, "jobs").header("Idempotency-Key", &key).json(request);
        json(self.send(post).await?).await
    }

    /// How a job stands.
    ///
    /// # Errors
    /// When the service can't be reached or has no such job.
    pub async fn job(&self, id: Uuid) -> Result<Job, Error> {
        json(self.send(|| self.request(Method::GET, &format!("jobs/{id}"))).await?).await
    }

    /// The newest jobs, at most `limit` of them, up to 200.
    ///
    /// # Errors
    /// When the service can't be reached or says no.
    pub async fn jobs(&self, limit: u32) -> Result<Jobs, Error> {
        json(self.send(|| self.request(Method::GET, "jobs").query(&[("limit", limit)])).await?).await
    }

    /// Follows a job to its end: `seen` is given each state, the first at once. Lost connections are taken up again.
    ///
    /// # Errors
    /// When the service can't be reached for long, or has no such job.
    pub async fn watch(&self, id: Uuid, mut seen: impl FnMut(&Job)) -> Result<Job, Error> {
        let path = format!("jobs/{id}");
        let mut tag = None;
        loop {
            let get = || {
                let request = self.request(Method::GET, &path);
                match &tag {
                    Some(tag) => request.query(&[("wait", HOLD)]).header(IF_NONE_MATCH, tag),
                    None => request,
                }
            };
            let answer = self.send(get).await?;
            if answer.status() == StatusCode::NOT_MODIFIED {
                continue;
            }
            tag = answer.headers().get(ETAG).cloned();
            let job: Job = json(answer).await?;
            seen(&job);
            if job.status.is_final() {
                return Ok(job);
            }
        }
    }

    /// Cancels a job; a running one ends within a denoising step.
    ///
    /// # Errors
    /// When the service can't be reached, or the job has ended.
    pub async fn cancel(&self, id: Uuid) -> Result<Job, Error> {
        json(self.send(|| self.request(Method::POST, &format!("jobs/{id}/cancel"))).await?).await
    }

    /// Tries a failed or cancelled job again, under a new id.
    ///
    /// # Errors
    /// When the service can't be reached, or the job is none of these.
    pub async fn retry(&self, id: Uuid) -> Result<Job, Error> {
        let key = Uuid::now_v7().to_string();
        let post = || self.request(Method::POST, &format!("jobs/{id}/retry")).header("Idempotency-Key", &key);
        json(self.send(post).await?).await
    }

    /// Removes an ended job and its files.
    ///
    /// # Errors
    /// When the service can't be reached, or the job has not ended.
    pub async fn delete(&self, id: Uuid) -> Result<(), Error> {
        self.send(|| self.request(Method::DELETE, &format!("jobs/{id}"))).await.map(drop)
    }

    /// Writes the MP4 of a job to `to`, and tells its bytes.
    ///
    /// # Errors
    /// When the service can't be reached, the job has no video, or `to` can't be written.
    pub async fn video(&self, id: Uuid, to: &mut impl Write) -> Result<u64, Error> {
        let mut chunks =
            self.send(|| self.request(Method::GET, &format!("jobs/{id}/video"))).await?.bytes_stream();
        let mut written = 0;
        while let Some(chunk) = chunks.try_next().await? {
            to.write_all(&chunk)?;
            written += chunk.len() as u64;
        }
        to.flush()?;
        Ok(written)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let mut url = self.base.clone();
        // `base` ends with a slash and `path` has none at its start.
        url.set_path(&format!("{}{path}", self.base.path()));
        let request = self.http.request(method, url);
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    /// Sends what `request` makes, until there is an answer that is no accident of the moment.
    async fn send(&self, request: impl Fn() -> RequestBuilder) -> Result<Response, Error> {
        let mut pause = PAUSE;
        for _ in 1..TRIES {
            match request().send().await {
                Ok(answer) if is_passing(answer.status()) => {
                    let asked = answer.headers().get(RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok());
                    let asked = asked.map_or(pause, Duration::from_secs);
                    if asked > LONGEST_PAUSE {
                        return refuse(answer).await;
                    }
                    tokio::time::sleep(asked).await;
                }
                Ok(answer) => return refuse(answer).await,
                Err(error) if error.is_builder() => return Err(error.into()),
                Err(_) => tokio::time::sleep(pause).await,
            }
            pause *= 2;
        }
        refuse(request().send().await?).await
    }
}

/// Whether the same request may well be answered otherwise in a moment.
fn is_passing(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT)
}

/// The answer, if the service did not say no.
async fn refuse(answer: Response) -> Result<Response, Error> {
    let status = answer.status();
    if status.is_success() || status == StatusCode::NOT_MODIFIED {
        return Ok(answer);
    }
    let url = answer.url().to_string();
    let body = answer.bytes().await?;
    Err(match serde_json::from_slice(&body) {
        Ok(problem) => Error::Problem(Box::new(problem)),
        Err(_) => Error::Foreign { url, status: status.as_u16() },
    })
}

async fn json<T: DeserializeOwned>(answer: Response) -> Result<T, Error> {
    let (url, status) = (answer.url().to_string(), answer.status().as_u16());
    let body = answer.bytes().await?;
    serde_json::from_slice(&body).map_err(|_| Error::Foreign { url, status })
}
