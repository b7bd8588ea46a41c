//! A request of OpenAI's shape as one of ours.

use axum::body::Bytes;
use axum::extract::multipart::{Multipart, MultipartError};
use axum::extract::{FromRequest, Request};
use serde_json::{Map, Value, json};

use crate::api::App;
use crate::api::jobs::body::{self, Body, Files};
use crate::api::jobs::fields::{Errors, pointer};
use crate::api::problem::{ErrorCode, Problem};
use crate::pipeline::Variant;

use super::MODEL;

/// Fields that go through as they are, if a client sends them.
const OURS: [&str; 10] = [
    "negative_prompt",
    "seed",
    "steps",
    "shift",
    "guidance_scale",
    "solver",
    "fit",
    "priority",
    "webhook_url",
    "memory",
];

/// Of these, what is no text: in a form it is JSON.
const NO_TEXT: [&str; 6] = ["seed", "steps", "shift", "guidance_scale", "priority", "memory"];

/// Reads a body and says it in our words.
///
/// # Errors
/// When it is broken, too large, or has what can't be said.
pub async fn read(app: &App, request: Request) -> Result<Body, Problem> {
    let (fields, files) = match body::media_type(request.headers()).as_deref() {
        Some("multipart/form-data") => read_form(app, request).await?,
        _ => (body::read_json(request, app.limits.body_bytes).await?, Form::default()),
    };
    let mut errors = Errors::default();
    let Value::Object(fields) = fields else {
        errors.add("", "must be an object");
        return Err(Problem::validation(errors.into_inner()));
    };
    let body = translate(app, fields, files, &mut errors);
    match errors.is_empty() {
        true => Ok(body),
        false => Err(Problem::validation(errors.into_inner())),
    }
}

/// The files of a form.
#[derive(Debug, Default)]
struct Form {
    reference: Option<Bytes>,
    memory: Vec<Bytes>,
}

async fn read_form(app: &App, request: Request) -> Result<(Value, Form), Problem> {
    let broken = |e: MultipartError| {
        body::body_problem(e.status(), ErrorCode::InvalidMultipart, e.body_text(), app.limits.body_bytes)
    };
    let form = Multipart::from_request(request, &()).await;
    let mut form = form.map_err(|e| Problem::new(ErrorCode::InvalidMultipart, e.body_text()))?;
    let mut fields = Map::new();
    let mut files = Form::default();
    while let Some(part) = form.next_field().await.map_err(broken)? {
        let name = part.name().unwrap_or_default().to_owned();
        let is_file = part.file_name().is_some();
        match name.as_str() {
            "input_reference" if is_file => files.reference = Some(part.bytes().await.map_err(broken)?),
            "memory" | "memory[]" if is_file => files.memory.push(part.bytes().await.map_err(broken)?),
            _ => {
                let text = part.text().await.map_err(broken)?;
                match name.strip_prefix("input_reference[").and_then(|rest| rest.strip_suffix(']')) {
                    Some(key) => {
                        let reference = fields.entry("input_reference").or_insert_with(|| json!({}));
                        reference[key] = Value::String(text);
                    }
                    None => {
                        let json = NO_TEXT.contains(&name.as_str()).then(|| serde_json::from_str(&text).ok());
                        fields.insert(name, json.flatten().unwrap_or(Value::String(text)));
                    }
                }
            }
        }
    }
    Ok((Value::Object(fields), files))
}

fn translate(app: &App, mut fields: Map<String, Value>, form: Form, errors: &mut Errors) -> Body {
    let mut ours = Map::new();
    for name in OURS.iter().chain(&["prompt", "size"]) {
        if let Some(value) = fields.remove(*name) {
            ours.insert((*name).to_owned(), value);
        }
    }
    let variant = start(app);
    let mut files = Files { memory: form.memory, ..Files::default() };
    match (form.reference, fields.remove("input_reference")) {
        (Some(_), Some(_)) => errors.add("/input_reference", "is given twice; give it once"),
        (Some(image), None) => {
            if variant == Variant::Mi2v {
                files.first_frame = Some(image.clone());
            }
            if files.memory.is_empty() && !ours.contains_key("memory") {
                files.memory.push(image);
            }
        }
        (None, Some(reference)) => {
            if let Some(image) = reference_image(&reference, errors) {
                if variant == Variant::Mi2v {
                    ours.insert("first_frame".to_owned(), image.clone());
                }
                if files.memory.is_empty() {
                    ours.entry("memory").or_insert_with(|| json!([image]));
                }
            }
        }
        (None, None) => {
            if files.memory.is_empty() && !ours.contains_key("memory") {
                errors.add(
                    "/input_reference",
                    "is required, or images under `memory`: shots are made from memory",
                );
            }
        }
    }
    if let Some(seconds) = fields.remove("seconds")
        && let Some(frames) = frames(app, variant, &seconds, errors)
    {
        ours.insert("frames".to_owned(), frames.into());
    }
    match fields.remove("model") {
        None => {}
        Some(Value::String(model)) => drop(ours.insert("metadata".to_owned(), json!({ MODEL: model }))),
        Some(other) => errors.add("/model", format!("must be text, not `{other}`")),
    }
    for name in fields.keys() {
        errors.add(pointer("", name), "is not known here");
    }
    Body { json: Value::Object(ours), files }
}

/// How a video begins that has a reference: with it, where a bundle here can do that; else the image is remembered.
fn start(app: &App) -> Variant {
    match app.catalog.get(Variant::Mi2v) {
        Some(_) => Variant::Mi2v,
        None => Variant::M2v,
    }
}

fn reference_image(reference: &Value, errors: &mut Errors) -> Option<Value> {
    match (reference["image_url"].as_str(), reference["file_id"].as_str()) {
        (Some(url), None) if url.starts_with("data:") => Some(json!({ "data": url })),
        (Some(url), None) => Some(json!({ "url": url })),
        (None, Some(id)) => Some(json!({ "upload": id })),
        _ => {
            let what =
                "must be a file, or an object with an `image_url`, or with the id of an upload as `file_id`";
            errors.add("/input_reference", what);
            None
        }
    }
}

/// The number of frames that comes nearest to so many seconds: 4n+1, and those that a mode drops.
fn frames(app: &App, variant: Variant, seconds: &Value, errors: &mut Errors) -> Option<u64> {
    let number = match seconds {
        Value::String(text) => text.parse().ok(),
        other => other.as_f64(),
    };
    let Some(number) = number.filter(|seconds: &f64| (0.0..=3600.0).contains(seconds)) else {
        errors.add("/seconds", format!("must be a number of seconds, not `{seconds}`"));
        return None;
    };
    let fps = app.catalog.get(variant)?.sampling.fps;
    let shown = number * f64::from(fps) + variant.dropped_frames() as f64;
    Some(((shown - 1.0) / 4.0).round().max(1.0) as u64 * 4 + 1)
}
