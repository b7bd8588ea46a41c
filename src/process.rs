//! What this process takes of its machine.

use std::{fs, io};

/// How much less a thread gets that gives way: a tenth, where there is not enough for all.
const NICER: i32 = 10;

/// Lets others go first on the processors they share: this thread does, and those it starts from now on. What a model
/// computes takes every processor there is, for minutes; whoever asks the service waits for milliseconds.
///
/// # Errors
/// When the system does not allow it.
pub fn give_way() -> io::Result<()> {
    Ok(rustix::process::nice(NICER).map(drop)?)
}

/// Bytes this process has in memory; nothing where `/proc` does not tell.
pub fn resident_bytes() -> Option<i64> {
    // proc_pid_status(5): `VmRSS:     1234 kB`
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_process_has_some_memory_and_not_all_of_it() {
        let bytes = super::resident_bytes().unwrap();
        assert!((1 << 20..1 << 40).contains(&bytes), "{bytes}");
    }
}
