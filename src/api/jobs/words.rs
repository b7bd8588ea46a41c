//! Enums of plain words, as the OpenAPI document has them.

use serde::Serialize;
use utoipa::openapi::{Object, ObjectBuilder, Type};

use crate::pipeline::{Fit, SolverKind, Variant};

/// A schema of the words that serde makes of `all`.
fn words<T: Serialize>(all: &[T], description: &str) -> Object {
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

pub(in crate::api) fn variant_words() -> Object {
    let description = "The mode: `m2v` (memory), `mi2v` (memory and a first frame), `mm2v` (memory and motion) or `t2v` (text).";
    words(&Variant::ALL, description)
}
