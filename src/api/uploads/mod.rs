//! Uploads: images that are sent once and used by many jobs.

pub mod create;
