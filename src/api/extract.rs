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
        Self::parse(&path::<String, _>(parts, state, ErrorCode::JobNotFound).await?)
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
        let (job, frame) = path::<(String, String), _>(parts, state, ErrorCode::JobNotFound).await?;
        Ok(Self(JobId::parse(&job)?.0, frame))
    }
}

/// The id of a story in the path. What is no UUID names no story.
pub struct StoryId(pub Uuid);

impl<S: Send + Sync> FromRequestParts<S> for StoryId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        Self::parse(&path::<String, _>(parts, state, ErrorCode::StoryNotFound).await?)
    }
}

impl StoryId {
    fn parse(text: &str) -> Result<Self, Problem> {
        let unknown = |_| Problem::new(ErrorCode::StoryNotFound, format!("there is no story `{text}`"));
        Uuid::try_parse(text).map(Self).map_err(unknown)
    }
}

/// A story and the number of one of its shots in the path.
pub struct ShotId(pub Uuid, pub u32);

impl<S: Send + Sync> FromRequestParts<S> for ShotId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let (story, shot) = path::<(String, String), _>(parts, state, ErrorCode::StoryNotFound).await?;
        let story = StoryId::parse(&story)?.0;
        let unknown =
            |_| Problem::new(ErrorCode::ShotNotFound, format!("story `{story}` has no shot `{shot}`"));
        Ok(Self(story, shot.parse().map_err(unknown)?))
    }
}

/// A story and the id of one of the frames it remembers in the path.
pub struct MemoryId(pub Uuid, pub i64);

impl<S: Send + Sync> FromRequestParts<S> for MemoryId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let (story, frame) = path::<(String, String), _>(parts, state, ErrorCode::StoryNotFound).await?;
        let story = StoryId::parse(&story)?.0;
        let unknown = |_| {
            Problem::new(ErrorCode::KeyframeNotFound, format!("story `{story}` remembers no frame `{frame}`"))
        };
        Ok(Self(story, frame.parse().map_err(unknown)?))
    }
}

/// The parts of the path; a problem of this code when they are no text.
pub(super) async fn path<T, S>(parts: &mut Parts, state: &S, code: ErrorCode) -> Result<T, Problem>
where
    T: DeserializeOwned + Send,
    S: Send + Sync,
{
    let path = Path::<T>::from_request_parts(parts, state).await;
    path.map(|Path(path)| path).map_err(|e| Problem::new(code, e.body_text()))
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
