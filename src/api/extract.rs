//! Parts of a request, with problems for what is wrong with them.

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::problem::{ErrorCode, Problem};

/// The id in the path. What is no UUID names no job.
pub struct JobId(pub Uuid);

impl<S: Send + Sync> FromRequestParts<S> for JobId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(text) = path.map_err(|e| Problem::new(ErrorCode::JobNotFound, e.body_text()))?;
        Self::parse(&text)
    }
}

impl JobId {
    fn parse(text: &str) -> Result<Self, Problem> {
        let unknown = |_| Problem::new(ErrorCode::JobNotFound, format!("there is no job `{text}`"));
        Uuid::try_parse(text).map(Self).map_err(unknown)
    }
}

/// The job and the name of one of its frames in the path.
pub struct FrameId(pub Uuid, pub String);

impl<S: Send + Sync> FromRequestParts<S> for FrameId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((job, frame)) = path.map_err(|e| Problem::new(ErrorCode::JobNotFound, e.body_text()))?;
        Ok(Self(JobId::parse(&job)?.0, frame))
    }
}

/// The query.
pub struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(params)) => Ok(Self(params)),
            Err(QueryRejection::FailedToDeserializeQueryString(e)) => {
                Err(Problem::new(ErrorCode::InvalidQuery, e.body_text()))
            }
            Err(e) => Err(Problem::new(ErrorCode::InvalidQuery, e.body_text())),
        }
    }
}

/// Whether `If-None-Match` names this state (RFC 9110, 13.1.2: by weak comparison).
pub fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let values = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|given| given == "*" || given.strip_prefix("W/").unwrap_or(given) == tag)
}
