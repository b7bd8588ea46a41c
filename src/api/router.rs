//! The routes, and the OpenAPI document made from them.

use std::any::Any;
use std::fmt::Write as _;

use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, middleware};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::limit::RequestBodyLimitLayer;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::problem::{self, ErrorCode, Problem};
use super::{App, capabilities, health, jobs, metrics, page, stories, uploads, webhooks};
use crate::queue::FailureCode;

/// The name of the security scheme.
const KEY: &str = "api_key";

#[derive(OpenApi)]
#[openapi(
    info(title = "StoryMem Serve", license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")),
    components(schemas(
        problem::Document,
        jobs::events::ChangeView,
        stories::events::StoryChangeView,
        webhooks::Message
    )),
    tags(
        (name = "jobs", description = "Shots: ask for one, follow it, fetch it"),
        (name = "stories", description = "Films of several shots, from a script"),
        (name = "uploads", description = "Images that are sent once and used by many jobs"),
        (name = "operations", description = "For whoever runs the service"),
    )
)]
struct Base;

fn routes() -> OpenApiRouter<App> {
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
        .routes(routes!(capabilities::get_capabilities))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(metrics::metrics))
}

/// The OpenAPI 3.1 document.
pub fn document() -> utoipa::openapi::OpenApi {
    let mut document = routes().into_openapi();
    document.info.description = Some(description());
    protect(&mut document);
    document
}

/// Says that all but the operator's own calls take an API key.
fn protect(document: &mut utoipa::openapi::OpenApi) {
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("An API key, where the operator has made any: `storymem keys add`."))
        .build();
    document.components.get_or_insert_default().add_security_scheme(KEY, SecurityScheme::Http(scheme));
    let none: [&str; 0] = [];
    let items = document.paths.paths.values_mut();
    let operations =
        items.flat_map(|item| [&mut item.get, &mut item.post, &mut item.put, &mut item.delete]).flatten();
    for operation in
        operations.filter(|operation| !operation.tags.iter().flatten().any(|tag| tag == "operations"))
    {
        operation.security = Some(vec![SecurityRequirement::default(), SecurityRequirement::new(KEY, none)]);
        operation.responses.responses.extend(problem::responses(&[ErrorCode::Unauthorized]));
    }
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
