//! The samplers agree with the reference, hold what their theory promises, and can be stopped and resumed.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use ndarray::Axis;
use proptest::prelude::*;
use storymem::pipeline::SolverKind::{self, DpmPlusPlus, UniPc};
use storymem::pipeline::solver::{MAX_SHIFT, MIN_SHIFT, Schedule, Solver, SolverError, SolverState};

#[test]
fn schedules_equal_the_reference() {
    let facts = common::facts("tiny");
    let schedules = facts["schedules"].as_array().unwrap();
    assert!(!schedules.is_empty());
    for golden in schedules {
        let steps = golden["steps"].as_u64().unwrap() as usize;
        let schedule = Schedule::new(UniPc, steps, golden["shift"].as_f64().unwrap()).unwrap();
        let timesteps: Vec<i64> = serde_json::from_value(golden["timesteps"].clone()).unwrap();
        let sigmas: Vec<f32> = serde_json::from_value(golden["sigmas"].clone()).unwrap();
        assert_eq!(schedule.timesteps(), timesteps);
        assert_eq!(schedule.sigmas(), sigmas);
    }
}

/// What is known of StoryMem's and Wan's own schedules.
#[test]
fn schedules_equal_the_official_ones() {
    let timesteps = |kind, steps, shift| Schedule::new(kind, steps, shift).unwrap().timesteps().to_vec();
    let t2v = [
        999, 997, 995, 993, 990, 988, 985, 982, 979, 976, 972, 969, 965, 961, 956, 952, 947, 941, 936, 929,
        922, 915, 907, 898, 888, 877, 865, 852, 837, 819, 799, 776, 749, 717, 678, 631, 571, 492, 386, 235,
    ];
    assert_eq!(timesteps(UniPc, 40, 12.0), t2v);
    let dpm = timesteps(DpmPlusPlus, 40, 4.0);
    assert_eq!(dpm[..5], [1000, 993, 987, 980, 972]);
    assert_eq!(dpm[38..], [173, 93]);
    for (kind, shift, boundary, high) in
        [(UniPc, 4.0, 900, 13), (DpmPlusPlus, 4.0, 900, 13), (UniPc, 5.0, 900, 15), (UniPc, 12.0, 875, 26)]
    {
        let found = timesteps(kind, 40, shift).iter().filter(|&&t| t >= boundary).count();
        assert_eq!(found, high, "{kind:?}, shift {shift}");
    }
    // `1 - 0.6` comes out a bit below 0.4 in numpy's `linspace`, and is truncated.
    assert_eq!(timesteps(DpmPlusPlus, 1000, 1.0).iter().sum::<i64>(), 500_217);
    assert_eq!(timesteps(DpmPlusPlus, 10, 1.0), [1000, 900, 800, 700, 600, 500, 399, 299, 199, 99]);
}

#[test]
fn unipc_follows_the_reference_trajectories() {
    let goldens = common::golden("tiny", "solver");
    assert!(!goldens.is_empty());
    for (name, path) in goldens {
        let mut parts = name.split('_').skip(1).step_by(2);
        let steps = parts.next().unwrap().parse().unwrap();
        let shift = parts.next().unwrap().parse().unwrap();
        let mut solver = Solver::new(UniPc, steps, shift).unwrap();
        let mut sample: Vec<f32> = path.index_axis(Axis(0), 0).iter().copied().collect();
        for i in 0..steps {
            let t = solver.timesteps()[i] as f32;
            let velocity: Vec<f32> = sample.iter().map(|x| (1.3 * x + t / 500.0).sin()).collect();
            solver.step(&velocity, &mut sample).unwrap();
            let error = common::relative_error(&sample, path.index_axis(Axis(0), i + 1));
            assert!(error <= 1e-5, "{name}, step {i}: {error}");
        }
    }
}

