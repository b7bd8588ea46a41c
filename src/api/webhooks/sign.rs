//! Signatures of webhooks, as <https://www.standardwebhooks.com> has them.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, Mac};
use sha2::Sha256;

const PREFIX: &str = "whsec_";

/// The secret that webhooks are signed with; never shown.
#[derive(Clone)]
pub struct WebhookSecret(Vec<u8>);

impl WebhookSecret {
    /// The value of `webhook-signature` for a message: HMAC-SHA256 of `id.timestamp.payload`.
    pub fn sign(&self, id: &str, timestamp: i64, payload: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(format!("{id}.{timestamp}.{payload}").as_bytes());
        format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl FromStr for WebhookSecret {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let encoded = text.strip_prefix(PREFIX).unwrap_or(text);
        let secret = BASE64_STANDARD.decode(encoded).ok().filter(|secret| (24..=64).contains(&secret.len()));
        let secret = secret.map(Self);
        // What was given is a secret, even when it is wrong.
        secret.ok_or_else(|| {
            format!("must be `{PREFIX}` and 24 to 64 bytes in Base64; `openssl rand -base64 32` makes them")
        })
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's reference libraries.
    #[test]
    fn signatures_are_those_of_the_specification() {
        let secret: WebhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
        let signature = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_is_not_shown() {
        let secret: WebhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
        assert_eq!(format!("{secret:?}"), "WebhookSecret(…)");
        for wrong in ["", "whsec_", "whsec_%%%", "whsec_c2hvcnQ=", "a secret that is no Base64"] {
            let error = wrong.parse::<WebhookSecret>().unwrap_err();
            assert!(wrong.is_empty() || wrong == "whsec_" || !error.contains(wrong), "{error}");
        }
    }
}
