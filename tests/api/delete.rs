//! `DELETE /jobs/{id}`.

use reqwest::Method;

use crate::Service;

#[tokio::test]
async fn a_job_that_has_not_ended_is_not_deleted() {
    let service = Service::new().await;
    let path = format!("/jobs/{}", service.job().await);
    let delete = async || service.send(service.request(Method::DELETE, &path)).await;
    let answer = delete().await;
    assert_eq!((answer.status, answer.code().as_str()), (409, "job_not_ended"));
    service.claim().await;
    assert_eq!(delete().await.code(), "job_not_ended");
    assert_eq!(service.get(&path).await.json()["status"], "running");
}

#[tokio::test]
async fn a_deleted_job_is_gone_and_so_are_its_files() {
    let service = Service::new().await;
    let path = format!("/jobs/{}", service.job().await);
    let lease = service.claim().await;
    service.succeed(&lease, b"a video").await;
    let delete = async || service.send(service.request(Method::DELETE, &path)).await;
    let answer = delete().await;
    assert_eq!((answer.status, answer.body.len()), (204, 0));
    for what in ["", "/video", "/thumbnail", "/keyframes/last", "/events"] {
        let answer = service.get(&format!("{path}{what}")).await;
        assert_eq!((answer.status, answer.code().as_str()), (410, "job_deleted"), "{what}");
    }
    for what in ["/cancel", "/retry"] {
        let answer = service.send(service.request(Method::POST, &format!("{path}{what}"))).await;
        assert_eq!((answer.status, answer.code().as_str()), (410, "job_deleted"), "{what}");
    }
    assert_eq!(delete().await.status, 410);
    assert!(!service.storage.video(lease.job, lease.token).exists());
    assert!(service.get("/jobs").await.json()["items"].as_array().unwrap().is_empty());
}
