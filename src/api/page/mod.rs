//! What people see in a browser: the page at `/`, and Swagger UI at `/docs/`.
//!
//! Everything is in the binary and nothing is asked of any other host: a service on a machine without a way out has the
//! same page. The page is plain HTML, CSS and ES modules, as they lie in `assets/`; it uses the API as any client does.

mod asset;
mod docs;

use axum::Router;
use axum::http::HeaderMap;
use axum::response::Redirect;
use axum::routing::get;

use asset::{Asset, Policy, Shelf};

/// Only what comes from the service itself, no scripts in the HTML, and no HTML out of strings.
const POLICY: Policy = Policy(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src 'self' blob:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'",
);

/// The files of the page, by name.
macro_rules! assets {
    ($($name:literal),* $(,)?) => {
        [$(Asset::new($name, include_bytes!(concat!("assets/", $name)), POLICY)),*]
    };
}

/// The routes. They are no part of the API, and not in its document.
pub fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let page = Shelf::new(assets![
        "index.html",
        "icon.svg",
        "base.css",
        "form.css",
        "jobs.css",
        "api.js",
        "app.js",
        "card.js",
        "confirm.js",
        "dom.js",
        "events.js",
        "feed.js",
        "fields.js",
        "images.js",
        "job-card.js",
        "key.js",
        "maker.js",
        "media.js",
        "queue.js",
        "service.js",
        "settings.js",
        "sortable.js",
        "story-card.js",
        "story-form.js",
        "story-memory.js",
        "story-shot.js",
        "words.js",
    ]);
    let index = page.clone();
    Router::new()
        .route("/", get(move |headers: HeaderMap| async move { index.serve("index.html", &headers) }))
        .route("/page/{name}", page.into_route())
        .route("/docs", get(|| async { Redirect::permanent("/docs/") }))
        .merge(docs::routes())
}
