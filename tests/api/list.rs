//! `GET /jobs`.

use serde_json::Value;

use crate::Service;

fn ids(page: &Value) -> Vec<String> {
    page["items"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn pages_go_from_the_newest_to_the_oldest() {
    let service = Service::new().await;
    let mut all = Vec::new();
    for _ in 0..5 {
        all.insert(0, service.job().await);
    }
    let mut seen = Vec::new();
    let mut path = "/jobs?limit=2".to_owned();
    loop {
        let page = service.get(&path).await.json();
        seen.push(ids(&page));
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/jobs?limit=2&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(seen, [&all[0..2], &all[2..4], &all[4..5]]);
    service.queue.cancel(all[3].parse().unwrap()).await.unwrap();
    assert_eq!(ids(&service.get("/jobs?status=cancelled").await.json()), [all[3].as_str()]);
    assert_eq!(ids(&service.get("/jobs?status=queued").await.json()).len(), 4);
    assert!(ids(&service.get("/jobs?status=failed").await.json()).is_empty());
}

#[tokio::test]
async fn a_query_that_is_wrong_is_refused() {
    let service = Service::new().await;
    for query in ["limit=0", "limit=201", "limit=x", "status=done", "cursor=5", "page=2", "limit=1&limit=2"] {
        let answer = service.get(&format!("/jobs?{query}")).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_query"), "{query}");
    }
}
