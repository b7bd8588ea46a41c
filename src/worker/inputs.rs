//! What a job is made from: its images, from storage to pixels.

use image::RgbImage;
use serde_json::json;

use crate::pipeline::{Conditioning, ShotRequest, images};
use crate::queue::{Claim, Failure, FailureCode, Image, Role};
use crate::storage::Storage;

/// What the pipeline is asked.
///
/// # Errors
/// The failure of the job when an image is missing or can't be read.
pub(super) fn request(storage: &Storage, claim: &Claim) -> Result<ShotRequest, Failure> {
    let of_role = |role| {
        let inputs = claim.inputs.iter().filter(move |input| input.role == role);
        inputs.map(|input| decode(storage, &input.image)).collect::<Result<Vec<_>, Failure>>()
    };
    let first = of_role(Role::FirstFrame)?.pop();
    let motion = of_role(Role::Motion)?;
    let conditioning = match (first, motion.is_empty()) {
        (Some(first), _) => Conditioning::FirstFrame(first),
        (None, true) => Conditioning::None,
        (None, false) => {
            let count = motion.len();
            let motion = <Box<[_; 5]>>::try_from(motion);
            Conditioning::Motion(motion.map_err(|_| unreadable(format!("{count} motion frames are not 5")))?)
        }
    };
    let request = ShotRequest {
        prompt: claim.spec.prompt.clone(),
        negative_prompt: claim.spec.negative_prompt.clone(),
        memory: of_role(Role::Memory)?,
        conditioning,
        sampling: claim.spec.sampling,
    };
    // Another mode than was asked for would be a silent fallback.
    if request.variant() != claim.spec.variant {
        let mode = json!(claim.spec.variant);
        return Err(unreadable(format!("images that a shot of the mode {mode} is made from are missing")));
    }
    Ok(request)
}

/// An image from storage.
///
/// # Errors
/// The failure of the job when it can't be read.
pub(super) fn decode(storage: &Storage, image: &Image) -> Result<RgbImage, Failure> {
    let bytes = storage.input(&image.sha256).map_err(|e| unreadable(e.to_string()))?;
    images::decode(&bytes).map_err(|e| unreadable(format!("image `{}`: {e}", image.sha256)))
}

fn unreadable(detail: String) -> Failure {
    Failure { code: FailureCode::InputUnreadable, detail }
}
