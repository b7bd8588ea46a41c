//! W3C Trace Context: a client's trace goes on to the worker and the webhook.

use axum::http::HeaderMap;

/// The header.
pub const TRACEPARENT: &str = "traceparent";

/// `traceparent`, if there is one that is well formed. One that is not is to be ignored, says the recommendation.
pub(super) fn traceparent(headers: &HeaderMap) -> Option<String> {
    let mut given = headers.get_all(TRACEPARENT).iter();
    let text = given.next().filter(|_| given.next().is_none())?.to_str().ok()?;
    is_traceparent(text).then(|| text.to_owned())
}

/// `version-trace-parent-flags` in lower-case hex; version 00 has nothing more, later ones may.
fn is_traceparent(text: &str) -> bool {
    let hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let some = |part: &str| part.bytes().any(|b| b != b'0');
    let parts: Vec<&str> = text.splitn(5, '-').collect();
    let [version, trace, parent, flags, later @ ..] = parts.as_slice() else {
        return false;
    };
    let whole =
        hex(version, 2) && hex(trace, 32) && some(trace) && hex(parent, 16) && some(parent) && hex(flags, 2);
    whole && *version != "ff" && (*version != "00" || later.is_empty()) && text.len() <= 512
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_well_formed_is_taken() {
        let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        for (text, good) in [
            (format!("00-{trace}-{parent}-01"), true),
            (format!("cc-{trace}-{parent}-01-more"), true),
            (format!("00-{trace}-{parent}-01-more"), false),
            (format!("ff-{trace}-{parent}-01"), false),
            (format!("00-{}-{parent}-01", "0".repeat(32)), false),
            (format!("00-{trace}-{}-01", "0".repeat(16)), false),
            (format!("00-{}-{parent}-01", trace.to_uppercase()), false),
            (format!("00-{trace}-{parent}"), false),
            (format!("00-{trace}-{parent}-1"), false),
            (String::new(), false),
        ] {
            assert_eq!(is_traceparent(&text), good, "{text}");
        }
    }
}
