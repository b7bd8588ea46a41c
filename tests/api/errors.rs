//! Errors that belong to no one route.

use reqwest::Method;
use uuid::Uuid;

use crate::Service;

#[tokio::test]
async fn a_path_that_is_not_there_is_a_problem() {
    let service = Service::new().await;
    for path in ["/index.htm", "/job", "/jobs/", "/jobs/x/y/z", "/..%2f..%2fetc/passwd"] {
        let answer = service.get(path).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"), "{path}");
    }
}

#[tokio::test]
async fn a_method_that_is_not_there_is_a_problem_that_lists_those_that_are() {
    let service = Service::new().await;
    let job = format!("/jobs/{}", Uuid::now_v7());
    for (method, path, allowed) in [
        (Method::DELETE, "/jobs", vec!["GET", "HEAD", "POST"]),
        (Method::PUT, job.as_str(), vec!["DELETE", "GET", "HEAD"]),
        (Method::GET, "/uploads", vec!["POST"]),
        (Method::POST, "/healthz", vec!["GET", "HEAD"]),
        (Method::GET, &format!("{job}/cancel"), vec!["POST"]),
        (Method::POST, "/openapi.json", vec!["GET", "HEAD"]),
    ] {
        let answer = service.send(service.request(method.clone(), path)).await;
        assert_eq!((answer.status, answer.code().as_str()), (405, "method_not_allowed"), "{method} {path}");
        let mut given: Vec<_> = answer.header("allow").split(',').collect();
        given.sort_unstable();
        assert_eq!(given, allowed, "{method} {path}");
    }
}

#[tokio::test]
async fn a_job_that_is_not_there_is_the_same_everywhere() {
    let service = Service::new().await;
    for id in [&Uuid::now_v7().to_string(), "1", "not-a-uuid", "..%2f..", "%00", "%ff"] {
        for (method, what) in [
            (Method::GET, ""),
            (Method::GET, "/video"),
            (Method::GET, "/thumbnail"),
            (Method::GET, "/keyframes/last"),
            (Method::GET, "/events"),
            (Method::DELETE, ""),
            (Method::POST, "/retry"),
            (Method::POST, "/cancel"),
        ] {
            let answer = service.send(service.request(method, &format!("/jobs/{id}{what}"))).await;
            assert_eq!((answer.status, answer.code().as_str()), (404, "job_not_found"), "{id}{what}");
        }
    }
}
