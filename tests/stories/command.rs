//! `storymem story`.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use storymem::breakpoint::{Action, Point};
use storymem::storage::Digest;

use crate::common::fixture;
use crate::common::service::{Site, storymem};
use crate::{FIVE, FLAGS, request, script};

/// The command for [`request`]`(FIVE, 7)`.
fn command(site: &Site, out: &str) -> Command {
    connected(site, out, "mi2v")
}

fn connected(site: &Site, out: &str, connect: &str) -> Command {
    let script_path = site.folder().join("script.json5");
    std::fs::write(&script_path, format!("// a film\n{}", script(FIVE))).unwrap();
    let mut command = storymem();
    command
        .arg("story")
        .arg(script_path)
        .args(["--connect", connect, "--seed", "7", "--steps", "3", "--size", "96x64", "--threads", "1"])
        .args(["--checkpoint-seconds", "0", "--memory", "memory_0.png", "memory_1.png"])
        .current_dir(fixture("tiny/inputs"))
        .arg("--bundle")
        .arg(site.bundle())
        .arg("--out")
        .arg(site.folder().join(out))
        .env("STORYMEM_TEST_BREAKPOINTS", site.breakpoints());
    command
}

fn run(mut command: Command) -> Output {
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn film(path: &Path) -> Digest {
    Digest::of(&std::fs::read(path).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_makes_the_film_that_the_service_makes() {
    let site = Site::new(FLAGS);
    let service = site.start();
    let id = service.post_story(&request(FIVE, 7)).await;
    let expected = service.story_ended(id).await["film"]["sha256"].clone();
    service.stop().await;

    let output = run(command(&site, "film.mp4"));
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(film(&site.folder().join("film.mp4")).as_str(), expected);
    let text = said(&output);
    for line in ["shot 1 of 5: done", "shot 5 of 5: done", "5 shots, 43 frames of 96x64"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let index: Value =
        serde_json::from_slice(&std::fs::read(site.folder().join("film.json")).unwrap()).unwrap();
    let starts: Vec<_> =
        index.as_array().unwrap().iter().map(|shot| shot["start_frame"].as_u64().unwrap()).collect();
    assert_eq!(starts, [0, 9, 17, 26, 35]);

    // Once more: nothing is left to be made.
    std::fs::remove_file(site.folder().join("film.mp4")).unwrap();
    let output = run(command(&site, "film.mp4"));
    assert!(output.status.success(), "{}", said(&output));
    assert!(!said(&output).contains("shot 1 of 5"), "{}", said(&output));
    assert_eq!(film(&site.folder().join("film.mp4")).as_str(), expected);

    // Another script, another film: the folder is not mixed up.
    let mut other = command(&site, "film.mp4");
    other.args(["--max-memory", "2"]);
    let output = run(other);
    assert!(!output.status.success() && said(&output).contains("another script"), "{}", said(&output));
}

#[test]
fn a_command_that_is_killed_is_gone_on_with() {
    let site = Site::new(&[]);
    let undisturbed = run(command(&site, "undisturbed.mp4"));
    assert!(undisturbed.status.success(), "{}", said(&undisturbed));
    let expected = film(&site.folder().join("undisturbed.mp4"));
    for (n, &point) in Point::ALL.iter().enumerate() {
        let out = format!("{n}.mp4");
        // In the second shot, where a shot comes by.
        let in_second = !matches!(point, Point::InSubmit | Point::AfterSubmit);
        if in_second {
            site.arm(Point::AfterEnd, Action::Kill);
            let killed = run(command(&site, &out));
            assert_eq!(killed.status.code(), None, "{point:?}: {}", said(&killed));
        }
        site.arm(point, Action::Kill);
        let killed = run(command(&site, &out));
        assert_eq!(killed.status.code(), None, "{point:?}: {}", said(&killed));
        assert!(!site.folder().join(&out).exists());
        let output = run(command(&site, &out));
        assert!(output.status.success(), "{point:?}: {}", said(&output));
        assert!(film(&site.folder().join(&out)) == expected, "{point:?}: the film is another one");
        if in_second {
            assert!(!said(&output).contains("shot 1 of 5"), "{point:?}: the first shot was made again");
        }
    }
}

#[test]
fn what_is_wrong_is_said_before_anything_is_made() {
    let site = Site::new(&[]);
    for (connect, flags, expected) in [
        ("mi2v", ["--frames", "80"], "`/frames`"),
        ("mi2v", ["--first-shot", "t2v"], "`/first_shot`: makes this a `t2v` shot"),
        ("mm2v", ["--first-shot", "memory"], "`/connect`: makes this a `mm2v` shot"),
    ] {
        let mut command = connected(&site, "wrong.mp4", connect);
        command.args(flags);
        let output = run(command);
        assert!(!output.status.success() && said(&output).contains(expected), "{flags:?}: {}", said(&output));
        assert!(!site.folder().join("wrong.mp4").exists());
    }
}