/// The official schedulers on `v = x / 2 + sin(3x) / 10 + t / 5000`: samples after step 0, step 1 and the last.
#[test]
fn both_samplers_give_the_official_numbers() {
    #[rustfmt::skip]
    let table = [
        (UniPc, 4, 4.0, [[0.9450594, -0.4884603, 0.2197586, 1.909817], [0.8616062, -0.4684562, 0.1775746, 1.779637], [0.4028449, -0.3153768, -0.0007123575, 1.118468]]),
        (UniPc, 8, 5.0, [[0.9801577, -0.4958324, 0.239078, 1.96743], [0.9558356, -0.4904597, 0.2261005, 1.928287], [0.4358952, -0.3084469, 0.02824724, 1.167306]]),
        (UniPc, 40, 4.0, [[0.9954505, -0.4990444, 0.2474958, 1.992532], [0.9907461, -0.4980443, 0.2449255, 1.984848], [0.470915, -0.3030722, 0.05333804, 1.202563]]),
        (UniPc, 40, 12.0, [[0.9984766, -0.49968, 0.2491614, 1.997499], [0.9968824, -0.4993438, 0.2482861, 1.994887], [0.461605, -0.3042027, 0.04744533, 1.194969]]),
        (DpmPlusPlus, 4, 4.0, [[0.9450683, -0.4884808, 0.2197566, 1.909842], [0.860478, -0.468901, 0.1759742, 1.776064], [0.40026, -0.3159836, -0.002807997, 1.112562]]),
        (DpmPlusPlus, 8, 5.0, [[0.9801636, -0.4958403, 0.2390788, 1.967443], [0.9557033, -0.4905218, 0.2258958, 1.927827], [0.4346276, -0.3086796, 0.0273732, 1.165198]]),
        (DpmPlusPlus, 40, 4.0, [[0.9954515, -0.4990462, 0.2474958, 1.992535], [0.9907411, -0.4980492, 0.2449152, 1.984827], [0.4711731, -0.3029762, 0.05364911, 1.203039]]),
        (DpmPlusPlus, 40, 12.0, [[0.9984774, -0.4996807, 0.2491617, 1.997501], [0.9968836, -0.4993451, 0.2482858, 1.994888], [0.4615113, -0.3041893, 0.04753998, 1.195332]]),
    ];
    for (kind, steps, shift, expected) in table {
        let mut solver = Solver::new(kind, steps, shift).unwrap();
        let mut sample = vec![1.0, -0.5, 0.25, 2.0];
        let mut path = Vec::new();
        for i in 0..steps {
            let velocity = toy_velocity(&solver, &sample);
            solver.step(&velocity, &mut sample).unwrap();
            if [0, 1, steps - 1].contains(&i) {
                path.push(sample.clone());
            }
        }
        for (found, expected) in path.iter().zip(&expected) {
            let error = common::max_error(found, expected);
            assert!(error <= 2e-6, "{kind:?}, {steps} steps, shift {shift}: {found:?} for {expected:?}");
        }
    }
}

fn toy_velocity(solver: &Solver, sample: &[f32]) -> Vec<f32> {
    let t = solver.timesteps()[solver.step_index()] as f32;
    sample.iter().map(|x| 0.5 * x + 0.1 * (3.0 * x).sin() + 0.2 * t / 1000.0).collect()
}

fn kinds() -> impl Strategy<Value = SolverKind> {
    prop_oneof![Just(UniPc), Just(DpmPlusPlus)]
}

