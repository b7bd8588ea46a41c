//! From a request to a story that can be queued: everything is checked, and everything wrong is told at once. Blocks: images
//! are decoded and synced to the disk.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::request::{CreateStory, FirstShot, Seeds};
use super::script::{Script, ShotLine};
use crate::api::Catalog;
use crate::api::jobs::body::Files;
use crate::api::jobs::fields::Errors;
use crate::api::jobs::intake::{Checked, Source, check_size, facts, fill, not_served};
use crate::api::jobs::limits::{Limits, MEMORY_IMAGES, MOTION_FRAMES};
use crate::api::jobs::request::CreateJob;
use crate::api::problem::Problem;
use crate::pipeline::{Dimensions, Fit, Size, Variant, draw_seed, story_seed, storymem_seed};
use crate::queue::{NewShot, NewStory, Origin, Spec};
use crate::storage::Storage;

/// Checks a request and its images, keeps these, and makes a story of it. `errors` are those found so far. `computed` is
/// called when nothing but the disk is left to wait for.
///
/// # Errors
/// A problem that names every field at fault, or a failure of the storage.
pub fn accept(
    mut request: CreateStory,
    files: Files,
    mut errors: Errors,
    origin: Origin,
    (catalog, limits, storage): (&Catalog, &Limits, &Storage),
    computed: impl FnOnce(),
) -> Result<NewStory, Problem> {
    let memory = memory(&mut request, files, &mut errors);
    let reference = memory.first().map(|(image, _)| image.size());
    let plan = Plan { request: &request, catalog, limits };
    let specs = plan.specs(reference, &mut errors)?;
    let (Some(specs), Some(script), true) = (specs, &request.script, errors.is_empty()) else {
        return Err(Problem::validation(errors.into_inner()));
    };
    computed();
    let keep = |(image, source): Checked| Ok::<_, Problem>((image.keep(storage)?, source));
    let kept = memory.into_iter().map(keep).collect::<Result<Vec<_>, _>>()?;
    let shared = shown(&request.shared).map_err(|e| Problem::internal(&e))?;
    let mut whole = shared.clone();
    whole.extend(plan.own_fields(script));
    if !kept.is_empty() {
        let memory = kept.iter().map(|(image, source)| facts(image, source.as_ref()));
        let memory = memory.collect::<Result<Vec<_>, _>>().map_err(|e| Problem::internal(&e))?;
        whole.insert("memory".to_owned(), memory.into());
    }
    let shot = |(line, spec): (ShotLine<'_>, Spec)| {
        let mut request = shared.clone();
        request.insert("prompt".to_owned(), line.prompt.into());
        request.insert("seed".to_owned(), spec.sampling.seed.into());
        NewShot { scene: line.scene, cut: line.cut, spec, request: request.into() }
    };
    Ok(NewStory {
        id: Uuid::now_v7(),
        priority: request.shared.priority.unwrap_or_default(),
        max_memory: plan.max_memory(),
        fixed_memory: request.fixed_memory,
        memory: kept.into_iter().map(|(image, _)| image).collect(),
        shots: script.shots().zip(specs).map(shot).collect(),
        request: whole.into(),
        origin,
    })
}

/// Takes the images out of a request, and settles what they decide.
fn memory(request: &mut CreateStory, files: Files, errors: &mut Errors) -> Vec<Checked> {
    for (name, given) in
        [("first_frame", files.first_frame.is_some()), ("motion_frames", !files.motion_frames.is_empty())]
    {
        if given {
            errors.add(format!("/{name}"), "is not a part; the parts are `request` and `memory`");
        }
    }
    let memory = Source::new(request.shared.memory.take(), files.memory);
    // What was refused was given.
    let given = memory.is_given() || errors.mention("/memory");
    let by_what_there_is = if given { FirstShot::Memory } else { FirstShot::T2v };
    if *request.first_shot.get_or_insert(by_what_there_is) == FirstShot::Memory && !given {
        errors.add("/memory", "is required: the images the first shot is made from");
    }
    memory.check("/memory", |n| format!("/memory/{n}"), errors)
}

/// What the shots of a story are made by.
struct Plan<'p> {
    request: &'p CreateStory,
    catalog: &'p Catalog,
    limits: &'p Limits,
}

