//! The document in OpenAPI 3.0, for tools that do not read 3.1.
//!
//! 3.1 is JSON Schema; 3.0 has a dialect of its own: what may be null is `nullable`, nothing may stand beside a `$ref`,
//! and a few words do not exist. The documents say the same, but that 3.0 can't say what names a map's keys may have.

use serde_json::{Map, Value, json};

/// Says in 3.0 what `document` says in 3.1.
pub fn downgrade(mut document: Value) -> Value {
    rewrite(&mut document);
    document["openapi"] = json!("3.0.3");
    if let Some(license) = document.pointer_mut("/info/license").and_then(Value::as_object_mut) {
        license.remove("identifier");
    }
    document
}

fn rewrite(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(rewrite),
        Value::Object(object) => {
            object.values_mut().for_each(rewrite);
            without_null_type(object);
            without_null_choice(object);
            // `properties` may have any of these as the name of a property; then it is a schema, not a word.
            if object.get("propertyNames").is_some_and(Value::is_object) && object.contains_key("type") {
                object.remove("propertyNames");
            }
            one_example(object);
            reference_alone(object);
        }
        _ => {}
    }
}

/// `type: [T, "null"]` is `type: T, nullable: true`.
fn without_null_type(object: &mut Map<String, Value>) {
    let Some(Value::Array(types)) = object.get("type") else { return };
    let (null, types): (Vec<_>, Vec<_>) = types.iter().cloned().partition(|word| word == "null");
    if let [one] = types.as_slice() {
        object.insert("type".to_owned(), one.clone());
    } else {
        object.remove("type");
        let choices = types.into_iter().map(|word| json!({ "type": word })).collect();
        object.insert("oneOf".to_owned(), Value::Array(choices));
    }
    if !null.is_empty() {
        object.insert("nullable".to_owned(), Value::Bool(true));
    }
}

/// `oneOf: [S, {type: null}]` is `allOf: [S], nullable: true`.
fn without_null_choice(object: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = object.get_mut("oneOf") else { return };
    let before = choices.len();
    choices.retain(|choice| choice.get("type").is_none_or(|word| word != "null"));
    if choices.len() == before {
        return;
    }
    if choices.len() == 1 {
        let schema = object.remove("oneOf").unwrap_or_default();
        object.insert("allOf".to_owned(), schema);
    }
    object.insert("nullable".to_owned(), Value::Bool(true));
}

/// `examples: [E, …]` is `example: E`. Elsewhere than in schemas, `examples` is an object in both.
fn one_example(object: &mut Map<String, Value>) {
    if let Some(Value::Array(examples)) = object.get_mut("examples") {
        let first = examples.drain(..).next();
        object.remove("examples");
        object.extend(first.map(|example| ("example".to_owned(), example)));
    }
}

/// What stands beside a `$ref` in a schema would be ignored: the reference moves into an `allOf` of one.
fn reference_alone(object: &mut Map<String, Value>) {
    if object.len() > 1 && object.get("$ref").is_some_and(Value::is_string) {
        let reference = object.remove("$ref");
        object.insert("allOf".to_owned(), json!([{ "$ref": reference }]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_3_0_has_no_words_for_is_said_in_its_own() {
        for (newer, older) in [
            (
                json!({"type": ["string", "null"], "format": "uuid"}),
                json!({"type": "string", "format": "uuid", "nullable": true}),
            ),
            (
                json!({"type": ["string", "integer"]}),
                json!({"oneOf": [{"type": "string"}, {"type": "integer"}]}),
            ),
            (
                json!({"oneOf": [{"$ref": "#/a"}, {"type": "null"}]}),
                json!({"allOf": [{"$ref": "#/a"}], "nullable": true}),
            ),
            (
                json!({"oneOf": [{"$ref": "#/a", "description": "d"}, {"type": "null"}]}),
                json!({"allOf": [{"allOf": [{"$ref": "#/a"}], "description": "d"}], "nullable": true}),
            ),
            (
                json!({"oneOf": [{"$ref": "#/a"}, {"$ref": "#/b"}]}),
                json!({"oneOf": [{"$ref": "#/a"}, {"$ref": "#/b"}]}),
            ),
            (
                json!({"$ref": "#/a", "description": "d"}),
                json!({"allOf": [{"$ref": "#/a"}], "description": "d"}),
            ),
            (json!({"$ref": "#/a"}), json!({"$ref": "#/a"})),
            (json!({"type": "string", "examples": ["a", "b"]}), json!({"type": "string", "example": "a"})),
            (json!({"schema": {}, "examples": {"a": {}}}), json!({"schema": {}, "examples": {"a": {}}})),
            (json!({"type": "object", "propertyNames": {"type": "string"}}), json!({"type": "object"})),
        ] {
            let mut rewritten = newer.clone();
            rewrite(&mut rewritten);
            assert_eq!(rewritten, older, "{newer}");
        }
    }

    #[test]
    fn nothing_of_3_1_is_left() {
        let document = downgrade(serde_json::to_value(crate::api::document()).unwrap());
        fn check(value: &Value, at: &str) {
            match value {
                Value::Array(values) => values.iter().for_each(|value| check(value, at)),
                Value::Object(object) => {
                    for (word, value) in object {
                        let here = format!("{at}/{word}");
                        assert!(word != "type" || !value.is_array() && value != "null", "{here}");
                        assert!(word != "$ref" || object.len() == 1, "{here}");
                        assert!(
                            !["propertyNames", "const", "contentMediaType"].contains(&word.as_str()),
                            "{here}"
                        );
                        check(value, &here);
                    }
                }
                _ => {}
            }
        }
        check(&document, "");
        assert_eq!(document["openapi"], "3.0.3");
    }
}
