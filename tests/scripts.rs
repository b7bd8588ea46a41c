//! Scripts of stories: those that are right, in every way they may be written, and those that are not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::fixture;
use proptest::prelude::*;
use serde_json::{Value, json};
use storymem::api::stories::script::Script;

/// The scripts in `tests/fixtures/stories`, written as StoryMem's own thirty are.
fn scripts() -> Vec<(String, String)> {
    let files = std::fs::read_dir(fixture("stories")).unwrap().map(|file| file.unwrap().path());
    let mut scripts: Vec<_> = files
        .map(|path| {
            (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(path).unwrap())
        })
        .collect();
    scripts.sort();
    scripts
}

fn pointers(text: &str) -> Vec<String> {
    let errors = Script::parse(text).expect_err(text);
    let mut pointers: Vec<_> = errors.into_iter().map(|error| error.pointer).collect();
    pointers.sort();
    pointers
}

fn script(scenes: Value) -> String {
    json!({"scenes": scenes}).to_string()
}

#[test]
fn thirty_scripts_are_read() {
    let scripts = scripts();
    assert_eq!(scripts.len(), 30);
    let (mut cuts, mut words, mut json) = (0, 0, 0);
    for (name, text) in &scripts {
        let script = Script::parse(text).unwrap_or_else(|errors| panic!("{name}: {errors:#?}"));
        let shots: Vec<_> = script.shots().collect();
        assert!((7..=12).contains(&shots.len()), "{name}: {}", shots.len());
        assert!(shots[0].cut && script.scenes.iter().all(|scene| scene.cut[0]), "{name}");
        assert_eq!(shots.iter().filter(|shot| shot.index == 0).count(), script.scenes.len(), "{name}");
        cuts += shots.iter().filter(|shot| shot.cut).count();
        words += usize::from(text.contains("\"False\""));
        json += usize::from(serde_json::from_str::<Value>(text).is_ok());
        // What is shown of a script is a script.
        let shown = serde_json::to_string(&script).unwrap();
        assert_eq!(Script::parse(&shown).unwrap(), script, "{name}");
    }
    assert_eq!((cuts, words), (186, 10), "booleans and words are read as they are meant");
    assert!((1..30).contains(&json), "some are JSON5 only, {json} are JSON");
}

#[test]
fn json5_is_read_as_python_reads_it() {
    let text = "// a comment\n{story_name: 'It\\'s \\u0041', scenes: [{scene_num: +1, video_prompts: ['a',], cut: [\"True\",],},],}";
    let script = Script::parse(text).unwrap();
    assert_eq!(script.story_name.as_deref(), Some("It's A"));
    assert_eq!(script.shots().map(|shot| shot.cut).collect::<Vec<_>>(), [true]);
}

#[test]
fn what_is_wrong_is_told_where_it_is() {
    let prompts = json!(["a", "b"]);
    let scene = |cut: Value| json!({"scene_num": 1, "video_prompts": prompts, "cut": cut});
    for (text, expected) in [
        (script(json!([scene(json!([true, "true"]))])), "/scenes/0/cut/1"),
        (script(json!([scene(json!([true, 0]))])), "/scenes/0/cut/1"),
        (script(json!([scene(json!(["False", true]))])), "/scenes/0/cut/0"),
        (script(json!([scene(json!([true]))])), "/scenes/0/cut"),
        (script(json!([scene(json!([true, false, true]))])), "/scenes/0/cut"),
        (script(json!([scene(json!([]))])), "/scenes/0/cut"),
        (script(json!([scene(json!("True"))])), "/scenes/0/cut"),
        (script(json!([{"scene_num": 0, "video_prompts": ["a"], "cut": [true]}])), "/scenes/0/scene_num"),
        (
            script(json!([{"scene_num": 1, "video_prompts": [""], "cut": [true]}])),
            "/scenes/0/video_prompts/0",
        ),
        (script(json!([{"scene_num": 1, "video_prompts": ["a"]}])), "/scenes/0/cut"),
        (
            script(
                json!([{"scene_num": 1, "video_prompts": ["a"], "cut": [true], "first_frame_prompt": ["a", "b"]}]),
            ),
            "/scenes/0/first_frame_prompt",
        ),
        (
            script(json!([{"scene_num": 1, "video_prompts": ["a"], "cut": [true], "cuts": []}])),
            "/scenes/0/cuts",
        ),
        (script(json!([])), "/scenes"),
        (json!({"story_name": "none"}).to_string(), "/scenes"),
        ("{scenes: [".to_owned(), ""),
        ("[".repeat(100_000), ""),
        ("5".to_owned(), ""),
    ] {
        assert_eq!(pointers(&text), [expected], "{text:.200}");
    }
    let two = json!([scene(json!([true, true])), scene(json!([true, false]))]);
    assert_eq!(pointers(&script(two)), ["/scenes/1/scene_num"], "the numbers of scenes rise");
    let long = json!({"scene_num": 1, "video_prompts": vec!["a"; 60], "cut": vec![true; 60]});
    let longer = json!({"scene_num": 2, "video_prompts": vec!["a"; 60], "cut": vec![true; 60]});
    assert_eq!(pointers(&script(json!([long, longer]))), ["/scenes"], "at most 100 prompts");
}

