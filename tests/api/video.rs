//! `GET /jobs/{id}/video` and `/thumbnail`.

use reqwest::Method;

use crate::Service;

const VIDEO: &[u8] = b"0123456789abcdefghij";

/// A service with one job that succeeded, and the job's path.
async fn finished() -> (Service, String) {
    let service = Service::new().await;
    let path = format!("/jobs/{}", service.job().await);
    let lease = service.claim().await;
    service.succeed(&lease, VIDEO).await;
    (service, path)
}

#[tokio::test]
async fn there_is_no_video_before_the_job_has_succeeded() {
    let service = Service::new().await;
    let path = format!("/jobs/{}", service.job().await);
    for what in ["video", "thumbnail"] {
        let answer = service.get(&format!("{path}/{what}")).await;
        assert_eq!((answer.status, answer.code().as_str()), (409, "result_not_ready"));
        assert!(answer.header("retry-after").parse::<u32>().unwrap() > 0);
    }
    service.claim().await;
    assert_eq!(service.get(&format!("{path}/video")).await.code(), "result_not_ready");
}

#[tokio::test]
async fn the_video_comes_whole() {
    let (service, path) = finished().await;
    let answer = service.get(&format!("{path}/video")).await;
    assert_eq!((answer.status, answer.body.as_slice()), (200, VIDEO));
    assert_eq!(answer.header("content-type"), "video/mp4");
    assert_eq!(answer.header("accept-ranges"), "bytes");
    let id = path.trim_start_matches("/jobs/");
    let name =
        format!("inline; filename=\"storymem-{id}.mp4\"; filename*=UTF-8''a%20fox%20in%20the%20snow.mp4");
    assert_eq!(answer.header("content-disposition"), name);
    assert!(answer.header("etag").starts_with('"'), "strong");
    let head = service.send(service.request(Method::HEAD, &format!("{path}/video"))).await;
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, "20", 0));
    assert_eq!(head.header("etag"), answer.header("etag"));
    let thumbnail = service.get(&format!("{path}/thumbnail")).await;
    assert_eq!((thumbnail.status, thumbnail.body.as_slice()), (200, b"a thumbnail".as_slice()));
    assert_eq!(thumbnail.header("content-type"), "image/jpeg");
}

#[tokio::test]
async fn the_video_comes_in_parts() {
    let (service, path) = finished().await;
    let range = async |range: &str| {
        service.send(service.request(Method::GET, &format!("{path}/video")).header("range", range)).await
    };
    for (asked, part, content_range) in [
        ("bytes=0-3", &VIDEO[..4], "bytes 0-3/20"),
        ("bytes=4-", &VIDEO[4..], "bytes 4-19/20"),
        ("bytes=-5", &VIDEO[15..], "bytes 15-19/20"),
        ("bytes=19-19", &VIDEO[19..], "bytes 19-19/20"),
        ("bytes=10-99", &VIDEO[10..], "bytes 10-19/20"),
    ] {
        let answer = range(asked).await;
        assert_eq!((answer.status, answer.body.as_slice()), (206, part), "{asked}");
        assert_eq!(answer.header("content-range"), content_range);
        assert_eq!(answer.header("content-type"), "video/mp4");
    }
    for asked in ["bytes=20-", "bytes=99-100"] {
        let answer = range(asked).await;
        assert_eq!((answer.status, answer.code().as_str()), (416, "range_not_satisfiable"), "{asked}");
        assert_eq!(answer.header("content-range"), "bytes */20");
    }
    let several = range("bytes=0-1,4-5").await;
    assert_eq!((several.status, several.body.as_slice()), (200, VIDEO), "several ranges get the whole");
}

#[tokio::test]
async fn conditions_are_kept() {
    let (service, path) = finished().await;
    let video = format!("{path}/video");
    let tag = service.get(&video).await.header("etag").to_owned();
    let with = async |headers: &[(&'static str, &str)]| {
        let mut request = service.request(Method::GET, &video);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        service.send(request).await
    };
    assert_eq!(with(&[("if-none-match", &tag)]).await.status, 304);
    assert_eq!(with(&[("if-none-match", "\"x\"")]).await.status, 200);
    assert_eq!(with(&[("if-match", "\"x\"")]).await.code(), "precondition_failed");
    assert_eq!(with(&[("range", "bytes=0-3"), ("if-range", &tag)]).await.status, 206);
    let whole = with(&[("range", "bytes=0-3"), ("if-range", "\"x\"")]).await;
    assert_eq!(
        (whole.status, whole.body.as_slice()),
        (200, VIDEO),
        "the part the client has is of another file"
    );
}

#[tokio::test]
async fn a_video_that_is_gone_is_a_fault_of_the_service() {
    let (service, path) = finished().await;
    service.storage.remove_results(path.trim_start_matches("/jobs/").parse().unwrap()).unwrap();
    let answer = service.get(&format!("{path}/video")).await;
    assert_eq!((answer.status, answer.code().as_str()), (500, "internal"));
    assert!(!String::from_utf8_lossy(&answer.body).contains("results"), "paths stay inside");
}
