//! SIGKILL in the middle of a story, and between any two effects that belong together.

use serde_json::Value;
use storymem::breakpoint::{Action, Point};
use uuid::Uuid;

use crate::common::service::{Service, Site};
use crate::{FIVE, FLAGS, request, shots};

async fn undisturbed(service: &Service, request: &Value) -> Value {
    let id = service.post_story(request).await;
    let story = service.story_ended(id).await;
    assert_eq!(story["status"], "succeeded", "{story}");
    story["film"]["sha256"].clone()
}

async fn running(service: &Service, id: Uuid, shot: usize) {
    let denoises =
        |shot: &Value| shot["progress"]["stage"] == "denoise" && shot["progress"]["step"].as_u64() >= Some(1);
    service
        .story_until(id, |story| denoises(&shots(story)[shot]) || shots(story)[shot]["status"] == "succeeded")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_killed_in_the_second_shot_and_the_film_is_the_same() {
    let site = Site::new(FLAGS);
    let mut service = site.start();
    let mut story = request(FIVE, 7);
    story["steps"] = 40.into();
    let expected = undisturbed(&service, &story).await;

    let id = service.post_story(&story).await;
    running(&service, id, 1).await;
    // The worker at its next step, and the service with it.
    site.arm(Point::AfterCheckpoint, Action::Kill);
    site.hit(Point::AfterCheckpoint).await;
    service.kill();
    service.workers_end().await;
    let service = site.start();
    let ended = service.story_ended(id).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let job = service.job(shots(&ended)[1]["job"].as_str().unwrap().parse().unwrap()).await;
    assert!(job["attempt"].as_u64() >= Some(2), "it was killed in the second shot: {job}");
    assert_eq!(ended["film"]["sha256"], expected, "the film is another one");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_at_any_breakpoint_makes_the_same_film() {
    let site = Site::new(FLAGS);
    let service = site.start();
    let story = request(&[&[true, false]], 7);
    let expected = undisturbed(&service, &story).await;
    let points = Point::ALL.iter().filter(|point| !matches!(point, Point::InSubmit | Point::AfterSubmit));
    for &point in points {
        let id = service.post_story(&story).await;
        // In the last shot, which makes the film; if it is over already, in the next story's first.
        service.story_until(id, |story| shots(story)[0]["status"] == "succeeded").await;
        site.arm(point, Action::Kill);
        let next = service.post_story(&story).await;
        site.hit(point).await;
        for id in [id, next] {
            let ended = service.story_ended(id).await;
            assert_eq!(ended["status"], "succeeded", "{point:?}: {ended}");
            assert_eq!(ended["film"]["sha256"], expected, "{point:?}");
        }
    }
    service.stop().await;
}
