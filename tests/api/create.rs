//! `POST /jobs` with JSON.

use onnx_export::bundle::BundleVariant;
use reqwest::Method;
use serde_json::{Value, json};
use storymem::api::Limits;
use storymem::pipeline::Variant;
use storymem::queue::Role;
use storymem::storage::Digest;

use crate::{Answer, Service, data_url, image_ref, plain, png};

/// The plain request with some fields changed.
fn with(changes: Value) -> Value {
    let mut request = plain();
    for (name, value) in changes.as_object().unwrap() {
        request[name] = value.clone();
    }
    request
}

fn without(name: &str) -> Value {
    let mut request = plain();
    request.as_object_mut().unwrap().remove(name);
    request
}

fn images(count: u8) -> Value {
    (0..count).map(image_ref).collect()
}

#[tokio::test]
async fn everything_that_is_wrong_is_named() {
    let long = "x".repeat(4001);
    let many: Value =
        (0..17).map(|n| (format!("key{n}"), json!(""))).collect::<serde_json::Map<_, _>>().into();
    let cases: Vec<(&str, Value, Vec<&str>)> = vec![
        ("a list", json!([]), vec![""]),
        ("a string", json!("prompt"), vec![""]),
        ("nothing", json!({}), vec!["/memory", "/prompt"]),
        ("no prompt", without("prompt"), vec!["/prompt"]),
        ("a null prompt", with(json!({"prompt": null})), vec!["/prompt"]),
        ("an empty prompt", with(json!({"prompt": ""})), vec!["/prompt"]),
        ("a long prompt", with(json!({"prompt": long})), vec!["/prompt"]),
        ("a prompt that is a number", with(json!({"prompt": 3})), vec!["/prompt"]),
        ("a long negative prompt", with(json!({"negative_prompt": long})), vec!["/negative_prompt"]),
        ("no memory", without("memory"), vec!["/memory"]),
        ("an empty memory", with(json!({"memory": []})), vec!["/memory"]),
        ("a long memory", with(json!({"memory": images(11)})), vec!["/memory"]),
        ("a memory that is no list", with(json!({"memory": image_ref(1)})), vec!["/memory"]),
        ("an image that is a string", with(json!({"memory": ["data:,"]})), vec!["/memory/0"]),
        ("an image without data", with(json!({"memory": [{}]})), vec!["/memory/0/data"]),
        ("data that is no string", with(json!({"memory": [{"data": 1}]})), vec!["/memory/0/data"]),
        (
            "data that is no data URL",
            with(json!({"memory": [{"data": "https://a/b.png"}]})),
            vec!["/memory/0/data"],
        ),
        ("a file", with(json!({"memory": [{"data": "file:///etc/passwd"}]})), vec!["/memory/0/data"]),
        ("a path", with(json!({"memory": [{"data": "/etc/passwd"}]})), vec!["/memory/0/data"]),
        (
            "broken base64",
            with(json!({"memory": [{"data": "data:image/png;base64,%%%"}]})),
            vec!["/memory/0/data"],
        ),
        (
            "data that is no image",
            with(json!({"memory": [{"data": data_url(b"GIF89a")}]})),
            vec!["/memory/0/data"],
        ),
        (
            "an empty image",
            with(json!({"memory": [{"data": "data:image/png;base64,"}]})),
            vec!["/memory/0/data"],
        ),
        (
            "an image that is cut off",
            with(json!({"memory": [{"data": data_url(&png(32, 20, 1)[..60])}]})),
            vec!["/memory/0/data"],
        ),
        (
            "the later ones of many images",
            with(json!({"memory": [{"data": 1}, image_ref(1), {"data": "x"}, {"data": data_url(b"x")}]})),
            vec!["/memory/0/data", "/memory/2/data", "/memory/3/data"],
        ),
        ("an upload", with(json!({"memory": [{"upload": "abc"}]})), vec!["/memory/0/upload"]),
        ("an upload by a path", with(json!({"memory": [{"upload": "../../x"}]})), vec!["/memory/0/upload"]),
        ("an upload by a number", with(json!({"memory": [{"upload": 5}]})), vec!["/memory/0/upload"]),
        (
            "two kinds of image in one",
            with(json!({"memory": [{"upload": "abc", "url": "https://a/b.png"}]})),
            vec!["/memory/0/url"],
        ),
        (
            "a frame of nothing",
            with(json!({"memory": [{"keyframe": 1}]})),
            vec!["/memory/0/data", "/memory/0/keyframe"],
        ),
        (
            "a job without a frame",
            with(json!({"memory": [{"job": "0190b0a0-0000-7000-8000-000000000000"}]})),
            vec!["/memory/0/keyframe"],
        ),
        (
            "a frame of a job that is not there",
            with(json!({"memory": [{"job": "0190b0a0-0000-7000-8000-000000000000", "keyframe": "last"}]})),
            vec!["/memory/0/job"],
        ),
        ("a URL", with(json!({"memory": [{"url": "https://a/b.png"}]})), vec!["/memory/0/url"]),
        (
            "a job's frame",
            with(json!({"first_frame": {"job": "x", "keyframe": -1}})),
            vec!["/first_frame/job", "/first_frame/keyframe"],
        ),
        (
            "a field of an image",
            with(json!({"memory": [{"data": data_url(&png(9, 9, 1)), "a/b": 1}]})),
            vec!["/memory/0/a~1b"],
        ),
        ("a first frame that is a list", with(json!({"first_frame": [image_ref(1)]})), vec!["/first_frame"]),
        (
            "a broken first frame",
            with(json!({"first_frame": {"data": "data:,x"}})),
            vec!["/first_frame/data"],
        ),
        ("four motion frames", with(json!({"motion_frames": images(4)})), vec!["/motion_frames"]),
        ("six motion frames", with(json!({"motion_frames": images(6)})), vec!["/motion_frames"]),
        ("motion, which is not served", with(json!({"motion_frames": images(5)})), vec!["/motion_frames"]),
        ("a size that is a number", with(json!({"size": 832})), vec!["/size"]),
        ("a size without a height", with(json!({"size": "832"})), vec!["/size"]),
        ("a size with a star", with(json!({"size": "832*480"})), vec!["/size"]),
        ("a size of no multiples", with(json!({"size": "833x480"})), vec!["/size"]),
        ("a size of nothing", with(json!({"size": "0x0"})), vec!["/size"]),
        ("a size that overflows", with(json!({"size": "99999999999999999999x16"})), vec!["/size"]),
        ("a size too long", with(json!({"size": "1048576x16"})), vec!["/size"]),
        ("a size with too many pixels", with(json!({"size": "1920x1088"})), vec!["/size"]),
        ("a fit of its own", with(json!({"fit": "crop"})), vec!["/fit"]),
        ("frames of no 4n+1", with(json!({"frames": 80})), vec!["/frames"]),
        ("no frames", with(json!({"frames": 0})), vec!["/frames"]),
        ("fewer than no frames", with(json!({"frames": -3})), vec!["/frames"]),
        ("frames that are no integer", with(json!({"frames": 9.5})), vec!["/frames"]),
        ("frames as a string", with(json!({"frames": "81"})), vec!["/frames"]),
        ("too many frames", with(json!({"frames": 165})), vec!["/frames"]),
        ("only the known frame", with(json!({"frames": 1, "first_frame": image_ref(2)})), vec!["/frames"]),
        ("no steps", with(json!({"steps": 0})), vec!["/steps"]),
        ("too many steps", with(json!({"steps": 101})), vec!["/steps"]),
        ("no shift", with(json!({"shift": 0})), vec!["/shift"]),
        ("a huge shift", with(json!({"shift": 1e300})), vec!["/shift"]),
        ("a shift as a string", with(json!({"shift": "4"})), vec!["/shift"]),
        ("negative guidance", with(json!({"guidance_scale": -1})), vec!["/guidance_scale"]),
        ("huge guidance", with(json!({"guidance_scale": 31})), vec!["/guidance_scale"]),
        ("guidance as a list", with(json!({"guidance_scale": [1, 2]})), vec!["/guidance_scale"]),
        ("half of guidance", with(json!({"guidance_scale": {"high": 3}})), vec!["/guidance_scale/low"]),
        (
            "wrong parts of guidance",
            with(json!({"guidance_scale": {"high": 99, "low": "a", "mid": 1}})),
            vec!["/guidance_scale/high", "/guidance_scale/low", "/guidance_scale/mid"],
        ),
        ("a solver of its own", with(json!({"solver": "euler"})), vec!["/solver"]),
        ("a negative seed", with(json!({"seed": -1})), vec!["/seed"]),
        ("a seed past 2^53-1", with(json!({"seed": 9_007_199_254_740_992_u64})), vec!["/seed"]),
        ("a seed past 2^64", with(json!({"seed": 1e30})), vec!["/seed"]),
        ("a low priority", with(json!({"priority": -11})), vec!["/priority"]),
        ("a high priority", with(json!({"priority": 11})), vec!["/priority"]),
        ("metadata that is no object", with(json!({"metadata": "x"})), vec!["/metadata"]),
        ("too much metadata", with(json!({"metadata": many})), vec!["/metadata"]),
        (
            "metadata of numbers",
            with(json!({"metadata": {"a": 1, "b": null}})),
            vec!["/metadata/a", "/metadata/b"],
        ),
        ("long metadata", with(json!({"metadata": {"a": "x".repeat(513)}})), vec!["/metadata/a"]),
        ("a webhook, which is off", with(json!({"webhook_url": "https://a/b"})), vec!["/webhook_url"]),
        ("a webhook that is a list", with(json!({"webhook_url": ["https://a/b"]})), vec!["/webhook_url"]),
        (
            "a field that is not there",
            with(json!({"cfg~scale": 7, "Prompt": "x"})),
            vec!["/Prompt", "/cfg~0scale"],
        ),
        (
            "many things at once",
            with(
                json!({"prompt": "", "size": "100x100", "frames": 80, "steps": 0, "seed": -1, "x": 1, "memory": [{}]}),
            ),
            vec!["/frames", "/memory/0/data", "/prompt", "/seed", "/size", "/steps", "/x"],
        ),
    ];
    let service = Service::new().await;
    let mut failures = Vec::new();
    for (name, request, expected) in cases {
        let answer = service.post("/jobs", &request).await;
        if answer.status != 422 || answer.pointers() != expected {
            failures.push(format!("{name}: {} {}", answer.status, String::from_utf8_lossy(&answer.body)));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let jobs = service.get("/jobs").await.json();
    assert_eq!(jobs["items"], json!([]), "nothing was queued");
    let inputs = std::fs::read_dir(service.folder.path().join("data/inputs")).unwrap().count();
    assert_eq!(inputs, 0, "nothing was kept");
}

#[tokio::test]
async fn errors_say_what_would_be_right() {
    let service = Service::new().await;
    for (request, expected) in [
        (with(json!({"size": "833x470"})), vec!["832x464", "848x480"]),
        (with(json!({"frames": 80})), vec!["77", "81"]),
        (with(json!({"solver": "euler"})), vec!["unipc", "dpm++"]),
        (with(json!({"steps": 0})), vec!["from 1 to 100", "`0`"]),
        (with(json!({"motion_frames": images(5)})), vec!["mm2v", "`m2v`, `mi2v`"]),
        (with(json!({"cfg": 1})), vec!["guidance_scale"]),
        (with(json!({"memory": [{"data": data_url(b"GIF89a")}]})), vec!["PNG"]),
    ] {
        let answer = service.post("/jobs", &request).await;
        let detail = answer.problem()["errors"][0]["detail"].as_str().unwrap().to_owned();
        for text in expected {
            assert!(detail.contains(text), "`{detail}` lacks `{text}`");
        }
    }
}

#[tokio::test]
async fn a_plain_request_is_queued_with_the_models_defaults() {
    let service = Service::new().await;
    let answer = service.post("/jobs", &plain()).await;
    assert_eq!(answer.status, 202);
    let job = answer.json();
    let id = job["id"].as_str().unwrap();
    assert_eq!(answer.header("location"), format!("/jobs/{id}"));
    assert!(answer.header("retry-after").parse::<u32>().unwrap() > 0);
    assert_eq!(job["status"], "queued");
    assert_eq!(job["queue_position"], 1);
    assert_eq!(job["attempt"], 0);
    assert_eq!(
        job["progress"],
        json!({"stage": "queued", "step": 0, "steps": 0, "percent": 0.0, "eta_seconds": null})
    );
    let image = png(32, 20, 1);
    let facts = json!({
        "sha256": Digest::of(&image), "media_type": "image/png", "bytes": image.len(), "width": 32, "height": 20,
    });
    assert_eq!(job["request"], json!({"prompt": "a fox in the snow", "memory": [facts]}));
    let effective = &job["effective"];
    let defaults = crate::manifest(BundleVariant::Mi2v).sampling;
    assert_eq!(effective["variant"], "m2v");
    assert_eq!(effective["width"], defaults.width);
    assert_eq!(effective["height"], defaults.height);
    assert_eq!(effective["frames"], defaults.frames);
    assert_eq!(effective["steps"], defaults.steps);
    assert_eq!(effective["shift"], defaults.shift);
    assert_eq!(effective["guidance_scale"], json!({"high": 3.5, "low": 3.5}));
    assert_eq!(effective["solver"], "unipc");
    assert_eq!(effective["fit"], "size");
    assert_eq!(effective["negative_prompt"], defaults.negative_prompt);
    assert!(effective["seed"].as_u64().unwrap() < 1 << 53);
    for field in ["error", "result", "started_at", "finished_at", "worker"] {
        assert!(job[field].is_null(), "{field}");
    }
    assert_eq!(job["links"]["self"], format!("/jobs/{id}"));
    assert_eq!(service.get(&format!("/jobs/{id}")).await.json(), job);
    assert_eq!(service.storage.input(&Digest::of(&image)).unwrap(), image);
}

#[tokio::test]
async fn every_setting_reaches_the_worker() {
    let service = Service::new().await;
    let request = with(json!({
        "negative_prompt": "", "memory": [image_ref(3), image_ref(1), image_ref(2)], "first_frame": image_ref(4),
        "size": "96x64", "fit": "reference", "frames": 13.0, "steps": 7, "shift": 2.5,
        "guidance_scale": {"high": 3.3, "low": 1}, "solver": "dpm++", "seed": 9_007_199_254_740_991_u64,
        "priority": -4, "metadata": {"shot": "12"},
    }));
    let answer = service.post("/jobs", &request).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let job = answer.json();
    for field in [
        "negative_prompt",
        "size",
        "fit",
        "steps",
        "shift",
        "guidance_scale",
        "solver",
        "seed",
        "priority",
        "metadata",
    ] {
        let shown = &job["request"][field];
        let equal = shown == &request[field]
            || shown.as_f64().zip(request[field].as_f64()).is_some_and(|(a, b)| a == b);
        assert!(equal || field == "guidance_scale", "{field}: {shown}");
    }
    assert_eq!(job["effective"]["guidance_scale"], json!({"high": 3.3, "low": 1.0}));
    assert_eq!(job["effective"]["frames"], 12, "the known frame is dropped");
    let claim = service.queue.claim("test", &[Variant::Mi2v]).await.unwrap().unwrap();
    let sampling = claim.spec.sampling;
    assert_eq!(claim.spec.negative_prompt, "");
    assert_eq!((sampling.frames, sampling.steps, sampling.shift), (13, 7, 2.5));
    assert_eq!(sampling.seed, (1 << 53) - 1);
    let inputs: Vec<_> = claim.inputs.iter().map(|input| (input.role, input.image.sha256.clone())).collect();
    let image = |shade| Digest::of(&png(32, 20, shade));
    assert_eq!(
        inputs,
        [
            (Role::Memory, image(3)),
            (Role::Memory, image(1)),
            (Role::Memory, image(2)),
            (Role::FirstFrame, image(4)),
        ]
    );
}

#[tokio::test]
async fn one_guidance_scale_is_for_both_experts() {
    let service = Service::new().await;
    let job = service.post("/jobs", &with(json!({"guidance_scale": 2}))).await.json();
    assert_eq!(job["effective"]["guidance_scale"], json!({"high": 2.0, "low": 2.0}));
}

#[tokio::test]
async fn a_seed_is_drawn_anew_for_each_job() {
    let service = Service::new().await;
    let mut seeds = Vec::new();
    for _ in 0..4 {
        seeds.push(service.post("/jobs", &plain()).await.json()["effective"]["seed"].as_u64().unwrap());
    }
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), 4);
}

