//! A small tokenizer with the shape of T5's, for nets that have learnt nothing.
//!
//! Unigram over metaspaces: `<pad>` is 0, `</s>` is 1 and ends every text. It knows the printable ASCII characters and
//! some words; anything else is spelt in bytes, so every prompt in every language has tokens.

use serde_json::json;

/// Tokens with a meaning of their own, in order of id.
const SPECIAL: [&str; 4] = ["<pad>", "</s>", "<s>", "<unk>"];

/// Pieces that make ordinary prompts shorter; `▁` is a space.
const WORDS: &[&str] = &[
    "▁a",
    "▁the",
    "▁of",
    "▁and",
    "▁in",
    "▁on",
    "▁her",
    "▁his",
    "▁with",
    "▁at",
    "▁to",
    "▁young",
    "▁old",
    "▁woman",
    "▁man",
    "▁girl",
    "▁boy",
    "▁dog",
    "▁cat",
    "▁street",
    "▁sea",
    "▁park",
    "▁room",
    "▁light",
    "▁night",
    "▁rain",
    "▁walking",
    "▁camera",
    "▁shot",
    "▁slow",
    "▁close",
    "ing",
    "ed",
    "er",
    "ly",
    "es",
    "th",
    "an",
    "on",
];

/// Number of tokens.
pub(super) fn len() -> usize {
    vocabulary().len()
}

/// The content of `tokenizer.json`.
pub(super) fn json() -> String {
    let metaspace =
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true});
    let end = json!({"SpecialToken": {"id": "</s>", "type_id": 0}});
    let sequence = |id: &str| json!({"Sequence": {"id": id, "type_id": 0}});
    let added = SPECIAL.iter().enumerate().map(|(id, content)| {
        json!({
            "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true
        })
    });
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added.collect::<Vec<_>>(),
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "NFKC"},
                {"type": "Replace", "pattern": {"String": " {2,}"}, "content": " "}
            ]
        },
        "pre_tokenizer": metaspace,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [sequence("A"), end],
            "pair": [sequence("A"), end, sequence("B"), end],
            "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [{"type": "ByteFallback"}, metaspace]
        },
        "model": {"type": "Unigram", "unk_id": 3, "vocab": vocabulary(), "byte_fallback": true}
    })
    .to_string()
}

/// Pieces and their scores (log probabilities): words are likelier than their letters, letters than bytes.
fn vocabulary() -> Vec<(String, f32)> {
    let special = SPECIAL.iter().map(|piece| ((*piece).to_owned(), 0.0));
    let bytes = (0..=255u8).map(|byte| (format!("<0x{byte:02X}>"), -12.0));
    let space = [("▁".to_owned(), -2.5)];
    let characters = ('!'..='~').map(|character| (character.to_string(), -4.0));
    let words = WORDS.iter().map(|piece| ((*piece).to_owned(), -5.0));
    special.chain(bytes).chain(space).chain(characters).chain(words).collect()
}
