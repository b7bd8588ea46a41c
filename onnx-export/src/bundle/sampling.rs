//! How the models want to be sampled, unless a request says otherwise.

use super::{BundleVariant, Guidance, SamplingDefaults};

/// Wan's negative prompt (`wan/configs/shared_config.py`), verbatim: the models were tuned with it.
pub const NEGATIVE_PROMPT: &str = "色调艳丽，过曝，静态，细节模糊不清，字幕，风格，作品，画作，画面，静止，整体发灰，最差质量，低质量，JPEG压缩残留，丑陋的，残缺的，多余的手指，画得不好的手部，画得不好的脸部，畸形的，毁容的，形态畸形的肢体，手指融合，静止不动的画面，杂乱的背景，三条腿，背景人很多，倒着走";

impl SamplingDefaults {
    /// The defaults of StoryMem's pipeline: for shots with memory those of `wan_m2v_A14B.py`, for text alone
    /// those of Wan2.2-T2V-A14B with StoryMem's guidance.
    pub fn for_variant(variant: BundleVariant) -> Self {
        let (shift, boundary) = match variant {
            BundleVariant::M2v | BundleVariant::Mi2v | BundleVariant::Mm2v => (4.0, 0.9),
            BundleVariant::T2v => (12.0, 0.875),
        };
        Self {
            steps: 40,
            shift,
            guidance: Guidance { high: 3.5, low: 3.5 },
            boundary,
            frames: 81,
            fps: 16,
            width: 832,
            height: 480,
            max_memory: 10,
            memory_stride: 5,
            negative_prompt: NEGATIVE_PROMPT.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::bundle::digest::hex;

    #[test]
    fn negative_prompt_is_verbatim() {
        let sha256 = hex(&Sha256::digest(NEGATIVE_PROMPT));
        assert_eq!(sha256, "ce96e0324e4b54ce4b6e867f669ca520952e1a34cc116543516b1897f0d3c47e");
    }
}
