//! The request that makes a job: its fields, and how they are read.

use std::collections::BTreeMap;

use axum::body::Bytes;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::schema::AdditionalProperties;
use utoipa::openapi::{Object, ObjectBuilder, OneOfBuilder, Schema, Type};
use uuid::Uuid;

use super::fields::{Errors, Fields, kind, number};
use super::keyframe::LAST;
use super::limits::{
    GUIDANCE, MEMORY_IMAGES, METADATA_ENTRIES, METADATA_KEY_CHARS, METADATA_VALUE_CHARS, MOTION_FRAMES,
    PRIORITY, PROMPT_CHARS, SEED, SHIFT, STEPS, WEBHOOK_URL_CHARS,
};
use crate::pipeline::size::MAX_FRAMES;
use crate::pipeline::{Fit, Guidance, Size, SolverKind};
use crate::queue::Image;

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
    #[schema(schema_with = guidance_schema)]
    pub guidance_scale: Option<Guidance>,
    /// The sampler.
    #[schema(schema_with = solver_words)]
    pub solver: Option<SolverKind>,
    /// Seed of the initial noise; drawn and reported in `effective` if absent.
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
    #[schema(value_type = Option<Vec<String>>, format = Binary)]
    memory: Option<Vec<Vec<u8>>>,
    /// Start from this frame.
    #[schema(value_type = Option<String>, format = Binary)]
    first_frame: Option<Vec<u8>>,
    /// Continue the motion of these frames: one part for each.
    #[schema(value_type = Option<Vec<String>>, format = Binary)]
    motion_frames: Option<Vec<Vec<u8>>>,
}

/// An image: PNG, JPEG or WebP of at most 20 MiB and 40 megapixels. Its EXIF orientation is applied, transparency
/// is laid over black.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(example = json!({"data": "data:image/png;base64,iVBORw0KGgo…"}))]
#[allow(dead_code, reason = "only its schema is used: the fields are read one by one")]
pub enum ImageRef {
    /// The file itself.
    Data(DataRef),
    /// A file that was sent before.
    Upload(UploadRef),
    /// A file to be fetched, where the operator allows it.
    Url(UrlRef),
    /// A frame that another job has published.
    Frame(FrameRef),
}

/// The file itself.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ImageData)]
#[allow(dead_code, reason = "only its schema is used")]
pub struct DataRef {
    /// The file in a `data:` URL.
    #[schema(pattern = "^data:", format = "data-url", example = "data:image/png;base64,iVBORw0KGgo…")]
    data: String,
}

/// A file that was sent before.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ImageUpload)]
#[allow(dead_code, reason = "only its schema is used")]
pub struct UploadRef {
    /// The `id` that `POST /uploads` has answered with.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    upload: String,
}

/// A file to be fetched.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ImageUrl)]
#[allow(dead_code, reason = "only its schema is used")]
pub struct UrlRef {
    /// Its address: `https`, public, and at most three redirects away.
    #[schema(pattern = "^https?://", max_length = 2048, example = "https://example.com/face.png")]
    url: String,
}

/// A frame that another job has published.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ImageFrame)]
#[allow(dead_code, reason = "only its schema is used")]
pub struct FrameRef {
    /// A job that has succeeded.
    job: Uuid,
    /// The number of the frame, or `"last"`.
    #[schema(schema_with = frame_schema)]
    keyframe: String,
}

fn frame_schema() -> Schema {
    let number = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0));
    let last = ObjectBuilder::new().schema_type(Type::String).enum_values(Some([LAST]));
    OneOfBuilder::new()
        .description(Some("The number of the frame, or `last`."))
        .item(number)
        .item(last)
        .into()
}

/// An image of a request.
#[derive(Debug, Serialize)]
pub struct GivenImage {
    /// What the request says.
    #[serde(flatten)]
    pub source: ImageSource,
    /// Where in the request it is.
    #[serde(skip)]
    pub pointer: String,
    /// What was found, if it had to be looked for.
    #[serde(skip)]
    pub content: Option<Content>,
}

/// What a request says of an image. Shown as it came, but for the bytes.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum ImageSource {
    /// The file in a `data:` URL.
    Data {
        /// The URL.
        #[serde(skip)]
        data: String,
    },
    /// A file that was sent before.
    Upload {
        /// Its id.
        upload: String,
    },
    /// A file to be fetched.
    Url {
        /// Its address.
        url: String,
    },
    /// A frame of another job.
    Frame {
        /// The job.
        job: Uuid,
        /// The name of the frame.
        keyframe: String,
    },
}

impl ImageSource {
    /// The field that tells which image is meant.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Data { .. } => "data",
            Self::Upload { .. } => "upload",
            Self::Url { .. } => "url",
            Self::Frame { .. } => "job",
        }
    }
}

/// An image that was found.
#[derive(Clone, Debug)]
pub enum Content {
    /// A file, to be checked.
    Bytes(Bytes),
    /// A file in storage, which was checked before.
    Stored(Image),
}

