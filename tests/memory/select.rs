//! Which frames of a shot are chosen.

use std::convert::Infallible;

use proptest::prelude::*;
use serde::Deserialize;
use storymem::pipeline::memory::{MAX_KEYFRAMES, SIMILAR_FROM, Selection, select};

use super::common::facts;

/// A shot: how alike its frames are, and which are good.
#[derive(Clone, Debug, Deserialize)]
struct Case {
    similarity: Vec<Vec<f64>>,
    good: Vec<bool>,
    #[serde(default)]
    selected: Vec<usize>,
}

fn selected(Case { similarity, good, .. }: &Case) -> Selection {
    let score = |i: usize| Ok::<_, Infallible>(f64::from(u8::from(good[i])));
    let Ok(selection) = select(good.len(), 1.0, score, |a, b| Ok(similarity[a][b]));
    selection
}

#[test]
fn equals_the_reference() {
    let cases: Vec<Case> = serde_json::from_value(facts("tiny")["keyframes"].clone()).unwrap();
    assert_eq!(cases.len(), 12);
    let mut fallen = 0;
    for case in cases {
        let Selection { indices, threshold, none_passed } = selected(&case);
        if case.selected.is_empty() {
            // The reference leaves an empty bank, from which no shot could be made.
            assert!(none_passed && indices.len() == 1, "{case:?}");
        } else {
            assert_eq!(indices, case.selected);
        }
        fallen += usize::from(threshold < SIMILAR_FROM);
    }
    assert!(fallen > 0, "no case has too many keyframes at first");
}

/// The rules once more, as plainly as can be, over a table. `None` where no frame is good.
fn by_the_rules(Case { similarity, good, .. }: &Case) -> Option<Vec<usize>> {
    let first = good.iter().position(|&good| good)?;
    for falls in 0.. {
        let mut threshold = SIMILAR_FROM;
        (0..falls).for_each(|_| threshold -= 0.01);
        let mut chosen = vec![first];
        for i in 2..good.len() {
            let &last = chosen.last().unwrap();
            if good[i] && similarity[last][i].clamp(-1.0, 1.0) < threshold {
                chosen.push(i);
            }
        }
        if chosen.len() <= MAX_KEYFRAMES {
            return Some(chosen);
        }
    }
    unreachable!()
}

fn cases() -> impl Strategy<Value = Case> {
    // Cosines, and what rounding makes of them; near the threshold, far below it, opposite.
    let similarity =
        prop_oneof![-1.1f64..1.1, 0.85f64..0.95, Just(-1.0), Just(0.9), Just(1.0), Just(f64::NAN)];
    (1usize..24).prop_flat_map(move |frames| {
        let table = prop::collection::vec(prop::collection::vec(similarity.clone(), frames), frames);
        let good = prop::collection::vec(prop::bool::weighted(0.7), frames);
        (table, good).prop_map(|(mut similarity, good)| {
            (0..good.len()).for_each(|i| similarity[i][i] = 1.0);
            Case { similarity, good, selected: Vec::new() }
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn equals_the_rules_for_any_shot(case in cases()) {
        let Selection { indices, threshold, none_passed } = selected(&case);
        match by_the_rules(&case) {
            Some(chosen) => prop_assert_eq!(&indices, &chosen),
            None => prop_assert!(none_passed && indices.len() == 1),
        }
        prop_assert!(indices.len() <= MAX_KEYFRAMES && indices.is_sorted_by(|a, b| a < b));
        prop_assert!(threshold <= SIMILAR_FROM);
        prop_assert!(none_passed || indices.iter().all(|&i| case.good[i]));
    }

    #[test]
    fn without_a_good_frame_the_best_is_kept(scores in prop::collection::vec(-9.0f64..0.0, 1..20)) {
        let Ok(selection) = select(scores.len(), 0.0, |i| Ok::<_, Infallible>(scores[i]), |_, _| Ok(0.0));
        let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        prop_assert!(selection.none_passed);
        prop_assert_eq!(selection.indices, [scores.iter().position(|&score| score == best).unwrap()]);
    }
}

#[test]
fn scores_that_are_no_numbers_are_the_worst() {
    let select = |scores: &[f64]| {
        let Ok(selection) = select(scores.len(), 0.0, |i| Ok::<_, Infallible>(scores[i]), |_, _| Ok(0.0));
        selection.indices
    };
    assert_eq!(select(&[f64::NAN, -2.0, f64::NAN, -1.0, f64::NAN]), [3]);
    assert_eq!(select(&[f64::NAN, f64::NEG_INFINITY]), [1]);
    assert_eq!(select(&[f64::NAN, f64::NAN]).len(), 1);
    assert!(select(&[]).is_empty());
}

/// An error ends the search at once and comes out as it is.
#[test]
fn errors_come_through() {
    let error = select(4, 0.0, |i| if i == 0 { Ok(1.0) } else { Err("score") }, |_, _| Ok(0.0)).unwrap_err();
    assert_eq!(error, "score");
    assert_eq!(select(4, 0.0, |_| Ok(1.0), |_, _| Err("similarity")).unwrap_err(), "similarity");
}