#[tokio::test]
async fn motion_is_served_by_a_bundle_that_knows_it() {
    let service = Service::with(BundleVariant::Mm2v, Limits::default()).await;
    let answer = service.post("/jobs", &with(json!({"motion_frames": images(5), "frames": 13}))).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(answer.json()["effective"]["variant"], "mm2v");
    assert_eq!(answer.json()["effective"]["frames"], 8);
    let answer = service.post("/jobs", &with(json!({"first_frame": image_ref(1)}))).await;
    assert_eq!(answer.pointers(), ["/first_frame"]);
    let both = with(json!({"first_frame": image_ref(1), "motion_frames": images(5)}));
    assert_eq!(service.post("/jobs", &both).await.pointers(), ["/motion_frames"]);
}

#[tokio::test]
async fn json_that_is_broken_is_told_from_json_that_is_wrong() {
    let service = Service::new().await;
    for body in ["", "{", "{\"prompt\": \"x\",}", "prompt=x", "{} {}", "\u{feff}{}", "{\"a\": 1e999}"] {
        let request = service.request(Method::POST, "/jobs").header("content-type", "application/json");
        let answer = service.send(request.body(body)).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_json"), "{body}");
    }
    // Not UTF-8.
    let request =
        service.request(Method::POST, "/jobs").header("content-type", "application/json; charset=utf-8");
    assert_eq!(service.send(request.body(vec![b'"', 0xff, b'"'])).await.code(), "invalid_json");
    // Deep nesting must not exhaust the stack.
    let request = service.request(Method::POST, "/jobs").header("content-type", "application/json");
    assert_eq!(service.send(request.body("[".repeat(100_000))).await.code(), "invalid_json");
}

