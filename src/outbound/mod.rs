//! Requests to addresses that clients name: images to fetch, webhooks to call.
//!
//! A client must not make this service reach what only the service can: other machines of its network, itself, the
//! metadata of a cloud. So a name is resolved once, every address it has must be public, and the connection goes to
//! just these addresses ([`Guard`] is the client's resolver). Each redirect is held to the same rules. Proxies of the
//! environment are not used: they would resolve names by themselves. Bytes, time and redirects are bounded.

mod address;
mod guard;

use std::error::Error;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder};

pub use address::is_public;
pub use guard::{Guard, UrlError};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

/// Most redirects that are followed.
const REDIRECTS: usize = 3;

/// Why something could not be fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The URL, or one it redirects to, is not to be used.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The server answered, but not with the thing.
    #[error("its server answers with status {0}")]
    Status(u16),
    /// There is more of it than is taken.
    #[error("it has more than the {} MiB that are taken", .limit >> 20)]
    TooLarge {
        /// Most bytes that are taken.
        limit: usize,
    },
    /// It took too long.
    #[error("its server takes too long")]
    Timeout,
    /// It redirects on and on.
    #[error("it redirects more than {REDIRECTS} times")]
    TooManyRedirects,
    /// The network or the server failed.
    #[error("it can't be fetched: {0}")]
    Failed(String),
}

/// A client for addresses from outside; clones share it.
#[derive(Clone, Debug)]
pub struct Outbound {
    guard: Guard,
    client: Client,
}

impl Outbound {
    /// A client that keeps to `guard`, follows a few redirects, and gives a request `timeout` from start to end.
    ///
    /// # Errors
    /// When TLS can't be set up.
    pub fn following(guard: Guard, timeout: Duration) -> Result<Self, FetchError> {
        let of_redirect = guard.clone();
        let policy = Policy::custom(move |attempt| {
            // `previous` begins with the URL that was asked for.
            if attempt.previous().len() > REDIRECTS {
                return attempt.error(FetchError::TooManyRedirects);
            }
            match of_redirect.check(attempt.url().as_str()) {
                Ok(_) => attempt.follow(),
                Err(e) => attempt.error(FetchError::Url(e)),
            }
        });
        Self::with(guard, timeout, policy)
    }

    /// As [`following`](Self::following), but a redirect is an answer like others.
    ///
    /// # Errors
    /// When TLS can't be set up.
    pub fn staying(guard: Guard, timeout: Duration) -> Result<Self, FetchError> {
        Self::with(guard, timeout, Policy::none())
    }

    fn with(guard: Guard, timeout: Duration, policy: Policy) -> Result<Self, FetchError> {
        let client = Client::builder()
            .user_agent(concat!("storymem/", env!("CARGO_PKG_VERSION")))
            .dns_resolver(guard.clone())
            .redirect(policy)
            .referer(false)
            .no_proxy()
            // A connection kept open would outlive what its name was resolved to.
            .pool_max_idle_per_host(0)
            .connect_timeout(CONNECT)
            .timeout(timeout)
            .build()
            .map_err(|e| FetchError::Failed(chain(&e)))?;
        Ok(Self { guard, client })
    }

    /// What URLs are held to.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Fetches at most `limit` bytes.
    ///
    /// # Errors
    /// When the URL is not to be used, or anything goes wrong on the way.
    pub async fn fetch(&self, url: &str, limit: usize) -> Result<Vec<u8>, FetchError> {
        let url = self.guard.check(url)?;
        let mut answer = self.client.get(url).send().await.map_err(explain)?;
        if !answer.status().is_success() {
            return Err(FetchError::Status(answer.status().as_u16()));
        }
        if answer.content_length().is_some_and(|length| length > limit as u64) {
            return Err(FetchError::TooLarge { limit });
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(explain)? {
            if bytes.len() + chunk.len() > limit {
                return Err(FetchError::TooLarge { limit });
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// A post to `url`, to be completed and given to [`send`](Self::send).
    ///
    /// # Errors
    /// When the URL is not to be used.
    pub fn post(&self, url: &str) -> Result<RequestBuilder, FetchError> {
        Ok(self.client.post(self.guard.check(url)?))
    }

    /// Sends a request and returns the status of the answer, whose body is not read.
    ///
    /// # Errors
    /// When no answer comes.
    pub async fn send(&self, request: RequestBuilder) -> Result<u16, FetchError> {
        Ok(request.send().await.map_err(explain)?.status().as_u16())
    }
}

/// The error that lies at the bottom of reqwest's, in our words where it is ours.
fn explain(error: reqwest::Error) -> FetchError {
    let mut next = error.source();
    while let Some(cause) = next {
        if let Some(refused) = cause.downcast_ref::<UrlError>() {
            return FetchError::Url(refused.clone());
        }
        match cause.downcast_ref::<FetchError>() {
            Some(FetchError::Url(refused)) => return FetchError::Url(refused.clone()),
            Some(FetchError::TooManyRedirects) => return FetchError::TooManyRedirects,
            _ => next = cause.source(),
        }
    }
    if error.is_timeout() {
        return FetchError::Timeout;
    }
    FetchError::Failed(chain(&error.without_url()))
}

fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
