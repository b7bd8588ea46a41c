//! From a prompt to the token ids that the text encoder reads.

mod clean;

use std::path::{Path, PathBuf};

pub use self::clean::clean;

/// Tokens that the model reads; a longer prompt is cut.
pub const MAX_TOKENS: usize = 512;

/// Ends each prompt.
const END: &str = "</s>";

/// Turns prompts into token ids.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    end: u32,
}

/// A prompt in tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// Ids, `</s>` last, not padded.
    pub ids: Vec<u32>,
    /// How many there were before the prompt was cut, if it was.
    pub truncated_from: Option<usize>,
}

/// Why there is no tokenizer, or a prompt can't be tokenised.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The file can't be read.
    #[error("the tokenizer `{}` can't be read: {reason}; make the bundle anew with `storymem export`", path.display())]
    Read {
        /// Of the file.
        path: PathBuf,
        /// Why not.
        reason: std::io::Error,
    },
    /// The file is not a tokenizer.
    #[error("`{}` is no tokenizer: {reason}; take `tokenizer.json` of the model's `tokenizer` folder", path.display())]
    Invalid {
        /// Of the file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The tokenizer has no ids for a prompt.
    #[error(
        "the prompt can't be tokenised: {0}; check that the bundle's `tokenizer.json` is the model's own"
    )]
    Encode(String),
}

impl Tokenizer {
    /// Opens a `tokenizer.json`.
    ///
    /// # Errors
    /// [`TextError::Read`] or [`TextError::Invalid`], the latter also when the tokenizer does not end what it encodes
    /// with `</s>`, as the text encoder expects.
    pub fn open(path: &Path) -> Result<Self, TextError> {
        let bytes =
            std::fs::read(path).map_err(|reason| TextError::Read { path: path.to_owned(), reason })?;
        Self::from_bytes(&bytes).map_err(|reason| TextError::Invalid { path: path.to_owned(), reason })
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let mut inner = tokenizers::Tokenizer::from_bytes(bytes).map_err(|e| e.to_string())?;
        // A file may ask for these; padding and cutting are the model's affair.
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|e| e.to_string())?;
        let end = inner.token_to_id(END).ok_or_else(|| format!("it has no `{END}`"))?;
        match inner.encode_fast("", true) {
            Ok(empty) if empty.get_ids() == [end] => Ok(Self { inner, end }),
            Ok(_) => Err(format!("it does not end a text with one `{END}`")),
            Err(e) => Err(e.to_string()),
        }
    }

    /// Cleans and encodes a prompt. With more than `max_tokens` it keeps the first `max_tokens - 1` and `</s>`.
    ///
    /// # Errors
    /// [`TextError::Encode`], which a sound tokenizer never gives.
    pub fn encode(&self, text: &str, max_tokens: usize) -> Result<Tokens, TextError> {
        let encoding =
            self.inner.encode_fast(clean(text), true).map_err(|e| TextError::Encode(e.to_string()))?;
        let mut ids = encoding.get_ids().to_vec();
        let len = ids.len();
        let truncated_from = (len > max_tokens).then_some(len);
        if truncated_from.is_some() {
            ids.truncate(max_tokens.saturating_sub(1));
            ids.push(self.end);
        }
        Ok(Tokens { ids, truncated_from })
    }
}
