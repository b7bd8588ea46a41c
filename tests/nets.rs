//! Every net against the reference, on bundles made by `storymem export`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::nets::{Output, autoencoder, text_encoder, transformer};
use common::{Comparison, runtime};
use storymem::engine::{Device, Engine};

fn check(net: fn(&Engine, &[&str]) -> Vec<Output>) {
    let engine = Engine::open(runtime(), Device::Cpu).unwrap();
    let mut comparison = Comparison::default();
    comparison.check_all(&net(&engine, &[]), 2e-5);
    comparison.finish();
}

#[test]
fn text_encoder_agrees_with_the_reference() {
    check(text_encoder);
}

#[test]
fn autoencoder_agrees_with_the_reference_at_every_length() {
    check(autoencoder);
}

#[test]
fn transformer_agrees_with_the_reference_for_both_experts_and_every_merge() {
    check(transformer);
}
