//! `/stories`, without workers: what is taken, what is refused and where, and who may see it.

use reqwest::Method;
use serde_json::{Value, json};
use storymem::pipeline::Variant;

use crate::{Answer, Service, image_ref, plain};

fn story() -> Value {
    json!({
        "script": {"scenes": [
            {"scene_num": 1, "video_prompts": ["a fox in the snow", "the fox looks up"], "cut": [true, "False"]},
            {"scene_num": 2, "video_prompts": ["an owl"], "cut": ["True"]},
        ]},
        "connect": "mi2v",
        "seed": 7,
        "memory": [image_ref(1)],
    })
}

fn with(name: &str, value: Value) -> Value {
    let mut request = story();
    request[name] = value;
    request
}

impl Service {
    async fn posted(&self, request: &Value) -> (String, Value) {
        let answer = self.post("/stories", request).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        let story = answer.json();
        let path = format!("/stories/{}", story["id"].as_str().unwrap());
        assert_eq!(answer.header("location"), path);
        (path, story)
    }

    async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(self.request(Method::PUT, path).json(body)).await
    }
}

#[tokio::test]
async fn a_story_is_its_shots_each_with_its_job() {
    let service = Service::new().await;
    let mut request = story();
    request["guidance_scale"] = json!({"high": 3.4, "low": 3.5});
    request["metadata"] = json!({"film": "a"});
    let (path, story) = service.posted(&request).await;
    let field = |name: &str| -> Vec<Value> {
        story["shots"].as_array().unwrap().iter().map(|shot| shot[name].clone()).collect()
    };
    assert_eq!(field("mode"), ["m2v", "mi2v", "m2v"]);
    assert_eq!(field("cut"), [true, false, true]);
    assert_eq!(field("seed"), [7, 8, 9]);
    assert_eq!(field("status"), ["queued", "queued", "queued"]);
    assert_eq!((&story["status"], &story["film"]), (&json!("queued"), &Value::Null));
    assert_eq!(story["request"]["first_shot"], "memory");
    assert_eq!(story["request"]["max_memory"], 10);
    assert_eq!(story["request"]["script"]["scenes"][0]["cut"], json!([true, false]), "as it was understood");
    assert_eq!(story["request"]["guidance_scale"]["high"], 3.4);
    assert_eq!(story["request"]["memory"][0]["width"], 32);
    let frame = &story["memory"][0];
    assert_eq!((&frame["shot"], &frame["frame"]), (&json!(0), &Value::Null));
    assert_eq!(service.get(frame["image_url"].as_str().unwrap()).await.header("content-type"), "image/png");
    assert_eq!(service.get(&path).await.json(), story);

    // The jobs are in the one queue: only the first can begin.
    let jobs = service.get(story["links"]["jobs"].as_str().unwrap()).await.json();
    assert_eq!(jobs["items"].as_array().unwrap().len(), 3);
    assert_eq!(jobs["items"][0]["request"]["prompt"], "an owl");
    assert_eq!(jobs["items"][0]["request"]["metadata"]["film"], "a");
    let claim = service.queue.claim("test", &Variant::ALL).await.unwrap().unwrap();
    assert_eq!(story["shots"][0]["job"], claim.lease.job.to_string());
    assert!(service.queue.claim("test", &Variant::ALL).await.unwrap().is_none());
    let running = service.get(&path).await.json();
    assert_eq!((&running["status"], &running["shots"][0]["status"]), (&json!("running"), &json!("running")));
    let listed = service.get("/stories?status=running").await.json();
    assert_eq!(
        listed["items"][0],
        json!({
            "id": story["id"], "status": "running", "name": null, "made": 0, "shots": 3,
            "created_at": story["created_at"], "finished_at": null,
        })
    );
    assert!(service.get("/stories?status=failed").await.json()["items"].as_array().unwrap().is_empty());

    // A job of a story is not taken out of it.
    let job = format!("/jobs/{}", claim.lease.job);
    service.queue.cancel(claim.lease.job).await.unwrap();
    service.queue.end(&claim.lease, &storymem::queue::Ending::GivenBack).await.unwrap();
    for (method, call) in [(Method::POST, format!("{job}/retry")), (Method::DELETE, job)] {
        let answer = service.send(service.request(method, &call)).await;
        assert_eq!((answer.status, answer.code().as_str()), (409, "part_of_story"), "{call}");
    }
    assert_eq!(service.get(&path).await.json()["status"], "cancelled");
}

