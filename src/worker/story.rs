//! What a shot leaves to its story: the frames that are remembered, those the next shot goes on from, and, if it is the
//! last one, the film.
//!
//! Frames are chosen and kept as they were decoded, without loss. The film lies beside the video of the last shot, in the
//! folder of the attempt: it appears in the same rename, its place is fenced by the same token, and whatever becomes of
//! an attempt that came to nothing takes the film with it.

use std::fs;
use std::path::PathBuf;

use image::RgbImage;

use super::inputs;
use super::publish::PublishError;
use crate::pipeline::memory::{self, QualityGate};
use crate::pipeline::{Bundles, Frames, PipelineError, Shot, Size, StopToken};
use crate::queue::{
    Failure, Film, FilmShot, Image, Keyframe, Lease, Part, Remembered, ShotClaim, ShotMade, Spec,
};
use crate::storage::{StagedResult, Storage};
use crate::video::{join, png};

/// What of a shot is to be kept for its story.
pub(super) struct Chosen {
    /// What is remembered.
    pub remembered: memory::Remembered,
    /// What the next shot goes on from.
    tail: Vec<RgbImage>,
}

/// Why nothing could be chosen.
pub(super) enum ChooseError {
    /// A remembered image can't be read any more.
    Unreadable(Failure),
    /// A graph failed or was stopped.
    Pipeline(PipelineError),
}

/// Chooses what of a shot is remembered, beside what its story remembers so far.
pub(super) fn choose(
    storage: &Storage,
    claim: &ShotClaim,
    frames: &Frames,
    (bundles, gate): (&Bundles, &mut dyn QualityGate),
    stop: &StopToken,
) -> Result<Chosen, ChooseError> {
    let bank = claim.bank.iter().map(|image| inputs::decode(storage, image));
    let bank = bank.collect::<Result<Vec<_>, _>>().map_err(ChooseError::Unreadable)?;
    let remembered = bundles.remember(frames, &bank, gate, stop).map_err(ChooseError::Pipeline)?;
    let first = frames.len().saturating_sub(claim.tail as usize);
    let tail = (first..frames.len()).map(|n| memory::frame(frames, n)).collect();
    Ok(Chosen { remembered, tail })
}

/// Keeps what was chosen among the images in storage.
pub(super) fn keep(storage: &Storage, chosen: &Chosen) -> Result<ShotMade, PublishError> {
    let keyframe = |keyframe: &memory::Keyframe| {
        Ok(Keyframe { frame: keyframe.index as u32, image: keep_image(storage, &keyframe.image)? })
    };
    Ok(ShotMade {
        keyframes: chosen.remembered.keyframes.iter().map(keyframe).collect::<Result<_, PublishError>>()?,
        tail: chosen.tail.iter().map(|image| keep_image(storage, image)).collect::<Result<_, _>>()?,
        film: None,
    })
}

fn keep_image(storage: &Storage, image: &RgbImage) -> Result<Image, PublishError> {
    let size = Size { width: image.width() as usize, height: image.height() as usize };
    let bytes = png(image.as_raw(), size)?;
    let sha256 = storage.put_input(&bytes)?;
    Ok(Image { sha256, media_type: "image/png".to_owned(), bytes: bytes.len() as u64, size })
}

/// What the job says of it.
pub(super) fn facts(chosen: &Chosen, made: &ShotMade) -> Remembered {
    Remembered {
        keyframes: made.keyframes.iter().map(|keyframe| keyframe.image.sha256.clone()).collect(),
        duplicates: chosen.remembered.duplicates.len(),
        similarity: chosen.remembered.similarity.to_owned(),
        quality: chosen.remembered.quality.to_owned(),
    }
}

/// The last shot of a story, and those before it.
pub(super) struct LastShot<'s> {
    pub claim: &'s ShotClaim,
    pub parts: &'s [Part],
    pub spec: &'s Spec,
    pub shot: &'s Shot,
}

impl LastShot<'_> {
    /// Joins the shots before the last one and that one, whose video is written already, to a film beside it.
    pub fn film(
        &self,
        storage: &Storage,
        staged: &StagedResult,
        lease: &Lease,
    ) -> Result<Film, PublishError> {
        let before = self.parts.iter().map(|part| storage.video(part.job, part.made.token));
        let videos: Vec<PathBuf> = before.chain([staged.video()]).collect();
        let facts = join(&staged.film(), &videos)?;
        let Size { width, height } = self.shot.effective.size;
        let film = Film {
            job: lease.job,
            token: lease.token,
            bytes: facts.bytes,
            sha256: facts.sha256,
            width,
            height,
            fps: facts.fps,
            frames: facts.frames,
            shots: self.index(lease, facts.fps),
        };
        let index = serde_json::to_vec_pretty(&film.shots).map_err(std::io::Error::other)?;
        fs::write(staged.film_index(), index)?;
        Ok(film)
    }

    /// Which shot is where.
    fn index(&self, lease: &Lease, fps: u32) -> Vec<FilmShot> {
        let before = self
            .parts
            .iter()
            .map(|part| (part.shot, part.scene, part.job, part.made.effective.frames, &part.spec));
        let frames = self.shot.effective.frames;
        let last = (self.claim.shot, self.claim.scene, lease.job, frames, self.spec);
        let mut start_frame = 0;
        let entry = |(shot, scene, job, frames, spec): (u32, u32, _, usize, &Spec)| {
            let seconds = |frames: usize| frames as f64 / f64::from(fps);
            let entry = FilmShot {
                shot,
                scene,
                job,
                start_frame,
                frames,
                start_seconds: seconds(start_frame),
                seconds: seconds(frames),
                seed: spec.sampling.seed,
                prompt: spec.prompt.clone(),
            };
            start_frame += frames;
            entry
        };
        before.chain([last]).map(entry).collect()
    }
}
