//! Prompts become the tokens that the reference makes of them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::io::Write;
use std::path::Path;

use proptest::prelude::*;
use storymem::pipeline::text::{MAX_TOKENS, TextError, Tokenizer, Tokens, clean};

const TOKENIZER: &str = "tiny/base_i2v_diffusers/tokenizer/tokenizer.json";

fn tokenizer() -> Tokenizer {
    Tokenizer::open(&common::fixture(TOKENIZER)).unwrap()
}

#[test]
fn equals_the_reference() {
    let tokenizer = tokenizer();
    let facts = common::facts("tiny");
    let prompts = facts["prompts"].as_array().unwrap();
    assert!(!prompts.is_empty());
    for prompt in prompts {
        let text = prompt["text"].as_str().unwrap();
        let ids = serde_json::from_value(prompt["ids"].clone()).unwrap();
        assert_eq!(clean(text), prompt["cleaned"].as_str().unwrap());
        assert_eq!(tokenizer.encode(text, MAX_TOKENS).unwrap(), Tokens { ids, truncated_from: None });
    }
}

#[test]
fn cleans_as_ftfy_and_python_do() {
    let cases: Vec<(String, String)> =
        serde_json::from_slice(&fs::read(common::fixture("prompts.json")).unwrap()).unwrap();
    assert!(!cases.is_empty());
    let wrong: Vec<_> = cases
        .into_iter()
        .map(|(text, cleaned)| (clean(&text), cleaned, text))
        .filter(|(found, cleaned, _)| found != cleaned)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_long_prompt_keeps_its_beginning_and_its_end_mark() {
    let tokenizer = tokenizer();
    let long = "a quiet room ".repeat(400);
    let whole = tokenizer.encode(&long, usize::MAX).unwrap();
    assert!(whole.ids.len() > 2 * MAX_TOKENS);
    assert_eq!(whole.truncated_from, None);

    let cut = tokenizer.encode(&long, MAX_TOKENS).unwrap();
    assert_eq!(cut.truncated_from, Some(whole.ids.len()));
    assert_eq!(cut.ids.len(), MAX_TOKENS);
    assert_eq!(cut.ids[..MAX_TOKENS - 1], whole.ids[..MAX_TOKENS - 1]);
    assert_eq!(cut.ids[MAX_TOKENS - 1], 1);

    let exact = whole.ids.len();
    assert_eq!(tokenizer.encode(&long, exact).unwrap(), whole);
}

fn open_changed(change: impl FnOnce(&mut serde_json::Value)) -> Result<Tokenizer, TextError> {
    let mut json = serde_json::from_slice(&fs::read(common::fixture(TOKENIZER)).unwrap()).unwrap();
    change(&mut json);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(json.to_string().as_bytes()).unwrap();
    Tokenizer::open(file.path())
}

#[test]
fn padding_and_cutting_asked_for_in_the_file_are_ignored() {
    let changed = open_changed(|json| {
        json["truncation"] = serde_json::json!(
            {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0}
        );
        json["padding"] = serde_json::json!({
            "strategy": {"Fixed": 512}, "direction": "Right", "pad_to_multiple_of": null,
            "pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>"
        });
    })
    .unwrap();
    for text in ["", "A young woman walking through a sunlit park"] {
        assert_eq!(changed.encode(text, MAX_TOKENS).unwrap(), tokenizer().encode(text, MAX_TOKENS).unwrap());
    }
}

#[test]
fn what_is_no_tokenizer_is_refused_by_name() {
    let missing = Tokenizer::open(Path::new("no/such/tokenizer.json")).unwrap_err();
    assert!(matches!(missing, TextError::Read { .. }));
    assert!(
        missing.to_string().starts_with("the tokenizer `no/such/tokenizer.json` can't be read: "),
        "{missing}"
    );

    let mut file = tempfile::NamedTempFile::new().unwrap();
    for content in [&b"{}"[..], b"", b"not json", b"\xff\xfe", b"{\"model\": {\"type\": \"Unigram\"}}"] {
        file.as_file_mut().set_len(0).unwrap();
        fs::write(file.path(), content).unwrap();
        let error = Tokenizer::open(file.path()).unwrap_err();
        assert!(matches!(error, TextError::Invalid { .. }));
        assert!(error.to_string().contains("`tokenizer.json` of the model's `tokenizer` folder"), "{error}");
    }

    let endless = open_changed(|json| json["post_processor"] = serde_json::Value::Null).unwrap_err();
    assert!(endless.to_string().contains("does not end a text with one `</s>`"), "{endless}");
}

proptest! {
    #[test]
    fn any_text_can_be_cleaned_and_encoded(text in any::<String>(), max in 1..64usize) {
        let cleaned = clean(&text);
        prop_assert!(!cleaned.starts_with(char::is_whitespace) && !cleaned.ends_with(char::is_whitespace));
        prop_assert!(!cleaned.contains("  "));
        let tokens = tokenizer().encode(&text, max).unwrap();
        prop_assert_eq!(tokens.ids.last(), Some(&1));
        prop_assert!(tokens.ids.len() <= max);
        prop_assert_eq!(tokens.truncated_from.is_some_and(|len| len > max), tokens.truncated_from.is_some());
    }

    /// Plain text is not changed, save its white space.
    #[test]
    fn plain_words_stay(words in prop::collection::vec("[a-zA-Z0-9,.!?()-]{1,9}", 0..20)) {
        prop_assert_eq!(clean(&words.join(" \n\t ")), words.join(" "));
    }
}
