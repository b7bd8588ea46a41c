//! The request that makes a job: its fields, and how they are read.

mod guidance;
mod image;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::fields::{Errors, Fields};
use super::limits::{
    MEMORY_IMAGES, METADATA_ENTRIES, METADATA_KEY_CHARS, METADATA_VALUE_CHARS, MOTION_FRAMES, PRIORITY,
    PROMPT_CHARS, SEED, SHIFT, STEPS, WEBHOOK_URL_CHARS,
};
use super::words::{fit_words, solver_words};
use crate::pipeline::size::MAX_FRAMES;
use crate::pipeline::{Fit, Guidance, Size, SolverKind};

pub use image::{Content, GivenImage, ImageRef, ImageSource};

pub(in crate::api) use image::images;

const FIELDS: &str = "`prompt`, `negative_prompt`, `memory`, `first_frame`, `motion_frames`, `size`, `fit`, `frames`, \
                      `steps`, `shift`, `guidance_scale`, `solver`, `seed`, `priority`, `webhook_url` and `metadata`";

/// A shot to be made. What is absent is as the model wants it.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "prompt": "A woman in a red coat crosses the bridge in the rain.",
    "memory": [{"data": "data:image/png;base64,iVBORw0KGgo…"}],
    "size": "832x480",
    "seed": 42
}))]
pub struct CreateJob {
    /// What happens in the shot. Past 512 tokens it is cut, and the job says so in `warnings`.
    #[schema(min_length = 1, max_length = 4000)]
    pub prompt: String,
    /// What to steer away from; the model's own if absent.
    #[schema(max_length = 4000)]
    pub negative_prompt: Option<String>,
    /// Frames to remember, in story order. Required, here or as parts of a form.
    #[schema(value_type = Option<Vec<ImageRef>>, min_items = 1, max_items = 10)]
    pub memory: Option<Vec<GivenImage>>,
    /// Start from this frame (MI2V); it is not part of the video.
    #[schema(value_type = Option<ImageRef>)]
    pub first_frame: Option<GivenImage>,
    /// Continue the motion of these frames (MM2V); they are not part of the video. Not with `first_frame`.
    #[schema(value_type = Option<Vec<ImageRef>>, min_items = 5, max_items = 5)]
    pub motion_frames: Option<Vec<GivenImage>>,
    /// Width and height, multiples of 16: the size of the video or, with `"fit": "reference"`, its area.
    #[schema(value_type = Option<String>, pattern = r"^[1-9][0-9]*x[1-9][0-9]*$", example = "832x480")]
    pub size: Option<Size>,
    /// Where the shape of the video comes from.
    #[schema(schema_with = fit_words)]
    pub fit: Option<Fit>,
    /// Frames to generate, 4n+1. With `first_frame` the video has one fewer, with `motion_frames` five fewer.
    #[schema(minimum = 1, maximum = 2045)]
    pub frames: Option<usize>,
    /// Denoising steps.
    #[schema(minimum = 1, maximum = 100)]
    pub steps: Option<usize>,
    /// Shift of the noise schedule.
    #[schema(minimum = 0.1, maximum = 100)]
    pub shift: Option<f64>,
    /// How strongly the prompt is followed, by both experts or by each.
    #[schema(schema_with = guidance::schema)]
    pub guidance_scale: Option<Guidance>,
    /// The sampler.
    #[schema(schema_with = solver_words)]
    pub solver: Option<SolverKind>,
    /// Seed of the initial noise; drawn and reported in `effective` if absent. Its low 32 bits count, as in PyTorch: seeds
    /// 2^32 apart give the same video.
    #[schema(minimum = 0, maximum = 9007199254740991_u64)]
    pub seed: Option<u64>,
    /// Higher runs first; 0 if absent.
    #[schema(minimum = -10, maximum = 10)]
    pub priority: Option<i32>,
    /// Where to post the job when it has ended (Standard Webhooks); only where the operator has set a secret.
    #[schema(max_length = 2048, pattern = "^https?://", example = "https://example.com/storymem")]
    pub webhook_url: Option<String>,
    /// Strings for your own use, at most 16; kept with the job and returned.
    pub metadata: Option<BTreeMap<String, String>>,
}