#[tokio::test]
async fn other_media_types_are_refused() {
    let service = Service::new().await;
    for media_type in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""] {
        let request = service.request(Method::POST, "/jobs").header("content-type", media_type);
        let answer = service.send(request.body(plain().to_string())).await;
        assert_eq!((answer.status, answer.code().as_str()), (415, "unsupported_media_type"), "{media_type}");
    }
    let answer = service.send(service.request(Method::POST, "/jobs").body("{}")).await;
    assert_eq!(answer.status, 415);
}

#[tokio::test]
async fn a_body_past_the_limit_is_refused() {
    let service = Service::with(BundleVariant::Mi2v, Limits { body_bytes: 1000, ..Limits::default() }).await;
    let mut request = plain();
    request["prompt"] = "x".repeat(1000).into();
    let answer = service.post("/jobs", &request).await;
    assert_eq!((answer.status, answer.code().as_str()), (413, "payload_too_large"));
    let told =
        |answer: &Answer| answer.problem()["detail"].as_str().unwrap().contains("more than the 1000 bytes");
    assert!(told(&answer), "{answer:?}");
    // Without a length, it is noticed while reading.
    let chunks = futures::stream::iter((0..20).map(|_| Ok::<_, std::io::Error>("x".repeat(100))));
    let request = service.request(Method::POST, "/jobs").header("content-type", "application/json");
    let answer = service.send(request.body(reqwest::Body::wrap_stream(chunks))).await;
    assert_eq!(answer.code(), "payload_too_large");
    assert!(told(&answer), "{answer:?}");
}

#[tokio::test]
async fn an_image_past_the_limit_is_refused() {
    let service = Service::new().await;
    let huge = vec![0; (20 << 20) + 1];
    let answer = service.post("/jobs", &with(json!({"memory": [{"data": data_url(&huge)}]}))).await;
    assert_eq!(answer.pointers(), ["/memory/0/data"]);
    assert!(answer.problem()["detail"].as_str().unwrap().contains("20 MiB"));
}

#[tokio::test]
async fn the_same_image_is_kept_once() {
    let service = Service::new().await;
    let request = with(json!({"memory": [image_ref(1), image_ref(1)], "first_frame": image_ref(1)}));
    assert_eq!(service.post("/jobs", &request).await.status, 202);
    assert_eq!(service.post("/jobs", &request).await.status, 202);
    let folders = std::fs::read_dir(service.folder.path().join("data/inputs")).unwrap();
    let files: usize = folders.map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap().count()).sum();
    assert_eq!(files, 1);
}
