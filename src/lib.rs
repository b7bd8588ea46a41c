//! StoryMem Serve: a job service that turns prompts and memory images into video.
//!
//! An arrow may go only downwards: `api -> queue -> storage`; `worker -> pipeline -> engine -> onnx-export`.
//! `ARCHITECTURE.md` says what lives where and why, with one walk through a job.

pub mod api;
pub mod breakpoint;
pub mod cli;
pub mod compare;
pub mod config;
pub mod doctor;
pub mod engine;
pub mod files;
pub mod outbound;
pub mod pipeline;
pub mod process;
pub mod queue;
pub mod retention;
pub mod storage;
pub mod video;
pub mod worker;
