//! The shape of a shot: what decides which graphs it runs and how much memory they take.

use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;

use onnx_export::bundle::{BundleVariant, Manifest, SamplingDefaults};
use onnx_export::graph::{Builder, DataType, Graph, GraphSpec, Lowering};
use onnx_export::models::vae::{self, Chunk};
use onnx_export::models::wan::LatentGrid;
use onnx_export::models::{Net, umt5, wan};

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
        let dimensions = self.dimensions()?;
        let (grid, Dimensions { lat_h, lat_w, .. }) = (self.grid(dimensions), dimensions);
        let nets = &manifest.nets;
        let inspect = RefCell::new(inspect);
        let spec = |net: Net, prefix: &str, build: &dyn Fn(Builder<'_>) -> Graph| {
            let tensors = manifest.tensors(net);
            let stored = |name: &str| {
                let full = format!("{prefix}{name}");
                tensors.iter().find(|tensor| tensor.name == full).map_or(DataType::F32, |t| t.dtype.into())
            };
            let graph = build(Builder::new(lowering, &stored));
            (*inspect.borrow_mut())(&graph);
            graph.spec()
        };

        let (text, tokens) = (&nets.text_encoder, nets.transformer.text_len);
        let layer = spec(Net::TextEncoder, &umt5::layer_prefix(0), &|g| umt5::layer(g, text, tokens));
        let norm = spec(Net::TextEncoder, "", &|g| umt5::final_norm(g, text, tokens));
        let mut stages = vec![text_encoder::stage(text, &layer, &norm)];

        let coder = |build: &dyn Fn(Builder<'_>, Chunk) -> Graph| {
            let [first, next] =
                [Chunk::First, Chunk::Next].map(|chunk| spec(Net::Vae, "", &|g| build(g, chunk)));
            codec::stage(&first, &next)
        };
        if nets.transformer.condition_channels() > 0 {
            stages.push(coder(&|g, chunk| vae::encode(g, &nets.vae, chunk, lat_h, lat_w)));
        }
        let net = &nets.transformer;
        let high =
            |prefix: &str, build: &dyn Fn(Builder<'_>) -> Graph| spec(Net::TransformerHigh, prefix, build);
        let graphs: [GraphSpec; 4] = [
            high("", &|g| wan::context(g, net)),
            high("", &|g| wan::prologue(g, net, grid)),
            high(&wan::block_prefix(0), &|g| wan::block(g, net, grid)),
            high("", &|g| wan::epilogue(g, net, grid)),
        ];
        stages.push(denoiser::stage(net, graphs.each_ref()));
        stages.push(coder(&|g, chunk| vae::decode(g, &nets.vae, chunk, lat_h, lat_w)));
        Ok(stages)
    }
}

#[cfg(test)]
mod tests {
    use onnx_export::bundle::Dtype;
    use onnx_export::graph::CannLowering;

    use super::*;
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
    fn the_full_size_model_fits_a_device_of_64_gib_and_streams_on_one_of_24() {
        let manifest = Manifest::a14b(BundleVariant::Mi2v, Dtype::F16);
        let profile: Profile = "832x480x81x10".parse().unwrap();
        for stage in profile.stages(&manifest, &CannLowering::default()).unwrap() {
            let demand = Demand::of(&stage);
            let roomy = Plan::new(demand.clone(), 60 << 30).unwrap();
            assert_eq!(roomy.moved_per_pass(), 0, "{}: {roomy}", stage.name);
            let tight = Plan::new(demand, 22 << 30).unwrap();
            assert_eq!(tight.moved_per_pass() > 0, stage.name == "transformer", "{}: {tight}", stage.name);
        }
    }
}
