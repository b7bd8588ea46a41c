//! Shows how far a story has come: a bar on a terminal, a line for each stage of each shot elsewhere.

use std::io::{IsTerminal as _, stderr};

use indicatif::{ProgressBar, ProgressStyle};

use crate::pipeline::Stage;
use crate::queue::{Status, Story, StoryShot};

/// What was shown last, and where.
pub(super) struct Display {
    bar: ProgressBar,
    shown: Option<(u32, Stage)>,
    /// How many shots are known to be made; nothing before the first look.
    made: Option<usize>,
}

impl Default for Display {
    fn default() -> Self {
        let style = ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len}  {elapsed}  {eta} left")
            .expect("the template is valid");
        Self { bar: ProgressBar::no_length().with_style(style), shown: None, made: None }
    }
}

impl Display {
    pub fn show(&mut self, story: &Story) {
        let made: Vec<&StoryShot> =
            story.shots.iter().take_while(|shot| shot.job.status == Status::Succeeded).collect();
        let count = story.shots.len();
        match self.made {
            // An earlier run has made them.
            None if !made.is_empty() => {
                self.say(&format!("{} of {count} shots are there already", made.len()))
            }
            None => {}
            Some(before) => {
                for shot in made.iter().skip(before) {
                    self.say(&format!(
                        "shot {} of {count}: done, seed {}",
                        shot.shot, shot.job.spec.sampling.seed
                    ));
                }
            }
        }
        self.made = Some(made.len());
        let Some(shot) = story.shots.get(made.len()).filter(|shot| shot.job.status == Status::Running) else {
            return;
        };
        let Some(reached) = shot.job.reached else { return };
        let now = (shot.shot, reached.stage);
        if self.shown != Some(now) {
            let message = format!("shot {} of {count}: {}", shot.shot, reached.stage.name());
            if !stderr().is_terminal() {
                eprintln!("{message} …");
            }
            self.bar.reset();
            self.bar.set_message(message);
            self.shown = Some(now);
        }
        self.bar.set_length(reached.steps.into());
        self.bar.set_position(reached.step.into());
    }

    fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
