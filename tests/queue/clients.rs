//! What the queue keeps for clients: keys, answers, messages, tombstones.

use std::sync::Arc;
use std::time::Duration;

use storymem::pipeline::Variant;
use storymem::queue::{
    Delivered, Ending, Failure, FailureCode, Job, NewJob, Once, Origin, QueueError, Room, Submitted, Tried,
};
use storymem::storage::Digest;
use uuid::Uuid;

use crate::{Bench, new_job, success};

fn owned(owner: &str) -> NewJob {
    NewJob {
        origin: Origin { owner: Some(owner.to_owned()), ..Origin::default() },
        ..new_job(0, Variant::M2v)
    }
}

fn once(key: &str, body: &str) -> Once {
    Once { owner: None, key: key.to_owned(), fingerprint: Digest::of(body.as_bytes()) }
}

fn answer(job: &Job, position: u64) -> String {
    format!("{} at {position}", job.id)
}

fn hooked() -> NewJob {
    let origin = Origin { webhook_url: Some("https://example.com/hook".to_owned()), ..Origin::default() };
    NewJob { origin, ..new_job(0, Variant::M2v) }
}

#[tokio::test]
async fn a_key_opens_until_it_is_revoked_and_no_other_text_does() {
    let bench = Bench::new().await;
    assert!(!bench.queue.has_keys().await.unwrap());
    let (alice, bob) = (
        bench.queue.add_key("alice", None).await.unwrap(),
        bench.queue.add_key("bob", Some(3)).await.unwrap(),
    );
    let found = bench.queue.check_key(&bob.text).await.unwrap().unwrap();
    assert_eq!((found.owner.as_str(), found.max_jobs), ("bob", Some(3)));
    let (_, secret) = bob.text.rsplit_once('_').unwrap();
    for wrong in [
        String::new(),
        "sm_".to_owned(),
        "sm__".to_owned(),
        format!("sm_{}_", bob.record.id),
        format!("sm_{}_{}", alice.record.id, secret),
        format!("{}x", bob.text),
        bob.text[..bob.text.len() - 1].to_owned(),
        bob.text.to_uppercase(),
        bob.record.id.clone(),
    ] {
        assert_eq!(bench.queue.check_key(&wrong).await.unwrap(), None, "{wrong}");
    }
    let file = std::fs::read(bench.storage.database().with_extension("sqlite-wal")).unwrap();
    let inside = file.windows(bob.text.len()).any(|window| window == bob.text.as_bytes());
    assert!(!inside, "the key itself is not in the database");
    assert!(bench.queue.revoke_key(&bob.record.id).await.unwrap());
    assert!(!bench.queue.revoke_key(&bob.record.id).await.unwrap(), "only once");
    assert_eq!(bench.queue.check_key(&bob.text).await.unwrap(), None);
    assert!(bench.queue.has_keys().await.unwrap(), "revoking does not open the door");
}

