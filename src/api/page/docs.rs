//! Swagger UI, on the service's own document.

use std::sync::Arc;

use axum::Router;
use axum::http::HeaderMap;
use axum::routing::get;
use utoipa_swagger_ui::Config;

use super::asset::{Asset, Policy, Shelf};

/// Swagger UI sets styles on elements and has its icons in `data:` URLs.
const POLICY: Policy = Policy(
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; \
     media-src 'self' blob:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'",
);

/// Of Swagger UI's files those that its page asks for.
const FILES: [&str; 8] = [
    "index.html",
    "index.css",
    "swagger-ui.css",
    "swagger-ui-bundle.js",
    "swagger-ui-standalone-preset.js",
    "swagger-initializer.js",
    "favicon-16x16.png",
    "favicon-32x32.png",
];

/// The routes below `/docs/`.
pub fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    // Without `none` the page would send the document to a validator on another host.
    let config = Config::new(["/openapi.json"]).validator_url("none").try_it_out_enabled(true);
    let config = Arc::new(config.display_request_duration(true));
    let shelf = Shelf::new(FILES.iter().map(|name| file(name, &config)));
    let index = shelf.clone();
    Router::new()
        .route("/docs/", get(move |headers: HeaderMap| async move { index.serve("index.html", &headers) }))
        .route("/docs/{name}", shelf.into_route())
}

fn file(name: &'static str, config: &Arc<Config<'static>>) -> Asset {
    let found = utoipa_swagger_ui::serve(name, Arc::clone(config));
    let file = found
        .ok()
        .flatten()
        .expect("the files are those of the version in Cargo.lock, which a test looks over");
    Asset::new(name, file.bytes, POLICY)
}
