//! From the body of a request to a job that can be queued: everything is checked, and everything wrong is told at
//! once. Blocks: images are decoded and synced to the disk.

use axum::body::Bytes;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::body::{Body, Files};
use super::fields::Errors;
use super::images::{self, CheckedImage};
use super::limits::{Limits, MOTION_FRAMES};
use super::request::{CreateJob, ImageRef};
use crate::api::Catalog;
use crate::api::problem::Problem;
use crate::pipeline::{Dimensions, Sampling, Size, Variant, draw_seed};
use crate::queue::{Image, JobInput, NewJob, Role, Spec};
use crate::storage::Storage;

/// A number of frames that no mode refuses.
const FRAMES_ALWAYS_RIGHT: usize = 9;

/// Checks a request, keeps its images, and makes a job of it.
///
/// # Errors
/// A problem that names every field at fault, or a failure of the storage.
pub fn accept(body: Body, catalog: &Catalog, limits: &Limits, storage: &Storage) -> Result<NewJob, Problem> {
    let mut errors = Errors::default();
    let mut request = CreateJob::read(body.json, &mut errors);
    let images = Images::gather(&mut request, body.files, &mut errors);
    let spec = complete(&request, &images, catalog, limits, &mut errors)?;
    let Some(spec) = spec.filter(|_| errors.is_empty()) else {
        return Err(Problem::validation(errors.into_inner()));
    };
    let inputs = images.keep(storage)?;
    Ok(NewJob {
        id: Uuid::now_v7(),
        priority: request.priority.unwrap_or_default(),
        request: show(&request, &inputs).map_err(|e| Problem::internal(&e))?,
        spec,
        inputs,
    })
}

/// The images of a request that decode.
struct Images {
    memory: Vec<CheckedImage>,
    first_frame: Option<CheckedImage>,
    motion_frames: Vec<CheckedImage>,
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
        Some(self.first_frame.as_ref().or(self.motion_frames.first()).or(self.memory.first())?.size)
    }

    fn keep(self, storage: &Storage) -> Result<Vec<JobInput>, Problem> {
        let memory = self.memory.into_iter().map(|image| (Role::Memory, image));
        let first = self.first_frame.into_iter().map(|image| (Role::FirstFrame, image));
        let motion = self.motion_frames.into_iter().map(|image| (Role::Motion, image));
        let keep = |(role, image): (Role, CheckedImage)| {
            let sha256 = storage.put_input(&image.bytes)?;
            let CheckedImage { bytes, media_type, size } = image;
            let media_type = media_type.to_owned();
            Ok(JobInput { role, image: Image { sha256, media_type, bytes: bytes.len() as u64, size } })
        };
        memory.chain(first).chain(motion).map(keep).collect()
    }
}

/// The images of one field: from the request, or from files.
struct Source {
    given: Option<Vec<ImageRef>>,
    files: Vec<Bytes>,
}

impl Source {
    fn new(given: Option<Vec<ImageRef>>, files: Vec<Bytes>) -> Self {
        Self { given, files }
    }

    fn is_given(&self) -> bool {
        self.given.is_some() || !self.files.is_empty()
    }

    /// The images that decode; what is wrong with the others is reported at the pointer of each.
    fn check(self, field: &str, pointer: impl Fn(usize) -> String, errors: &mut Errors) -> Vec<CheckedImage> {
        if self.given.is_some() && !self.files.is_empty() {
            errors.add(field, "is given in `request` and as parts; give it once");
            return Vec::new();
        }
        let mut checked = Vec::new();
        for ImageRef { data, pointer } in self.given.into_iter().flatten() {
            let bytes = errors.keep(&pointer, images::from_data_url(&data));
            checked.extend(bytes.and_then(|bytes| errors.keep(&pointer, images::check(bytes))));
        }
        for (n, bytes) in self.files.into_iter().enumerate() {
            checked.extend(errors.keep(&pointer(n), images::check(bytes)));
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
            Variant::M2v => "/memory",
            Variant::Mi2v => "/first_frame",
            Variant::Mm2v => "/motion_frames",
        };
        errors.add(pointer, not_served(variant, &catalog.served()));
        return Ok(None);
    };
    let defaults = &model.sampling;
    let sampling = Sampling {
        size: request.size.unwrap_or(Size { width: defaults.width, height: defaults.height }),
        fit: request.fit.unwrap_or_default(),
        frames: request.frames.unwrap_or(defaults.frames),
        steps: request.steps.unwrap_or(defaults.steps),
        shift: request.shift.unwrap_or(defaults.shift),
        guidance: request.guidance_scale.unwrap_or(defaults.guidance),
        solver: request.solver.unwrap_or_default(),
        seed: match request.seed {
            Some(seed) => seed,
            None => draw_seed().map_err(|e| Problem::internal(&e))?,
        },
    };
    if images.memory.len() > defaults.max_memory {
        errors.add("/memory", format!("must have at most {} images for this model", defaults.max_memory));
    }
    check_size(sampling, variant, images.reference(), limits, errors);
    let negative_prompt = request.negative_prompt.clone().unwrap_or_else(|| defaults.negative_prompt.clone());
    Ok(Some(Spec { prompt: request.prompt.clone(), negative_prompt, variant, sampling }))
}

fn check_size(
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

fn not_served(variant: Variant, served: &[Variant]) -> String {
    let word = |variant| json!(variant).as_str().unwrap_or_default().to_owned();
    let served: Vec<String> = served.iter().map(|&variant| format!("`{}`", word(variant))).collect();
    let what = if served.is_empty() { "nothing".to_owned() } else { served.join(", ") };
    format!("makes this a `{}` shot, which no bundle here can make; served is {what}", word(variant))
}

/// The request as it is shown: what was given, with the facts of its images in place of their bytes.
fn show(request: &CreateJob, inputs: &[JobInput]) -> serde_json::Result<Value> {
    // By way of text: a `Value` made of an `f32` has the digits of an `f64`.
    let mut shown: Map<String, Value> = serde_json::from_str(&serde_json::to_string(request)?)?;
    shown.retain(|_, value| !value.is_null());
    let of = |role| inputs.iter().filter(move |input| input.role == role).map(|input| facts(&input.image));
    for (name, role) in [("memory", Role::Memory), ("motion_frames", Role::Motion)] {
        let images: Vec<Value> = of(role).collect();
        if !images.is_empty() {
            shown.insert(name.to_owned(), images.into());
        }
    }
    if let Some(first) = of(Role::FirstFrame).next() {
        shown.insert("first_frame".to_owned(), first);
    }
    Ok(Value::Object(shown))
}

fn facts(image: &Image) -> Value {
    let Image { sha256, media_type, bytes, size: Size { width, height } } = image;
    json!({"sha256": sha256, "media_type": media_type, "bytes": bytes, "width": width, "height": height})
}
