//! Named places at which a test can stop or end a process, or make it fail.
//!
//! Crashes at random moments rarely hit the few instructions between two effects that belong together. Here those
//! places have names. A test writes a file named like a [`Point`], holding an [`Action`], into a folder and starts the
//! real program with `STORYMEM_TEST_BREAKPOINTS` naming the folder. The first process to come by takes the file (by
//! renaming it to `<name>.hit`, so that only one can, and once) and does what it says. The test sees the renamed file.
//!
//! This exists in debug builds alone: in a release build [`reach`] is empty, whatever the environment.

macro_rules! points {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)*) => {
        /// A place in the program.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Point { $($(#[$doc])* $name,)* }

        impl Point {
            /// Every place, in the order in which a job comes by.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The name of the file that arms it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $word),* }
            }
        }
    };
}

points! {
    /// A job is inserted and not committed.
    InSubmit = "in-submit",
    /// A job is queued for good, and nobody was told.
    AfterSubmit = "after-submit",
    /// A job is claimed and not committed.
    InClaim = "in-claim",
    /// A worker has claimed a job and does not know it yet.
    AfterClaim = "after-claim",
    /// A lease is renewed and not committed.
    InHeartbeat = "in-heartbeat",
    /// A checkpoint is due.
    BeforeCheckpoint = "before-checkpoint",
    /// A checkpoint is written aside and has not got its name.
    InCheckpoint = "in-checkpoint",
    /// A checkpoint is saved.
    AfterCheckpoint = "after-checkpoint",
    /// A video is written aside and has not got its name.
    BeforePublish = "before-publish",
    /// A video is in its place, and its job knows nothing of it.
    AfterPublish = "after-publish",
    /// The end of a job is written and not committed.
    InEnd = "in-end",
    /// A job has ended, and what it leaves behind is not cleared away.
    AfterEnd = "after-end",
}

/// What happens at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The process gets SIGKILL.
    Kill,
    /// The process gets SIGSTOP, and goes on after SIGCONT.
    Stop,
    /// [`reach`] fails.
    Fail,
}

impl Action {
    /// The content of the file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Fail => "fail",
        }
    }
}

/// Says that `point` is reached; does what a test has planned there.
///
/// # Errors
/// When that is [`Action::Fail`].
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn reach(_: Point) -> std::io::Result<()> {
    Ok(())
}

#[cfg(debug_assertions)]
pub use armed::reach;

#[cfg(debug_assertions)]
mod armed {
    use std::path::PathBuf;
    use std::sync::LazyLock;
    use std::{env, fs, io};

    use rustix::process::{Signal, getpid, kill_process};

    use super::{Action, Point};

    static FOLDER: LazyLock<Option<PathBuf>> =
        LazyLock::new(|| env::var_os("STORYMEM_TEST_BREAKPOINTS").map(PathBuf::from));

    /// Says that `point` is reached; does what a test has planned there.
    ///
    /// # Errors
    /// When that is [`Action::Fail`].
    pub fn reach(point: Point) -> io::Result<()> {
        let Some(folder) = &*FOLDER else { return Ok(()) };
        let (file, hit) = (folder.join(point.name()), folder.join(format!("{}.hit", point.name())));
        if !file.exists() {
            return Ok(());
        }
        let planned = fs::read_to_string(&file)?;
        if fs::rename(&file, &hit).is_err() {
            // Another process was here first.
            return Ok(());
        }
        tracing::warn!(point = point.name(), action = planned, "a breakpoint is reached");
        match planned.as_str() {
            word if word == Action::Kill.word() => {
                kill_process(getpid(), Signal::KILL)?;
                // The signal may take a moment, and nothing may happen in it.
                loop {
                    std::thread::park();
                }
            }
            word if word == Action::Stop.word() => {
                kill_process(getpid(), Signal::STOP)?;
                // It may be another thread that takes the signal, and nothing may happen here before it does.
                while stop_is_pending()? {
                    std::thread::yield_now();
                }
                Ok(())
            }
            word if word == Action::Fail.word() => {
                Err(io::Error::other(format!("breakpoint `{}` makes this fail", point.name())))
            }
            word => Err(io::Error::other(format!("`{word}` is nothing that a breakpoint can do"))),
        }
    }

    /// Whether SIGSTOP was sent to this process and no thread has taken it yet: `ShdPnd` of proc_pid_status(5).
    fn stop_is_pending() -> io::Result<bool> {
        let status = fs::read_to_string("/proc/self/status")?;
        let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
        let pending = pending.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        Ok(pending & (1 << (Signal::STOP.as_raw() - 1)) != 0)
    }
}
