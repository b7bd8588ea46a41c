//! Stories: shots in order, what they remember, and every way they can go.

use std::time::Duration;

use serde_json::json;
use storymem::pipeline::Variant;
use storymem::queue::{
    Claim, Ending, Failure, FailureCode, Film, Keep, Keyframe, MemoryChange, NewShot, NewStory, Origin,
    QueueError, Redo, Role, Room, ShotMade, Status, Story,
};
use uuid::Uuid;

use crate::common::queue::{image, new_job};
use crate::{Bench, success};

/// A story of shots of these modes; all but the first M2V shots go on from the ones before them.
fn new_story(modes: &[Variant]) -> NewStory {
    let shot = |&variant: &Variant| NewShot {
        scene: 1,
        cut: variant == Variant::M2v,
        spec: new_job(variant, Vec::new()).spec,
        request: json!({"prompt": "a prompt"}),
    };
    NewStory {
        id: Uuid::now_v7(),
        priority: 0,
        request: json!({"script": {"story_name": "a story"}}),
        max_memory: 4,
        fixed_memory: 2,
        memory: vec![image(b"given 0"), image(b"given 1")],
        shots: modes.iter().map(shot).collect(),
        origin: Origin::default(),
    }
}

const THREE: &[Variant] = &[Variant::M2v, Variant::Mi2v, Variant::M2v];

impl Bench {
    async fn story(&self, modes: &[Variant]) -> Uuid {
        let story = new_story(modes);
        let (answer, before) = self
            .queue
            .submit_story(&story, Room::default(), None, |story| story.id.to_string())
            .await
            .unwrap();
        assert_eq!((answer, before), (story.id.to_string(), false));
        story.id
    }

    async fn read(&self, id: Uuid) -> Story {
        self.queue.story(id).await.unwrap().unwrap()
    }

    /// Ends a shot as a worker does: with a keyframe of its own, the last frames it was asked for, and at last the film.
    async fn made(&self, claim: &Claim) {
        let of = claim.story.as_ref().unwrap();
        let name = |what: &str| image(format!("{what} of {}", claim.lease.job).as_bytes());
        let film = of.film.as_ref().map(|_| Film {
            job: claim.lease.job,
            token: claim.lease.token,
            bytes: 9,
            sha256: String::new(),
            width: 96,
            height: 64,
            fps: 16,
            frames: 9,
            shots: Vec::new(),
        });
        let left = ShotMade {
            keyframes: vec![Keyframe { frame: 3, image: name("keyframe") }],
            tail: (0..of.tail).map(|n| name(&format!("tail {n}"))).collect(),
            film,
        };
        let status = self.queue.end_shot(&claim.lease, &success(&claim.lease), Some(&left)).await.unwrap();
        assert_eq!(status, Status::Succeeded);
    }

    async fn fail(&self, claim: &Claim) {
        let failure = Failure { code: FailureCode::NanLatents, detail: "it is NaN".to_owned() };
        self.queue.end(&claim.lease, &Ending::Failed(failure)).await.unwrap();
    }

    async fn shot(&self) -> Claim {
        self.claim("w").await.expect("a shot can begin")
    }

    async fn redo(&self, id: Uuid, shot: u32) -> Result<(), QueueError> {
        let redo = Redo { shot, ..Redo::default() };
        self.queue.redo(id, &redo, Room::default(), None, |_| String::new()).await.map(|_| ())
    }
}

fn statuses(story: &Story) -> Vec<Status> {
    story.shots.iter().map(|shot| shot.job.status).collect()
}

fn remembered(claim: &Claim) -> Vec<String> {
    let memory = claim.inputs.iter().filter(|input| input.role == Role::Memory);
    memory.map(|input| input.image.sha256.to_string()).collect()
}

fn digests(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| image(name.as_bytes()).sha256.to_string()).collect()
}

#[tokio::test]
async fn shots_begin_in_order_and_two_stories_go_on_side_by_side() {
    let bench = Bench::new().await;
    let (a, b) = (bench.story(THREE).await, bench.story(THREE).await);
    let mut order = Vec::new();
    for _ in 0..3 {
        let (first, second) = (bench.claim("1").await.unwrap(), bench.claim("2").await.unwrap());
        assert!(bench.claim("3").await.is_none(), "every other shot waits for one of these");
        for claim in [first, second] {
            let of = claim.story.clone().unwrap();
            order.push((of.story, of.shot));
            bench.made(&claim).await;
        }
    }
    assert_eq!(order, [(a, 1), (b, 1), (a, 2), (b, 2), (a, 3), (b, 3)]);
    for id in [a, b] {
        let story = bench.read(id).await;
        assert_eq!((story.status, story.film.is_some()), (Status::Succeeded, true));
    }
}

