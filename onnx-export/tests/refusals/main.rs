//! Whatever is wrong with a checkpoint is refused by name, before anything is written, and nothing is left behind.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

#[path = "../support/mod.rs"]
mod support;

mod adapters;
mod architectures;
mod clip;
mod files;
mod keys;
mod mutations;
mod values;

use std::path::PathBuf;

use support::Tree;

const HIGH: &str = "base_i2v/high_noise_model";
const SHARD_1: &str = "base_i2v/high_noise_model/diffusion_pytorch_model-00001-of-00002.safetensors";
const SHARD_2: &str = "base_i2v/high_noise_model/diffusion_pytorch_model-00002-of-00002.safetensors";
const INDEX: &str = "base_i2v/high_noise_model/diffusion_pytorch_model.safetensors.index.json";
const TEXT: &str = "base_i2v_diffusers/text_encoder";
const VAE: &str = "base_i2v_diffusers/vae";
const LORA: &str = "storymem/Wan2.2-MI2V-A14B/backbone_low_noise.safetensors";
const PREFIX: &str = "base_model.model.";

/// A change to a tree, and what the refusal must say.
struct Case {
    what: &'static str,
    change: fn(&mut Tree),
    says: &'static [&'static str],
}

/// Runs every case and reports all that fail.
fn check(cases: &[Case]) {
    let mut failures = Vec::new();
    for Case { what, change, says } in cases {
        let mut tree = Tree::new();
        change(&mut tree);
        let message = tree.refusal();
        let missing: Vec<_> = says.iter().filter(|part| !message.contains(*part)).collect();
        if !missing.is_empty() {
            failures.push(format!("{what}: no {missing:?} in: {message}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn truncate(path: PathBuf, len: impl Fn(usize) -> usize) {
    let content = std::fs::read(&path).unwrap();
    std::fs::write(&path, &content[..len(content.len())]).unwrap();
}
