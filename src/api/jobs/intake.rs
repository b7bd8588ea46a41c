//! From a request to a job that can be queued: everything is checked, and everything wrong is told at
//! once. Blocks: images are decoded and synced to the disk.

use axum::body::Bytes;
use onnx_export::bundle::Manifest;
use serde_json::{Map, Value, json};
use tokio::sync::OwnedSemaphorePermit;
use uuid::Uuid;

use super::body::Files;
use super::fields::Errors;
use super::images::{self, CheckedImage};
use super::limits::{Limits, MOTION_FRAMES};
use super::request::{Content, CreateJob, GivenImage, ImageSource};
use crate::api::problem::Problem;
use crate::api::{App, Catalog};
use crate::pipeline::{Dimensions, Sampling, Size, Variant, draw_seed};
use crate::queue::{Image, JobInput, NewJob, Origin, Role, Spec};
use crate::storage::Storage;

/// A number of frames that no mode refuses.
const FRAMES_ALWAYS_RIGHT: usize = 9;

/// Checks a request and its images, keeps these, and makes a job of it. `errors` are those found so far. `turn` is
/// held as long as there is something to compute.
///
/// # Errors
/// A problem that names every field at fault, or a failure of the storage.
pub fn accept(
    mut request: CreateJob,
    files: Files,
    mut errors: Errors,
    origin: Origin,
    app: &App,
    turn: OwnedSemaphorePermit,
) -> Result<NewJob, Problem> {
    let images = Images::gather(&mut request, files, &mut errors);
    let spec = complete(&request, &images, &app.catalog, &app.limits, &mut errors)?;
    let Some(spec) = spec.filter(|_| errors.is_empty()) else {
        return Err(Problem::validation(errors.into_inner()));
    };
    // From here on the disk is waited for, not a core; and a disk syncs many files as fast as one.
    drop(turn);
    let kept = images.keep(&app.storage)?;
    let shown = show(&request, &kept).map_err(|e| Problem::internal(&e))?;
    Ok(NewJob {
        id: Uuid::now_v7(),
        priority: request.priority.unwrap_or_default(),
        request: shown,
        spec,
        inputs: kept.into_iter().map(|(input, _)| input).collect(),
        origin,
    })
}

/// An image that decodes, and what the request says of it; nothing when it came as a file.
pub(in crate::api) type Checked = (CheckedImage, Option<ImageSource>);

/// The images of a request that decode.
struct Images {
    memory: Vec<Checked>,
    first_frame: Option<Checked>,
    motion_frames: Vec<Checked>,
    variant: Variant,
}

impl Images {
    /// Takes the images out of a request.
    fn gather(request: &mut CreateJob, files: Files, errors: &mut Errors) -> Self {
        let memory = Source::new(request.memory.take(), files.memory);
        let first_frame = Source::new(
            request.first_frame.take().map(|image| vec![image]),
            files.first_frame.into_iter().collect(),
        );
        let motion_frames = Source::new(request.motion_frames.take(), files.motion_frames);
        if !memory.is_given() && !errors.mention("") && !errors.mention("/memory") {
            errors.add("/memory", "is required: 1 to 10 images the shot remembers");
        }
        let variant = match (first_frame.is_given(), motion_frames.is_given()) {
            (true, true) => {
                errors.add("/motion_frames", "can't be combined with `first_frame`; give one of them");
                Variant::Mm2v
            }
            (true, false) => Variant::Mi2v,
            (false, true) => Variant::Mm2v,
            (false, false) => Variant::M2v,
        };
        if (1..MOTION_FRAMES).contains(&motion_frames.files.len()) {
            errors.add(
                "/motion_frames",
                format!("must be {MOTION_FRAMES} parts, not {}", motion_frames.files.len()),
            );
        }
        Self {
            memory: memory.check("/memory", |n| format!("/memory/{n}"), errors),
            first_frame: first_frame.check("/first_frame", |_| "/first_frame".to_owned(), errors).pop(),
            motion_frames: motion_frames.check("/motion_frames", |n| format!("/motion_frames/{n}"), errors),
            variant,
        }
    }