proptest! {
    /// The flow to one picture is a straight line, which any consistent sampler follows to its end.
    #[test]
    fn a_straight_flow_ends_at_the_picture(
        kind in kinds(),
        steps in 1..60usize,
        shift in 1.0..20.0f64,
        x0 in -3.0..3.0f32,
        noise in -3.0..3.0f32,
    ) {
        let mut solver = Solver::new(kind, steps, shift).unwrap();
        let sigma = solver.schedule().sigmas()[0];
        let mut sample = vec![(1.0 - sigma) * x0 + sigma * noise];
        for _ in 0..steps {
            solver.step(&[noise - x0], &mut sample).unwrap();
        }
        prop_assert!((sample[0] - x0).abs() <= 2e-5, "{} for {x0}", sample[0]);
    }

    /// A model that always predicts the same picture is followed exactly, whatever the sample is.
    #[test]
    fn a_constant_prediction_is_reached(kind in kinds(), steps in 1..60usize, x0 in -3.0..3.0f32, start in -3.0..3.0f32) {
        let mut solver = Solver::new(kind, steps, 4.0).unwrap();
        let mut sample = vec![start];
        for i in 0..steps {
            let velocity = (sample[0] - x0) / solver.schedule().sigmas()[i];
            solver.step(&[velocity], &mut sample).unwrap();
        }
        prop_assert!((sample[0] - x0).abs() <= 1e-5, "{} for {x0}", sample[0]);
    }

    #[test]
    fn resumes_bit_for_bit(
        kind in kinds(),
        steps in 1..20usize,
        shift in 1.0..12.0f64,
        stop in any::<prop::sample::Index>(),
        start in prop::collection::vec(-3.0..3.0f32, 1..9),
    ) {
        let stop = stop.index(steps + 1);
        let (mut solver, mut sample) = (Solver::new(kind, steps, shift).unwrap(), start);
        let mut resumed = None;
        for i in 0..=steps {
            if i == stop {
                let saved = serde_json::to_string(&(solver.state(), &sample)).unwrap();
                let (state, sample): (SolverState, Vec<f32>) = serde_json::from_str(&saved).unwrap();
                resumed = Some((Solver::restore(kind, steps, shift, state).unwrap(), sample));
            }
            if i == steps {
                break;
            }
            for (solver, sample) in [(&mut solver, &mut sample)].into_iter().chain(resumed.as_mut().map(|(a, b)| (a, b))) {
                let velocity = toy_velocity(solver, sample);
                solver.step(&velocity, sample).unwrap();
            }
        }
        prop_assert_eq!(resumed.unwrap(), (solver, sample));
    }

    #[test]
    fn every_schedule_falls_from_noise_to_nothing(kind in kinds(), steps in 1..=1000usize, shift in MIN_SHIFT..=MAX_SHIFT) {
        let schedule = Schedule::new(kind, steps, shift).unwrap();
        prop_assert_eq!(schedule.sigmas().len(), steps + 1);
        prop_assert_eq!(schedule.timesteps().len(), steps);
        prop_assert!(schedule.sigmas().is_sorted_by(|a, b| a > b));
        prop_assert!(schedule.timesteps().is_sorted_by(|a, b| a >= b));
        prop_assert!(schedule.timesteps().iter().all(|t| (0..=1000).contains(t)));
        prop_assert_eq!(schedule.sigmas()[steps], 0.0);
    }

    /// No schedule has a step whose coefficients overflow.
    #[test]
    fn every_schedule_can_be_stepped_through(kind in kinds(), steps in 1..=1000usize, shift in MIN_SHIFT..=MAX_SHIFT) {
        let mut solver = Solver::new(kind, steps, shift).unwrap();
        let mut sample = vec![0.7, -1.2];
        for _ in 0..steps {
            let velocity = toy_velocity(&solver, &sample);
            solver.step(&velocity, &mut sample).unwrap();
        }
        prop_assert!(sample.iter().all(|x| x.is_finite() && x.abs() < 3.0), "{sample:?}");
    }
}

#[test]
fn what_cannot_be_done_is_refused() {
    for steps in [0, 1001, usize::MAX] {
        let error = Solver::new(UniPc, steps, 4.0).unwrap_err();
        assert_eq!((error, error.field()), (SolverError::Steps { steps }, Some("steps")));
    }
    for shift in [0.0, -1.0, 1e9, f64::INFINITY, f64::NAN] {
        let error = Solver::new(DpmPlusPlus, 4, shift).unwrap_err();
        assert!(matches!(error, SolverError::Shift { .. }));
        assert_eq!(error.field(), Some("shift"));
    }

    let mut solver = Solver::new(UniPc, 2, 4.0).unwrap();
    let mut sample = vec![1.0; 4];
    assert_eq!(solver.step(&[0.0; 3], &mut sample), Err(SolverError::Length { expected: 4, found: 3 }));
    solver.step(&[0.0; 4], &mut sample).unwrap();
    assert_eq!(solver.step(&[0.0; 5], &mut [0.0; 5]), Err(SolverError::Length { expected: 4, found: 5 }));
    solver.step(&[0.0; 4], &mut sample).unwrap();
    assert_eq!(solver.step(&[0.0; 4], &mut sample), Err(SolverError::Finished { steps: 2 }));

    let state = solver.state().clone();
    assert!(Solver::restore(UniPc, 2, 4.0, state.clone()).is_ok());
    let broken = [
        (1, state.clone()),
        (2, SolverState { last_sample: vec![], ..state.clone() }),
        (2, SolverState { x0: [vec![], vec![]], ..state.clone() }),
        (2, SolverState { step: 0, ..state.clone() }),
        (2, SolverState { step: 1, ..SolverState::default() }),
    ];
    for (steps, state) in broken {
        let step = state.step;
        assert_eq!(Solver::restore(UniPc, steps, 4.0, state), Err(SolverError::State { step, steps }));
    }
}
