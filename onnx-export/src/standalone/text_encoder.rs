//! The text encoder from ids to embeddings.

use safetensors::SafeTensorError;

use super::linker::Linker;
use super::port;
use crate::bundle::Manifest;
use crate::graph::{Builder, DataType, Graph};
use crate::models::{Net, umt5};

/// Makes the weight of padding in a softmax exactly zero.
const MASKED: f32 = 1e9;

const ABOUT: &str = "UMT5 encoder. input_ids: a prompt's tokens with the final </s>, then zeros. attention_mask: 1 for each of \
                     these tokens, 0 for padding. prompt_embeds: zero for padding, as the transformers take it.";

/// Inputs `input_ids` and `attention_mask` `[1, text_len]`, i64; output `prompt_embeds` `[1, text_len, d_model]`.
///
/// # Errors
/// When the bundle's weight file can't be described.
pub fn text_encoder(manifest: &Manifest) -> Result<Vec<u8>, SafeTensorError> {
    let (config, tokens) = (&manifest.nets.text_encoder, manifest.nets.transformer.text_len);
    let mut linker = Linker::new(manifest, Net::TextEncoder)?;
    let ids = linker.input(port("input_ids", DataType::I64, &[1, tokens]));
    let attended = linker.input(port("attention_mask", DataType::I64, &[1, tokens]));
    let table = [config.vocab_size, config.d_model];
    let [mut hidden, mask] = linker.add("embed", "", &[&ids, &attended], |g| embed(g, table, tokens));
    for layer in 0..config.num_layers {
        let given = [&hidden, &mask];
        [hidden] = linker.add(&format!("layer_{layer}"), &umt5::layer_prefix(layer), &given, |g| {
            umt5::layer(g, config, tokens)
        });
    }
    let [hidden] = linker.add("final_norm", "", &[&hidden], |g| umt5::final_norm(g, config, tokens));
    let [embeds] =
        linker.add("clear_padding", "", &[&hidden, &attended], |g| clear_padding(g, tokens, config.d_model));
    linker.output(port("prompt_embeds", DataType::F32, &[1, tokens, config.d_model]), &embeds);
    Ok(linker.finish("text_encoder", ABOUT))
}

/// Ids to rows of the token embedding, and what is added to scores of padding.
fn embed(mut g: Builder<'_>, table: [usize; 2], tokens: usize) -> Graph {
    let ids = g.input("ids", DataType::I64, &[1, tokens]);
    let attended = g.input("attended", DataType::I64, &[1, tokens]);
    let ids = g.reshape(&ids, &[tokens]);
    let table = g.weight(umt5::EMBEDDING, &table);
    let hidden = g.gather_rows(&table, &ids);
    g.output("hidden", &hidden);
    let attended = g.cast(&attended, DataType::F32);
    let (minus_one, masked) = (g.constant_f32(&[-1.0], &[]), g.constant_f32(&[MASKED], &[]));
    let mask = g.add(&attended, &minus_one);
    let mask = g.mul(&mask, &masked);
    let mask = g.reshape(&mask, &[1, 1, 1, tokens]);
    g.output("mask", &mask);
    g.finish("embed")
}

fn clear_padding(mut g: Builder<'_>, tokens: usize, width: usize) -> Graph {
    let hidden = g.input("hidden", DataType::F32, &[tokens, width]);
    let attended = g.input("attended", DataType::I64, &[1, tokens]);
    let attended = g.cast(&attended, DataType::F32);
    let attended = g.reshape(&attended, &[tokens, 1]);
    let embeds = g.mul(&hidden, &attended);
    let embeds = g.reshape(&embeds, &[1, tokens, width]);
    g.output("embeds", &embeds);
    g.finish("clear_padding")
}
