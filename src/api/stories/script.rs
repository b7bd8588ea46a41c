//! Scripts, as StoryMem's own are written: scenes of prompts, each with a word on whether the shot is a cut.
//!
//! Such files are JSON5, and models that write them say `cut` as `true` or as `"True"`. Python takes any string that is
//! not empty for true, `"False"` too: here the two words are read as they are meant, and no other is taken.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::api::jobs::fields::{Errors, Fields, kind};
use crate::api::jobs::limits::PROMPT_CHARS;
use crate::api::problem::FieldError;

/// Most shots of a story.
pub const MAX_SHOTS: usize = 100;
/// Most characters of a name or an overview.
const TEXT_CHARS: usize = 20_000;
/// How deeply JSON5 may be nested; a script is by 4.
const MAX_DEPTH: usize = 32;

const FIELDS: &str = "`story_name`, `story_overview` and `scenes`";
const SCENE_FIELDS: &str = "`scene_num`, `video_prompts`, `cut` and `first_frame_prompt`";

/// A story in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "story_name": "The keeper",
    "scenes": [{
        "scene_num": 1,
        "video_prompts": ["An old keeper in a yellow coat climbs the stairs.", "The keeper lights the lamp."],
        "cut": [true, false]
    }]
}))]
pub struct Script {
    /// What it is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 20000)]
    pub story_name: Option<String>,
    /// What it is about; nothing is made of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 20000)]
    pub story_overview: Option<String>,
    /// Its scenes, in order; all together at most 100 prompts.
    #[schema(min_items = 1, max_items = 100)]
    pub scenes: Vec<Scene>,
}

/// A scene: its lists have one entry for each shot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Scene {
    /// Its number; it rises from scene to scene.
    #[schema(minimum = 1, maximum = 1000000)]
    pub scene_num: u32,
    /// What happens in each shot.
    #[schema(min_items = 1, max_items = 100)]
    pub video_prompts: Vec<String>,
    /// Whether each shot begins afresh (`true`) or goes on from the one before. The first of a story is a cut.
    #[schema(value_type = Vec<Cut>)]
    pub cut: Vec<bool>,
    /// What each shot begins with; nothing is made of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_frame_prompt: Option<Vec<String>>,
}

/// Whether a shot begins afresh: a boolean, or one of the words `"True"` and `"False"`.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is used")]
pub enum Cut {
    /// As a boolean.
    Boolean(bool),
    /// As a word.
    Word(CutWord),
}

/// Booleans as Python writes them.
#[derive(ToSchema)]
#[allow(dead_code, reason = "only its schema is used")]
pub enum CutWord {
    /// A cut.
    True,
    /// No cut.
    False,
}

/// One shot of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShotLine<'s> {
    /// `scene_num` of its scene.
    pub scene: u32,
    /// Its index within the scene, from 0.
    pub index: usize,
    /// What happens.
    pub prompt: &'s str,
    /// Whether it begins afresh.
    pub cut: bool,
}

impl Script {
    /// Reads a script from a text, JSON5 or JSON.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(text: &str) -> Result<Self, Vec<FieldError>> {
        let mut errors = Errors::default();
        let script = Self::read(Value::String(text.to_owned()), "", &mut errors);
        script.ok_or_else(|| errors.into_inner())
    }

    /// Reads a script at `pointer`: an object, or the text of one in JSON5. What is wrong with it is reported; then there is
    /// none.
    pub(in crate::api) fn read(value: Value, pointer: &str, errors: &mut Errors) -> Option<Self> {
        let value = match value {
            Value::String(text) => errors.keep(pointer, from_json5(&text))?,
            other => other,
        };
        let before = errors.count();
        let mut fields = Fields::new(value, pointer, errors);
        fields.require("scenes", "a list of scenes");
        let story_name = fields.text("story_name", 0..=TEXT_CHARS);
        let story_overview = fields.text("story_overview", 0..=TEXT_CHARS);
        let list = fields.list("scenes", 1..=MAX_SHOTS).unwrap_or_default();
        let at = fields.pointer("scenes");
        let read = |(n, scene)| Scene::read(scene, &format!("{at}/{n}"), fields.errors());
        let scenes: Vec<Option<Scene>> = list.into_iter().enumerate().map(read).collect();
        fields.finish(FIELDS);
        let script = Self { story_name, story_overview, scenes: scenes.into_iter().collect::<Option<_>>()? };
        script.check(&at, errors);
        (errors.count() == before).then_some(script)
    }

    /// Every shot, in order.
    pub fn shots(&self) -> impl Iterator<Item = ShotLine<'_>> {
        self.scenes.iter().flat_map(|scene| {
            let lines = scene.video_prompts.iter().zip(&scene.cut).enumerate();
            lines.map(|(index, (prompt, &cut))| ShotLine { scene: scene.scene_num, index, prompt, cut })
        })
    }

    /// What only the whole can tell.
    fn check(&self, at: &str, errors: &mut Errors) {
        if self.shots().next().is_some_and(|first| !first.cut) {
            let what = "the first shot of a story has none before it to go on from; its `cut` must be true";
            errors.add(format!("{at}/0/cut/0"), what);
        }
        for (n, pair) in (1..).zip(self.scenes.windows(2)) {
            if pair[1].scene_num <= pair[0].scene_num {
                let what = format!("must be above `{}`, the number of the scene before", pair[0].scene_num);
                errors.add(format!("{at}/{n}/scene_num"), what);
            }
        }
        let shots = self.shots().count();
        if shots > MAX_SHOTS {
            errors.add(at, format!("must have at most {MAX_SHOTS} prompts together; they have {shots}"));
        }
    }
}

