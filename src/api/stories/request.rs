//! The request that makes a story: a script, and the settings that all its shots share, which are those of a job.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::openapi::schema::AdditionalProperties;
use utoipa::openapi::{ObjectBuilder, OneOfBuilder, Ref, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::script::Script;
use crate::api::jobs::fields::{Errors, Fields};
use crate::api::jobs::limits::MEMORY_IMAGES;
use crate::api::jobs::request::CreateJob;
use crate::pipeline::Variant;

/// Frames that always count, if the request doesn't say.
const FIXED_MEMORY: u32 = 3;

/// The fields of a job that a story has no use for: it finds them itself.
const OWN: [&str; 3] = ["prompt", "first_frame", "motion_frames"];

const FIELDS: &str = "`script`, `connect`, `first_shot`, `max_memory`, `fixed_memory`, `seeds` and the settings of a \
                      job: `memory`, `negative_prompt`, `size`, `fit`, `frames`, `steps`, `shift`, `guidance_scale`, \
                      `solver`, `seed`, `priority`, `webhook_url` and `metadata`";

/// A story to be made.
#[derive(Debug)]
pub struct CreateStory {
    /// The script; nothing when it is wrong, which is said.
    pub script: Option<Script>,
    /// How shots that are no cuts go on.
    pub connect: Connect,
    /// How the first shot is made; by what there is, if the request doesn't say.
    pub first_shot: Option<FirstShot>,
    /// Most frames a shot remembers.
    pub max_memory: Option<u32>,
    /// Of these, the earliest that always count.
    pub fixed_memory: u32,
    /// How the seeds of the shots follow from `seed`.
    pub seeds: Seeds,
    /// What all shots share; without a prompt.
    pub shared: CreateJob,
}

/// How a shot that is no cut goes on from the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Connect {
    /// From memory alone, as a cut does (M2V).
    #[default]
    None,
    /// From its last frame (MI2V).
    Mi2v,
    /// From its last five frames (MM2V).
    Mm2v,
}

/// How the first shot is made, which has nothing to remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum FirstShot {
    /// From its prompt (T2V).
    T2v,
    /// From the images in `memory` (M2V).
    Memory,
}

/// How the seeds of the shots follow from `seed`, or from one that is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Seeds {
    /// Each shot has its own: `seed`, `seed` + 1 and so on through the story.
    #[default]
    Each,
    /// As StoryMem counts: `seed` + the index of the shot within its scene, so that every scene has the same seeds.
    Storymem,
}

impl Connect {
    /// The mode of a shot that has one before it.
    pub fn mode(self, cut: bool) -> Variant {
        match self {
            Self::Mi2v if !cut => Variant::Mi2v,
            Self::Mm2v if !cut => Variant::Mm2v,
            _ => Variant::M2v,
        }
    }
}

impl CreateStory {
    /// Reads a request. Fields that are wrong are reported and left out.
    pub fn read(value: Value, errors: &mut Errors) -> Self {
        let mut fields = Fields::new(value, "", errors);
        fields.require("script", "the scenes of the story");
        let script = fields.value("script");
        let script = script.and_then(|script| Script::read(script, "/script", fields.errors()));
        let most = MEMORY_IMAGES as i64;
        let max_memory = fields.integer("max_memory", 1..=most).map(|n| n as u32);
        let fixed_memory = fields.integer("fixed_memory", 0..=most).map(|n| n as u32);
        let request = Self {
            script,
            connect: fields.word("connect").unwrap_or_default(),
            first_shot: fields.word("first_shot"),
            max_memory,
            fixed_memory: fixed_memory.unwrap_or(FIXED_MEMORY),
            seeds: fields.word("seeds").unwrap_or_default(),
            shared: CreateJob::shared(&mut fields),
        };
        fields.finish(FIELDS);
        request
    }
}

/// A story with its memory images as files.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "only its schema is used: the parts are read one by one")]
pub struct CreateStoryForm {
    /// As in the JSON form.
    request: CreateStory,
    /// Frames to remember from the beginning, in story order: one part for each.
    #[schema(value_type = Vec<String>, format = Binary, required = false)]
    memory: Option<Vec<Vec<u8>>>,
}

impl ToSchema for CreateStory {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        for (name, schema) in [
            (Script::name(), Script::schema()),
            (Connect::name(), Connect::schema()),
            (FirstShot::name(), FirstShot::schema()),
            (Seeds::name(), Seeds::schema()),
        ] {
            schemas.push((name.into_owned(), schema));
        }
        Script::schemas(schemas);
        CreateJob::schemas(schemas);
    }
}

/// By hand: the settings are those of a job, and described there.
impl PartialSchema for CreateStory {
    fn schema() -> RefOr<Schema> {
        let of = |name: std::borrow::Cow<'static, str>| Ref::from_schema_name(name);
        let text = ObjectBuilder::new().schema_type(Type::String).description(Some("The same as JSON5."));
        let script = OneOfBuilder::new()
            .description(Some(
                "What happens, shot by shot: an object, or the text of a StoryMem script in JSON5.",
            ))
            .item(of(Script::name()))
            .item(text);
        let count = |least: i64, most: usize, text| {
            ObjectBuilder::new()
                .schema_type(Type::Integer)
                .minimum(Some(least))
                .maximum(Some(most as i64))
                .description(Some(text))
        };
        let mut object = ObjectBuilder::new()
            .property("script", script)
            .property("connect", of(Connect::name()))
            .property("first_shot", of(FirstShot::name()))
            .property(
                "max_memory",
                count(
                    1,
                    MEMORY_IMAGES,
                    "Most frames a shot remembers; 10 if absent, or what the model takes.",
                ),
            )
            .property(
                "fixed_memory",
                count(0, MEMORY_IMAGES, "Of these, the earliest that always count; 3 if absent."),
            )
            .property("seeds", of(Seeds::name()))
            .required("script")
            .description(Some("A story to be made: a script, and the settings that all its shots share."))
            .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(false)));
        if let RefOr::T(Schema::Object(job)) = CreateJob::schema() {
            for (name, schema) in job.properties.into_iter().filter(|(name, _)| !OWN.contains(&name.as_str()))
            {
                object = object.property(name, schema);
            }
        }
        object.build().into()
    }
}
