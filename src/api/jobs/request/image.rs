//! An image of a request: how it may be given, and how that is read.

use axum::body::Bytes;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::{ObjectBuilder, OneOfBuilder, Schema, Type};
use uuid::Uuid;

use crate::api::jobs::fields::{Errors, Fields, kind};
use crate::api::jobs::keyframe::LAST;
use crate::queue::Image;

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

impl GivenImage {
    /// Reads an image; what is wrong with it is reported.
    pub(super) fn read(value: Value, pointer: &str, errors: &mut Errors) -> Option<Self> {
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

/// A list of so many images.
pub(in crate::api) fn images(
    fields: &mut Fields<'_>,
    name: &str,
    least: usize,
    most: usize,
) -> Option<Vec<GivenImage>> {
    let list = fields.list(name, least..=most)?;
    let pointer = fields.pointer(name);
    let image = |(n, value)| GivenImage::read(value, &format!("{pointer}/{n}"), fields.errors());
    Some(list.into_iter().enumerate().filter_map(image).collect())
}
