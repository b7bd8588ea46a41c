//! Stories with the real programs: a script in, a film out; over HTTP and on the command line, disturbed and undisturbed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod change;
mod command;
mod crash;
mod film;

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use onnx_export::bundle::{BundleVariant, Manifest};
use onnx_export::demo;
use reqwest::Method;
use serde_json::{Value, json};
use storymem::pipeline::Frames;
use storymem::storage::Digest;
use storymem::video::read_frames;
use uuid::Uuid;

use common::fixture;
use common::service::{PATIENCE, Service, Site, id};

/// Saves each step, gives a job back at once, and does not tire of crashes.
const FLAGS: &[&str] =
    &["--lease-seconds", "3", "--max-attempts", "100", "--checkpoint-seconds", "0", "--drain-seconds", "0"];

const KEEPER: &str = "An old keeper in a yellow oilskin coat";

/// A script; each scene by its cuts.
fn script(scenes: &[&[bool]]) -> Value {
    let scene = |(n, cuts): (usize, &&[bool])| {
        let prompts: Vec<_> =
            (0..cuts.len()).map(|shot| format!("{KEEPER}, scene {n}, shot {shot}")).collect();
        json!({"scene_num": n + 1, "video_prompts": prompts, "cut": cuts})
    };
    json!({"story_name": "The keeper", "scenes": scenes.iter().enumerate().map(scene).collect::<Vec<_>>()})
}

/// Five shots in three scenes.
const FIVE: &[&[bool]] = &[&[true, false], &[true], &[true, false]];

/// A story that the demo bundle can make.
fn request(scenes: &[&[bool]], seed: u64) -> Value {
    json!({
        "script": script(scenes),
        "connect": "mi2v",
        "seed": seed,
        "steps": 3,
        "size": "96x64",
        "memory": [image("memory_0.png"), image("memory_1.png")],
    })
}

fn image(name: &str) -> Value {
    let bytes = std::fs::read(fixture("tiny/inputs").join(name)).unwrap();
    json!({"data": format!("data:image/png;base64,{}", BASE64_STANDARD.encode(bytes))})
}

/// A bundle with tiny random weights that makes shots from text alone.
fn t2v_bundle(out: &Path) {
    let manifest = demo::manifest();
    let mut nets = manifest.nets.clone();
    nets.transformer.in_dim = BundleVariant::T2v.in_dim();
    demo::write_like(out, Manifest { variant: BundleVariant::T2v, nets, ..manifest }).unwrap();
}

impl Service {
    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let mut request = self.client.request(method, format!("{}{path}", self.base));
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        (status, answer.json().await.unwrap_or(Value::Null))
    }

    async fn post_story(&self, request: &Value) -> Uuid {
        let (status, story) = self.call(Method::POST, "/stories", Some(request)).await;
        assert_eq!(status, 202, "{story}");
        id(&story)
    }

    async fn story(&self, id: Uuid) -> Value {
        self.call(Method::GET, &format!("/stories/{id}"), None).await.1
    }

    async fn story_until(&self, id: Uuid, what: impl Fn(&Value) -> bool) -> Value {
        let begin = std::time::Instant::now();
        loop {
            let story = self.story(id).await;
            if what(&story) {
                return story;
            }
            assert!(begin.elapsed() < PATIENCE, "in vain: {story}");
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    async fn story_ended(&self, id: Uuid) -> Value {
        let ended =
            |story: &Value| matches!(story["status"].as_str(), Some("succeeded" | "failed" | "cancelled"));
        self.story_until(id, ended).await
    }

    async fn fetch(&self, path: &str) -> Vec<u8> {
        let answer = self.client.get(format!("{}{path}", self.base)).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        answer.bytes().await.unwrap().to_vec()
    }

    /// The film of a story, whose facts must be true.
    async fn film(&self, story: &Value) -> Vec<u8> {
        let film = &story["film"];
        let bytes =
            self.fetch(film["video_url"].as_str().unwrap_or_else(|| panic!("no film: {story}"))).await;
        assert_eq!(Digest::of(&bytes).as_str(), film["sha256"]);
        assert_eq!(bytes.len() as u64, film["bytes"].as_u64().unwrap());
        bytes
    }
}

/// The frames of an MP4.
fn frames(site: &Site, mp4: &[u8]) -> Frames {
    let path = site.folder().join("looked-at.mp4");
    std::fs::write(&path, mp4).unwrap();
    read_frames(&path).unwrap()
}

fn shots(story: &Value) -> &Vec<Value> {
    story["shots"].as_array().unwrap()
}

fn each<'a>(story: &'a Value, field: &str) -> Vec<&'a Value> {
    shots(story).iter().map(|shot| &shot[field]).collect()
}
