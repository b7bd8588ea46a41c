//! What a shot adds to the bank.

use std::cell::RefCell;
use std::collections::BTreeMap;

use image::{Rgb, RgbImage};
use proptest::prelude::*;
use storymem::engine::StopToken;
use storymem::pipeline::PipelineError;
use storymem::pipeline::memory::{MAX_KEYFRAMES, QualityGate, Remembered, Similarity, remember};

use super::shot;

/// A frame of one shade. Shades that are 10 apart are as different as frames can be and not be remembered both.
fn frame(shade: u8) -> RgbImage {
    RgbImage::from_pixel(40, 24, Rgb([shade; 3]))
}

/// How often a frame of each shade, in each size, was looked at.
type Looks = RefCell<BTreeMap<(u8, u32), usize>>;

/// Frames are the more alike the nearer their shades are: 1 less a hundredth for each step.
struct Shades<'a>(&'a Looks);

impl Similarity for Shades<'_> {
    type Features = u8;

    fn name(&self) -> &'static str {
        "shades"
    }

    fn features(&mut self, frame: &RgbImage, stop: &StopToken) -> Result<u8, PipelineError> {
        stop.check()?;
        let shade = frame.get_pixel(0, 0)[0];
        *self.0.borrow_mut().entry((shade, frame.width())).or_default() += 1;
        Ok(shade)
    }

    fn compare(&self, &a: &u8, &b: &u8) -> f64 {
        f64::from(100 - i32::from(a.abs_diff(b))) / 100.0
    }
}

/// Frames from shade `good_from` on are good enough.
struct Bright<'a> {
    good_from: u8,
    looks: &'a Looks,
}

impl QualityGate for Bright<'_> {
    fn name(&self) -> &'static str {
        "bright"
    }

    fn good_from(&self) -> f64 {
        self.good_from.into()
    }

    fn score(&mut self, frame: &RgbImage, stop: &StopToken) -> Result<f64, PipelineError> {
        stop.check()?;
        let shade = frame.get_pixel(0, 0)[0];
        *self.looks.borrow_mut().entry((shade, frame.width())).or_default() += 1;
        Ok(shade.into())
    }
}

fn remembered(shades: &[u8], bank: &[u8], good_from: u8) -> Remembered {
    let (compared, judged) = (Looks::default(), Looks::default());
    let frames: Vec<RgbImage> = shades.iter().map(|&shade| frame(shade)).collect();
    let bank: Vec<RgbImage> = bank.iter().map(|&shade| frame(shade)).collect();
    let mut gate = Bright { good_from, looks: &judged };
    let stop = StopToken::default();
    remember(&shot(&frames), &bank, Shades(&compared), &mut gate, &stop).unwrap()
}

fn indices(remembered: &Remembered) -> Vec<usize> {
    remembered.keyframes.iter().map(|keyframe| keyframe.index).collect()
}

#[test]
fn frames_that_differ_are_kept_as_they_are() {
    let shades = [50, 51, 90, 91, 130, 131];
    let remembered = remembered(&shades, &[], 0);
    assert_eq!(indices(&remembered), [0, 2, 4]);
    assert!(remembered.keyframes.iter().all(|keyframe| keyframe.image == frame(shades[keyframe.index])));
    assert_eq!((remembered.threshold, remembered.similarity, remembered.quality), (0.9, "shades", "bright"));
    assert!(remembered.duplicates.is_empty() && remembered.warnings.is_empty());
}

#[test]
fn frames_of_the_bank_are_not_kept_again() {
    // 91 is too like 90 (above 0.9), 130 is not like 120 (0.9 is no more than 0.9).
    let remembered = remembered(&[50, 50, 91, 130], &[90, 120], 0);
    assert_eq!((indices(&remembered), remembered.duplicates.clone()), (vec![0, 3], vec![2]));
    let all = self::remembered(&[50, 50, 91], &[50, 90], 0);
    assert_eq!((indices(&all), all.duplicates.clone()), (vec![], vec![0, 2]));
    assert!(all.warnings.is_empty(), "nothing is lost");
}