#[tokio::test]
async fn a_worker_takes_only_the_shots_it_can_make() {
    let bench = Bench::new().await;
    let id = bench.story(THREE).await;
    bench.made(&bench.shot().await).await;
    assert!(bench.queue.claim("w", &[Variant::M2v, Variant::T2v]).await.unwrap().is_none());
    let claim = bench.queue.claim("w", &[Variant::Mi2v]).await.unwrap().unwrap();
    assert_eq!(claim.story.as_ref().map(|of| (of.story, of.shot)), Some((id, 2)));
}

#[tokio::test]
async fn a_shot_remembers_what_the_story_does_when_it_begins() {
    let bench = Bench::new().await;
    let id = bench.story(&[Variant::M2v, Variant::Mi2v, Variant::M2v, Variant::Mm2v]).await;
    let mut jobs = Vec::new();
    let first = bench.shot().await;
    assert_eq!(remembered(&first), digests(&["given 0", "given 1"]));
    assert_eq!(first.story.as_ref().unwrap().tail, 1, "the next one goes on from one frame");
    jobs.push(first.lease.job);
    bench.made(&first).await;

    let second = bench.shot().await;
    let key = |n: usize| format!("keyframe of {}", jobs[n]);
    assert_eq!(remembered(&second), digests(&["given 0", "given 1", &key(0)]));
    let known = second.inputs.iter().find(|input| input.role == Role::FirstFrame).unwrap();
    assert_eq!(known.image, image(format!("tail 0 of {}", jobs[0]).as_bytes()));
    jobs.push(second.lease.job);
    // Another attempt is made from the same, whatever was changed meanwhile.
    let change = MemoryChange { drop: Some(vec![1]), ..MemoryChange::default() };
    bench.queue.change_memory(id, &change).await.unwrap();
    bench.lease_runs_out();
    let again = bench.shot().await;
    assert_eq!((again.lease.attempt, again.inputs.len()), (2, second.inputs.len()));
    assert_eq!(remembered(&again), remembered(&second));
    bench.made(&again).await;

    let third = bench.shot().await;
    let key = |n: usize| format!("keyframe of {}", jobs[n]);
    assert_eq!(remembered(&third), digests(&["given 1", &key(0), &key(1)]), "what was dropped is gone");
    assert_eq!(third.story.as_ref().unwrap().tail, 5);
    jobs.push(third.lease.job);
    bench.made(&third).await;

    bench
        .queue
        .change_memory(id, &MemoryChange { drop: Some(Vec::new()), ..MemoryChange::default() })
        .await
        .unwrap();
    let fourth = bench.shot().await;
    let key = |n: usize| format!("keyframe of {}", jobs[n]);
    assert_eq!(
        remembered(&fourth),
        digests(&["given 0", "given 1", &key(1), &key(2)]),
        "two fixed, two latest"
    );
    let motion: Vec<_> = fourth.inputs.iter().filter(|input| input.role == Role::Motion).collect();
    let tail = |n| image(format!("tail {n} of {}", jobs[2]).as_bytes());
    assert_eq!(
        motion.iter().map(|input| input.image.clone()).collect::<Vec<_>>(),
        (0..5).map(tail).collect::<Vec<_>>()
    );
    let film = fourth.story.as_ref().unwrap().film.as_ref().unwrap();
    assert_eq!(film.iter().map(|part| part.job).collect::<Vec<_>>(), jobs);
}

#[tokio::test]
async fn memory_is_pinned_dropped_and_added_to() {
    let bench = Bench::new().await;
    let id = bench.story(THREE).await;
    bench.made(&bench.shot().await).await;
    let change = MemoryChange { pin: Some(vec![3]), drop: Some(vec![2]), add: vec![image(b"added")] };
    for _ in 0..2 {
        let story = bench.queue.change_memory(id, &change).await.unwrap();
        let seen: Vec<_> =
            story.memory.iter().map(|f| (f.id, f.shot, f.frame.is_some(), f.pinned, f.dropped)).collect();
        assert_eq!(
            seen,
            [
                (1, 0, false, false, false),
                (2, 0, false, false, true),
                (3, 1, true, true, false),
                (4, 1, false, false, false)
            ],
            "and saying it twice changes nothing"
        );
    }
    let refused = |pin: &[i64], drop: &[i64]| MemoryChange {
        pin: Some(pin.to_vec()),
        drop: Some(drop.to_vec()),
        add: Vec::new(),
    };
    let result = bench.queue.change_memory(id, &refused(&[9], &[])).await;
    assert!(matches!(result, Err(QueueError::NoSuchFrame { frame: 9 })), "{result:?}");
    let result = bench.queue.change_memory(id, &refused(&[], &[1, 2, 3, 4])).await;
    assert!(matches!(result, Err(QueueError::NothingRemembered)), "{result:?}");
    let many = (0..5).map(|n| image(&[n])).collect();
    let story =
        bench.queue.change_memory(id, &MemoryChange { add: many, ..MemoryChange::default() }).await.unwrap();
    let all: Vec<i64> = story.memory.iter().map(|frame| frame.id).collect();
    let result = bench.queue.change_memory(id, &refused(&all, &[])).await;
    assert!(matches!(result, Err(QueueError::TooManyPinned { pinned: 9, most: 4 })), "{result:?}");
    assert_eq!(bench.read(id).await, story, "what is refused changes nothing");
}