/// One number for both experts, or one for each.
pub(super) fn guidance_schema() -> Schema {
    let scale = || {
        let (least, most) = (*GUIDANCE.start(), *GUIDANCE.end());
        ObjectBuilder::new().schema_type(Type::Number).minimum(Some(least)).maximum(Some(most))
    };
    let each = ObjectBuilder::new()
        .property("high", scale().description(Some("Of the high-noise expert.")))
        .property("low", scale().description(Some("Of the low-noise expert.")))
        .required("high")
        .required("low")
        .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(false)));
    OneOfBuilder::new()
        .description(Some(
            "How strongly the prompt is followed: one number for both experts, or one for each.",
        ))
        .item(scale())
        .item(each)
        .into()
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
            guidance_scale: guidance(fields),
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

impl GivenImage {
    fn read(value: Value, pointer: &str, errors: &mut Errors) -> Option<Self> {
        let mut fields = Fields::new(value, pointer, errors);
        let given: Vec<&str> = KINDS.into_iter().filter(|name| fields.has(name)).collect();
        let source = match given.as_slice() {
            [] => {
                fields.require(
                    "data",
                    "a `data:` URL with the image; or give `upload`, `url`, or `job` and `keyframe`",
                );
                None
            }
            ["data"] => string(&mut fields, "data").map(|data| ImageSource::Data { data }),
            ["upload"] => string(&mut fields, "upload").map(|upload| ImageSource::Upload { upload }),
            ["url"] => string(&mut fields, "url").map(|url| ImageSource::Url { url }),
            ["job"] => frame(&mut fields),
            [first, others @ ..] => {
                for name in others {
                    fields.refuse(name, format!("can't be combined with `{first}`; give one of them"));
                }
                KINDS.into_iter().chain(["keyframe"]).for_each(|name| drop(fields.value(name)));
                None
            }
        };
        fields.finish("`data`, `upload`, `url`, or `job` and `keyframe`");
        Some(Self { source: source?, pointer: pointer.to_owned(), content: None })
    }
}

/// The fields that tell which image is meant; one of them is given.
const KINDS: [&str; 4] = ["data", "upload", "url", "job"];

fn string(fields: &mut Fields<'_>, name: &str) -> Option<String> {
    match fields.value(name)? {
        Value::String(text) => Some(text),
        other => {
            fields.refuse(name, format!("must be a string, not {}", kind(&other)));
            None
        }
    }
}

fn frame(fields: &mut Fields<'_>) -> Option<ImageSource> {
    fields.require("keyframe", "the number of a frame the job has published, or `last`");
    let job = string(fields, "job").and_then(|text| {
        let pointer = fields.pointer("job");
        let job = Uuid::try_parse(&text).map_err(|_| format!("`{text}` is not the id of a job"));
        fields.errors().keep(&pointer, job)
    });
    let keyframe = match fields.value("keyframe") {
        None => None,
        Some(Value::String(text)) if text == LAST => Some(text),
        Some(Value::Number(number)) if number.is_u64() => Some(number.to_string()),
        Some(_) => {
            fields.refuse("keyframe", "must be the number of a frame, from 0, or `last`");
            None
        }
    };
    Some(ImageSource::Frame { job: job?, keyframe: keyframe? })
}

/// A list of images.
pub(in crate::api) fn images(fields: &mut Fields<'_>, name: &str, least: usize, most: usize) -> Option<Vec<GivenImage>> {
    let list = fields.list(name, least..=most)?;
    let pointer = fields.pointer(name);
    let image = |(n, value)| GivenImage::read(value, &format!("{pointer}/{n}"), fields.errors());
    Some(list.into_iter().enumerate().filter_map(image).collect())
}

fn guidance(fields: &mut Fields<'_>) -> Option<Guidance> {
    let pointer = fields.pointer("guidance_scale");
    match fields.value("guidance_scale")? {
        value @ Value::Number(_) => {
            let both = fields.errors().keep(&pointer, number(&value, GUIDANCE))? as f32;
            Some(Guidance { high: both, low: both })
        }
        value @ Value::Object(_) => {
            let mut each = Fields::new(value, pointer, fields.errors());
            each.require("high", "the scale of the high-noise expert");
            each.require("low", "the scale of the low-noise expert");
            let (high, low) = (each.number("high", GUIDANCE), each.number("low", GUIDANCE));
            each.finish("`high` and `low`");
            Some(Guidance { high: high? as f32, low: low? as f32 })
        }
        other => {
            let what = "must be a number, or an object with `high` and `low`";
            fields.refuse("guidance_scale", format!("{what}, not {}", kind(&other)));
            None
        }
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

/// A schema of the words that serde makes of `all`.
pub(super) fn words<T: Serialize>(all: &[T], description: &str) -> Object {
    let words = all.iter().filter_map(|word| serde_json::to_value(word).ok());
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(words))
        .description(Some(description))
        .build()
}

pub(super) fn fit_words() -> Object {
    let description = "`size` makes the video of the size asked for; `reference` gives it that area, and the aspect \
                       ratio of the first frame, the motion frames or the first memory image.";
    words(&[Fit::Size, Fit::Reference], description)
}

pub(super) fn solver_words() -> Object {
    words(&[SolverKind::UniPc, SolverKind::DpmPlusPlus], "The sampler.")
}
