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

#[test]
fn no_page_loses_or_repeats_a_job() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let service = runtime.block_on(Service::new());
    // What was there before a walk is seen once in it, whatever comes, ends or goes meanwhile.
    let strategy = (1..8_u32, proptest::collection::vec(0..3_u8, 0..12));
    let config = proptest::test_runner::Config { cases: 24, ..Default::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let walked = runner.run(&strategy, |(limit, meanwhile)| {
        runtime.block_on(walk(&service, limit, &meanwhile));
        Ok(())
    });
    walked.unwrap();
}

async fn walk(service: &Service, limit: u32, meanwhile: &[u8]) {
    for _ in 0..3 {
        service.job().await;
    }
    let before = ids(&service.get("/jobs?limit=200").await.json());
    let mut meanwhile = meanwhile.iter();
    let mut seen: Vec<String> = Vec::new();
    let mut deleted: Vec<String> = Vec::new();
    let mut path = format!("/jobs?limit={limit}");
    loop {
        let page = service.get(&path).await.json();
        assert!(ids(&page).len() <= limit as usize);
        seen.extend(ids(&page));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/jobs?limit={limit}&cursor={cursor}");
        match meanwhile.next() {
            Some(0) => drop(service.job().await),
            Some(1) => {
                // The job the cursor names may itself go.
                let id: uuid::Uuid = cursor.parse().unwrap();
                let _ = service.queue.cancel(id).await;
                service.queue.remove(id).await.unwrap();
                deleted.push(cursor.to_owned());
            }
            Some(_) => drop(service.queue.cancel(before[before.len() - 1].parse().unwrap()).await),
            None => {}
        }
    }
    assert_eq!(seen, before, "a job that came later is newer than every page after the first");
    let after = ids(&service.get("/jobs?limit=200").await.json());
    assert!(deleted.iter().all(|id| !after.contains(id)));
}
