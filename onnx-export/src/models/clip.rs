//! CLIP's vision tower (ViT-B/32 in StoryMem), one graph: a frame becomes an embedding.
//!
//! Reference: transformers 4.57 `CLIPVisionModelWithProjection`, whose names the weights have. The tower is small, so
//! there is no graph for a layer as there is for the large nets.

use serde::{Deserialize, Serialize};

use crate::graph::{AttentionSpec, Builder, DataType::F32, Graph, Value, WeightSpec};

/// Mean of each colour, subtracted from pixels in [0, 1].
pub const MEAN: [f32; 3] = [0.481_454_66, 0.457_827_5, 0.408_210_73];
/// Standard deviation of each colour, by which they are divided then.
pub const STD: [f32; 3] = [0.268_629_54, 0.261_302_6, 0.275_777_1];

/// Dimensions of a vision tower.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClipConfig {
    /// Width of a token.
    pub hidden_size: usize,
    /// Inner width of the feed-forward layers.
    pub intermediate_size: usize,
    /// Layers.
    pub num_hidden_layers: usize,
    /// Attention heads.
    pub num_attention_heads: usize,
    /// Pixels of each side of a frame.
    pub image_size: usize,
    /// Pixels of each side of a patch.
    pub patch_size: usize,
    /// Width of the embedding.
    pub projection_dim: usize,
    /// Epsilon of every norm.
    pub layer_norm_eps: f32,
}

impl ClipConfig {
    /// CLIP ViT-B/32 (`config.json` of `openai/clip-vit-base-patch32`).
    pub fn vit_b_32() -> Self {
        Self {
            hidden_size: 768,
            intermediate_size: 3072,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            image_size: 224,
            patch_size: 32,
            projection_dim: 512,
            layer_norm_eps: 1e-5,
        }
    }

    /// Patches along a side.
    fn grid(&self) -> usize {
        self.image_size / self.patch_size
    }

    /// Tokens: the patches and the class token.
    fn tokens(&self) -> usize {
        self.grid() * self.grid() + 1
    }
}

/// Every weight of the tower under its `transformers` name, in the order in which they are used.
pub fn weights(config: &ClipConfig) -> Vec<WeightSpec> {
    Builder::weights_of(|g| define(g, config))
}

/// A frame to its embedding.
///
/// Input `pixels` `[3, image_size, image_size]`, normalised with [`MEAN`] and [`STD`]; output `embedding`
/// `[1, projection_dim]`, of any length.
pub fn embed(mut g: Builder<'_>, config: &ClipConfig) -> Graph {
    define(&mut g, config);
    g.finish("clip_vision")
}

fn define(g: &mut Builder<'_>, config: &ClipConfig) {
    let (side, width) = (config.image_size, config.hidden_size);
    let pixels = g.input("pixels", F32, &[3, side, side]);

    let x = tokens(g, config, &pixels);
    let mut x = norm(g, config, "vision_model.pre_layrnorm", &x);
    for layer in 0..config.num_hidden_layers {
        let name = |part: &str| format!("vision_model.encoder.layers.{layer}.{part}");
        let y = norm(g, config, &name("layer_norm1"), &x);
        let y = self_attention(g, config, &name("self_attn"), &y);
        x = g.add(&x, &y);
        let y = norm(g, config, &name("layer_norm2"), &x);
        let y = linear(g, &name("mlp.fc1"), &y, config.intermediate_size);
        let y = g.quick_gelu(&y);
        let y = linear(g, &name("mlp.fc2"), &y, width);
        x = g.add(&x, &y);
    }
    let class = g.slice(&x, 0, 0, 1); // [1, width]
    let class = norm(g, config, "vision_model.post_layernorm", &class);
    let projection = g.weight("visual_projection.weight", &[config.projection_dim, width]);
    let embedding = g.linear(&class, &projection, None);
    g.output("embedding", &embedding);
}

/// The class token and one for each patch, with their positions: `[tokens, hidden_size]`.
fn tokens(g: &mut Builder<'_>, config: &ClipConfig, pixels: &Value) -> Value {
    let (grid, patch, width) = (config.grid(), config.patch_size, config.hidden_size);
    let class = g.weight("vision_model.embeddings.class_embedding", &[width]);
    let kernel = g.weight("vision_model.embeddings.patch_embedding.weight", &[width, 3, patch, patch]);
    let positions = g.weight("vision_model.embeddings.position_embedding.weight", &[config.tokens(), width]);

    // The convolution's steps are as wide as its kernel, so it is a product of patches.
    let x = g.reshape(pixels, &[3, grid, patch, grid, patch]);
    let x = g.transpose(&x, &[1, 3, 0, 2, 4]); // [grid, grid, 3, patch, patch]
    let x = g.reshape(&x, &[grid * grid, 3 * patch * patch]);
    let kernel = g.reshape(&kernel, &[width, 3 * patch * patch]);
    let x = g.linear(&x, &kernel, None);

    let class = g.reshape(&class, &[1, width]);
    let [class, x] = [class, x].map(|v| g.cast(&v, F32));
    let x = g.concat(&[&class, &x], 0);
    g.add(&x, &positions)
}

fn self_attention(g: &mut Builder<'_>, config: &ClipConfig, name: &str, x: &Value) -> Value {
    let (tokens, width, heads) = (config.tokens(), config.hidden_size, config.num_attention_heads);
    let [q, k, v] = ["q_proj", "k_proj", "v_proj"].map(|projection| {
        let x = linear(g, &format!("{name}.{projection}"), x, width);
        g.reshape(&x, &[1, tokens, width])
    });
    let scale = 1.0 / ((width / heads) as f32).sqrt();
    let y = g.attention(&q, &k, &v, AttentionSpec { heads, scale, bias: None });
    let y = g.reshape(&y, &[tokens, width]);
    linear(g, &format!("{name}.out_proj"), &y, width)
}

fn norm(g: &mut Builder<'_>, config: &ClipConfig, name: &str, x: &Value) -> Value {
    let [scale, shift] =
        ["weight", "bias"].map(|part| g.weight(&format!("{name}.{part}"), &[config.hidden_size]));
    g.layer_norm(x, Some((&scale, &shift)), config.layer_norm_eps)
}

fn linear(g: &mut Builder<'_>, name: &str, x: &Value, out: usize) -> Value {
    let weight = g.weight(&format!("{name}.weight"), &[out, x.dim(1)]);
    let bias = g.weight(&format!("{name}.bias"), &[out]);
    g.linear(x, &weight, Some(&bias))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_size_tower_has_the_published_inventory() {
        let all = weights(&ClipConfig::vit_b_32());
        // 16 for each layer; class, patches, positions; two norms; the projection.
        assert_eq!(all.len(), 12 * 16 + 3 + 4 + 1);
        assert_eq!(all.iter().map(|w| w.shape.iter().product::<usize>()).sum::<usize>(), 87_849_216);
    }
}
