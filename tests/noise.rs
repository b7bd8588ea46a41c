//! The noise of a seed is PyTorch's.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs;

use proptest::prelude::*;
use serde::Deserialize;
use storymem::pipeline::noise::randn;

const TOLERANCE: f32 = 1e-6;

#[test]
fn equals_the_reference() {
    let goldens = common::golden("tiny", "noise");
    assert!(!goldens.is_empty());
    for (name, expected) in goldens {
        let seed = name.split('_').nth(1).unwrap().parse().unwrap();
        let found = randn(seed, expected.shape());
        assert_eq!(found.shape(), expected.shape());
        let error = common::max_error(&found, &expected);
        assert!(error <= TOLERANCE, "{name}: {error}");
    }
}

#[derive(Deserialize)]
struct Case {
    seed: u64,
    values: Vec<f32>,
}

/// Short tensors, blocks that are not full, seeds of more than 32 bits.
#[test]
fn equals_torch_at_every_kind_of_length() {
    let cases: Vec<Case> = serde_json::from_slice(&fs::read(common::fixture("noise.json")).unwrap()).unwrap();
    assert!(!cases.is_empty());
    for Case { seed, values } in cases {
        let error = common::max_error(&randn(seed, values.len()), &values);
        assert!(error <= TOLERANCE, "seed {seed}, {} values: {error}", values.len());
    }
}

#[test]
fn an_empty_shape_draws_nothing() {
    assert!(randn(0, [4, 0, 2]).is_empty());
}

#[test]
fn looks_normal() {
    let values = randn(7, 100_000);
    let mean = values.mean().unwrap();
    let deviation = values.std(0.0);
    let within_one = values.iter().filter(|v| v.abs() < 1.0).count() as f64 / values.len() as f64;
    assert!(mean.abs() < 0.01, "{mean}");
    assert!((deviation - 1.0).abs() < 0.01, "{deviation}");
    assert!((within_one - 0.6827).abs() < 0.01, "{within_one}");
}

proptest! {
    #[test]
    fn is_finite_and_repeatable(seed: u64, len in 0..400usize) {
        let values = randn(seed, len);
        prop_assert_eq!(values.len(), len);
        prop_assert!(values.iter().all(|v| v.is_finite()));
        prop_assert_eq!(&values, &randn(seed, len));
    }

    #[test]
    fn the_shape_only_arranges(seed: u64, a in 1..6usize, b in 1..6usize, c in 1..6usize) {
        let shaped = randn(seed, [a, b, c]);
        prop_assert_eq!(shaped.flatten(), randn(seed, a * b * c));
    }
}
