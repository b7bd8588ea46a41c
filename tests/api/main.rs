//! The HTTP API over TCP, on a real data directory. The tree follows the routes. Workers are played by calls to the
//! queue; nothing here makes a real video.

#![allow(clippy::unwrap_used, reason = "a test that fails here says where")]

#[path = "../common/mod.rs"]
mod common;

mod cancel;
mod capabilities;
mod create;
mod create_form;
mod delete;
mod errors;
mod events;
mod fuzz;
mod get;
mod health;
mod idempotency;
mod keyframe;
mod keys;
mod limits;
mod list;
mod metrics;
mod openapi;
mod page;
mod references;
mod retry;
mod stories;
mod trace;
mod uploads;
mod video;
mod videos;
mod wait;
mod webhooks;

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use common::queue::{EVERYTHING, made, publish};
use image::{ImageFormat, RgbImage};
use onnx_export::bundle::{Bundle, BundleVariant, Manifest};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use storymem::api::{self, App, Catalog, Limits, Settings};
use storymem::queue::{Ending, Lease, Policy, Queue, SystemClock};
use storymem::storage::Storage;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// A service of its own for each test.
struct Service {
    base: String,
    client: reqwest::Client,
    queue: Queue,
    storage: Storage,
    folder: TempDir,
    document: Value,
    shutdown: CancellationToken,
}

/// An answer whose body was read.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: reqwest::header::HeaderMap,
    body: Vec<u8>,
}

impl Service {
    /// Serves the demo's manifest, with the images a job of MI2V takes.
    async fn new() -> Self {
        Self::with(BundleVariant::Mi2v, Limits::default()).await
    }

    async fn with(variant: BundleVariant, limits: Limits) -> Self {
        Self::set(variant, Settings { limits, ..Settings::default() }).await
    }

    async fn set(variant: BundleVariant, settings: Settings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let storage = Storage::open(&folder.path().join("data")).unwrap();
        let queue = Queue::open(&storage.database(), Arc::new(SystemClock), Policy::default()).await.unwrap();
        let catalog = Catalog::new(vec![manifest(variant)]);
        let shutdown = settings.shutdown.clone();
        let app = App::new(queue.clone(), storage.clone(), catalog, settings).await.unwrap();
        let router = api::router(app);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let document = serde_json::to_value(api::document()).unwrap();
        Self { base, client: reqwest::Client::new(), queue, storage, folder, document, shutdown }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    /// Sends a request and checks what holds for every answer: its status is documented for the operation, and an
    /// error is a whole problem.
    async fn send(&self, request: RequestBuilder) -> Answer {
        let request = request.build().unwrap();
        let (method, path) = (request.method().clone(), request.url().path().to_owned());
        let answer = Answer::read(self.client.execute(request).await.unwrap()).await;
        self.check_documented(&method, &path, &answer);
        if answer.status >= 400 && path.starts_with("/v1/") {
            let error = &answer.json()["error"];
            assert_eq!(answer.header("content-type"), "application/json");
            assert!(["message", "type", "code"].iter().all(|field| error[field].is_string()), "{error}");
        } else if answer.status >= 400 && method != Method::HEAD {
            let problem = answer.problem();
            assert_eq!(problem["status"], answer.status);
            assert_eq!(problem["instance"], path);
            let code = problem["code"].as_str().unwrap();
            assert_eq!(problem["type"], format!("urn:storymem:problem:{code}"));
            for field in ["title", "detail"] {
                assert!(!problem[field].as_str().unwrap().is_empty(), "{field}");
            }
        }
        answer
    }

    fn check_documented(&self, method: &Method, path: &str, answer: &Answer) {
        let paths = self.document["paths"].as_object().unwrap();
        let fits = |template: &str| {
            let (template, path): (Vec<_>, Vec<_>) =
                (template.split('/').collect(), path.split('/').collect());
            template.len() == path.len()
                && template.iter().zip(path).all(|(t, p)| t.starts_with('{') || *t == p)
        };
        let Some((_, item)) = paths.iter().find(|(template, _)| fits(template)) else {
            return;
        };
        let method = if *method == Method::HEAD { "get".to_owned() } else { method.as_str().to_lowercase() };
        let Some(operation) = item.get(&method) else {
            assert_eq!(answer.status, 405);
            return;
        };
        let documented = &operation["responses"][answer.status.to_string()];
        assert!(documented.is_object(), "{method} {path} answers {} without saying so", answer.status);
        if let Some(content) = documented["content"].as_object()
            && !answer.body.is_empty()
        {
            let given = answer.header("content-type").split(';').next().unwrap();
            assert!(content.contains_key(given), "{method} {path} answers {} with `{given}`", answer.status);
        }
    }

    /// Queues a plain job.
    async fn job(&self) -> String {
        let answer = self.post("/jobs", &plain()).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    /// Takes the next job, as a worker would.
    async fn claim(&self) -> Lease {
        self.queue.claim("test/1", EVERYTHING).await.unwrap().expect("a job is queued").lease
    }

    /// Ends a job with files of these bytes, as a worker would.
    async fn succeed(&self, lease: &Lease, video: &[u8]) {
        publish(&self.storage, lease.job, lease.token, video, &png(96, 64, 77));
        let ending =
            Ending::Succeeded { made: Box::new(made(lease, video)), warnings: vec!["cut".to_owned()] };
        self.queue.end(lease, &ending).await.unwrap();
    }
}

impl Answer {
    async fn read(response: Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Self { status, headers, body: response.bytes().await.unwrap().to_vec() }
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    fn problem(&self) -> Value {
        assert_eq!(self.header("content-type"), "application/problem+json");
        self.json()
    }

    /// The code of a problem, or of an error in OpenAI's shape.
    fn code(&self) -> String {
        let code = match self.header("content-type") {
            "application/json" => self.json()["error"]["code"].clone(),
            _ => self.problem()["code"].clone(),
        };
        code.as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }

    /// The pointers of a problem of validation, sorted.
    fn pointers(&self) -> Vec<String> {
        let problem = self.problem();
        let errors = problem["errors"].as_array().cloned().unwrap_or_default();
        let mut pointers: Vec<_> = errors.iter().map(|e| e["pointer"].as_str().unwrap().to_owned()).collect();
        pointers.sort();
        pointers
    }
}

fn manifest(variant: BundleVariant) -> Manifest {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("demo");
    onnx_export::demo::write(&path).unwrap();
    Manifest { variant, ..Bundle::open(&path).unwrap().manifest().clone() }
}

/// A small image; `shade` makes it one of its own.
fn png(width: u32, height: u32, shade: u8) -> Vec<u8> {
    let image = RgbImage::from_fn(width, height, |x, y| image::Rgb([x as u8, y as u8, shade]));
    let mut bytes = std::io::Cursor::new(Vec::new());
    image.write_to(&mut bytes, ImageFormat::Png).unwrap();
    bytes.into_inner()
}

fn data_url(bytes: &[u8]) -> String {
    format!("data:image/png;base64,{}", BASE64_STANDARD.encode(bytes))
}

fn image_ref(shade: u8) -> Value {
    json!({"data": data_url(&png(32, 20, shade))})
}

/// The least a request must have.
fn plain() -> Value {
    json!({"prompt": "a fox in the snow", "memory": [image_ref(1)]})
}
