//! The commands of `storymem`, one file each: its arguments and what it does with them.

pub mod demo;
pub mod export;
mod interrupt;
