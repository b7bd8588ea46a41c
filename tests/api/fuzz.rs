//! Bodies that are nearly right: whatever comes, the answer is a 202 or a whole problem that blames the client, and
//! the service goes on. What the answers must look like is checked for each of them by `Service::send`.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{Service, plain, png};

const BOUNDARY: &str = "a-boundary";

/// A change of some bytes.
#[derive(Clone, Debug)]
enum Mutation {
    Flip(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Remove(prop::sample::Index, usize),
    Repeat(prop::sample::Index, usize),
    Insert(prop::sample::Index, Vec<u8>),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Mutation::Flip(at, byte)),
        at().prop_map(Mutation::Cut),
        (at(), 1..64_usize).prop_map(|(at, length)| Mutation::Remove(at, length)),
        (at(), 1..64_usize).prop_map(|(at, length)| Mutation::Repeat(at, length)),
        (at(), token()).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
    ]
}

/// Bytes that mean something where they may land.
fn token() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 1..16),
        prop::sample::select(vec![
            &b"\r\n--a-boundary\r\n"[..],
            b"--a-boundary--",
            b"\r\n\r\n",
            b"Content-Disposition: form-data; name=\"memory\"; filename=\"../../x\"\r\n",
            b"\xff\xff\xff\xff",
            b"\0\0\0\0",
            b"IDAT",
            b"IHDR",
            b"RIFF",
            b"VP8L",
            b"1e999",
            b"{\"a\":",
            b"[[[[[[[[",
            b"\\ud800",
            b"data:image/png;base64,",
        ])
        .prop_map(<[u8]>::to_vec),
    ]
}

fn mutate(mut bytes: Vec<u8>, mutations: &[Mutation]) -> Vec<u8> {
    for mutation in mutations {
        if bytes.is_empty() {
            break;
        }
        let length = bytes.len();
        match mutation {
            Mutation::Flip(at, byte) => bytes[at.index(length)] ^= byte,
            Mutation::Cut(at) => bytes.truncate(at.index(length)),
            Mutation::Remove(at, count) => {
                let at = at.index(length);
                bytes.drain(at..(at + count).min(length));
            }
            Mutation::Repeat(at, count) => {
                let at = at.index(length);
                let part = bytes[at..(at + count).min(length)].to_vec();
                bytes.splice(at..at, part);
            }
            Mutation::Insert(at, more) => {
                let at = at.index(length);
                bytes.splice(at..at, more.iter().copied());
            }
        }
    }
    bytes
}

fn form(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, bytes) in parts {
        let head = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"f\"\r\n\r\n"
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    body
}

/// Valid images of each kind that is taken, to begin with.
fn images() -> Vec<Vec<u8>> {
    use image::{ImageFormat, Rgb, RgbImage};
    let image = RgbImage::from_fn(24, 16, |x, y| Rgb([x as u8 * 9, y as u8 * 13, 77]));
    let encode = |format| {
        let mut bytes = std::io::Cursor::new(Vec::new());
        image.write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    };
    [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::WebP].map(encode).to_vec()
}

/// Sends mutated bodies to a real service, one after the other.
fn fuzz(cases: u32, path: &'static str, media_type: &'static str, seeds: Vec<Vec<u8>>, good: u16) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let service = runtime.block_on(Service::new());
    let bodies = (prop::sample::select(seeds), prop::collection::vec(mutation(), 0..4));
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&bodies, |(seed, mutations)| {
        runtime.block_on(async {
            let request = service.request(Method::POST, path).header("content-type", media_type);
            let answer = service.send(request.body(mutate(seed, &mutations))).await;
            prop_assert!(answer.status == good || (400..500).contains(&answer.status), "{answer:?}");
            prop_assert!(
                !mutations.is_empty() || answer.status == good,
                "a valid body is refused: {answer:?}"
            );
            Ok(())
        })
    });
    outcome.unwrap();
    runtime.block_on(async { assert_eq!(service.get("/healthz").await.status, 200) });
}

#[test]
fn mutated_json_is_taken_or_refused() {
    let mut all: Value = plain();
    all["metadata"] = json!({"a": "b"});
    all["guidance_scale"] = json!({"high": 3.5, "low": 1});
    all["seed"] = json!(9_007_199_254_740_991_u64);
    fuzz(400, "/jobs", "application/json", vec![plain().to_string().into(), all.to_string().into()], 202);
}

#[test]
fn mutated_forms_are_taken_or_refused() {
    let request = json!({"prompt": "A lighthouse at dusk"}).to_string();
    let image = png(24, 16, 7);
    let forms = vec![
        form(&[("request", request.as_bytes()), ("memory", &image)]),
        form(&[
            ("memory", &image),
            ("memory", &image),
            ("request", request.as_bytes()),
            ("first_frame", &image),
        ]),
    ];
    fuzz(400, "/jobs", "multipart/form-data; boundary=a-boundary", forms, 202);
}

#[test]
fn mutated_images_are_taken_or_refused() {
    fuzz(800, "/uploads", "application/octet-stream", images(), 201);
}