impl Plan<'_> {
    /// What each shot is; nothing when the script is wrong or a mode is not served.
    fn specs(&self, reference: Option<Size>, errors: &mut Errors) -> Result<Option<Vec<Spec>>, Problem> {
        let Some(script) = &self.request.script else { return Ok(None) };
        let shared = &self.request.shared;
        let base = match shared.seed {
            Some(seed) => seed,
            None => draw_seed().map_err(|e| Problem::internal(&e))?,
        };
        let mut specs = Vec::new();
        for (n, line) in script.shots().enumerate() {
            let variant = self.mode(n, line.cut);
            // That it is not served is said once, below.
            let Some(model) = self.catalog.get(variant) else { continue };
            let seed = match self.request.seeds {
                Seeds::Each => story_seed(base, n),
                Seeds::Storymem => storymem_seed(base, line.index),
            };
            specs.push(fill(line.prompt, shared, variant, model, seed));
        }
        let mut modes: Vec<Variant> = Vec::new();
        for mode in script.shots().enumerate().map(|(n, line)| self.mode(n, line.cut)) {
            if !modes.contains(&mode) {
                modes.push(mode);
            }
        }
        if !self.check_served(&modes, errors) {
            return Ok(None);
        }
        self.check_sizes(&mut specs, reference, errors);
        Ok(Some(specs))
    }

    /// Most frames a shot remembers: as asked, or what every model takes.
    fn max_memory(&self) -> u32 {
        let models = [Variant::M2v, Variant::Mi2v, Variant::Mm2v].map(|mode| self.catalog.get(mode));
        let most = models.into_iter().flatten().map(|model| model.sampling.max_memory).min();
        let most = most.unwrap_or(MEMORY_IMAGES).min(MEMORY_IMAGES);
        self.request.max_memory.unwrap_or(most as u32)
    }

    /// The fields that only a story has, filled in.
    fn own_fields(&self, script: &Script) -> Map<String, Value> {
        let CreateStory { connect, first_shot, fixed_memory, seeds, .. } = self.request;
        let own = json!({
            "script": script,
            "connect": connect,
            "first_shot": first_shot,
            "max_memory": self.max_memory(),
            "fixed_memory": fixed_memory,
            "seeds": seeds,
        });
        match own {
            Value::Object(own) => own,
            _ => Map::new(),
        }
    }

    fn mode(&self, n: usize, cut: bool) -> Variant {
        match self.request.first_shot {
            Some(FirstShot::T2v) if n == 0 => Variant::T2v,
            _ => self.request.connect.mode(cut),
        }
    }

    /// Whether there is a bundle for each mode. Says what else does not go with them.
    fn check_served(&self, modes: &[Variant], errors: &mut Errors) -> bool {
        let mut served = true;
        let mut rate = None;
        for &mode in modes {
            let pointer = match mode {
                Variant::T2v => "/first_shot",
                Variant::Mi2v | Variant::Mm2v => "/connect",
                Variant::M2v => "/script",
            };
            let Some(model) = self.catalog.get(mode) else {
                errors.add(pointer, not_served(mode, &self.catalog.served()));
                served = false;
                continue;
            };
            let fps = model.sampling.fps;
            if *rate.get_or_insert(fps) != fps {
                errors.add(
                    pointer,
                    "is made at another frame rate than the shots before it, which no film can have",
                );
            }
            let most = model.sampling.max_memory;
            if mode != Variant::T2v && self.request.max_memory.is_some_and(|asked| asked as usize > most) {
                errors.add("/max_memory", format!("must be at most {most} for this model"));
            }
        }
        served
    }

    /// Gives every shot the size of the film.
    fn check_sizes(&self, specs: &mut [Spec], reference: Option<Size>, errors: &mut Errors) {
        let mut checked = Vec::new();
        for spec in specs.iter() {
            if errors.is_empty() && !checked.contains(&spec.variant) {
                checked.push(spec.variant);
                let reference = reference.filter(|_| spec.sampling.fit == Fit::Reference);
                if reference.is_none() && spec.sampling.fit == Fit::Reference {
                    errors.add(
                        "/fit",
                        "`reference` needs an image in `memory` to take the shape from; use `size`",
                    );
                } else {
                    check_size(spec.sampling, spec.variant, reference, self.limits, errors);
                }
            }
        }
        for pair in specs.windows(2) {
            let kept = pair[0].sampling.frames.saturating_sub(pair[0].variant.dropped_frames());
            if pair[1].variant == Variant::Mm2v && kept < MOTION_FRAMES && errors.is_empty() {
                let least = pair[0].variant.dropped_frames() + MOTION_FRAMES;
                let least = least.next_multiple_of(4) + 1;
                let what = format!(
                    "leaves {kept} frames of a shot, and the next one goes on from {MOTION_FRAMES}; the fewest are {least}"
                );
                errors.add("/frames", what);
            }
        }
        if !errors.is_empty() {
            return;
        }
        for spec in specs {
            if let Ok(made) = Dimensions::new(&spec.sampling, spec.variant, reference) {
                (spec.sampling.size, spec.sampling.fit) = (made.size(), Fit::Size);
            }
        }
    }
}

/// What the request gives of the settings.
fn shown(shared: &CreateJob) -> serde_json::Result<Map<String, Value>> {
    // By way of text: a `Value` made of an `f32` has the digits of an `f64`.
    let mut shown: Map<String, Value> = serde_json::from_str(&serde_json::to_string(shared)?)?;
    shown.retain(|name, value| !value.is_null() && name != "prompt");
    Ok(shown)
}
