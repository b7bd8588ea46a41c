//! What transformer an adapter was made for.

use super::keys::{Key, Role};
use crate::models::wan::WanConfig;
use crate::weights::config;
use crate::weights::file::TensorFile;

/// The transformer `file` was made for, judged by its factors: those that tell nothing are taken to be A14B's.
pub fn made_for(file: &TensorFile) -> WanConfig {
    let published = WanConfig::a14b(36);
    let mut made_for = published.clone();
    let mut layers = 0;
    for tensor in file.raw() {
        let Some(key) = Key::parse(tensor.name) else { continue };
        let module = key.module.replace('.', "_");
        let number = module.strip_prefix("blocks_").and_then(|rest| rest.split('_').next()?.parse().ok());
        layers = layers.max(number.map_or(0, |block: usize| block.saturating_add(1)));
        let is_query = module.ends_with("attn_q") || module.ends_with("_to_q");
        let is_up = module.ends_with("ffn_0") || module.ends_with("ffn_net_0_proj");
        match (key.role, tensor.shape) {
            (Role::Down, &[_, inner]) if is_query => made_for.dim = inner,
            (Role::Up, &[outer, _]) if is_up => made_for.ffn_dim = outer,
            _ => {}
        }
    }
    if layers > 0 {
        made_for.num_layers = layers;
    }
    // All published Wan transformers have heads 128 wide; the number of heads decides no shape.
    made_for.num_heads = if made_for.dim.is_multiple_of(128) { made_for.dim / 128 } else { 1 };
    if config::is_transformer(&made_for) { made_for } else { published }
}