#[tokio::test]
async fn a_shot_that_fails_ends_the_story_and_is_redone() {
    let bench = Bench::new().await;
    let id = bench.story(THREE).await;
    bench.made(&bench.shot().await).await;
    bench.fail(&bench.shot().await).await;
    let story = bench.read(id).await;
    assert_eq!((story.status, story.finished_at.is_some()), (Status::Failed, true));
    assert_eq!(statuses(&story), [Status::Succeeded, Status::Failed, Status::Cancelled]);
    assert_eq!(story.shots[2].job.warnings, ["shot 2 of its story failed; redo that shot to go on"]);
    assert!(bench.claim("w").await.is_none());
    let refused = bench.redo(id, 3).await;
    assert!(matches!(refused, Err(QueueError::ShotNotReady { shot: 2 })), "{refused:?}");
    for shot in [0, 4] {
        assert!(matches!(bench.redo(id, shot).await, Err(QueueError::NoSuchShot { .. })));
    }

    bench.redo(id, 2).await.unwrap();
    assert_eq!(bench.read(id).await.status, Status::Queued);
    for shot in [2, 3] {
        let claim = bench.shot().await;
        assert_eq!(claim.story.as_ref().unwrap().shot, shot);
        bench.made(&claim).await;
    }
    let after = bench.read(id).await;
    assert_eq!(after.status, Status::Succeeded);
    assert_eq!(after.shots.iter().map(|shot| shot.revision).collect::<Vec<_>>(), [1, 2, 2]);
    assert_eq!(after.shots[1].job.origin.retry_of, Some(story.shots[1].job.id));
    let old = bench.job(story.shots[1].job.id).await;
    assert_eq!(old, story.shots[1].job, "an end is never taken back");
}

#[tokio::test]
async fn what_is_redone_counts_no_more() {
    let bench = Bench::new().await;
    let id = bench.story(THREE).await;
    for _ in 0..3 {
        bench.made(&bench.shot().await).await;
    }
    let before = bench.read(id).await;
    let redo = Redo { shot: 2, seed: Some(5), prompt: Some("another".to_owned()), traceparent: None };
    bench.queue.redo(id, &redo, Room::default(), None, |_| String::new()).await.unwrap();
    let story = bench.read(id).await;
    assert_eq!(story.film, before.film, "the film is there until there is a new one");
    assert_eq!(story.memory.len(), 3, "what shots 2 and 3 had added is forgotten");
    assert_eq!(story.shots[0], before.shots[0]);
    let spec = &story.shots[1].job.spec;
    assert_eq!((spec.sampling.seed, spec.prompt.as_str()), (5, "another"));
    assert_eq!(story.shots[2].job.spec, before.shots[2].job.spec);

    // While it runs it is asked for again: the worker is told to let go, and its shot is of no account.
    let claim = bench.shot().await;
    bench.redo(id, 2).await.unwrap();
    assert_eq!(bench.job(claim.lease.job).await.status, Status::Cancelling);
    let newest = bench.shot().await;
    assert_ne!(newest.lease.job, claim.lease.job);
    let end = bench.queue.end(&claim.lease, &success(&claim.lease)).await.unwrap();
    assert_eq!((end, bench.read(id).await.status), (Status::Cancelled, Status::Running));
    bench.made(&newest).await;
    bench.made(&bench.shot().await).await;
    let after = bench.read(id).await;
    assert_eq!(after.status, Status::Succeeded);
    assert_ne!(after.film, before.film);
    assert_eq!(after.memory.len(), 5);
}

