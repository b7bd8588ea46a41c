//! A damaged and a locked database.

use std::fs;
use std::time::Instant;

use serde_json::Value;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use storymem::queue::{Filter, Status};

use crate::common::service::{Ask, Site, check_whole, id, until};

/// The database, held by somebody else.
async fn lock(site: &Site) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(site.data.join("storymem.sqlite"));
    let mut connection = options.connect().await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut connection).await.unwrap();
    connection
}

async fn release(mut connection: SqliteConnection) {
    sqlx::query("ROLLBACK").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_database_is_named_with_what_to_do_and_left_as_it_is() {
    let site = Site::new(&[]);
    let service = site.start();
    let done = service.ended(service.post(&Ask::short(0)).await).await;
    service.stop().await;
    let path = site.data.join("storymem.sqlite");
    let whole = fs::read(&path).unwrap();
    let flipped = |from: usize, to: usize| {
        let mut bytes = whole.clone();
        bytes[from..to].iter_mut().for_each(|byte| *byte ^= 0x5a);
        bytes
    };
    for (what, bytes) in [
        ("not a database", b"these are not the bytes of a database".repeat(200)),
        ("a damaged header", flipped(0, 16)),
        ("a damaged schema", flipped(100, 600)),
        ("damaged pages", flipped(4096, whole.len())),
        ("cut short", whole[..whole.len() / 2].to_vec()),
    ] {
        fs::write(&path, &bytes).unwrap();
        let said = site.fails_to_start();
        println!("{what}: {said}");
        let expected = format!("the job database `{}` is damaged: ", path.canonicalize().unwrap().display());
        assert!(said.contains(&expected) && said.contains("put a copy back"), "{what}: {said}");
        assert!(fs::read(&path).unwrap() == bytes, "{what}: the file was changed");
    }
    fs::write(&path, &whole).unwrap();
    let service = site.start();
    assert_eq!(service.job(id(&done)).await["result"], done["result"]);
    service.stop().await;

    // And with the remedy.
    fs::rename(&path, site.folder().join("aside")).unwrap();
    let service = site.start();
    assert_eq!(service.ended(service.post(&Ask::short(1)).await).await["status"], "succeeded");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_database_makes_requests_wait_or_says_so_and_nothing_is_lost() {
    let site = Site::new(&[]);
    let service = site.start();
    let running = service.post(&Ask::long()).await;
    service.reaches_step(running, 1).await;

    // For a while: who asks, waits.
    let held = lock(&site).await;
    let ask = Ask::short(1);
    let mut posting = Box::pin(service.try_post(&ask));
    let early = tokio::time::timeout(std::time::Duration::from_millis(300), &mut posting).await;
    assert!(early.is_err(), "it was answered before it could be kept: {early:?}");
    assert_eq!(service.job(running).await["id"], running.to_string(), "reading goes on");
    release(held).await;
    let accepted = posting.await.unwrap();
    assert_eq!(accepted.status(), 202);
    let accepted = id(&accepted.json().await.unwrap());

    // For too long: who asks is told to come back.
    let held = lock(&site).await;
    let begin = Instant::now();
    let refused = service.try_post(&Ask::short(2)).await.unwrap();
    println!("refused after {:.1} s", begin.elapsed().as_secs_f64());
    assert_eq!(refused.status(), 503);
    assert!(refused.headers().contains_key("retry-after"));
    let problem: Value = refused.json().await.unwrap();
    println!("{problem}");
    assert_eq!(problem["code"], "database_busy");
    release(held).await;

    for job in [running, accepted] {
        let job = service.ended(job).await;
        assert_eq!(job["status"], "succeeded", "{job}");
    }
    assert_eq!(service.ended(service.post(&Ask::short(2)).await).await["status"], "succeeded");
    let queue = site.queue().await;
    let jobs = queue.jobs(Filter::default(), u32::MAX).await.unwrap();
    assert_eq!(jobs.len(), 3, "what was refused is not there");
    assert!(jobs.iter().all(|job| job.status == Status::Succeeded));
    until("all is cleared away", async || {
        site.files().iter().all(|path| !path.starts_with("checkpoints")).then_some(())
    })
    .await;
    service.stop().await;
    check_whole(&site, &queue, &jobs).await;
}
