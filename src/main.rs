//! The `storymem` command.

fn main() {}
