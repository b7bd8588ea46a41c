//! Stories that are changed on their way.

use reqwest::Method;
use serde_json::{Value, json};

use crate::common::service::Site;
use crate::{FIVE, FLAGS, each, request, shots};

#[tokio::test(flavor = "multi_thread")]
async fn the_second_of_five_shots_is_redone() {
    let site = Site::new(FLAGS);
    let service = site.start();
    let id = service.post_story(&request(FIVE, 7)).await;
    let before = service.story_ended(id).await;
    let old = service.film(&before).await;

    let redo = json!({"seed": 77, "prompt": "The keeper sings"});
    let (status, story) =
        service.call(Method::POST, &format!("/stories/{id}/shots/2/redo"), Some(&redo)).await;
    assert_eq!(status, 202, "{story}");
    assert_eq!((&story["status"], &story["film"]["current"]), (&json!("queued"), &json!(false)));
    assert!(
        service.fetch(&format!("/stories/{id}/video")).await == old,
        "the old film until there is a new one"
    );
    let first = |story: &Value| {
        story["memory"].as_array().unwrap().iter().all(|frame| frame["shot"].as_u64() < Some(2))
    };
    assert!(first(&story), "what the others had added is forgotten: {story}");

    let after = service.story_ended(id).await;
    assert_eq!((&after["status"], &after["film"]["current"]), (&json!("succeeded"), &json!(true)));
    assert_eq!(shots(&after)[0], shots(&before)[0], "the first shot is not touched");
    assert_eq!(each(&after, "revision"), [1, 2, 2, 2, 2]);
    assert_eq!(each(&after, "seed"), [7, 77, 9, 10, 11]);
    for n in 1..5 {
        assert_ne!(shots(&after)[n]["job"], shots(&before)[n]["job"]);
    }
    let sha256 = |story: &Value| shots(story)[1]["result"]["sha256"].clone();
    assert_ne!(sha256(&after), sha256(&before));
    assert!(service.film(&after).await != old);
    let jobs = service.call(Method::GET, &format!("/jobs?story={id}"), None).await.1;
    assert_eq!(jobs["items"].as_array().unwrap().len(), 9, "the old jobs are still there");

    // It goes as a whole.
    let job = shots(&after)[0]["job"].as_str().unwrap();
    let refused = service.call(Method::DELETE, &format!("/jobs/{job}"), None).await;
    assert_eq!((refused.0, &refused.1["code"]), (409, &json!("part_of_story")));
    assert_eq!(service.call(Method::DELETE, &format!("/stories/{id}"), None).await.0, 204);
    assert_eq!(service.call(Method::GET, &format!("/stories/{id}"), None).await.0, 410);
    assert_eq!(service.call(Method::GET, &format!("/jobs/{job}"), None).await.0, 410);
    let left: Vec<_> = site.files().into_iter().filter(|path| path.starts_with("results")).collect();
    assert!(left.is_empty(), "{left:?}");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_story_is_cancelled_and_gone_on_with() {
    let site = Site::new(FLAGS);
    let service = site.start();
    let id = service.post_story(&request(FIVE, 7)).await;
    service.story_until(id, |story| shots(story)[1]["status"] == "running").await;
    let (status, _) = service.call(Method::POST, &format!("/stories/{id}/cancel"), None).await;
    assert!([200, 202].contains(&status), "{status}");
    let story = service.story_ended(id).await;
    assert_eq!(story["status"], "cancelled", "{story}");
    assert_eq!(each(&story, "status")[0], "succeeded");
    assert_eq!(each(&story, "status")[4], "cancelled");
    let again = service.call(Method::POST, &format!("/stories/{id}/cancel"), None).await;
    assert_eq!((again.0, &again.1["code"]), (409, &json!("story_ended")));
    let video = service.call(Method::GET, &format!("/stories/{id}/video"), None).await;
    assert_eq!((video.0, &video.1["code"]), (409, &json!("no_result")));

    let missing = shots(&story).iter().position(|shot| shot["status"] == "cancelled").unwrap() + 1;
    let early = service.call(Method::POST, &format!("/stories/{id}/shots/5/redo"), Some(&json!({}))).await;
    assert_eq!((early.0, &early.1["code"]), (409, &json!("shot_not_ready")), "{missing}");
    let redone =
        service.call(Method::POST, &format!("/stories/{id}/shots/{missing}/redo"), Some(&json!({}))).await;
    assert_eq!(redone.0, 202, "{}", redone.1);
    let ended = service.story_ended(id).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");

    // The same story, undisturbed: being cancelled and gone on with has changed nothing.
    let other = service.post_story(&request(FIVE, 7)).await;
    let undisturbed = service.story_ended(other).await;
    assert_eq!(ended["film"]["sha256"], undisturbed["film"]["sha256"]);
    service.stop().await;
}
