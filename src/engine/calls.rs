//! Calls to the device that are under way.
//!
//! A driver can hang, and then a call never returns. Nothing in the process can end it, and nothing shows it: the thread
//! that waits is silent, while the others go on as if it computed. So each call is noted while it lasts, and whoever
//! watches can tell one that takes too long, and end the process. That is for devices whose calls are short; on the CPU
//! a graph may rightly take an hour.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A call may take so many times as long as the longest one of its kind has taken.
const SLOWER: u32 = 20;

/// A call that compiles a graph, or waits for another process that does, may take so many times as long as others.
const COMPILING: u32 = 12;

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A graph that was compiled, memory, a copy: it takes less than a second, at most some.
    Short,
    /// The first run of a graph, which may compile it; or the provider's start.
    Long,
}

/// A call that has not returned for longer than it may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// What was called.
    pub call: String,
    /// Since when.
    pub for_so_long: Duration,
}

impl fmt::Display for Overdue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, for_so_long } = self;
        write!(f, "{call} has not returned for {} s", for_so_long.as_secs())
    }
}

/// Finds a call that takes longer than `limit`, a multiple of that if it compiles, and far longer than any before it. Of
/// several the one that began first: the others may wait for it.
pub fn overdue(limit: Duration) -> Option<Overdue> {
    CALLS.lock().overdue(limit, Instant::now())
}

/// Notes a call while it lasts.
pub(super) fn note<T>(kind: Kind, what: impl FnOnce() -> String, call: impl FnOnce() -> T) -> T {
    /// Forgets the call, also where it panics.
    struct Noted(u64);
    impl Drop for Noted {
        fn drop(&mut self) {
            CALLS.lock().end(self.0, Instant::now());
        }
    }
    let _noted = Noted(CALLS.lock().begin(kind, what(), Instant::now()));
    call()
}

static CALLS: Shared = Shared(Mutex::new(Calls::new()));

struct Shared(Mutex<Calls>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Calls {
    next: u64,
    under_way: BTreeMap<u64, (Kind, String, Instant)>,
    /// The longest that a short call has taken.
    longest: Duration,
}

impl Calls {
    const fn new() -> Self {
        Self { next: 0, under_way: BTreeMap::new(), longest: Duration::ZERO }
    }

    fn begin(&mut self, kind: Kind, what: String, now: Instant) -> u64 {
        self.next += 1;
        self.under_way.insert(self.next, (kind, what, now));
        self.next
    }

    fn end(&mut self, id: u64, now: Instant) {
        if let Some((Kind::Short, _, since)) = self.under_way.remove(&id) {
            self.longest = self.longest.max(now.saturating_duration_since(since));
        }
    }

    fn overdue(&self, limit: Duration, now: Instant) -> Option<Overdue> {
        let may_take = |kind: Kind| match kind {
            Kind::Short => limit.max(self.longest * SLOWER),
            Kind::Long => (limit * COMPILING).max(self.longest * SLOWER),
        };
        self.under_way.values().find_map(|(kind, call, since)| {
            let for_so_long = now.saturating_duration_since(*since);
            (for_so_long > may_take(*kind)).then(|| Overdue { call: call.clone(), for_so_long })
        })
    }
}

/// Ends the process at once, without what libraries would do at its end: that could wait for the device as well.
pub fn end_process(code: u8) -> ! {
    // SAFETY: the call takes any number and does not return; nothing of the process is used after it.
    unsafe { libc::_exit(code.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(600);

    #[test]
    fn a_call_is_overdue_past_the_limit_and_not_once_it_has_returned() {
        let (mut calls, start) = (Calls::new(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        let first = calls.begin(Kind::Short, "first".into(), start);
        let second = calls.begin(Kind::Short, "second".into(), after(1));
        assert_eq!(calls.overdue(LIMIT, after(600)), None);
        let overdue = calls.overdue(LIMIT, after(700)).unwrap();
        assert_eq!(overdue.to_string(), "first has not returned for 700 s");
        calls.end(first, after(700));
        // What has returned was slow, and not hung: others may be as slow.
        assert_eq!(calls.overdue(LIMIT, after(701)), None);
        assert_eq!(calls.overdue(LIMIT, after(15_000)).unwrap().call, "second");
        calls.end(second, after(15_000));
        assert_eq!(calls.overdue(LIMIT, after(100_000)), None);
    }

    #[test]
    fn compiling_may_take_longer_and_says_nothing_of_other_calls() {
        let (mut calls, start) = (Calls::new(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        let compiling = calls.begin(Kind::Long, "compiling".into(), start);
        assert_eq!(calls.overdue(LIMIT, after(7200)), None);
        assert_eq!(calls.overdue(LIMIT, after(7201)).unwrap().call, "compiling");
        calls.end(compiling, after(7201));
        calls.begin(Kind::Short, "run".into(), after(7201));
        assert_eq!(calls.overdue(LIMIT, after(7900)).unwrap().call, "run");
    }

    #[test]
    fn a_call_that_panics_is_not_under_way_any_more() {
        let panicked =
            std::panic::catch_unwind(|| note(Kind::Short, || "panics".into(), || panic!("as meant")));
        assert!(panicked.is_err());
        assert!(CALLS.lock().under_way.values().all(|(_, call, _)| call != "panics"));
    }
}
