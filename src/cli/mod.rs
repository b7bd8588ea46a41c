//! The commands of `storymem`, one file each: its arguments and what it does with them.

pub mod compare;
pub mod demo;
pub mod doctor;
pub mod export;
pub mod generate;
pub mod inspect;
mod interrupt;
pub mod keys;
pub mod openapi;
pub mod serve;
mod signals;
pub mod worker;
