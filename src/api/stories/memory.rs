//! `PUT /stories/{id}/memory`, and the images there.

use axum::Json;
use axum::extract::{Request, State};
use axum::response::Response;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::view::StoryView;
use super::{find, problem};
use crate::api::App;
use crate::api::access::Caller;
use crate::api::extract::{MemoryId, StoryId};
use crate::api::jobs::body;
use crate::api::jobs::fields::{Errors, Fields};
use crate::api::jobs::file::{Asked, FileAnswers, FileHeaders, Kind, serve_as};
use crate::api::jobs::intake::Source;
use crate::api::jobs::limits::MEMORY_IMAGES;
use crate::api::jobs::references;
use crate::api::jobs::request::{GivenImage, ImageRef, images};
use crate::api::problem::{ErrorCode, FieldError, Problem, problems};
use crate::queue::{MemoryChange, QueueError};

/// Most frames of a list.
const MOST: usize = 1000;

/// What is to be remembered from now on. What is absent stays as it was.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"pin": [2], "drop": [5, 6]}))]
pub struct PutMemory {
    /// The frames that every shot to come remembers, by their `id`: these and no others.
    #[schema(max_items = 1000)]
    pin: Option<Vec<i64>>,
    /// The frames that no shot to come remembers: these and no others.
    #[schema(max_items = 1000)]
    drop: Option<Vec<i64>>,
    /// Images to remember, after those of the last shot that is made. One that was given before is not added again.
    #[schema(value_type = Option<Vec<ImageRef>>, min_items = 1, max_items = 10)]
    add: Option<Vec<GivenImage>>,
}

problems!(
    MemoryProblems:
    InvalidJson,
    PayloadTooLarge,
    UnsupportedMediaType,
    ValidationFailed,
    StoryNotFound,
    StoryDeleted,
    DiskFull,
);

/// Changes what the shots to come remember
///
/// Shots that have begun or are made stay as they are; to have them made from another memory, redo them.
#[utoipa::path(
    put,
    path = "/stories/{id}/memory",
    tag = "stories",
    params(("id" = Uuid, Path, description = "The story")),
    request_body(content = PutMemory),
    responses((status = 200, description = "What is remembered now", body = StoryView), MemoryProblems)
)]
pub async fn put_memory(
    State(app): State<App>,
    caller: Caller,
    StoryId(id): StoryId,
    request: Request,
) -> Result<Json<StoryView>, Problem> {
    let json = body::read_json(request, app.limits.body_bytes).await?;
    find(&app, &caller, id).await?;
    let mut errors = Errors::default();
    let mut request = PutMemory::read(json, &mut errors);
    references::find(&app, &caller, request.add.iter_mut().flatten().collect(), &mut errors).await?;
    let turn = app.intake.clone().acquire_owned().await.map_err(|e| Problem::internal(&e))?;
    let storage = app.storage.clone();
    let kept = tokio::task::spawn_blocking(move || {
        let PutMemory { pin, drop, add } = request;
        let checked = Source::new(add, Vec::new()).check("/add", |n| format!("/add/{n}"), &mut errors);
        std::mem::drop(turn);
        if !errors.is_empty() {
            return Err(Problem::validation(errors.into_inner()));
        }
        let add = checked.into_iter().map(|(image, _)| image.keep(&storage)).collect::<Result<_, _>>()?;
        Ok(MemoryChange { pin, drop, add })
    });
    let change = kept.await.map_err(|e| Problem::internal(&e))??;
    let story = app.queue.change_memory(id, &change).await.map_err(|e| of_change(e, &change))?;
    tracing::info!(story.id = %id, "what a story remembers was changed");
    Ok(Json(StoryView::new(&story)))
}

/// What an error of the queue means for such a request.
fn of_change(error: QueueError, change: &MemoryChange) -> Problem {
    let at = |list: &Option<Vec<i64>>, frame| list.as_ref()?.iter().position(|&named| named == frame);
    let pointer = match error {
        QueueError::NothingRemembered => "/drop".to_owned(),
        QueueError::TooManyPinned { .. } => "/pin".to_owned(),
        QueueError::NoSuchFrame { frame } => match (at(&change.pin, frame), at(&change.drop, frame)) {
            (Some(n), _) => format!("/pin/{n}"),
            (None, n) => format!("/drop/{}", n.unwrap_or_default()),
        },
        _ => return problem(error),
    };
    Problem::validation(vec![FieldError { pointer, detail: error.to_string() }])
}

impl PutMemory {
    fn read(value: Value, errors: &mut Errors) -> Self {
        let mut fields = Fields::new(value, "", errors);
        let request = Self {
            pin: numbers(&mut fields, "pin"),
            drop: numbers(&mut fields, "drop"),
            add: images(&mut fields, "add", 1, MEMORY_IMAGES),
        };
        fields.finish("`pin`, `drop` and `add`");
        if let (Some(pin), Some(drop)) = (&request.pin, &request.drop) {
            for n in (0..drop.len()).filter(|&n| pin.contains(&drop[n])) {
                errors.add(
                    format!("/drop/{n}"),
                    format!("frame `{}` is in `pin` too; keep it in one of them", drop[n]),
                );
            }
        }
        request
    }
}

fn numbers(fields: &mut Fields<'_>, name: &str) -> Option<Vec<i64>> {
    let list = fields.list(name, 0..=MOST)?;
    let pointer = fields.pointer(name);
    let number = |(n, value): (usize, Value)| {
        let number = value.as_i64().ok_or("must be the `id` of a remembered frame");
        fields.errors().keep(&format!("{pointer}/{n}"), number)
    };
    Some(list.into_iter().enumerate().filter_map(number).collect())
}

struct MemoryImage;

impl Kind for MemoryImage {
    const MEDIA_TYPE: &'static str = "image/png";
    const EXTENSION: &'static str = "png";
    const WHAT: &'static str = "The image: as PNG, or as it was given";
    const OR: &'static [&'static str] = &["image/jpeg", "image/webp"];
    const MISSING: &'static [ErrorCode] =
        &[ErrorCode::StoryNotFound, ErrorCode::StoryDeleted, ErrorCode::KeyframeNotFound];
}

/// A frame that a story remembers
#[utoipa::path(
    get,
    path = "/stories/{id}/memory/{frame}",
    tag = "stories",
    params(
        ("id" = Uuid, Path, description = "The story"),
        ("frame" = i64, Path, description = "The `id` of the frame"),
        FileHeaders,
    ),
    responses(FileAnswers<MemoryImage>)
)]
pub async fn get_memory_image(
    State(app): State<App>,
    caller: Caller,
    MemoryId(id, frame): MemoryId,
    asked: Asked,
) -> Result<Response, Problem> {
    let story = find(&app, &caller, id).await?;
    let found = story.memory.iter().find(|known| known.id == frame);
    let missing =
        || Problem::new(ErrorCode::KeyframeNotFound, format!("story `{id}` remembers no frame `{frame}`"));
    let image = &found.ok_or_else(missing)?.image;
    let kind = match image.media_type.as_str() {
        "image/jpeg" => ("image/jpeg", "jpg"),
        "image/webp" => ("image/webp", "webp"),
        _ => (MemoryImage::MEDIA_TYPE, MemoryImage::EXTENSION),
    };
    let path = app.storage.input_path(&image.sha256);
    serve_as(kind, &path, &format!("memory {frame}"), id, asked).await
}
