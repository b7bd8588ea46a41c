//! Normally distributed numbers that are the same on every machine.

use sha2::{Digest, Sha256};

/// An endless row of standard normal numbers: SplitMix64 (Steele et al. 2014) and the Box-Muller transform.
#[derive(Clone, Debug)]
pub(super) struct Normal {
    state: u64,
    spare: Option<f32>,
}

impl Normal {
    /// The row for `name` under `seed`.
    pub(super) fn new(seed: u64, name: &str) -> Self {
        let digest = Sha256::digest(name);
        let (bytes, _) = digest.split_first_chunk().expect("a SHA-256 has 32 bytes");
        Self { state: seed ^ u64::from_le_bytes(*bytes), spare: None }
    }

    /// The next number.
    pub(super) fn next(&mut self) -> f32 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * self.uniform()).sin_cos();
        self.spare = Some((radius * sin) as f32);
        (radius * cos) as f32
    }

    /// Above 0, at most 1.
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        ((z >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_standard_normal_and_differs_by_name() {
        let mut draw = Normal::new(7, "a");
        let values: Vec<f64> = (0..100_000).map(|_| f64::from(draw.next())).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
        let beyond_two = values.iter().filter(|v| v.abs() > 2.0).count() as f64 / values.len() as f64;
        assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
        assert!((beyond_two - 0.0455).abs() < 0.003, "{beyond_two}");
        assert_ne!(Normal::new(7, "a").next(), Normal::new(7, "b").next());
        assert_ne!(Normal::new(7, "a").next(), Normal::new(8, "a").next());
    }
}