#[test]
fn without_a_good_frame_the_best_is_kept_with_a_warning() {
    let shades = [10, 30, 20];
    for bank in [&[][..], &[200]] {
        let remembered = remembered(&shades, bank, 60);
        assert_eq!(indices(&remembered), [1]);
        assert_eq!(
            remembered.warnings,
            [
                "no frame of the shot is good enough to be remembered (bright: the best scores 30.000, needed are \
              60.000); the best, frame 1, is kept"
            ]
        );
    }
}

#[test]
fn each_frame_is_looked_at_once_and_only_if_something_depends_on_it() {
    let (compared, judged) = (Looks::default(), Looks::default());
    // Five shades far apart: the threshold falls again and again.
    let shades: Vec<u8> = (0..12).map(|i| 20 * (i + 1)).collect();
    let frames: Vec<RgbImage> = shades.iter().map(|&shade| frame(shade)).collect();
    let mut gate = Bright { good_from: 0, looks: &judged };
    let stop = StopToken::default();
    let remembered = remember(&shot(&frames), &[frame(1)], Shades(&compared), &mut gate, &stop).unwrap();
    assert!(remembered.threshold < 0.9);
    let looks = compared.into_inner();
    assert!(looks.values().all(|&times| times == 1), "{looks:?}");
    assert!(!looks.keys().any(|&(shade, _)| shade == shades[1]), "the second frame is never compared");
    assert!(judged.into_inner().values().all(|&times| times == 1));

    // Frames that show nothing new are not judged.
    let judged = Looks::default();
    let mut gate = Bright { good_from: 0, looks: &judged };
    remember(&shot(&[frame(7), frame(8), frame(9)]), &[], Shades(&Looks::default()), &mut gate, &stop)
        .unwrap();
    assert_eq!(judged.into_inner().into_keys().map(|(shade, _)| shade).collect::<Vec<_>>(), [7]);
}

#[test]
fn frames_are_chosen_small_and_compared_with_the_bank_as_they_are() {
    let compared = Looks::default();
    let mut gate = Bright { good_from: 0, looks: &Looks::default() };
    let frames = [frame(50), frame(50), frame(90)];
    remember(&shot(&frames), &[frame(200)], Shades(&compared), &mut gate, &StopToken::default()).unwrap();
    // 252 is the width of the analysed frame.
    let widths = |shade: u8| {
        let looks = compared.borrow();
        looks.keys().filter(|(of, _)| *of == shade).map(|&(_, width)| width).collect::<Vec<_>>()
    };
    assert_eq!((widths(50), widths(90), widths(200)), (vec![40, 252], vec![40, 252], vec![40]));
}

#[test]
fn a_stopped_choice_ends() {
    let stop = StopToken::default();
    stop.stop();
    let looks = Looks::default();
    let mut gate = Bright { good_from: 0, looks: &looks };
    let error = remember(&shot(&[frame(1), frame(2)]), &[], Shades(&looks), &mut gate, &stop).unwrap_err();
    assert!(matches!(error, PipelineError::Stopped));
}

proptest! {
    #[test]
    fn an_empty_bank_never_stays_empty(
        shades in prop::collection::vec(any::<u8>(), 1..14),
        bank in prop::collection::vec(any::<u8>(), 0..4),
        good_from: u8,
    ) {
        let remembered = remembered(&shades, &bank, good_from);
        let kept = indices(&remembered);
        prop_assert!(!kept.is_empty() || !bank.is_empty());
        let chosen = kept.len() + remembered.duplicates.len();
        prop_assert!((1..=MAX_KEYFRAMES).contains(&chosen));
        prop_assert!(kept.is_sorted() && remembered.duplicates.is_sorted());
        let alike = |i: usize| bank.iter().any(|old| old.abs_diff(shades[i]) < 10);
        prop_assert!(kept.iter().all(|&i| !alike(i)) && remembered.duplicates.iter().all(|&i| alike(i)));
        prop_assert_eq!(remembered.warnings.is_empty(), shades.iter().any(|&shade| shade >= good_from));
    }
}
