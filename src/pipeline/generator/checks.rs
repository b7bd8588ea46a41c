//! What is refused: requests that a bundle can't serve, and results that are no picture.

use onnx_export::bundle::{BundleVariant, Manifest};

use crate::pipeline::{Conditioning, Guidance, PipelineError, ShotRequest};

/// Whether a bundle can use the inputs of a request.
pub(super) fn check_inputs(manifest: &Manifest, request: &ShotRequest) -> Result<(), PipelineError> {
    let refuse = |text: String| Err(PipelineError::Request(text));
    let Guidance { high, low } = request.sampling.guidance;
    if !high.is_finite() || !low.is_finite() {
        return refuse(format!("guidance scales must be finite numbers, not {high} and {low}"));
    }
    let (memory, most) = (request.memory.len(), manifest.sampling.max_memory);
    let name = &manifest.name;
    if manifest.variant == BundleVariant::T2v {
        return if memory == 0 && matches!(request.conditioning, Conditioning::None) {
            Ok(())
        } else {
            refuse(format!("bundle `{name}` makes video from text alone; leave out memory and known frames"))
        };
    }
    if memory == 0 {
        return refuse(format!("bundle `{name}` needs at least one memory image"));
    }
    if memory > most {
        return refuse(format!("{memory} memory images are too many; the model takes up to {most}"));
    }
    match (&request.conditioning, manifest.variant) {
        (Conditioning::FirstFrame(_), variant) if variant != BundleVariant::Mi2v => refuse(format!(
            "bundle `{name}` can't begin at a first frame; use one exported with `--variant mi2v`"
        )),
        (Conditioning::Motion(_), variant) if variant != BundleVariant::Mm2v => {
            refuse(format!("bundle `{name}` can't continue motion; use one exported with `--variant mm2v`"))
        }
        _ => Ok(()),
    }
}

/// Whether latents can still become a picture.
pub(super) fn check_latents(latents: &[f32], step: usize, steps: usize) -> Result<(), PipelineError> {
    if !latents.iter().all(|x| x.is_finite()) {
        return Err(PipelineError::NanLatents { step, steps });
    }
    match latents.split_first() {
        Some((&value, rest)) if rest.iter().all(|&x| x == value) => {
            Err(PipelineError::ConstantLatents { value, step, steps })
        }
        _ => Ok(()),
    }
}

/// Whether there is anything to see.
pub(super) fn check_frames(rgb: &[u8]) -> Result<(), PipelineError> {
    match rgb.as_chunks::<3>().0 {
        [first, rest @ ..] if rest.iter().all(|pixel| pixel == first) => {
            Err(PipelineError::ConstantFrames { rgb: *first })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latents_that_are_no_picture_are_refused() {
        assert!(check_latents(&[0.5, 0.5, 0.25], 1, 4).is_ok());
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let error = check_latents(&[0.5, bad, 0.25], 1, 4).unwrap_err();
            assert_eq!(error.code(), "nan_latents");
        }
        let error = check_latents(&[0.5; 8], 3, 4).unwrap_err();
        assert_eq!(error.code(), "constant_latents");
        assert_eq!(
            error.to_string(),
            "the latents are all `0.5` after step 3 of 4, which is no picture; try another seed or guidance scale"
        );
    }

    #[test]
    fn frames_without_anything_to_see_are_refused() {
        assert!(check_frames(&[0, 0, 0, 0, 0, 1]).is_ok());
        // Flat, and yet its bytes differ.
        let error = check_frames(&[255, 128, 0, 255, 128, 0]).unwrap_err();
        assert_eq!(error.code(), "constant_frames");
        assert_eq!(
            error.to_string(),
            "all pixels of the video have the colour `#ff8000`, which is no picture; try another seed"
        );
    }
}
