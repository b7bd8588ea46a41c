//! `GET /capabilities`.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::App;
use super::jobs::limits::MEMORY_IMAGES;
use super::jobs::view::GuidanceView;
use super::jobs::words::variant_words;
use super::problem::{Problem, problems};
use crate::pipeline::Variant;
use crate::pipeline::images::{MAX_BYTES, MAX_PIXELS};

/// What this service makes.
#[derive(Serialize, ToSchema)]
pub struct Capabilities {
    /// The kinds of shots, with what counts for each.
    variants: Vec<VariantView>,
    /// What a request may ask.
    limits: LimitsView,
    /// Whether requests need an API key.
    api_keys: bool,
    /// Whether images may be given by URL.
    image_urls: bool,
    /// Whether `webhook_url` may be given.
    webhooks: bool,
}

/// A kind of shot.
#[derive(Serialize, ToSchema)]
#[schema(as = VariantCapabilities)]
pub struct VariantView {
    /// The mode.
    #[schema(schema_with = variant_words)]
    variant: Variant,
    /// Name of the model that makes it.
    #[schema(example = "Wan2.2-MI2V-A14B")]
    model: String,
    /// Whether its weights are random, so that videos show noise.
    random_weights: bool,
    /// Most memory images.
    max_memory: usize,
    /// Frames in a second of its videos.
    fps: u32,
    /// What is taken when a request says nothing.
    defaults: DefaultsView,
}

/// What is taken when a request says nothing.
#[derive(Serialize, ToSchema)]
#[schema(as = Defaults)]
pub struct DefaultsView {
    /// Width and height.
    #[schema(example = "832x480")]
    size: String,
    /// Frames to generate.
    #[schema(example = 81)]
    frames: usize,
    /// Denoising steps.
    #[schema(example = 40)]
    steps: usize,
    /// Shift of the noise schedule.
    shift: f64,
    /// Guidance of each expert.
    guidance_scale: GuidanceView,
    /// What to steer away from.
    negative_prompt: String,
}

/// What a request may ask.
#[derive(Serialize, ToSchema)]
#[schema(as = Limits)]
pub struct LimitsView {
    /// Most pixels of a frame.
    frame_pixels: usize,
    /// Most frames of a shot.
    frames: usize,
    /// Most bytes of an image.
    image_bytes: usize,
    /// Most pixels of an image.
    image_pixels: u64,
}

problems!(CapabilitiesProblems:);

/// Says what can be made here, within which limits, and what is taken by default
#[utoipa::path(
    get,
    path = "/capabilities",
    tag = "operations",
    responses((status = 200, description = "What can be made", body = Capabilities), CapabilitiesProblems)
)]
pub async fn get_capabilities(State(app): State<App>) -> Result<Json<Capabilities>, Problem> {
    let variants = app.catalog.served().into_iter().filter_map(|variant| view(&app, variant));
    Ok(Json(Capabilities {
        variants: variants.collect(),
        limits: LimitsView {
            frame_pixels: app.limits.frame_pixels,
            frames: app.limits.frames,
            image_bytes: MAX_BYTES,
            image_pixels: MAX_PIXELS,
        },
        api_keys: app.keys.exist(&app.queue).await?,
        image_urls: app.images.is_some(),
        webhooks: app.webhooks.is_some(),
    }))
}

fn view(app: &App, variant: Variant) -> Option<VariantView> {
    let manifest = app.catalog.get(variant)?;
    let sampling = &manifest.sampling;
    Some(VariantView {
        variant,
        model: manifest.name.clone(),
        random_weights: manifest.random_weights,
        max_memory: sampling.max_memory.min(MEMORY_IMAGES),
        fps: sampling.fps,
        defaults: DefaultsView {
            size: format!("{}x{}", sampling.width, sampling.height),
            frames: sampling.frames,
            steps: sampling.steps,
            shift: sampling.shift,
            guidance_scale: GuidanceView { high: sampling.guidance.high, low: sampling.guidance.low },
            negative_prompt: sampling.negative_prompt.clone(),
        },
    })
}