/// A script that is right, of up to 40 shots.
fn right() -> impl Strategy<Value = Vec<Vec<(String, bool)>>> {
    let shot = ("[a-zé\"'\\\\/\\[{ ]{1,30}", any::<bool>());
    prop::collection::vec(prop::collection::vec(shot, 1..6), 1..8).prop_map(|mut scenes| {
        scenes[0][0].1 = true;
        scenes
    })
}

fn written(scenes: &[Vec<(String, bool)>], words: bool) -> Value {
    let cut = |cut: bool| match words {
        true => json!(if cut { "True" } else { "False" }),
        false => json!(cut),
    };
    let scene = |(n, shots): (usize, &Vec<(String, bool)>)| {
        json!({
            "scene_num": n + 1,
            "video_prompts": shots.iter().map(|(prompt, _)| prompt).collect::<Vec<_>>(),
            "cut": shots.iter().map(|(_, is)| cut(*is)).collect::<Vec<_>>(),
        })
    };
    json!({"scenes": scenes.iter().enumerate().map(scene).collect::<Vec<_>>()})
}

proptest! {
    #[test]
    fn whatever_is_right_is_read(scenes in right(), words in any::<bool>()) {
        let script = Script::parse(&written(&scenes, words).to_string()).unwrap();
        let read: Vec<_> = script.shots().map(|shot| (shot.prompt.to_owned(), shot.cut)).collect();
        prop_assert_eq!(read, scenes.concat());
    }

    /// One thing is made wrong, anywhere; the error names the place.
    #[test]
    fn whatever_is_wrong_is_named(
        scenes in right(),
        at in any::<(prop::sample::Index, prop::sample::Index)>(),
        fault in 0..6_u8,
    ) {
        let mut value = written(&scenes, false);
        let n = at.0.index(scenes.len());
        let shot = at.1.index(scenes[n].len());
        let scene = &mut value["scenes"][n];
        let pointer = match fault {
            0 => {
                scene["video_prompts"][shot] = json!(7);
                format!("/scenes/{n}/video_prompts/{shot}")
            }
            1 => {
                scene["cut"][shot] = json!("false");
                format!("/scenes/{n}/cut/{shot}")
            }
            2 => {
                scene["cut"].as_array_mut().unwrap().push(json!(true));
                format!("/scenes/{n}/cut")
            }
            3 => {
                scene["scene_num"] = json!("1");
                format!("/scenes/{n}/scene_num")
            }
            4 => {
                scene["first_frame_prompts"] = json!([]);
                format!("/scenes/{n}/first_frame_prompts")
            }
            _ => {
                scene.as_object_mut().unwrap().remove("video_prompts");
                format!("/scenes/{n}/video_prompts")
            }
        };
        prop_assert_eq!(pointers(&value.to_string()), [pointer]);
    }

    #[test]
    fn no_text_can_do_harm(text in "[\\[\\]{}\"'/*\\\\a:,0-9 \n]{0,200}") {
        let _ = Script::parse(&text);
    }

    #[test]
    fn what_is_cut_off_is_refused(which in 0..30_usize, at in any::<prop::sample::Index>()) {
        let (name, text) = &scripts()[which];
        let whole = text.trim_end();
        let cut = (0..whole.len()).nth(at.index(whole.len())).filter(|&at| whole.is_char_boundary(at)).unwrap_or(0);
        prop_assert!(Script::parse(&whole[..cut]).is_err(), "{name} is read when cut at {cut}");
    }
}
