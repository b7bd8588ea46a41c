//! Random values of which any can be computed alone, so that a model needs no disk to be compared with.

use rayon::prelude::*;

/// Values computed by one task.
const TASK: usize = 1 << 16;

/// The values of a tensor called `name`, from element `first` on: uniform, with a mean and a deviation that keep
/// activations near unit scale, as in a trained net.
pub fn fill(name: &str, shape: &[usize], first: usize, values: &mut [f32]) {
    let (mean, deviation) = distribution(name, shape);
    let (seed, width) = (seed(name), deviation * 12f32.sqrt());
    values.par_chunks_mut(TASK).enumerate().for_each(|(chunk, values)| {
        let start = first + chunk * TASK;
        for (i, value) in values.iter_mut().enumerate() {
            // The 24 upper bits, as a number in [-0.5, 0.5).
            let bits = mix(seed.wrapping_add((start + i) as u64)) >> 40;
            *value = mean + width * (bits as f32 / 16_777_216.0 - 0.5);
        }
    });
}

/// Mean and standard deviation.
fn distribution(name: &str, shape: &[usize]) -> (f32, f32) {
    let inputs: usize = shape.iter().skip(1).product();
    let per_input = 1.0 / (inputs.max(1) as f32).sqrt();
    let is_norm = name.ends_with("gamma") || (name.contains("norm") && name.ends_with(".weight"));
    match shape.len() {
        _ if is_norm => (1.0, 0.2),
        // Of an adapter that has learnt something: scaled by 11.3, the product is a tenth of a weight.
        _ if name.ends_with(".lora_B.weight") => (0.0, 0.1 * per_input * per_input),
        0 | 1 => (0.0, 0.1),
        _ => (0.0, per_input),
    }
}

/// FNV-1a.
fn seed(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The finaliser of SplitMix64 (Steele et al. 2014) over a Weyl sequence.
fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
