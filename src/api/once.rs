//! `Idempotency-Key`: a request that is sent twice is done once.

use axum::http::HeaderMap;

use super::access::Caller;
use super::problem::{ErrorCode, Problem};
use crate::queue::Once;
use crate::storage::Digest;

const NAME: &str = "idempotency-key";

/// Says that an answer was given before.
pub(super) const REPLAYED: &str = "idempotency-replayed";

/// Most characters of a key.
const MOST_CHARS: usize = 255;

/// The key of a request, if it has one.
///
/// # Errors
/// When there are several, or it is empty, long or not of visible ASCII characters.
pub(super) fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut keys = headers.get_all(NAME).iter();
    let Some(key) = keys.next() else {
        return Ok(None);
    };
    let text = key.to_str().ok().filter(|text| (1..=MOST_CHARS).contains(&text.len()));
    match text {
        Some(text) if keys.next().is_none() && text.bytes().all(|b| b.is_ascii_graphic()) => {
            Ok(Some(text.to_owned()))
        }
        _ => Err(Problem::new(
            ErrorCode::BadRequest,
            format!("`Idempotency-Key` must be one header of 1 to {MOST_CHARS} visible ASCII characters"),
        )),
    }
}

/// The request under its key: `parts` are everything that was asked.
pub(super) fn once<'a>(
    key: String,
    caller: &Caller,
    operation: &str,
    parts: impl IntoIterator<Item = &'a [u8]>,
) -> Once {
    // Digests of one length, so that no part can pass for the end of one and the beginning of another.
    let digests = parts.into_iter().map(|part| Digest::of(part).to_string());
    let all: Vec<String> = std::iter::once(operation.to_owned()).chain(digests).collect();
    Once { owner: caller.owner.clone(), key, fingerprint: Digest::of(all.join("\n").as_bytes()) }
}
