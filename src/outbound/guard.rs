//! What a URL from outside is held to.

use std::net::{IpAddr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use super::address::is_public;

/// Most bytes of a URL.
const MOST_BYTES: usize = 2048;

/// Why a URL is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// It can't be parsed.
    #[error("is not a URL: {0}")]
    Broken(String),
    /// It is very long.
    #[error("must have at most {MOST_BYTES} bytes, not {0}")]
    Long(usize),
    /// Its scheme is not one of those that are used.
    #[error("must begin with `{allowed}`, not with `{scheme}:`")]
    Scheme {
        /// What it begins with.
        scheme: String,
        /// What it may begin with.
        allowed: &'static str,
    },
    /// It has a user name or a password, which would end up in logs.
    #[error("must not have a user name or a password")]
    Credentials,
    /// It leads to an address that is not of the public internet.
    #[error("leads to `{0}`, which has an address that is not public")]
    NotPublic(String),
    /// Its host has no address.
    #[error("leads to `{0}`, which can't be resolved")]
    Unresolved(String),
}

/// Checks URLs, and resolves the names in them to public addresses only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    http: bool,
    exempt: Option<IpAddr>,
}

impl Guard {
    /// Lets `https` through; `http` too, if `http` says so.
    pub fn new(http: bool) -> Self {
        Self { http, exempt: None }
    }

    /// Treats one address as if it were public, for tests that have a server of their own. No flag leads here.
    #[must_use]
    pub fn exempting(self, address: IpAddr) -> Self {
        Self { exempt: Some(address), ..self }
    }

    /// Checks all that can be told without resolving a name.
    ///
    /// # Errors
    /// When the URL is not to be used.
    pub fn check(&self, text: &str) -> Result<Url, UrlError> {
        if text.len() > MOST_BYTES {
            return Err(UrlError::Long(text.len()));
        }
        let url = Url::parse(text).map_err(|e| UrlError::Broken(e.to_string()))?;
        match url.scheme() {
            "https" => {}
            "http" if self.http => {}
            other => {
                let allowed = if self.http { "https://` or `http://" } else { "https://" };
                return Err(UrlError::Scheme { scheme: other.to_owned(), allowed });
            }
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlError::Credentials);
        }
        // An address in the place of a name is never resolved. The parser has made one of every way to write it.
        let address = match url.host() {
            Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
            Some(Host::Domain(_)) => None,
            None => return Err(UrlError::Broken("it has no host".to_owned())),
        };
        match address {
            Some(address) if !self.allows(address) => Err(UrlError::NotPublic(address.to_string())),
            _ => Ok(url),
        }
    }

    fn allows(&self, address: IpAddr) -> bool {
        is_public(address) || self.exempt == Some(address)
    }
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        Box::pin(async move {
            let name = name.as_str();
            let unresolved = || UrlError::Unresolved(name.to_owned());
            let found = tokio::net::lookup_host((name, 0)).await.map_err(|_| unresolved())?;
            let found: Vec<SocketAddr> = found.collect();
            if found.is_empty() {
                return Err(unresolved().into());
            }
            // One address that is not public is reason enough: an honest name has none.
            if !found.iter().all(|address| guard.allows(address.ip())) {
                return Err(UrlError::NotPublic(name.to_owned()).into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_refused_for_what_they_are() {
        let guard = Guard::new(false);
        for good in ["https://example.com/a.png", "https://8.8.8.8:8443/x?y#z", "https://[2606:4700::1]/"] {
            assert!(guard.check(good).is_ok(), "{good}");
        }
        for (bad, kind) in [
            ("", "Broken"),
            ("/etc/passwd", "Broken"),
            ("https://", "Broken"),
            ("file:///etc/passwd", "Scheme"),
            ("ftp://example.com/", "Scheme"),
            ("gopher://example.com/", "Scheme"),
            ("data:image/png;base64,", "Scheme"),
            ("http://example.com/", "Scheme"),
            ("https://user@example.com/", "Credentials"),
            ("https://:secret@example.com/", "Credentials"),
            ("https://127.0.0.1/", "NotPublic"),
            ("https://127.1/", "NotPublic"),
            ("https://2130706433/", "NotPublic"),
            ("https://0x7f.0.0.1/", "NotPublic"),
            ("https://0177.0.0.1/", "NotPublic"),
            ("https://0/", "NotPublic"),
            ("https://169.254.169.254/latest/meta-data", "NotPublic"),
            ("https://[::1]/", "NotPublic"),
            ("https://[::ffff:127.0.0.1]/", "NotPublic"),
            ("https://[fd00:ec2::254]/", "NotPublic"),
            ("https://\u{ff11}27.0.0.1/", "NotPublic"),
        ] {
            let error = guard.check(bad).unwrap_err();
            assert!(format!("{error:?}").starts_with(kind), "{bad}: {error:?}");
        }
        assert!(guard.check(&format!("https://example.com/{}", "x".repeat(3000))).is_err());
        assert!(Guard::new(true).check("http://example.com/").is_ok());
    }

    #[tokio::test]
    async fn a_name_for_an_address_that_is_not_public_is_refused() {
        let resolved = Guard::new(true).resolve("localhost".parse().unwrap()).await;
        let error = resolved.err().expect("`localhost` is this machine");
        assert_eq!(error.downcast_ref(), Some(&UrlError::NotPublic("localhost".to_owned())));
    }
}
