//! From prompts and images to what the model is told.

use ndarray::{Array2, Array3, Array4, Axis};

use super::ShotPipeline;
use super::run::Run;
use crate::pipeline::codec::VideoCodec;
use crate::pipeline::condition::{LATENT_CHANNELS, condition};
use crate::pipeline::resize::resize;
use crate::pipeline::text::Tokens;
use crate::pipeline::text_encoder::TextEncoder;
use crate::pipeline::{Conditioning, Dimensions, PipelineError, ShotRequest, Stage, Variant};

impl ShotPipeline {
    /// Embeddings of the prompt and of the negative prompt, and the number of the prompt's tokens.
    pub(super) fn encode_text(
        &self,
        run: &mut Run<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(usize, [Array2<f32>; 2]), PipelineError> {
        let nets = &self.bundle.manifest().nets;
        let text_len = nets.transformer.text_len;
        run.progress(Stage::Text, 0, 2)?;
        let mut encoder = TextEncoder::new(&self.engine, &nets.text_encoder, &self.text_encoder);
        let mut encode = |run: &mut Run<'_>, what: &str, done: usize, text: &str| {
            let Tokens { ids, truncated_from } = self.tokenizer.encode(text, text_len)?;
            if let Some(tokens) = truncated_from {
                warnings.push(format!("the {what} has {tokens} tokens; only the first {text_len} count"));
            }
            let embeds = encoder.encode(&ids, text_len, run.stop)?;
            run.progress(Stage::Text, done, 2)?;
            Ok::<_, PipelineError>((ids.len(), embeds))
        };
        let (tokens, prompt) = encode(run, "prompt", 1, &run.request.prompt)?;
        let (_, negative) = encode(run, "negative prompt", 2, &run.request.negative_prompt)?;
        run.keep("prompt_embeds", &prompt);
        run.keep("negative_prompt_embeds", &negative);
        Ok((tokens, [prompt, negative]))
    }

    /// The condition `[20, M + T, h, w]`; none for a model that knows no frames.
    pub(super) fn encode_frames(
        &mut self,
        run: &mut Run<'_>,
        variant: Variant,
        dimensions: Dimensions,
    ) -> Result<Option<Array4<f32>>, PipelineError> {
        let nets = &self.bundle.manifest().nets;
        if nets.transformer.condition_channels() == 0 {
            return Ok(None);
        }
        let Dimensions { width, height, lat_w, lat_h, frames, lat_t } = dimensions;
        let ShotRequest { memory, conditioning, .. } = run.request;
        let units = memory.len() + lat_t;
        run.progress(Stage::Encode, 0, units)?;
        let mut codec = VideoCodec::new(&self.engine, &nets.vae, &self.vae, lat_h, lat_w);

        let mut memory_latents = Array4::zeros([LATENT_CHANNELS, memory.len(), lat_h, lat_w]);
        for (i, image) in memory.iter().enumerate() {
            let latents = codec.encode_image(resize(image, width, height).view(), run.stop)?;
            memory_latents.index_axis_mut(Axis(1), i).assign(&latents);
            run.progress(Stage::Encode, i + 1, units)?;
        }
        let known: Vec<Array3<f32>> = match conditioning {
            Conditioning::None => Vec::new(),
            Conditioning::FirstFrame(frame) => vec![resize(frame, width, height)],
            Conditioning::Motion(frames) => frames.iter().map(|f| resize(f, width, height)).collect(),
        };
        let video_latents = match &self.grey {
            Some((of, latents)) if known.is_empty() && *of == dimensions => latents.clone(),
            _ => {
                let mut done = memory.len();
                let stop = run.stop;
                let latents = codec.encode_clip(&known, frames, stop, || {
                    done += 1;
                    run.progress(Stage::Encode, done, units)
                })?;
                if known.is_empty() {
                    self.grey = Some((dimensions, latents.clone()));
                }
                latents
            }
        };
        let condition = condition(variant, memory_latents.view(), video_latents.view())
            .expect("memory and video are encoded at one size");
        run.keep("condition", &condition);
        Ok(Some(condition))
    }
}
