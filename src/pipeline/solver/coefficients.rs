//! The numbers of one step.
//!
//! Formulas: UniPC (Zhao et al. 2023, `B_2(h) = e^h - 1`, data prediction) and DPM-Solver++ (2M) (Lu et al. 2022) for
//! `α = 1 - σ`. With `λ = ln α - ln σ`, a step from `s` to `t` has `h = λ_t - λ_s`, and `φ = e^{-h} - 1`.
//! `σ = 1` makes `λ` minus infinity and `σ = 0` plus infinity; the formulas hold in these limits.

use crate::pipeline::SolverKind;

/// What a step does with the latents; see `advance`, where the names are spelled out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coefficients {
    /// Noise level of the step.
    pub sigma: f32,
    /// Improves the sample with the evaluation just made.
    pub corrector: Corrector,
    /// Goes to the next noise level.
    pub predictor: Predictor,
}

/// `sample·x + last·x_last + x0·m1 + older·(m2 - m1) + newer·(m - m1)`
#[derive(Clone, Copy, Debug)]
pub(super) struct Corrector {
    pub sample: f32,
    pub last: f32,
    pub x0: f32,
    pub older: f32,
    pub newer: f32,
}

/// `sample·x + x0·m + newer·(m - m1)`
#[derive(Clone, Copy, Debug)]
pub(super) struct Predictor {
    pub sample: f32,
    pub x0: f32,
    pub newer: f32,
}

impl Coefficients {
    /// Of step `i`; `sigmas` holds one more value than there are steps.
    pub fn new(kind: SolverKind, sigmas: &[f32], i: usize) -> Self {
        let corrector = match kind {
            SolverKind::UniPc if i > 0 => Corrector::bh2(sigmas, i),
            _ => Corrector::NONE,
        };
        Self { sigma: sigmas[i], corrector, predictor: Predictor::new(sigmas, i) }
    }
}

impl Corrector {
    const NONE: Self = Self { sample: 1.0, last: 0.0, x0: 0.0, older: 0.0, newer: 0.0 };

    /// Redoes the way from step `i - 1` to `i`, now knowing where it led; of the order with which it was predicted.
    fn bh2(sigmas: &[f32], i: usize) -> Self {
        let Leap { h, phi, alpha, sigma_ratio } = Leap::new(sigmas, i - 1);
        let (older, newer) = if order(sigmas, i - 1) == 1 {
            (0.0, 0.5)
        } else {
            let r = (lambda(sigmas[i - 2]) - lambda(sigmas[i - 1])) / h;
            let k1 = phi / -h - 1.0;
            let k2 = k1 / -h - 0.5;
            let (b1, b2) = (k1 / phi, 2.0 * k2 / phi);
            let rho1 = (b1 - b2) / (1.0 - r);
            (rho1 / r, b1 - rho1)
        };
        let scale = -alpha * phi;
        Self {
            sample: 0.0,
            last: sigma_ratio as f32,
            x0: scale as f32,
            older: (scale * older) as f32,
            newer: (scale * newer) as f32,
        }
    }
}

impl Predictor {
    /// From step `i` to the next.
    fn new(sigmas: &[f32], i: usize) -> Self {
        let Leap { h, phi, alpha, sigma_ratio } = Leap::new(sigmas, i);
        let scale = -alpha * phi;
        let newer = if order(sigmas, i) == 1 {
            0.0
        } else {
            // `h / ∞` is 0 in the second step from σ = 1, whose history lies infinitely far back.
            0.5 * h / (lambda(sigmas[i]) - lambda(sigmas[i - 1]))
        };
        Self { sample: sigma_ratio as f32, x0: scale as f32, newer: (scale * newer) as f32 }
    }
}

/// The way from noise level `i` to the next.
struct Leap {
    h: f64,
    phi: f64,
    alpha: f64,
    sigma_ratio: f64,
}

impl Leap {
    fn new(sigmas: &[f32], i: usize) -> Self {
        let (from, to) = (sigmas[i], sigmas[i + 1]);
        let h = lambda(to) - lambda(from);
        Self {
            h,
            phi: (-h).exp_m1(),
            alpha: 1.0 - f64::from(to),
            sigma_ratio: f64::from(to) / f64::from(from),
        }
    }
}

/// Half the logarithm of the signal-to-noise ratio.
fn lambda(sigma: f32) -> f64 {
    let sigma = f64::from(sigma);
    (1.0 - sigma).ln() - sigma.ln()
}

/// Order of the prediction in step `i`: the first has no history, the last goes to σ = 0, where only order 1 exists.
fn order(sigmas: &[f32], i: usize) -> usize {
    let steps = sigmas.len() - 1;
    (i + 1).min(steps - i).min(2)
}
