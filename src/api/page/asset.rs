//! Files that are part of the binary, as a browser gets them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};

use crate::api::extract::is_known;
use crate::api::problem::{ErrorCode, Problem};
use crate::storage::Digest;

/// The `Content-Security-Policy` that a file comes with.
#[derive(Clone, Copy, Debug)]
pub struct Policy(pub &'static str);

/// A file.
#[derive(Clone, Debug)]
pub struct Asset {
    name: &'static str,
    bytes: Bytes,
    media_type: &'static str,
    tag: String,
    policy: Policy,
}

impl Asset {
    /// A file whose type is what its name says.
    pub fn new(name: &'static str, bytes: impl Into<Cow<'static, [u8]>>, policy: Policy) -> Self {
        let bytes = match bytes.into() {
            Cow::Borrowed(bytes) => Bytes::from_static(bytes),
            Cow::Owned(bytes) => bytes.into(),
        };
        let tag = format!("\"{}\"", Digest::of(&bytes));
        Self { name, bytes, media_type: media_type(name), tag, policy }
    }

    /// The file, or word that it is the one the client has. A client asks each time: after an update of the service all
    /// files are of the same version.
    fn answer(&self, headers: &HeaderMap) -> Response {
        let caching = [(header::ETAG, self.tag.as_str()), (header::CACHE_CONTROL, "no-cache")];
        if is_known(headers, &self.tag) {
            return (StatusCode::NOT_MODIFIED, caching).into_response();
        }
        let about = [
            (header::CONTENT_TYPE, self.media_type),
            (header::CONTENT_SECURITY_POLICY, self.policy.0),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
        ];
        (caching, about, self.bytes.clone()).into_response()
    }
}

/// Files by their names.
#[derive(Clone, Debug)]
pub struct Shelf(Arc<HashMap<&'static str, Asset>>);

impl Shelf {
    /// Puts files on a shelf.
    pub fn new(assets: impl IntoIterator<Item = Asset>) -> Self {
        Self(Arc::new(assets.into_iter().map(|asset| (asset.name, asset)).collect()))
    }

    /// The file of a name.
    pub fn serve(&self, name: &str, headers: &HeaderMap) -> Result<Response, Problem> {
        let missing = || Problem::new(ErrorCode::NotFound, format!("there is no file `{name}`"));
        Ok(self.0.get(name).ok_or_else(missing)?.answer(headers))
    }

    /// A route whose path ends with a name.
    pub fn into_route<S: Clone + Send + Sync + 'static>(self) -> MethodRouter<S> {
        get(move |Path(name): Path<String>, headers: HeaderMap| async move { self.serve(&name, &headers) })
    }
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        _ => "application/octet-stream",
    }
}
