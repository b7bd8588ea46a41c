//! Noise that equals PyTorch's on the CPU, so that a seed means the same shot here and there.
//!
//! `torch.randn(shape, generator=torch.Generator("cpu").manual_seed(seed))` draws from MT19937 and takes one of two ways,
//! by the number of values (`aten/src/ATen/native/cpu/DistributionTemplates.h`, `normal_fill` and `normal_kernel`):
//!
//! - 16 and more: 24-bit uniforms for the whole tensor first, then Box-Muller within each block of 16, whose first
//!   half gives the radii and second half the angles. A last block that is not full is drawn anew *over the last 16
//!   values*, so it changes values of the block before it.
//! - fewer: Box-Muller in `f64` from pairs of 53-bit uniforms, two values a pair.
//!
//! The uniforms are equal bit for bit. The transcendental functions are computed in `f64` here and rounded once, in
//! PyTorch by single-precision kernels that differ between processors: the results agree to `f32` rounding.

use std::f32::consts::TAU;

use ndarray::{Array, Dimension, IntoDimension};
use rand_mt::Mt;

/// Values that are transformed together.
const BLOCK: usize = 16;

/// A seed for whoever names none; below 2^32, so that different seeds give different noise.
///
/// # Errors
/// When the operating system has no randomness to give.
pub fn draw_seed() -> Result<u64, getrandom::Error> {
    Ok(getrandom::u32()?.into())
}

/// Seeds are below this: JSON's numbers are exact up to here.
const SEEDS: u64 = 1 << 53;

/// The seed of a story's shot `shot`, counted from 0 through the whole story: no two shots have the same noise.
pub fn story_seed(seed: u64, shot: usize) -> u64 {
    seed.wrapping_add(shot as u64) % SEEDS
}

/// The seed that StoryMem's own `pipeline.py` gives the shot `index_in_scene`, counted from 0 in each scene anew: the
/// first shots of all scenes have the same noise, and so on.
pub fn storymem_seed(seed: u64, index_in_scene: usize) -> u64 {
    story_seed(seed, index_in_scene)
}

/// Standard normal values of `shape`, in row-major order of drawing.
///
/// As in PyTorch, MT19937 is seeded with the low 32 bits of `seed`: seeds that are 2^32 apart give the same noise.
pub fn randn<I: IntoDimension>(seed: u64, shape: I) -> Array<f32, I::Dim> {
    let shape = shape.into_dimension();
    let mut uniform = Uniform(Mt::new(seed as u32));
    let values = match shape.size() {
        len @ ..BLOCK => pairs(&mut uniform, len),
        len => blocks(&mut uniform, len),
    };
    Array::from_shape_vec(shape, values).expect("as many values as the shape holds were drawn")
}

/// The way of large tensors.
fn blocks(uniform: &mut Uniform, len: usize) -> Vec<f32> {
    let mut values: Vec<f32> = (0..len).map(|_| uniform.f32()).collect();
    values.chunks_exact_mut(BLOCK).for_each(box_muller);
    if !len.is_multiple_of(BLOCK) {
        let last = &mut values[len - BLOCK..];
        last.fill_with(|| uniform.f32());
        box_muller(last);
    }
    values
}

/// Makes 16 uniform values normal, in place.
fn box_muller(block: &mut [f32]) {
    let (radii, angles) = block.split_at_mut(BLOCK / 2);
    for (a, b) in radii.iter_mut().zip(angles) {
        let radius = (-2.0 * f64::from(1.0 - *a).ln()).sqrt();
        // The angle is rounded to `f32`, as it is there.
        let (sin, cos) = f64::from(TAU * *b).sin_cos();
        *a = (radius * cos) as f32;
        *b = (radius * sin) as f32;
    }
}

/// The way of small tensors.
fn pairs(uniform: &mut Uniform, len: usize) -> Vec<f32> {
    let mut values = Vec::with_capacity(len + 1);
    while values.len() < len {
        let (u1, u2) = (uniform.f64(), uniform.f64());
        let radius = (-2.0 * (-u2).ln_1p()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * u1).sin_cos();
        values.extend([(radius * cos) as f32, (radius * sin) as f32]);
    }
    values.truncate(len);
    values
}

/// Uniform values in [0, 1).
struct Uniform(Mt);

impl Uniform {
    fn f32(&mut self) -> f32 {
        const SCALE: f32 = 1.0 / (1 << 24) as f32;
        (self.0.next_u32() & ((1 << 24) - 1)) as f32 * SCALE
    }

    fn f64(&mut self) -> f64 {
        const SCALE: f64 = 1.0 / (1u64 << 53) as f64;
        // PyTorch draws the high half first.
        let (high, low) = (u64::from(self.0.next_u32()), u64::from(self.0.next_u32()));
        ((high << 32 | low) & ((1 << 53) - 1)) as f64 * SCALE
    }
}
