//! Undisturbed.

use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use storymem::queue::Role;
use storymem::storage::Digest;

use crate::common::fixture;
use crate::common::service::{Site, id, until};
use crate::{FIVE, FLAGS, each, frames, request, script, shots, t2v_bundle};

#[tokio::test(flavor = "multi_thread")]
async fn three_scenes_become_a_film() {
    let site = Site::new(FLAGS);
    let service = site.start();
    let posted = service.post_story(&request(FIVE, 7)).await;
    let story = service.story_ended(posted).await;
    assert_eq!(story["status"], "succeeded", "{story}");
    assert_eq!(story["progress"], json!({"made": 5, "shots": 5, "percent": 100.0}));
    assert_eq!(each(&story, "mode"), ["m2v", "mi2v", "m2v", "m2v", "mi2v"]);
    assert_eq!(each(&story, "scene"), [1, 1, 2, 3, 3]);
    assert_eq!(each(&story, "seed"), [7, 8, 9, 10, 11]);

    // The film is the shots, one after the other, frame by frame.
    let film = frames(&site, &service.film(&story).await);
    let mut joined = Vec::new();
    let mut start = 0;
    for (shot, place) in shots(&story).iter().zip(story["film"]["shots"].as_array().unwrap()) {
        let video = service.fetch(shot["result"]["video_url"].as_str().unwrap()).await;
        let video = frames(&site, &video);
        let count = if shot["cut"] == true { 9 } else { 8 };
        assert_eq!(video.len(), count, "what a shot goes on from is not seen twice");
        assert_eq!((&place["start_frame"], &place["frames"]), (&json!(start), &json!(count)));
        assert_eq!(place["start_seconds"], start as f64 / 16.0);
        assert_eq!(
            (&place["job"], &place["seed"], &place["prompt"]),
            (&shot["job"], &shot["seed"], &shot["prompt"])
        );
        joined.extend(video.rgb);
        start += count;
    }
    assert_eq!(film.len(), start);
    assert!(film.rgb == joined, "the film is not its shots");
    assert_eq!(story["film"]["seconds"], start as f64 / 16.0);

    // A shot that is no cut goes on from the last frame as it was decoded, and remembers.
    let queue = site.queue().await;
    for (n, shot) in shots(&story).iter().enumerate() {
        let job = id(&json!({"id": shot["job"]}));
        let inputs = queue.inputs(job).await.unwrap();
        let known = inputs.iter().find(|input| input.role == Role::FirstFrame);
        let last = match n {
            0 => None,
            n => Some(
                service
                    .fetch(&format!("/jobs/{}/keyframes/last", shots(&story)[n - 1]["job"].as_str().unwrap()))
                    .await,
            ),
        };
        let expected = last.filter(|_| shot["cut"] == false).map(|png| Digest::of(&png));
        assert_eq!(known.map(|input| input.image.sha256.clone()), expected, "shot {n}");
        let before = story["memory"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|frame| frame["shot"].as_u64() <= Some(n as u64));
        let memory = inputs.iter().filter(|input| input.role == Role::Memory).count();
        assert_eq!(memory, before.count().min(10), "shot {n}");
        assert!(memory >= 2);
    }

    // What is remembered can be looked at, and so can the keyframes of a job.
    for frame in story["memory"].as_array().unwrap() {
        let image = service.fetch(frame["image_url"].as_str().unwrap()).await;
        assert_eq!(Digest::of(&image).as_str(), frame["sha256"]);
    }
    let job = service.job(id(&json!({"id": shots(&story)[0]["job"]}))).await;
    assert_eq!(job["story"], json!({"id": posted, "shot": 1}));
    for url in job["result"]["keyframe_urls"].as_array().unwrap() {
        assert!(service.fetch(url.as_str().unwrap()).await.starts_with(b"\x89PNG"));
    }
    service.stop().await;
}

/// A form with the images as files; the first shot from text; followed by events.
#[tokio::test(flavor = "multi_thread")]
async fn a_story_begins_with_text_and_is_followed() {
    let mut site = Site::new(FLAGS);
    let bundle = site.folder().join("t2v");
    t2v_bundle(&bundle);
    site.flags.extend(["--bundle".to_owned(), bundle.to_str().unwrap().to_owned()]);
    let service = site.start();
    let text = json!({
        "script": script(&[&[true, false], &[true]]).to_string(),
        "connect": "mi2v", "first_shot": "t2v", "seeds": "storymem", "seed": 3, "steps": 2,
    });
    let memory = std::fs::read(fixture("tiny/inputs/memory_0.png")).unwrap();
    let form =
        Form::new().text("request", text.to_string()).part("memory", Part::bytes(memory).file_name("m.png"));
    let answer =
        service.client.post(format!("{}/stories", service.base)).multipart(form).send().await.unwrap();
    assert_eq!(answer.status(), 202);
    let story: Value = answer.json().await.unwrap();
    let path = format!("/stories/{}", story["id"].as_str().unwrap());
    assert_eq!(each(&story, "mode"), ["t2v", "mi2v", "m2v"]);
    assert_eq!(each(&story, "seed"), [3, 4, 3], "as StoryMem counts");

    let stream = service.client.get(format!("{}{path}/events", service.base)).send().await.unwrap();
    let text = stream.text().await.unwrap();
    let events: Vec<(u64, &str, Value)> = text.split("\n\n").filter_map(read_event).collect();
    assert_eq!(events[0].1, "snapshot", "{text}");
    assert!(events.windows(2).all(|pair| pair[0].0 <= pair[1].0), "ids rise");
    let (last, name, end) = events.last().unwrap();
    assert_eq!((*name, &end["status"]), ("end", &json!("succeeded")), "{text}");
    let done = |shot: u64| {
        events.iter().any(|(_, name, data)| {
            *name == "state" && data["shot"] == shot && data["job_status"] == "succeeded"
        })
    };
    assert!(done(1) && done(2), "{text}");
    // Whoever comes back with the last event is told that there is no more; from the middle, the rest.
    let again = |last: u64| {
        service.client.get(format!("{}{path}/events", service.base)).header("Last-Event-ID", last).send()
    };
    assert_eq!(again(*last).await.unwrap().status(), 204);
    let rest = again(events[1].0).await.unwrap().text().await.unwrap();
    assert!(!rest.contains("event: snapshot") && rest.contains("event: end"), "{rest}");
    until("the film is there", async || {
        service
            .client
            .get(format!("{}{path}/video", service.base))
            .send()
            .await
            .unwrap()
            .status()
            .is_success()
            .then_some(())
    })
    .await;
    service.stop().await;
}

fn read_event(text: &str) -> Option<(u64, &str, Value)> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    Some((field("id: ")?.parse().ok()?, field("event: ")?, serde_json::from_str(field("data: ")?).ok()?))
}