impl Scene {
    fn read(value: Value, pointer: &str, errors: &mut Errors) -> Option<Self> {
        let mut fields = Fields::new(value, pointer, errors);
        fields.require("scene_num", "the number of the scene, from 1");
        fields.require("video_prompts", "a list of prompts, one for each shot");
        fields.require("cut", "a list of booleans, one for each shot");
        let scene_num = fields.integer("scene_num", 1..=1_000_000_i64).map(|n| n as u32);
        let video_prompts = prompts(&mut fields, "video_prompts", 1);
        let first_frame_prompt = prompts(&mut fields, "first_frame_prompt", 0);
        let cut = cuts(&mut fields);
        if let Some(prompts) = &video_prompts {
            let lengths = [
                ("cut", cut.as_ref().map(Vec::len)),
                ("first_frame_prompt", first_frame_prompt.as_ref().map(Vec::len)),
            ];
            for (name, length) in lengths {
                if let Some(length) = length.filter(|&length| length != prompts.len()) {
                    let count = prompts.len();
                    fields.refuse(
                        name,
                        format!("must have one entry for each of the {count} prompts; it has {length}"),
                    );
                }
            }
        }
        fields.finish(SCENE_FIELDS);
        Some(Self { scene_num: scene_num?, video_prompts: video_prompts?, cut: cut?, first_frame_prompt })
    }
}

/// A list of texts, of at least `least` characters each.
fn prompts(fields: &mut Fields<'_>, name: &str, least: usize) -> Option<Vec<String>> {
    let list = fields.list(name, 1..=MAX_SHOTS)?;
    let what = format!("must be a string of {least} to {PROMPT_CHARS} characters");
    each(fields, name, list, |value| match value {
        Value::String(text) if (least..=PROMPT_CHARS).contains(&text.chars().count()) => Ok(text),
        Value::String(text) => Err(format!("{what}; it has {}", text.chars().count())),
        other => Err(format!("{what}, not {}", kind(&other))),
    })
}

fn cuts(fields: &mut Fields<'_>) -> Option<Vec<bool>> {
    let list = fields.list("cut", 1..=MAX_SHOTS)?;
    each(fields, "cut", list, |value| match value {
        Value::Bool(cut) => Ok(cut),
        Value::String(word) if word == "True" => Ok(true),
        Value::String(word) if word == "False" => Ok(false),
        Value::String(word) => {
            Err(format!("must be true or false, or `True` or `False`; `{word}` is neither"))
        }
        other => Err(format!("must be true or false, not {}", kind(&other))),
    })
}

/// Reads each entry of a list, and reports every one that is wrong.
fn each<T>(
    fields: &mut Fields<'_>,
    name: &str,
    list: Vec<Value>,
    read: impl Fn(Value) -> Result<T, String>,
) -> Option<Vec<T>> {
    let pointer = fields.pointer(name);
    let entry = |(n, value)| fields.errors().keep(&format!("{pointer}/{n}"), read(value));
    let read: Vec<Option<T>> = list.into_iter().enumerate().map(entry).collect();
    read.into_iter().collect()
}

/// JSON5 as JSON.
fn from_json5(text: &str) -> Result<Value, String> {
    // The parser calls itself for each level.
    let depth = depth(text);
    if depth > MAX_DEPTH {
        return Err(format!("is nested {depth} deep; a script is by 4"));
    }
    json5::from_str(text).map_err(|e| format!("is not JSON5: {e}"))
}

/// How deeply lists and objects of a JSON5 text are nested.
fn depth(text: &str) -> usize {
    let mut chars = text.chars().peekable();
    let (mut depth, mut deepest) = (0_usize, 0);
    while let Some(c) = chars.next() {
        match c {
            '[' | '{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            ']' | '}' => depth = depth.saturating_sub(1),
            quote @ ('"' | '\'') => {
                while let Some(c) = chars.next().filter(|&c| c != quote) {
                    if c == '\\' {
                        chars.next();
                    }
                }
            }
            '/' if chars.peek() == Some(&'/') => {
                while chars.next().is_some_and(|c| !matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}')) {}
            }
            '/' if chars.next_if_eq(&'*').is_some() => {
                while chars.next().is_some_and(|c| c != '*' || chars.next_if_eq(&'/').is_none()) {}
            }
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_count_where_they_nest() {
        for (text, expected) in [
            ("", 0),
            ("[]", 1),
            ("[{a: [1]}, [[]]]", 3),
            (r#"["]", ["]", ["]"]]]"#, 3),
            (r#"['\']', "\"[[["]"#, 1),
            ("[ // ]]] \n [ /* ]] **/ [] ] ]", 3),
            ("]]]]{}", 1),
            ("/", 0),
            ("/* [", 0),
        ] {
            assert_eq!(depth(text), expected, "{text}");
        }
        let deep = "[".repeat(1_000_000);
        assert!(from_json5(&deep).unwrap_err().contains("nested"));
    }
}
