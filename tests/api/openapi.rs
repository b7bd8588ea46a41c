//! The OpenAPI document.

use std::fs;
use std::path::Path;

use serde_json::Value;
use storymem::api;
use storymem::api::problem::ErrorCode;
use storymem::queue::FailureCode;

use crate::Service;

#[test]
fn the_committed_documents_are_true() {
    let newer = api::document().to_pretty_json().unwrap();
    let older = serde_json::to_string_pretty(&api::document_3_0()).unwrap();
    for (name, flags, document) in [("openapi.json", "", newer), ("openapi-3.0.json", " --spec 3.0", older)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi").join(name);
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == document + "\n",
            "openapi/{name} is out of date; run `cargo run -- openapi{flags} > openapi/{name}` and review the change"
        );
    }
}

#[tokio::test]
async fn the_service_shows_its_own_document() {
    let service = Service::new().await;
    let answer = service.get("/openapi.json").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
    assert_eq!(answer.json(), service.document);
    assert!(service.document["openapi"].as_str().unwrap().starts_with("3.1"));
}

#[test]
fn every_reference_leads_somewhere() {
    fn walk<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(object) => {
                found.extend(object.get("$ref").and_then(Value::as_str));
                object.values().for_each(|value| walk(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| walk(value, found)),
            _ => {}
        }
    }
    let document = serde_json::to_value(api::document()).unwrap();
    let mut found = Vec::new();
    walk(&document, &mut found);
    assert!(found.len() > 10);
    for reference in found {
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
}

/// What the document says of words is what the API says.
#[test]
fn words_are_listed_as_they_are_sent() {
    let document = serde_json::to_value(api::document()).unwrap();
    let words = |name: &str| document["components"]["schemas"][name]["enum"].clone();
    assert_eq!(words("ErrorCode"), serde_json::to_value(ErrorCode::ALL).unwrap());
    assert_eq!(words("FailureCode"), serde_json::to_value(FailureCode::ALL).unwrap());
    assert_eq!(words("JobStatus")[2], "cancelling");
    assert_eq!(words("Stage")[1], "loading");
}

#[test]
fn every_operation_and_parameter_is_described() {
    let document = serde_json::to_value(api::document()).unwrap();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            assert!(operation["summary"].is_string(), "{method} {path}");
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                assert!(parameter["description"].is_string(), "{method} {path} {}", parameter["name"]);
            }
        }
    }
}

/// OpenAPI asks for it, and generators refuse a document without.
#[test]
fn every_response_is_described() {
    let document = serde_json::to_value(api::document()).unwrap();
    let items = document["paths"].as_object().unwrap();
    for (path, item) in items {
        for (method, operation) in item.as_object().unwrap() {
            for (status, response) in operation["responses"].as_object().unwrap() {
                let described = response["description"].as_str().is_some_and(|text| !text.is_empty());
                assert!(described || response["$ref"].is_string(), "{method} {path} {status}");
            }
        }
    }
}

#[test]
fn every_code_is_in_the_troubleshooting_guide() {
    let guide =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/troubleshooting.md")).unwrap();
    let errors = ErrorCode::ALL.iter().map(|code| code.code());
    for code in errors.chain(FailureCode::ALL.map(FailureCode::code)) {
        assert!(guide.contains(&format!("`{code}`")), "{code}");
    }
}