#[tokio::test]
async fn a_story_is_cancelled_as_a_whole() {
    let bench = Bench::new().await;
    let id = bench.story(THREE).await;
    bench.made(&bench.shot().await).await;
    let claim = bench.shot().await;
    assert_eq!(bench.queue.cancel_story(id).await.unwrap(), Status::Cancelling);
    assert_eq!(bench.queue.cancel_story(id).await.unwrap(), Status::Cancelling, "asking twice is no error");
    assert_eq!(statuses(&bench.read(id).await), [Status::Succeeded, Status::Cancelling, Status::Cancelled]);
    assert!(matches!(bench.queue.remove_story(id).await, Err(QueueError::NotEnded(_))));
    bench.queue.end(&claim.lease, &Ending::GivenBack).await.unwrap();
    let story = bench.read(id).await;
    assert_eq!(story.status, Status::Cancelled);
    let again = bench.queue.cancel_story(id).await;
    assert!(matches!(again, Err(QueueError::Ended { status: Status::Cancelled, .. })), "{again:?}");

    // Before anything has begun, it ends at once; and one shot that is cancelled takes those after it along.
    let waiting = bench.story(THREE).await;
    assert_eq!(bench.queue.cancel_story(waiting).await.unwrap(), Status::Cancelled);
    let other = bench.story(THREE).await;
    bench.queue.cancel(bench.read(other).await.shots[1].job.id).await.unwrap();
    assert_eq!(statuses(&bench.read(other).await), [Status::Queued, Status::Cancelled, Status::Cancelled]);
    bench.made(&bench.shot().await).await;
    assert_eq!(bench.read(other).await.status, Status::Cancelled);
}

#[tokio::test]
async fn there_is_room_for_all_shots_or_for_none() {
    let bench = Bench::new().await;
    let room = |queued, owned| Room { queued, owned };
    let submit = async |room: Room| {
        let mut story = new_story(THREE);
        story.origin.owner = Some("alice".to_owned());
        bench.queue.submit_story(&story, room, None, |_| String::new()).await
    };
    assert!(matches!(submit(room(Some(2), None)).await, Err(QueueError::Full { queued: 0 })));
    submit(room(Some(3), Some(3))).await.unwrap();
    assert!(matches!(submit(room(None, Some(5))).await, Err(QueueError::QuotaSpent { owned: 3, most: 5 })));
    assert_eq!(bench.queue.stories(Default::default(), 10).await.unwrap().len(), 0, "they are alice's");
}

#[tokio::test]
async fn a_story_is_kept_and_goes_as_a_whole() {
    let bench = Bench::new().await;
    let keep = Keep {
        jobs: Duration::from_hours(1000),
        tombstones: Duration::from_hours(1000),
        inputs: Duration::from_hours(1),
    };
    let results = bench.queue.policy().results;
    let id = bench.story(THREE).await;
    bench.made(&bench.shot().await).await;
    // Much later: the film is still to be made of the first shot, and the memory still needed.
    bench.pass(results * 2);
    assert!(bench.queue.expire_results().await.unwrap().is_empty());
    while bench.queue.forget(&keep).await.unwrap() > 0 {}
    assert_eq!(bench.read(id).await.memory.len(), 3);
    bench.made(&bench.shot().await).await;
    bench.pass(Duration::from_hours(1));
    bench.made(&bench.shot().await).await;
    let story = bench.read(id).await;
    let promised: Vec<_> = story.shots.iter().map(|shot| shot.job.expires_at.unwrap()).collect();
    assert_eq!(promised, vec![bench.queue.now().after(results); 3], "all as long as the last");

    bench.pass(results);
    assert_eq!(bench.queue.expire_results().await.unwrap().len(), 3);
    assert!(!bench.read(id).await.film_kept);
    let refused = bench.redo(id, 2).await;
    assert!(matches!(refused, Err(QueueError::ShotNotReady { shot: 1 })), "{refused:?}");

    assert!(bench.queue.expire_jobs(&keep).await.unwrap().is_empty());
    bench.pass(Duration::from_hours(1000));
    assert!(bench.queue.expire_jobs(&keep).await.unwrap().is_empty(), "jobs of stories go with them");
    let jobs = bench.queue.expire_stories(&keep).await.unwrap();
    assert_eq!(jobs.len(), 3);
    assert!(bench.queue.story(id).await.unwrap().is_none());
    for gone in jobs.into_iter().chain([id]) {
        assert!(bench.queue.was_removed(gone, None).await.unwrap());
    }
    while bench.queue.forget(&keep).await.unwrap() > 0 {}
    assert!(!bench.queue.knows_input(&image(b"given 0").sha256).await.unwrap(), "and the images with them");
}
