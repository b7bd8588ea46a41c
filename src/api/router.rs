//! The routes.

use std::any::Any;

use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, middleware};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::limit::RequestBodyLimitLayer;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::document::document;
use super::problem::{self, ErrorCode, Problem};
use super::{App, capabilities, health, jobs, metrics, page, stories, uploads, videos, webhooks};

#[derive(OpenApi)]
#[openapi(
    info(title = "StoryMem Serve", license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")),
    components(schemas(
        problem::Document,
        videos::ErrorView,
        jobs::events::ChangeView,
        stories::events::StoryChangeView,
        webhooks::Message
    )),
    tags(
        (name = "jobs", description = "Shots: ask for one, follow it, fetch it"),
        (name = "stories", description = "Films of several shots, from a script"),
        (name = "uploads", description = "Images that are sent once and used by many jobs"),
        (name = "videos", description = "The calls of OpenAI's videos API over the same jobs"),
        (name = "operations", description = "For whoever runs the service"),
    )
)]
struct Base;

/// The routes with what is documented of them.
pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Base::openapi())
        .routes(routes!(jobs::list::list_jobs, jobs::create::create_job))
        .routes(routes!(jobs::get::get_job, jobs::delete::delete_job))
        .routes(routes!(jobs::events::follow_job))
        .routes(routes!(jobs::cancel::cancel_job))
        .routes(routes!(jobs::retry::retry_job))
        .routes(routes!(jobs::video::get_video))
        .routes(routes!(jobs::thumbnail::get_thumbnail))
        .routes(routes!(jobs::keyframe::get_keyframe))
        .routes(routes!(jobs::webhook::get_webhook))
        .routes(routes!(stories::list::list_stories, stories::create::create_story))
        .routes(routes!(stories::get::get_story, stories::delete::delete_story))
        .routes(routes!(stories::events::follow_story))
        .routes(routes!(stories::cancel::cancel_story))
        .routes(routes!(stories::redo::redo_shot))
        .routes(routes!(stories::memory::put_memory))
        .routes(routes!(stories::memory::get_memory_image))
        .routes(routes!(stories::video::get_film))
        .routes(routes!(uploads::create::create_upload))
        .routes(routes!(videos::list::list_videos, videos::create::create_video))
        .routes(routes!(videos::get::retrieve_video, videos::delete::delete_video))
        .routes(routes!(videos::content::get_video_content))
        .routes(routes!(capabilities::get_capabilities))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(metrics::metrics))
}

/// The whole service.
pub fn router(app: App) -> Router {
    let (routes, _) = routes().split_for_parts();
    let json = document().to_json().expect("a document of strings, lists and maps with string keys is JSON");
    let json = Bytes::from(json);
    let openapi = move || async move { ([(header::CONTENT_TYPE, "application/json")], json) };
    let routes = routes.route("/openapi.json", get(openapi)).merge(page::routes());
    around(routes, app.limits.body_bytes)
        .layer(middleware::from_fn_with_state(app.http_metrics.clone(), metrics::observe))
        .with_state(app)
}

/// What is around every route: from the inside, a limit for bodies, a net for panics, and the writing of problems.
fn around<S: Clone + Send + Sync + 'static>(routes: Router<S>, body_bytes: usize) -> Router<S> {
    routes
        .layer(DefaultBodyLimit::disable())
        .layer(RequestBodyLimitLayer::new(body_bytes))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn_with_state(body_bytes, problem::render))
}

fn panicked(cause: Box<dyn Any + Send>) -> Response {
    let text =
        cause.downcast_ref::<String>().map(String::as_str).or_else(|| cause.downcast_ref::<&str>().copied());
    tracing::error!(panic = text.unwrap_or("of unknown cause"), "a request handler panicked");
    Problem::new(ErrorCode::Internal, "the request could not be served; the service's log says why")
        .into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::{Request, StatusCode};
    use serde_json::Value;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_a_problem_that_tells_nothing() {
        async fn panics() {
            panic!("a secret");
        }
        let router = around(Router::new().route("/panics", get(panics)), 10);
        let answer = router.oneshot(Request::get("/panics").body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(answer.headers()[header::CONTENT_TYPE], problem::MEDIA_TYPE);
        let body = to_bytes(answer.into_body(), 10_000).await.unwrap();
        assert!(!String::from_utf8_lossy(&body).contains("secret"));
        let problem: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(problem["code"], "internal");
        assert_eq!(problem["instance"], "/panics");
    }
}
