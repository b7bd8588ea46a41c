//! How far two results are apart, and how that is shown.

use std::fmt;

use onnx_export::models::Net;
use serde::Serialize;

use super::nets::Output;

/// How far a result is off its reference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// Smallest and largest value of the result.
    pub range: [f32; 2],
    /// Smallest and largest value of the reference.
    pub reference_range: [f32; 2],
    /// ‖result − reference‖ / ‖reference‖, in f64; not a number (`null` in JSON) where either has a value that is none.
    pub relative_error: f64,
    /// Cosine of the angle between them.
    pub cosine: f64,
}

impl Measure {
    /// Compares two results of one length.
    pub fn of(result: &[f32], reference: &[f32]) -> Self {
        let (mut difference, mut dot, mut norm, mut reference_norm) = (0.0, 0.0, 0.0, 0.0);
        for (&x, &r) in result.iter().zip(reference) {
            let (x, r) = (f64::from(x), f64::from(r));
            difference += (x - r) * (x - r);
            dot += x * r;
            norm += x * x;
            reference_norm += r * r;
        }
        let (relative_error, cosine) = match difference == 0.0 {
            // Also where both are zero.
            true => (0.0, 1.0),
            false => ((difference / reference_norm).sqrt(), dot / (norm * reference_norm).sqrt()),
        };
        Self { range: range(result), reference_range: range(reference), relative_error, cosine }
    }

    /// Whether the error is no more than `threshold`; never if it is not a number.
    pub fn is_within(&self, threshold: f64) -> bool {
        self.relative_error <= threshold
    }
}

/// A part of a net.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// Its name.
    pub part: String,
    /// What was measured.
    #[serde(flatten)]
    pub measure: Measure,
}

/// A net, its parts in the order in which they run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NetReport {
    /// The net.
    pub net: Net,
    /// Its parts.
    pub parts: Vec<Part>,
}

impl NetReport {
    pub(super) fn new(net: Net, found: &[Output], wanted: &[Output]) -> Self {
        let part = |(found, wanted): (&Output, &Output)| Part {
            part: found.part.clone(),
            measure: Measure::of(&found.values[..found.meant], &wanted.values[..wanted.meant]),
        };
        Self { net, parts: found.iter().zip(wanted).map(part).collect() }
    }

    /// The part with the largest error.
    pub fn worst(&self) -> Option<&Part> {
        // Not a number sorts above all numbers.
        let error = |part: &Part| part.measure.relative_error.abs();
        self.parts.iter().max_by(|a, b| error(a).total_cmp(&error(b)))
    }
}

/// A table, with a line for each part.
impl fmt::Display for NetReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let net = self.net.name();
        writeln!(f, "{net:<22} {:>23} {:>23} {:>10} {:>10}", "range", "reference", "error", "cosine")?;
        for Part { part, measure } in &self.parts {
            let [range, reference] =
                [measure.range, measure.reference_range].map(|[low, high]| format!("[{low:.3}, {high:.3}]"));
            let Measure { relative_error, cosine, .. } = measure;
            writeln!(f, "  {part:<20} {range:>23} {reference:>23} {relative_error:>10.2e} {cosine:>10.6}")?;
        }
        Ok(())
    }
}

/// Smallest and largest value; not a number where one is none.
fn range(values: &[f32]) -> [f32; 2] {
    values.iter().fold([f32::INFINITY, f32::NEG_INFINITY], |[low, high], &x| match x.is_nan() {
        true => [f32::NAN; 2],
        // A bound that is none stays: nothing is less or more than it.
        false => [if x < low { x } else { low }, if x > high { x } else { high }],
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn errors_are_those_of_the_definition() {
        let measure = Measure::of(&[3.0, 4.0], &[4.0, 3.0]);
        assert_eq!((measure.range, measure.reference_range), ([3.0, 4.0], [3.0, 4.0]));
        assert!((measure.relative_error - 2f64.sqrt() / 5.0).abs() < 1e-12);
        assert!((measure.cosine - 24.0 / 25.0).abs() < 1e-12);
        let same = Measure::of(&[0.0, 0.0], &[0.0, 0.0]);
        assert_eq!((same.relative_error, same.cosine), (0.0, 1.0));
    }

    #[test]
    fn what_is_no_number_is_never_within_a_threshold() {
        for (x, r) in [
            (f32::NAN, 1.0),
            (1.0, f32::NAN),
            (f32::INFINITY, 1.0),
            (f32::INFINITY, f32::INFINITY),
            (1.0, 0.0),
        ] {
            let measure = Measure::of(&[x, 1.0], &[r, 0.0]);
            assert!(!measure.is_within(1.0), "{x} against {r}: {measure:?}");
        }
        let nan = Measure::of(&[0.0, f32::NAN, 1.0], &[0.0; 3]);
        assert!(nan.range.iter().all(|x| x.is_nan()), "{nan:?}");
        let part = |part: &str, measure| Part { part: part.into(), measure };
        let parts = vec![
            part("off", Measure::of(&[9.0], &[1.0])),
            part("none", nan),
            part("good", Measure::of(&[1.0], &[1.0])),
        ];
        let report = NetReport { net: Net::Vae, parts };
        assert_eq!(report.worst().unwrap().part, "none");
    }

    proptest! {
        #[test]
        fn a_scaled_result_is_off_by_its_scale(
            values in prop::collection::vec(0.1f32..10.0, 1..50),
            scale in 1.01f32..2.0,
        ) {
            let scaled: Vec<f32> = values.iter().map(|x| x * scale).collect();
            let measure = Measure::of(&scaled, &values);
            prop_assert!((measure.relative_error - f64::from(scale - 1.0)).abs() < 1e-5);
            prop_assert!((measure.cosine - 1.0).abs() < 1e-9);
        }
    }
}