#[tokio::test(flavor = "multi_thread")]
async fn however_many_ask_at_once_under_one_key_one_job_is_queued() {
    let bench = Arc::new(Bench::new().await);
    let other = bench.other_process().await;
    let asking = (0..24).map(|n| {
        let queue = if n % 2 == 0 { bench.queue.clone() } else { other.clone() };
        tokio::spawn(async move {
            let job = new_job(0, Variant::M2v);
            queue.submit_in(&job, Room::default(), Some((&once("k", "same"), answer))).await.unwrap()
        })
    });
    let mut answers = Vec::new();
    let mut queued = 0;
    for submitted in futures::future::join_all(asking).await {
        match submitted.unwrap() {
            Submitted::Queued(job, position) => {
                queued += 1;
                answers.push(answer(&job, position));
            }
            Submitted::Before(answer) => answers.push(answer),
        }
    }
    assert_eq!(queued, 1);
    answers.dedup();
    assert_eq!(answers.len(), 1, "all have the same answer");
    assert_eq!(bench.queue.jobs(Default::default(), 100).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_key_is_for_one_request_for_a_day() {
    let bench = Bench::new().await;
    let submit = async |key: &Once| {
        bench.queue.submit_in(&new_job(0, Variant::M2v), Room::default(), Some((key, answer))).await
    };
    submit(&once("k", "one")).await.unwrap();
    assert!(matches!(submit(&once("k", "two")).await, Err(QueueError::KeyReused)));
    assert!(matches!(bench.queue.answered(&once("k", "two")).await, Err(QueueError::KeyReused)));
    let of_alice = Once { owner: Some("alice".to_owned()), ..once("k", "two") };
    assert!(
        matches!(submit(&of_alice).await, Ok(Submitted::Queued(..))),
        "another owner's key is another key"
    );
    bench.pass(Duration::from_hours(24));
    assert!(bench.queue.answered(&once("k", "one")).await.unwrap().is_some());
    bench.pass(Duration::from_millis(1));
    assert!(bench.queue.answered(&once("k", "one")).await.unwrap().is_none());
    assert!(matches!(submit(&once("k", "two")).await, Ok(Submitted::Queued(..))));
}

#[tokio::test]
async fn a_job_that_finds_no_room_is_not_queued() {
    let bench = Bench::new().await;
    let submit = async |job: &NewJob, queued, owned| {
        bench
            .queue
            .submit_in(job, Room { queued, owned }, Some((&once("k", &job.id.to_string()), answer)))
            .await
    };
    bench.queue.submit(&owned("alice")).await.unwrap();
    bench.queue.submit(&owned("alice")).await.unwrap();
    assert!(matches!(submit(&owned("bob"), Some(2), None).await, Err(QueueError::Full { queued: 2 })));
    let spent = submit(&owned("alice"), None, Some(2)).await;
    assert!(matches!(spent, Err(QueueError::QuotaSpent { owned: 2, most: 2 })), "{spent:?}");
    assert!(matches!(submit(&owned("bob"), Some(3), Some(1)).await, Ok(Submitted::Queued(..))));
}

#[tokio::test]
async fn every_way_to_end_leaves_one_message() {
    let bench = Bench::new().await;
    let submit = async || {
        let job = hooked();
        bench.queue.submit(&job).await.unwrap();
        job.id
    };
    let cancelled = submit().await;
    bench.queue.cancel(cancelled).await.unwrap();
    let succeeded = submit().await;
    let lease = bench.lease("a").await;
    bench.queue.end(&lease, &success(&lease)).await.unwrap();
    let failed = submit().await;
    let lease = bench.lease("a").await;
    let failure = Failure { code: FailureCode::NanLatents, detail: "NaN".to_owned() };
    bench.queue.end(&lease, &Ending::Failed(failure)).await.unwrap();
    let lost = submit().await;
    for _ in 0..3 {
        bench.lease("a").await;
        assert!(bench.queue.delivery(lost).await.unwrap().is_none(), "not before the end");
        bench.lease_runs_out();
        bench.queue.recover().await.unwrap();
    }
    let running = submit().await;
    bench.lease("a").await;
    bench.queue.cancel(running).await.unwrap();
    assert!(bench.queue.delivery(running).await.unwrap().is_none());
    bench.queue.worker_ended("a", "it was killed").await.unwrap();
    // One without a webhook.
    let silent = bench.submit(0).await;
    bench.queue.cancel(silent).await.unwrap();

    let hold = Duration::from_secs(60);
    let mut told: Vec<Uuid> =
        bench.queue.take_deliveries(100, hold).await.unwrap().into_iter().map(|d| d.job).collect();
    told.sort_unstable();
    let mut expected = [cancelled, succeeded, failed, lost, running];
    expected.sort_unstable();
    assert_eq!(told, expected);
    assert!(bench.queue.take_deliveries(100, hold).await.unwrap().is_empty(), "each is taken once");
}

#[tokio::test]
async fn a_delivery_is_tried_until_it_is_taken_or_given_up() {
    let bench = Bench::new().await;
    let job = hooked();
    bench.queue.submit(&job).await.unwrap();
    bench.queue.cancel(job.id).await.unwrap();
    let hold = Duration::from_secs(60);
    let take = async || bench.queue.take_deliveries(1, hold).await.unwrap().pop();
    let first = take().await.unwrap();
    assert_eq!((first.tries, first.url.as_str(), first.payload), (1, "https://example.com/hook", None));
    bench.queue.keep_payload(&first.id, "said first").await.unwrap();
    bench.queue.keep_payload(&first.id, "said later").await.unwrap();
    bench.pass(hold);
    let second = take().await.expect("whoever took it has died");
    assert_eq!(
        (second.tries, second.id == first.id, second.payload.as_deref()),
        (2, true, Some("said first"))
    );
    let again = Some(Duration::from_secs(5));
    let failed = Tried::Failed { status: Some(500), error: "it is down".to_owned(), again };
    bench.queue.record_delivery(&first.id, &failed).await.unwrap();
    assert!(take().await.is_none(), "not before the pause is over");
    bench.pass(Duration::from_secs(5));
    assert_eq!(take().await.unwrap().tries, 3);
    let given_up = Tried::Failed { status: None, error: "nobody is there".to_owned(), again: None };
    bench.queue.record_delivery(&first.id, &given_up).await.unwrap();
    bench.pass(Duration::from_hours(24));
    assert!(take().await.is_none());
    let record = bench.queue.delivery(job.id).await.unwrap().unwrap();
    assert_eq!(
        (record.outcome, record.last_error.as_deref()),
        (Some(Delivered::GivenUp), Some("nobody is there"))
    );
}

#[tokio::test]
async fn a_removed_job_leaves_its_tombstone_alone() {
    let bench = Bench::new().await;
    let job = NewJob { origin: Origin { owner: Some("alice".to_owned()), ..hooked().origin }, ..hooked() };
    bench.queue.submit(&job).await.unwrap();
    let remove = async || bench.queue.remove(job.id).await;
    assert!(matches!(remove().await, Err(QueueError::NotEnded(_))));
    let lease = bench.lease("a").await;
    assert!(matches!(remove().await, Err(QueueError::NotEnded(_))));
    bench.queue.end(&lease, &success(&lease)).await.unwrap();
    remove().await.unwrap();
    assert!(matches!(remove().await, Err(QueueError::Unknown(_))));
    assert_eq!(bench.queue.job(job.id).await.unwrap(), None);
    assert!(bench.queue.events(job.id, 0).await.unwrap().is_empty());
    assert!(bench.queue.attempts(job.id).await.unwrap().is_empty());
    assert!(bench.queue.delivery(job.id).await.unwrap().is_none());
    assert!(bench.queue.was_removed(job.id, Some("alice")).await.unwrap());
    assert!(!bench.queue.was_removed(job.id, Some("bob")).await.unwrap());
    assert!(!bench.queue.was_removed(job.id, None).await.unwrap());
}