/// A request with its images as files. An image field is given either in `request` or as parts.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "only its schema is used: the parts are read one by one")]
pub struct CreateJobForm {
    /// As in the JSON form.
    request: CreateJob,
    /// Frames to remember, in story order: one part for each.
    #[schema(value_type = Vec<String>, format = Binary, required = false)]
    memory: Option<Vec<Vec<u8>>>,
    /// Start from this frame.
    #[schema(value_type = String, format = Binary, required = false)]
    first_frame: Option<Vec<u8>>,
    /// Continue the motion of these frames: one part for each.
    #[schema(value_type = Vec<String>, format = Binary, required = false)]
    motion_frames: Option<Vec<Vec<u8>>>,
}

impl CreateJob {
    /// Reads a request. Fields that are wrong are reported and left out.
    pub fn read(value: Value, errors: &mut Errors) -> Self {
        let mut fields = Fields::new(value, "", errors);
        fields.require("prompt", "what happens in the shot");
        let prompt = fields.text("prompt", 1..=PROMPT_CHARS).unwrap_or_default();
        let first_frame = fields.value("first_frame").and_then(|value| {
            let pointer = fields.pointer("first_frame");
            GivenImage::read(value, &pointer, fields.errors())
        });
        let motion_frames = images(&mut fields, "motion_frames", MOTION_FRAMES, MOTION_FRAMES);
        let request = Self { prompt, first_frame, motion_frames, ..Self::shared(&mut fields) };
        fields.finish(FIELDS);
        request
    }

    /// Reads the fields that all shots of a story share.
    pub(in crate::api) fn shared(fields: &mut Fields<'_>) -> Self {
        Self {
            negative_prompt: fields.text("negative_prompt", 0..=PROMPT_CHARS),
            memory: images(fields, "memory", 1, MEMORY_IMAGES),
            size: fields.word("size"),
            fit: fields.word("fit"),
            frames: fields.integer("frames", 1..=MAX_FRAMES as u64).map(|n| n as usize),
            steps: fields.integer("steps", STEPS).map(|n| n as usize),
            shift: fields.number("shift", SHIFT),
            guidance_scale: guidance::read(fields),
            solver: fields.word("solver"),
            seed: fields.integer("seed", SEED),
            priority: fields.integer("priority", PRIORITY).map(|n| n as i32),
            webhook_url: fields.text("webhook_url", 1..=WEBHOOK_URL_CHARS),
            metadata: metadata(fields),
            ..Self::default()
        }
    }

    /// Every image of the request.
    pub fn images(&mut self) -> impl Iterator<Item = &mut GivenImage> {
        let memory = self.memory.iter_mut().flatten();
        memory.chain(&mut self.first_frame).chain(self.motion_frames.iter_mut().flatten())
    }
}

fn metadata(fields: &mut Fields<'_>) -> Option<BTreeMap<String, String>> {
    let value = fields.value("metadata")?;
    let pointer = fields.pointer("metadata");
    let names: Vec<String> = value.as_object().map(|o| o.keys().cloned().collect()).unwrap_or_default();
    if names.len() > METADATA_ENTRIES {
        fields.refuse(
            "metadata",
            format!("must have at most {METADATA_ENTRIES} entries; it has {}", names.len()),
        );
    }
    let mut entries = Fields::new(value, pointer, fields.errors());
    let mut kept = BTreeMap::new();
    for name in names {
        if name.chars().count() > METADATA_KEY_CHARS {
            entries.refuse(&name, format!("a key must have at most {METADATA_KEY_CHARS} characters"));
        }
        if !entries.has(&name) {
            entries.refuse(&name, "must be a string, not null");
        } else if let Some(text) = entries.text(&name, 0..=METADATA_VALUE_CHARS) {
            kept.insert(name, text);
        }
    }
    Some(kept)
}
