//! The OpenAPI document: what is derived from the handlers, and what holds for all of them.

use std::fmt::Write as _;

use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{Schema, SchemaType, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, RefOr};

use super::problem::{self, ErrorCode};
use super::router::routes;
use super::{openapi30, videos};
use crate::queue::FailureCode;

/// The name of the security scheme.
const KEY: &str = "api_key";

/// The OpenAPI 3.1 document.
pub fn document() -> utoipa::openapi::OpenApi {
    let mut document = routes().into_openapi();
    document.info.description = Some(description());
    protect(&mut document);
    values_of_text(&mut document);
    errors_of_videos(&mut document);
    document
}

/// The same in OpenAPI 3.0.
pub fn document_3_0() -> serde_json::Value {
    let document = serde_json::to_value(document());
    openapi30::downgrade(document.expect("a document of strings, lists and maps with string keys is JSON"))
}

/// What is text, as parameters and headers are, may be left out, but it can't be null.
fn values_of_text(document: &mut utoipa::openapi::OpenApi) {
    fn without_null(schema: &mut RefOr<Schema>) {
        let RefOr::T(Schema::Object(object)) = schema else { return };
        let SchemaType::Array(types) = &mut object.schema_type else { return };
        types.retain(|word| *word != Type::Null);
        if let [one] = types.as_slice() {
            object.schema_type = SchemaType::Type(one.clone());
        }
    }
    for operation in operations(document) {
        for parameter in operation.parameters.iter_mut().flatten() {
            let RefOr::T(parameter) = parameter else { continue };
            parameter.schema.iter_mut().for_each(without_null);
        }
        for response in operation.responses.responses.values_mut() {
            let RefOr::T(response) = response else { continue };
            for header in response.headers.values_mut() {
                let RefOr::T(header) = header else { continue };
                header.schema.iter_mut().for_each(without_null);
            }
        }
    }
}

/// The errors of the calls that have OpenAI's shape have it too.
fn errors_of_videos(document: &mut utoipa::openapi::OpenApi) {
    let items = document.paths.paths.iter_mut().filter(|(path, _)| path.starts_with(videos::PREFIX));
    let operations = items.flat_map(|(_, item)| [&mut item.get, &mut item.post, &mut item.delete]).flatten();
    for response in operations.flat_map(|operation| operation.responses.responses.values_mut()) {
        if let RefOr::T(response) = response
            && response.content.shift_remove(problem::MEDIA_TYPE).is_some()
        {
            let schema = Ref::from_schema_name("VideosError");
            let content = ContentBuilder::new().schema(Some(schema)).build();
            response.content.insert("application/json".to_owned(), content.into());
        }
    }
}

fn operations(document: &mut utoipa::openapi::OpenApi) -> impl Iterator<Item = &mut Operation> {
    let items = document.paths.paths.values_mut();
    items.flat_map(|item| [&mut item.get, &mut item.put, &mut item.post, &mut item.delete]).flatten()
}

/// Says that all but the operator's own calls take an API key.
fn protect(document: &mut utoipa::openapi::OpenApi) {
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("An API key, where the operator has made any: `storymem keys add`."))
        .build();
    document.components.get_or_insert_default().add_security_scheme(KEY, SecurityScheme::Http(scheme));
    let none: [&str; 0] = [];
    for operation in operations(document)
        .filter(|operation| !operation.tags.iter().flatten().any(|tag| tag == "operations"))
    {
        operation.security = Some(vec![SecurityRequirement::default(), SecurityRequirement::new(KEY, none)]);
        operation.responses.responses.extend(problem::responses(&[ErrorCode::Unauthorized]));
    }
}

fn description() -> String {
    let mut text = String::from(
        "Makes videos from prompts and memory images. `POST /jobs` queues a shot, `GET /jobs/{id}` follows it, \
         `GET /jobs/{id}/video` fetches it. `POST /stories` makes a film of a script, shot after shot. Unknown fields are refused. Times are RFC 3339 in UTC.\n\n\
         ## Errors\nEvery error is `application/problem+json` (RFC 9457) with a stable `code`:\n\n\
         | code | status | meaning |\n|---|---|---|\n",
    );
    // Writing to a string can't fail.
    for code in ErrorCode::ALL {
        let _ = writeln!(text, "| `{}` | {} | {} |", code.code(), code.status().as_u16(), code.meaning());
    }
    text.push_str(
        "\n## Failures\nA job that failed says why in `error.code`:\n\n| code | meaning |\n|---|---|\n",
    );
    for code in FailureCode::ALL {
        let _ = writeln!(text, "| `{}` | {} |", code.code(), code.meaning());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_one_word_everywhere() {
        let document = serde_json::to_value(document()).unwrap();
        let documented = document["components"]["schemas"]["ErrorCode"]["enum"].as_array().unwrap().clone();
        assert_eq!(documented.len(), ErrorCode::ALL.len());
        for code in ErrorCode::ALL {
            let word = serde_json::to_value(code).unwrap();
            assert_eq!(word, code.code());
            assert!(documented.contains(&word), "{word}");
        }
    }

    #[test]
    fn the_document_lists_every_code() {
        let text = description();
        for code in ErrorCode::ALL {
            assert!(
                text.contains(&format!("| `{}` | {} |", code.code(), code.status().as_u16())),
                "{code:?}"
            );
        }
        for code in FailureCode::ALL {
            assert!(text.contains(&format!("| `{}` |", code.code())), "{code:?}");
        }
    }
}