#[tokio::test]
async fn what_is_wrong_is_told_where_it_is() {
    let service = Service::new().await;
    let scene = |cut: Value| json!({"scenes": [{"scene_num": 1, "video_prompts": ["a", "b"], "cut": cut}]});
    let text = "{scenes: [{scene_num: 1, video_prompts: ['a'], cut: ['maybe']}]}";
    for (request, expected) in [
        (with("script", Value::Null), vec!["/script"]),
        (with("script", json!("{scenes: [")), vec!["/script"]),
        (with("script", json!(text)), vec!["/script/scenes/0/cut/0"]),
        (with("script", scene(json!([true, "false"]))), vec!["/script/scenes/0/cut/1"]),
        (with("script", scene(json!([true]))), vec!["/script/scenes/0/cut"]),
        (with("script", scene(json!([false, true]))), vec!["/script/scenes/0/cut/0"]),
        (with("connect", json!("mm2v")), vec!["/connect"]),
        (with("connect", json!("glue")), vec!["/connect"]),
        (with("first_shot", json!("t2v")), vec!["/first_shot"]),
        (with("memory", Value::Null), vec!["/first_shot"]),
        (with("memory", json!([])), vec!["/memory"]),
        (with("memory", json!([{"data": "data:image/png;base64,AAAA"}])), vec!["/memory/0/data"]),
        (with("max_memory", json!(11)), vec!["/max_memory"]),
        (with("fixed_memory", json!(-1)), vec!["/fixed_memory"]),
        (with("seeds", json!("random")), vec!["/seeds"]),
        (with("frames", json!(80)), vec!["/frames"]),
        (with("size", json!("100x100")), vec!["/size"]),
        (with("prompt", json!("a")), vec!["/prompt"]),
        (with("first_frame", image_ref(1)), vec!["/first_frame"]),
        (with("webhook_url", json!("https://example.com")), vec!["/webhook_url"]),
        (json!({}), vec!["/first_shot", "/script"]),
        (json!([]), vec![""]),
    ] {
        let answer = service.post("/stories", &request).await;
        assert_eq!(answer.status, 422, "{request}");
        let pointers = answer.pointers();
        // Without a script nothing can be said of how its shots are made.
        let expected: Vec<_> = expected
            .into_iter()
            .filter(|p| *p != "/first_shot" || pointers.contains(&"/first_shot".to_owned()))
            .collect();
        assert_eq!(pointers, expected, "{request}");
    }
    assert!(service.get("/stories").await.json()["items"].as_array().unwrap().is_empty());
}

#[tokio::test]
async fn the_size_of_a_film_is_settled_at_once() {
    let service = Service::new().await;
    // 32x20 in the area of 96x64.
    let mut request = with("fit", json!("reference"));
    request["size"] = json!("96x64");
    let (_, story) = service.posted(&request).await;
    let sizes = async |story: &Value| {
        let mut sizes = Vec::new();
        for shot in story["shots"].as_array().unwrap() {
            let job = service.get(&format!("/jobs/{}", shot["job"].as_str().unwrap())).await.json();
            sizes.push((job["effective"]["width"].clone(), job["effective"]["height"].clone()));
        }
        sizes
    };
    assert_eq!(sizes(&story).await, vec![(json!(96), json!(48)); 3]);
}

#[tokio::test]
async fn sent_twice_it_is_made_once() {
    let service = Service::new().await;
    let post = async |body: &Value| {
        service
            .send(service.request(Method::POST, "/stories").header("idempotency-key", "k").json(body))
            .await
    };
    let mut request = story();
    request.as_object_mut().unwrap().remove("seed");
    let first = post(&request).await;
    let again = post(&request).await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (202, "true"));
    assert_eq!(again.body, first.body, "the seeds that were drawn stay");
    assert_eq!(post(&story()).await.code(), "idempotency_key_reused");
    assert_eq!(service.get("/stories").await.json()["items"].as_array().unwrap().len(), 1);
    // The key is the same as that of a job: another request.
    let job = service.request(Method::POST, "/jobs").header("idempotency-key", "k").json(&plain());
    assert_eq!(service.send(job).await.code(), "idempotency_key_reused");

    let path = format!("/stories/{}/shots/1/redo", first.json()["id"].as_str().unwrap());
    let redo =
        async || service.send(service.request(Method::POST, &path).header("idempotency-key", "r")).await;
    let (first, again) = (redo().await, redo().await);
    assert_eq!((first.status, again.body), (202, first.body.clone()), "{first:?}");
    assert_eq!(again.headers["idempotency-replayed"], "true");
    assert_eq!(first.json()["shots"][0]["revision"], 2);
}

