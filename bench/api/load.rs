//! A load of calls over connections that are kept open.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// How long an event or comment may take to come.
const PATIENCE: Duration = Duration::from_secs(20);

/// One connection that is kept open.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { sender, host: address.to_string() })
    }

    pub async fn send(
        &mut self,
        method: &str,
        path: &str,
        json: Bytes,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let mut request = Request::builder().method(method).uri(path).header("host", &self.host);
        if !json.is_empty() {
            request = request.header("content-type", "application/json");
        }
        self.sender.ready().await?;
        let answer = self.sender.send_request(request.body(Full::new(json))?).await?;
        let status = answer.status();
        Ok((status, answer.into_body().collect().await?.to_bytes()))
    }

    /// A call that must succeed.
    pub async fn json(&mut self, method: &str, path: &str, json: Bytes) -> anyhow::Result<Value> {
        let (status, body) = self.send(method, path, json).await?;
        ensure!(status.is_success(), "{method} {path}: {status}: {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).with_context(|| format!("{method} {path} answers no JSON"))
    }
}

/// An answer that goes on: a stream of events.
pub struct Stream {
    body: Incoming,
    // The connection ends with its sender.
    _sender: SendRequest<Full<Bytes>>,
}

impl Stream {
    /// Opens a stream and waits for its first event.
    pub async fn open(address: SocketAddr, path: &str) -> anyhow::Result<Self> {
        let Connection { mut sender, host } = Connection::open(address).await?;
        let request = Request::get(path).header("host", host).body(Full::default())?;
        let answer = sender.send_request(request).await?;
        ensure!(answer.status() == StatusCode::OK, "GET {path}: {}", answer.status());
        let mut stream = Self { body: answer.into_body(), _sender: sender };
        ensure!(stream.lives().await, "GET {path}: no event comes");
        Ok(stream)
    }

    /// Whether something has come, or comes within some time.
    pub async fn lives(&mut self) -> bool {
        matches!(tokio::time::timeout(PATIENCE, self.body.frame()).await, Ok(Some(Ok(_))))
    }
}

/// What a load has measured.
pub struct Measured {
    pub seconds: f64,
    /// Sorted.
    pub latencies: Vec<Duration>,
}

impl Measured {
    pub fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.seconds
    }

    pub fn percentile(&self, percent: usize) -> Duration {
        let at = self.latencies.len() * percent / 100;
        self.latencies.get(at).or(self.latencies.last()).copied().unwrap_or_default()
    }
}

/// How much of a load there is.
#[derive(Clone, Copy)]
pub struct Load {
    pub connections: usize,
    pub length: Duration,
    /// Most calls.
    pub most: u64,
    /// Calls in a second; without it, each connection sends the next when the answer to the last has come.
    pub rate: Option<u32>,
}

impl Load {
    /// Makes the calls, until the length has passed or all are made. `one` gets the number of the call, from 0.
    ///
    /// With a rate, a call counts from when it was due: one that had to wait for a slow one before it is slow, too.
    pub async fn run(
        self,
        address: SocketAddr,
        one: impl Fn(u64) -> Call + Send + Sync + 'static,
    ) -> anyhow::Result<Measured> {
        let one = Arc::new(one);
        let next = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        let begin = Instant::now();
        for _ in 0..self.connections {
            let mut connection = Connection::open(address).await?;
            let (one, next) = (Arc::clone(&one), Arc::clone(&next));
            tasks.spawn(async move {
                let mut latencies = Vec::new();
                while begin.elapsed() < self.length {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= self.most {
                        break;
                    }
                    let Call { method, path, json, expected } = one(n);
                    let due = match self.rate {
                        Some(rate) => begin + Duration::from_secs(n) / rate,
                        None => Instant::now(),
                    };
                    tokio::time::sleep_until(due.into()).await;
                    let (status, body) = connection.send(method, &path, json).await?;
                    latencies.push(due.elapsed());
                    ensure!(
                        expected.contains(&status),
                        "{method} {path}: {status}: {}",
                        String::from_utf8_lossy(&body)
                    );
                }
                Ok(latencies)
            });
        }
        let mut latencies = Vec::new();
        while let Some(done) = tasks.join_next().await {
            latencies.extend(done??);
        }
        latencies.sort_unstable();
        Ok(Measured { seconds: begin.elapsed().as_secs_f64(), latencies })
    }
}

/// One call of a load.
pub struct Call {
    pub method: &'static str,
    pub path: String,
    pub json: Bytes,
    pub expected: &'static [StatusCode],
}
