//! `storymem export` and `storymem generate` as a user types them, against the reference's whole pipelines.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::Comparison;
use common::pipelines::PIPELINES;

#[test]
fn whole_pipelines_agree_with_the_reference() {
    let mut comparison = Comparison::default();
    for pipeline in PIPELINES {
        let tolerance = |stage: &str| match stage {
            "noise" => 1e-6,
            "condition" => 2e-5,
            _ => 1e-3,
        };
        pipeline.check(&["--dtype", "f32"], |_| {}, tolerance, 50.0, &mut comparison);
    }
    comparison.finish();
}
