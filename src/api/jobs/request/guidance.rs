//! The guidance scale: one number for both experts, or one for each.

use serde_json::Value;
use utoipa::openapi::schema::AdditionalProperties;
use utoipa::openapi::{ObjectBuilder, OneOfBuilder, Schema, Type};

use crate::api::jobs::fields::{Fields, kind, number};
use crate::api::jobs::limits::GUIDANCE;
use crate::pipeline::Guidance;

/// Its schema.
pub(super) fn schema() -> Schema {
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

/// Reads it.
pub(super) fn read(fields: &mut Fields<'_>) -> Option<Guidance> {
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