    /// The image that decides the shape of the video, as in StoryMem.
    fn reference(&self) -> Option<Size> {
        let (image, _) = self.first_frame.as_ref().or(self.motion_frames.first()).or(self.memory.first())?;
        Some(image.size())
    }

    fn keep(self, storage: &Storage) -> Result<Vec<(JobInput, Option<ImageSource>)>, Problem> {
        let memory = self.memory.into_iter().map(|image| (Role::Memory, image));
        let first = self.first_frame.into_iter().map(|image| (Role::FirstFrame, image));
        let motion = self.motion_frames.into_iter().map(|image| (Role::Motion, image));
        let keep = |(role, (image, source)): (Role, Checked)| {
            Ok((JobInput { role, image: image.keep(storage)? }, source))
        };
        memory.chain(first).chain(motion).map(keep).collect()
    }
}

/// The images of one field: from the request, or from files.
pub(in crate::api) struct Source {
    given: Option<Vec<GivenImage>>,
    files: Vec<Bytes>,
}

impl Source {
    /// Both, of which one is empty in a sound request.
    pub(in crate::api) fn new(given: Option<Vec<GivenImage>>, files: Vec<Bytes>) -> Self {
        Self { given, files }
    }

    /// Whether there are any.
    pub(in crate::api) fn is_given(&self) -> bool {
        self.given.is_some() || !self.files.is_empty()
    }

    /// The images that decode; what is wrong with the others is reported at the pointer of each.
    pub(in crate::api) fn check(
        self,
        field: &str,
        pointer: impl Fn(usize) -> String,
        errors: &mut Errors,
    ) -> Vec<Checked> {
        if self.given.is_some() && !self.files.is_empty() {
            errors.add(field, "is given in `request` and as parts; give it once");
            return Vec::new();
        }
        let mut checked = Vec::new();
        for GivenImage { source, pointer, content } in self.given.into_iter().flatten() {
            let pointer = format!("{pointer}/{}", source.field());
            let image = match (&source, content) {
                (ImageSource::Data { data }, _) => errors
                    .keep(&pointer, images::from_data_url(data))
                    .and_then(|bytes| errors.keep(&pointer, images::check(bytes))),
                (_, Some(Content::Bytes(bytes))) => errors.keep(&pointer, images::check(bytes)),
                (_, Some(Content::Stored(image))) => Some(CheckedImage::Stored(image)),
                // It was not found, which is said.
                (_, None) => None,
            };
            checked.extend(image.map(|image| (image, Some(source))));
        }
        for (n, bytes) in self.files.into_iter().enumerate() {
            checked.extend(errors.keep(&pointer(n), images::check(bytes)).map(|image| (image, None)));
        }
        checked
    }
}

/// Fills in what is absent, and checks what only the model or the operator can tell.
fn complete(
    request: &CreateJob,
    images: &Images,
    catalog: &Catalog,
    limits: &Limits,
    errors: &mut Errors,
) -> Result<Option<Spec>, Problem> {
    let variant = images.variant;
    let Some(model) = catalog.get(variant) else {
        let pointer = match variant {
            Variant::M2v | Variant::T2v => "/memory",
            Variant::Mi2v => "/first_frame",
            Variant::Mm2v => "/motion_frames",
        };
        errors.add(pointer, not_served(variant, &catalog.served()));
        return Ok(None);
    };
    let seed = match request.seed {
        Some(seed) => seed,
        None => draw_seed().map_err(|e| Problem::internal(&e))?,
    };
    let defaults = &model.sampling;
    if images.memory.len() > defaults.max_memory {
        errors.add("/memory", format!("must have at most {} images for this model", defaults.max_memory));
    }
    let spec = fill(&request.prompt, request, variant, model, seed);
    check_size(spec.sampling, variant, images.reference(), limits, errors);
    Ok(Some(spec))
}

