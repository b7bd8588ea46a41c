//! The 202 around a job or a story that was queued.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::openapi::link::Link;
use utoipa::openapi::response::{Response as ResponseDoc, ResponseBuilder};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Type};
use utoipa::{IntoParams, IntoResponses, ToSchema};
use uuid::Uuid;

use super::jobs::POLL_SECONDS;
use super::once;
use super::problem::{Problem, header_doc};

/// What can be queued, as clients see it.
pub(super) trait Queued: ToSchema {
    /// What it is called.
    const WHAT: &'static str;
    /// Where such things are.
    const PATH: &'static str;
    /// What can be done with one: ids of operations.
    const OPERATIONS: &'static [&'static str];
}

/// What the calls that queue something are told besides.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "only its schema is used: headers are read where they count")]
pub(super) struct CreatingHeaders {
    /// Drawn by the client; a request that is sent again under it within 24 hours is done once, and gets the first answer
    /// again
    #[param(rename = "Idempotency-Key", pattern = "^[!-~]{1,255}$")]
    idempotency_key: Option<String>,
    /// W3C Trace Context; handed on to the worker and the webhook
    traceparent: Option<String>,
}

/// How the calls that queue something answer, for the documentation.
pub(super) struct Accepted<V>(PhantomData<V>);

impl<V: Queued> IntoResponses for Accepted<V> {
    fn responses() -> BTreeMap<String, RefOr<ResponseDoc>> {
        let what = V::WHAT;
        let body = ContentBuilder::new().schema(Some(Ref::from_schema_name(V::name()))).build();
        let asking = format!("Seconds after which it is worth asking for the {what}");
        let mut accepted = ResponseBuilder::new()
            .description(format!("The {what} is queued"))
            .content("application/json", body)
            .header("Location", header_doc(&format!("The path of the {what}"), Type::String))
            .header("Retry-After", header_doc(&asking, Type::Integer))
            .header(
                "Idempotency-Replayed",
                header_doc("`true` when the answer was given before", Type::String),
            );
        for &operation in V::OPERATIONS {
            let link = Link::builder().operation_id(operation).parameter("id", "$response.body#/id").build();
            accepted = accepted.link(operation, link);
        }
        BTreeMap::from([("202".to_owned(), accepted.build().into())])
    }
}

/// The 202 around what was queued.
pub(super) fn accepted<V: Queued>(answer: String, replayed: bool) -> Result<Response, Problem> {
    #[derive(Deserialize)]
    struct Id {
        id: Uuid,
    }
    let Id { id } = serde_json::from_str(&answer).map_err(|e| Problem::internal(&e))?;
    let headers = [
        (header::CONTENT_TYPE, "application/json".to_owned()),
        (header::LOCATION, format!("{}/{id}", V::PATH)),
        (header::RETRY_AFTER, POLL_SECONDS.to_string()),
    ];
    let replayed = replayed.then_some([(once::REPLAYED, "true")]);
    Ok((StatusCode::ACCEPTED, headers, replayed, answer).into_response())
}
