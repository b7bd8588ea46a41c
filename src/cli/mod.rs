//! The commands of `storymem`, one file each: its arguments and what it does with them.

pub mod compare;
pub mod demo;
pub mod doctor;
pub mod export;
pub mod generate;
mod interrupt;
pub mod keys;
pub mod openapi;
pub mod serve;
pub mod settings;
mod signals;
pub mod story;
pub mod worker;