/// What the worker makes: the settings of a request, and the model's own where it has none.
pub(in crate::api) fn fill(
    prompt: &str,
    settings: &CreateJob,
    variant: Variant,
    model: &Manifest,
    seed: u64,
) -> Spec {
    let defaults = &model.sampling;
    let sampling = Sampling {
        size: settings.size.unwrap_or(Size { width: defaults.width, height: defaults.height }),
        fit: settings.fit.unwrap_or_default(),
        frames: settings.frames.unwrap_or(defaults.frames),
        steps: settings.steps.unwrap_or(defaults.steps),
        shift: settings.shift.unwrap_or(defaults.shift),
        guidance: settings.guidance_scale.unwrap_or(defaults.guidance),
        solver: settings.solver.unwrap_or_default(),
        seed,
    };
    let negative_prompt =
        settings.negative_prompt.clone().unwrap_or_else(|| defaults.negative_prompt.clone());
    Spec { prompt: prompt.to_owned(), negative_prompt, variant, sampling }
}

/// Says what is wrong with the size and the length of a shot.
pub(in crate::api) fn check_size(
    mut sampling: Sampling,
    variant: Variant,
    reference: Option<Size>,
    limits: &Limits,
    errors: &mut Errors,
) {
    if sampling.frames > limits.frames {
        let what = format!("`{}` is more than the {} this service makes", sampling.frames, limits.frames);
        errors.add("/frames", what);
    }
    // Without a sound image, which is already said, any shape will do.
    let reference = reference.or(Some(sampling.size));
    let mut made = Dimensions::new(&sampling, variant, reference);
    if let Err(e) = made
        && e.field() == "frames"
    {
        errors.add("/frames", e.to_string());
        // And the size?
        sampling.frames = FRAMES_ALWAYS_RIGHT;
        made = Dimensions::new(&sampling, variant, reference);
    }
    match made {
        Ok(made) if made.width * made.height > limits.frame_pixels => {
            let what = format!(
                "`{}` has more than the {} pixels this service makes",
                made.size(),
                limits.frame_pixels
            );
            errors.add("/size", what);
        }
        Ok(_) => {}
        Err(e) => errors.add(format!("/{}", e.field()), e.to_string()),
    }
}

/// Says that no bundle makes such shots.
pub(in crate::api) fn not_served(variant: Variant, served: &[Variant]) -> String {
    let word = |variant| json!(variant).as_str().unwrap_or_default().to_owned();
    let served: Vec<String> = served.iter().map(|&variant| format!("`{}`", word(variant))).collect();
    let what = if served.is_empty() { "nothing".to_owned() } else { served.join(", ") };
    format!("makes this a `{}` shot, which no bundle here can make; served is {what}", word(variant))
}

/// The request as it is shown: what was given, with the facts of its images in place of their bytes.
fn show(request: &CreateJob, kept: &[(JobInput, Option<ImageSource>)]) -> serde_json::Result<Value> {
    // By way of text: a `Value` made of an `f32` has the digits of an `f64`.
    let mut shown: Map<String, Value> = serde_json::from_str(&serde_json::to_string(request)?)?;
    shown.retain(|_, value| !value.is_null());
    let of = |role| {
        let images = kept.iter().filter(move |(input, _)| input.role == role);
        images.map(|(input, source)| facts(&input.image, source.as_ref())).collect::<Result<Vec<_>, _>>()
    };
    for (name, role) in [("memory", Role::Memory), ("motion_frames", Role::Motion)] {
        let images = of(role)?;
        if !images.is_empty() {
            shown.insert(name.to_owned(), images.into());
        }
    }
    if let Some(first) = of(Role::FirstFrame)?.pop() {
        shown.insert("first_frame".to_owned(), first);
    }
    Ok(Value::Object(shown))
}

/// An image as a request shows it.
pub(in crate::api) fn facts(image: &Image, source: Option<&ImageSource>) -> serde_json::Result<Value> {
    let Image { sha256, media_type, bytes, size: Size { width, height } } = image;
    let mut facts =
        json!({"sha256": sha256, "media_type": media_type, "bytes": bytes, "width": width, "height": height});
    if let (Some(facts), Value::Object(source)) = (facts.as_object_mut(), serde_json::to_value(source)?) {
        facts.extend(source);
    }
    Ok(facts)
}
