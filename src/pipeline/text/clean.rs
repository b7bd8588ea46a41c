//! Prompts in the form the text encoder was trained on.
//!
//! ftfy is `plsfix` here, a port of it. Two things in which version 0.1.8 differs are put right below: it leaves terminal
//! escapes, and it decodes character references also where ftfy takes the text for HTML. What remains: mojibake next to
//! sound letters of other scripts is in rare cases restored by the one and left by the other.

use std::sync::LazyLock;

use plsfix::TextFixerConfig;
use regex::Regex;

/// Cleans a prompt as Wan does: `re.sub(r"\s+", " ", html.unescape(html.unescape(ftfy.fix_text(text))).strip())`.
///
/// Mojibake, curly quotes, full-width letters and control characters are put right, HTML character references are
/// decoded (twice, as they often are encoded twice), and white space is collapsed.
pub fn clean(text: &str) -> String {
    let text = unescape(&unescape(&fix_text(text)));
    text.split(is_space).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// `ftfy.fix_text`
fn fix_text(text: &str) -> String {
    static TERMINAL_ESCAPE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\x1b\[[\d;]*[a-zA-Z]").expect("the pattern is valid"));
    let config = TextFixerConfig {
        // It would remove something else than escapes.
        remove_terminal_escapes: false,
        // Longer lines would be cut at a byte, which may lie within a character.
        max_decode_length: i32::MAX,
        ..Default::default()
    };
    let text = TERMINAL_ESCAPE.replace_all(text, "");
    // Lines are fixed each on its own, and from the first one with a `<` on ftfy decodes no references: hide them.
    let html = text.find('<').map_or(text.len(), |at| text[..at].rfind('\n').map_or(0, |end| end + 1));
    let (plain, html) = text.split_at(html);
    let html = plsfix::fix_text(&html.replace('&', "&|"), Some(&config)).replace("&|", "&");
    plsfix::fix_text(plain, Some(&config)) + &html
}

/// White space as in Python's `str.isspace` and `\s`.
fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

/// Decodes HTML character references as Python's `html.unescape` does.
///
/// That follows the HTML standard, as `htmlize` does, with one exception: numeric references to control characters and
/// noncharacters are dropped, where the standard keeps them.
fn unescape(text: &str) -> String {
    let mut unescaped = String::with_capacity(text.len());
    // No reference contains an `&` past its start: each part holds one at most.
    for (i, part) in text.split('&').enumerate() {
        if i == 0 {
            unescaped.push_str(part);
            continue;
        }
        let decoded = htmlize::unescape(format!("&{part}"));
        let numeric = part.starts_with('#');
        unescaped.push_str(decoded.strip_prefix(|c| numeric && is_dropped(c)).unwrap_or(&decoded));
    }
    unescaped
}

/// Whether Python drops a reference to this character.
fn is_dropped(c: char) -> bool {
    let kept_by_table = matches!(c, '\u{80}'..='\u{9f}');
    let white_space = matches!(c, '\t' | '\n' | '\u{c}' | '\r');
    let nonchar = matches!(c, '\u{fdd0}'..='\u{fdef}') || u32::from(c) & 0xfffe == 0xfffe;
    nonchar || c.is_control() && !kept_by_table && !white_space
}