#[tokio::test]
async fn stories_have_owners_and_quotas_count_their_shots() {
    let service = Service::new().await;
    let alice = service.queue.add_key("alice", None).await.unwrap().text;
    let bob = service.queue.add_key("bob", Some(2)).await.unwrap().text;
    let call = async |key: &str, method: Method, path: &str| {
        let request = service.request(method, path).header("authorization", format!("Bearer {key}"));
        service.send(request.json(&story())).await
    };
    let posted = call(&alice, Method::POST, "/stories").await;
    let path = format!("/stories/{}", posted.json()["id"].as_str().unwrap());
    assert_eq!(call(&bob, Method::POST, "/stories").await.code(), "quota_spent");
    for (method, path) in [
        (Method::GET, path.clone()),
        (Method::DELETE, path.clone()),
        (Method::GET, format!("{path}/video")),
        (Method::GET, format!("{path}/events")),
        (Method::GET, format!("{path}/memory/1")),
        (Method::POST, format!("{path}/cancel")),
    ] {
        let answer = call(&bob, method, &path).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "story_not_found"), "{path}");
    }
    assert!(call(&bob, Method::GET, "/stories").await.json()["items"].as_array().unwrap().is_empty());
    assert_eq!(call(&alice, Method::GET, "/stories").await.json()["items"].as_array().unwrap().len(), 1);
    assert_eq!(call(&alice, Method::POST, &format!("{path}/cancel")).await.status, 200);
    assert_eq!(call(&alice, Method::DELETE, &path).await.status, 204);
    assert_eq!(call(&alice, Method::GET, &path).await.code(), "story_deleted");
    assert_eq!(call(&bob, Method::GET, &path).await.code(), "story_not_found");
}

#[tokio::test]
async fn memory_is_changed_over_http() {
    let service = Service::new().await;
    let (path, _) = service.posted(&story()).await;
    let path = format!("{path}/memory");
    let answer = service.put(&path, &json!({"pin": [1], "add": [image_ref(9)]})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let seen = |story: &Value| -> Vec<(Value, Value, Value)> {
        let frames = story["memory"].as_array().unwrap();
        frames.iter().map(|f| (f["id"].clone(), f["pinned"].clone(), f["dropped"].clone())).collect()
    };
    let expected = vec![(json!(1), json!(true), json!(false)), (json!(2), json!(false), json!(false))];
    assert_eq!(seen(&answer.json()), expected);
    assert_eq!(seen(&service.put(&path, &json!({})).await.json()), expected, "what is absent stays");
    for (body, expected) in [
        (json!({"pin": [3]}), "/pin/0"),
        (json!({"drop": [1, 5]}), "/drop/1"),
        (json!({"drop": [1, 2]}), "/drop"),
        (json!({"pin": [1], "drop": [2, 1]}), "/drop/1"),
        (json!({"pin": ["1"]}), "/pin/0"),
        (json!({"add": []}), "/add"),
        (json!({"add": [{"upload": "x"}]}), "/add/0/upload"),
        (json!({"add": [{"data": "x"}]}), "/add/0/data"),
        (json!({"remove": []}), "/remove"),
    ] {
        let answer = service.put(&path, &body).await;
        assert_eq!((answer.status, answer.pointers()), (422, vec![expected.to_owned()]), "{body}");
    }
    assert_eq!(seen(&service.put(&path, &json!({"pin": [], "drop": [1]})).await.json())[0].2, json!(true));
}

#[tokio::test]
async fn what_is_not_there_is_told_apart() {
    let service = Service::new().await;
    let (path, _) = service.posted(&story()).await;
    for (call, status, code) in [
        ("/stories/x".to_owned(), 404, "story_not_found"),
        ("/stories/0190b0a0-0000-7000-8000-000000000000".to_owned(), 404, "story_not_found"),
        (format!("{path}/video"), 409, "result_not_ready"),
        (format!("{path}/memory/99"), 404, "keyframe_not_found"),
        (format!("{path}/memory/one"), 404, "keyframe_not_found"),
        ("/stories?limit=0".to_owned(), 400, "invalid_query"),
        ("/stories?story=1".to_owned(), 400, "invalid_query"),
    ] {
        let answer = service.get(&call).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{call}");
    }
    for (shot, body, status, code) in [
        ("0", json!({}), 404, "shot_not_found"),
        ("4", json!({}), 404, "shot_not_found"),
        ("x", json!({}), 404, "shot_not_found"),
        ("1", json!({"seed": -1}), 422, "validation_failed"),
        ("1", json!({"prompt": ""}), 422, "validation_failed"),
        ("1", json!({"cut": true}), 422, "validation_failed"),
    ] {
        let answer = service.post(&format!("{path}/shots/{shot}/redo"), &body).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{shot} {body}");
    }
    let form = service
        .request(Method::POST, &format!("{path}/shots/1/redo"))
        .header("content-type", "text/plain")
        .body("x");
    assert_eq!(service.send(form).await.code(), "unsupported_media_type");
    assert_eq!(service.send(service.request(Method::DELETE, &path)).await.code(), "story_not_ended");
}
