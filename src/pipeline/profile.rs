//! The shape of a shot: what decides which graphs it runs and how much memory they take.

use std::fmt;
use std::str::FromStr;

use onnx_export::bundle::{BundleVariant, Manifest, SamplingDefaults, shot_graphs};
use onnx_export::graph::{Graph, Lowering};
use onnx_export::models::wan::LatentGrid;

use super::{Dimensions, Fit, PipelineError, Sampling, Size, SizeError, SolverKind, Variant};
use super::{codec, denoiser, text_encoder};
use crate::engine::Stage;

/// Size, length and number of memory frames of a shot, written `832x480x81x3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Profile {
    /// Size of the video.
    pub size: Size,
    /// Frames to generate, 4n+1, known ones included.
    pub frames: usize,
    /// Memory frames; none for a model that works from text alone.
    pub memory: usize,
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.size, self.frames, self.memory)
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Option<Vec<usize>> = text.split('x').map(|number| number.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[width, height, frames, memory]) => {
                let profile = Self { size: Size { width, height }, frames, memory };
                profile.dimensions().map(|_| profile).map_err(|error| error.to_string())
            }
            _ => Err(format!(
                "`{text}` is not the shape of a shot; write width, height, frames and memory frames as in `832x480x81x3`"
            )),
        }
    }
}

impl Profile {
    /// The size of the video and of its latents.
    ///
    /// # Errors
    /// When no such video can be made.
    pub fn dimensions(&self) -> Result<Dimensions, SizeError> {
        let sampling = Sampling {
            size: self.size,
            fit: Fit::Size,
            frames: self.frames,
            // These have no say in it.
            steps: 1,
            shift: 1.0,
            guidance: onnx_export::bundle::Guidance { high: 1.0, low: 1.0 },
            solver: SolverKind::default(),
            seed: 0,
        };
        Dimensions::new(&sampling, Variant::M2v, None)
    }

    /// The shots a bundle makes by default, with as many memory frames as it takes.
    pub fn of(manifest: &Manifest) -> Self {
        let SamplingDefaults { width, height, frames, max_memory, .. } = manifest.sampling;
        let memory = if manifest.variant == BundleVariant::T2v { 0 } else { max_memory };
        Self { size: Size { width, height }, frames, memory }
    }

    /// The latent grid, memory included.
    pub(super) fn grid(&self, dimensions: Dimensions) -> LatentGrid {
        let Dimensions { lat_t, lat_h, lat_w, .. } = dimensions;
        LatentGrid { frames: self.memory + lat_t, height: lat_h, width: lat_w }
    }

    /// What a shot of a bundle runs, one stage after the other, written by `lowering`: for planning without a device,
    /// and without the weights.
    ///
    /// # Errors
    /// When no such video can be made.
    pub fn stages(&self, manifest: &Manifest, lowering: &dyn Lowering) -> Result<Vec<Stage>, PipelineError> {
        self.stages_and_graphs(manifest, lowering, &mut |_| ())
    }

    /// As [`stages`](Self::stages), and hands each graph to `inspect` as it is written.
    ///
    /// # Errors
    /// As there.
    pub fn stages_and_graphs(
        &self,
        manifest: &Manifest,
        lowering: &dyn Lowering,
        inspect: &mut dyn FnMut(&Graph),
    ) -> Result<Vec<Stage>, PipelineError> {
        let nets = &manifest.nets;
        let graphs = shot_graphs(manifest, lowering, self.grid(self.dimensions()?));
        graphs.iter().for_each(inspect);
        let spec = |name: &str| {
            let graph = graphs.iter().find(|graph| graph.name == name);
            graph.expect("the graphs of a shot have these names").spec()
        };
        let coder = |[first, next]: [&str; 2]| codec::stage(&spec(first), &spec(next));
        let transformer = ["context", "prologue", "keys", "block", "epilogue"];
        let transformer = transformer.map(|part| spec(&format!("wan_{part}")));

        let layer = spec("umt5_layer");
        let mut stages = vec![text_encoder::stage(&nets.text_encoder, &layer, &spec("umt5_final_norm"))];
        if nets.transformer.condition_channels() > 0 {
            stages.push(coder(["vae_encode_first", "vae_encode_next"]));
        }
        stages.push(denoiser::stage(&nets.transformer, transformer.each_ref()));
        stages.push(coder(["vae_decode_first", "vae_decode_next"]));
        Ok(stages)
    }
}

#[cfg(test)]
mod tests {
    use onnx_export::bundle::Dtype;
    use onnx_export::graph::CannLowering;
    use onnx_export::models::Net;

    use super::*;
    use crate::engine::Bytes;
    use crate::engine::residency::{Demand, Plan};

    #[test]
    fn profiles_are_read_as_they_are_written() {
        let profile: Profile = "832x480x81x3".parse().unwrap();
        assert_eq!(profile, Profile { size: Size { width: 832, height: 480 }, frames: 81, memory: 3 });
        assert_eq!(profile.to_string(), "832x480x81x3");
        for text in ["832x480", "832x480x81", "832x480x80x3", "830x480x81x3", "axbxcxd", ""] {
            assert!(text.parse::<Profile>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_expert_of_the_full_size_model_runs_in_a_third_of_its_size() {
        let manifest = Manifest::a14b(BundleVariant::Mi2v, Dtype::F16);
        let expert: u64 =
            manifest.tensors(Net::TransformerHigh).iter().map(|tensor| tensor.bytes() as u64).sum();
        let profile: Profile = "832x480x81x10".parse().unwrap();
        for stage in profile.stages(&manifest, &CannLowering::default()).unwrap() {
            let demand = Demand::of(&stage);
            let roomy = Plan::new(demand.clone(), 60 << 30).unwrap();
            println!("{}: at least {}; {roomy}", stage.name, Bytes(demand.least()));
            assert_eq!(roomy.moved_per_pass(), 0, "{}: {roomy}", stage.name);
            if stage.name == "transformer" {
                let tight = Plan::new(demand, expert / 3).unwrap();
                assert!(tight.moved_per_pass() > 0 && tight.peak() <= expert / 3, "{tight}");
            }
        }
    }
}
