//! `GET /jobs/{id}/events`.

use futures::future::join_all;
use reqwest::{Method, Response};
use serde_json::Value;
use storymem::pipeline::{Progress, Stage};
use storymem::queue::Ending;

use crate::Service;

/// A stream of events, read as it comes.
struct Stream {
    response: Response,
    rest: String,
}

/// One event.
#[derive(Clone, Debug, PartialEq)]
struct Event {
    id: u64,
    name: String,
    data: Value,
}

impl Stream {
    async fn open(service: &Service, path: &str, last: Option<u64>) -> Self {
        let mut request = service.request(Method::GET, &format!("{path}/events"));
        if let Some(last) = last {
            request = request.header("last-event-id", last.to_string());
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, rest: String::new() }
    }

    /// The next event; nothing at the end.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((block, rest)) = self.rest.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.rest = rest;
                if block.lines().any(|line| line.starts_with("data:")) {
                    return Some(Event::parse(&block));
                }
                continue;
            }
            let chunk = self.response.chunk().await.unwrap()?;
            self.rest.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    async fn all(mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

impl Event {
    fn parse(block: &str) -> Self {
        let field = |name: &str| {
            let line = block.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{block}"));
            line[name.len()..].trim().to_owned()
        };
        Self {
            id: field("id:").parse().unwrap(),
            name: field("event:"),
            data: serde_json::from_str(&field("data:")).unwrap(),
        }
    }
}

fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.name.as_str()).collect()
}

async fn step(service: &Service, lease: &storymem::queue::Lease, step: usize) {
    let progress = Progress { stage: Stage::Denoise, step, steps: 4 };
    service.queue.heartbeat(lease, progress).await.unwrap();
}

#[tokio::test]
async fn a_stream_tells_a_job_from_its_snapshot_to_its_end() {
    let service = Service::new().await;
    let path = format!("/jobs/{}", service.job().await);
    let mut stream = Stream::open(&service, &path, None).await;
    let snapshot = stream.next().await.unwrap();
    assert_eq!((snapshot.name.as_str(), &snapshot.data["status"]), ("snapshot", &"queued".into()));
    assert_eq!(snapshot.data["queue_position"], 1);
    let lease = service.claim().await;
    step(&service, &lease, 1).await;
    step(&service, &lease, 2).await;
    service.succeed(&lease, b"a video").await;
    let mut events = vec![snapshot];
    events.extend(stream.all().await);
    assert_eq!(names(&events), ["snapshot", "state", "progress", "progress", "end"]);
    assert!(events.windows(2).all(|pair| pair[1].id == pair[0].id + 1), "{events:?}");
    assert_eq!(events[1].data["status"], "running");
    assert_eq!(events[3].data["progress"]["step"], 2);
    assert_eq!(events[4].data, service.get(&path).await.json());
}

#[tokio::test]
async fn a_stream_goes_on_where_it_broke_off() {
    let service = Service::new().await;
    let path = format!("/jobs/{}", service.job().await);
    let lease = service.claim().await;
    for n in 1..4 {
        step(&service, &lease, n).await;
    }
    let snapshot = Stream::open(&service, &path, None).await.next().await.unwrap();
    assert_eq!(snapshot.id, 5);
    let mut stream = Stream::open(&service, &path, Some(3)).await;
    let missed = [stream.next().await.unwrap(), stream.next().await.unwrap()];
    assert_eq!(missed.clone().map(|event| event.id), [4, 5]);
    assert_eq!(missed.map(|event| event.data["progress"]["step"].clone()), [2, 3]);
    service.succeed(&lease, b"a video").await;
    assert_eq!(names(&stream.all().await), ["end"]);
    // After the end there is all of it, the rest of it, or nothing.
    assert_eq!(names(&Stream::open(&service, &path, Some(1)).await.all().await).last(), Some(&"end"));
    assert_eq!(names(&Stream::open(&service, &path, None).await.all().await), ["snapshot", "end"]);
    let request = service.request(Method::GET, &format!("{path}/events")).header("last-event-id", "6");
    assert_eq!(service.send(request).await.status, 204, "a browser must not come back for ever");
    for odd in ["0", "99", "-1", "x", ""] {
        let request = service.request(Method::GET, &format!("{path}/events")).header("last-event-id", odd);
        let text = String::from_utf8(service.send(request).await.body).unwrap();
        assert!(text.contains("event: snapshot"), "{odd}: {text}");
    }
}

#[tokio::test]
async fn cancelling_and_failing_end_a_stream_too() {
    let service = Service::new().await;
    let path = format!("/jobs/{}", service.job().await);
    let lease = service.claim().await;
    let stream = Stream::open(&service, &path, None).await;
    service.post(&format!("{path}/cancel"), &Value::Null).await;
    service.queue.end(&lease, &Ending::GivenBack).await.unwrap();
    let events = stream.all().await;
    assert_eq!(names(&events), ["snapshot", "state", "end"]);
    assert_eq!(
        (&events[1].data["status"], &events[2].data["status"]),
        (&"cancelling".into(), &"cancelled".into())
    );
}

#[tokio::test]
async fn a_stream_ends_when_the_service_stops() {
    let service = Service::new().await;
    let path = format!("/jobs/{}", service.job().await);
    let stream = Stream::open(&service, &path, None).await;
    service.shutdown.cancel();
    assert_eq!(names(&stream.all().await), ["snapshot"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_streams_miss_nothing() {
    let service = Service::new().await;
    let path = format!("/jobs/{}", service.job().await);
    let streams = join_all((0..200).map(|_| Stream::open(&service, &path, None))).await;
    let lease = service.claim().await;
    for n in 1..4 {
        step(&service, &lease, n).await;
    }
    service.succeed(&lease, b"a video").await;
    for events in join_all(streams.into_iter().map(Stream::all)).await {
        assert_eq!(names(&events), ["snapshot", "state", "progress", "progress", "progress", "end"]);
    }
}
