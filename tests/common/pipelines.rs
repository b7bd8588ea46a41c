//! Whole pipelines, as a user types them, against the reference's.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use ndarray::ArrayD;
use serde_json::Value;

use super::{Comparison, export, facts, fixture, golden, load};

/// A pipeline of the reference.
#[derive(Clone, Copy)]
pub struct Pipeline {
    tree: &'static str,
    name: &'static str,
    /// Known frames, as flags.
    known: &'static [&'static str],
}

const FIRST: &[&str] = &["--first-frame", "first.png"];
const MOTION: &[&str] =
    &["--motion", "motion_0.png", "motion_1.png", "motion_2.png", "motion_3.png", "motion_4.png"];

/// All of them.
pub const PIPELINES: [Pipeline; 6] = [
    Pipeline { tree: "tiny", name: "m2v", known: &[] },
    Pipeline { tree: "tiny", name: "mi2v", known: FIRST },
    Pipeline { tree: "tiny", name: "mm2v", known: MOTION },
    Pipeline { tree: "variant", name: "mi2v", known: FIRST },
    Pipeline { tree: "variant", name: "mi2v_dpmpp", known: FIRST },
    Pipeline { tree: "variant", name: "t2v", known: &[] },
];

impl Pipeline {
    /// Exports the tree with flags, generates by a command that `adapt` has changed, and compares every stage: its
    /// relative error with `tolerance`, and frames also by their peak signal to noise in dB.
    pub fn check(
        self,
        export_flags: &[&str],
        adapt: impl FnOnce(&mut Command),
        tolerance: impl Fn(&str) -> f64,
        least_psnr: f64,
        comparison: &mut Comparison,
    ) {
        let Self { tree, name, .. } = self;
        let facts = facts(tree);
        let pipeline = &facts["pipeline"][name];
        let folder = tempfile::tempdir().unwrap();
        let variant = pipeline["variant"].as_str().unwrap().to_lowercase();
        export(tree, &folder.path().join("bundle"), &variant, variant != "t2v", export_flags);
        let mut command = self.command(&facts, folder.path());
        adapt(&mut command);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{tree} {name}: {}", String::from_utf8_lossy(&output.stderr));
        let kept = pipeline["frames"].as_u64().unwrap() - pipeline["drop_leading_frames"].as_u64().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(stdout.contains(&format!("{kept} frames")), "{tree} {name}: {stdout}");

        // Files are for whoever may read any new file.
        let mode = |file: &str| folder.path().join(file).metadata().unwrap().permissions().mode();
        std::fs::write(folder.path().join("new"), "").unwrap();
        for file in ["dump.safetensors", "v.mp4"] {
            assert_eq!(mode(file), mode("new"), "{file}");
        }
        let dump = load(&folder.path().join("dump.safetensors"));
        for (stage, reference) in golden(tree, &format!("pipeline_{name}")) {
            assert_eq!(dump[&stage].shape(), reference.shape(), "{tree} {name} {stage}");
            let what = format!("{tree} {name} {stage}");
            comparison.check(&what, &dump[&stage], &reference, tolerance(&stage));
            if stage == "frames" {
                let psnr = psnr(&dump["frames"], &reference);
                assert!(psnr >= least_psnr, "{tree} {name} frames: {psnr:.1} dB");
            }
        }
    }

    /// `storymem generate` with the pipeline's settings.
    fn command(self, facts: &Value, folder: &Path) -> Command {
        let pipeline = &facts["pipeline"][self.name];
        let input = |name: &str| fixture(self.tree).join("inputs").join(name).display().to_string();
        let number = |value: &Value| value.to_string();
        let memory = pipeline["memory"].as_u64().unwrap() as usize;
        let memory = (0..memory).map(|i| input(&format!("memory_{i}.png")));
        let setting = |name: &str| pipeline.get(name).unwrap_or(&facts[name]);
        let guidance = match setting("guidance") {
            Value::Number(both) => both.to_string(),
            by_expert => format!("{},{}", by_expert["high"], by_expert["low"]),
        };
        // Where the shape follows an image, only the area of the size counts.
        let size = match pipeline["max_area"].as_u64() {
            Some(area) => format!("{}x64", area / 64),
            None => format!("{}x{}", pipeline["width"], pipeline["height"]),
        };
        let known = self
            .known
            .iter()
            .map(|flag| if flag.starts_with('-') { (*flag).to_owned() } else { input(flag) });
        let mut command = Command::new(env!("CARGO_BIN_EXE_storymem"));
        command
            .args(["generate", "--prompt", pipeline["prompt"].as_str().unwrap()])
            .args(["--negative-prompt", facts["negative"].as_str().unwrap()])
            .args(known)
            .args(["--size", &size])
            .args(["--fit", pipeline["fit"].as_str().unwrap_or("reference")])
            .args(["--frames", &number(&pipeline["frames"]), "--steps", &number(&pipeline["steps"])])
            .args(["--seed", &number(&pipeline["seed"]), "--shift", &number(setting("shift"))])
            .args(["--solver", pipeline["solver"].as_str().unwrap_or("unipc"), "--guidance", &guidance])
            .arg("--bundle")
            .arg(folder.join("bundle"))
            .arg("--out")
            .arg(folder.join("v.mp4"))
            .arg("--dump")
            .arg(folder.join("dump.safetensors"));
        if memory.len() > 0 {
            command.arg("--memory").args(memory);
        }
        command
    }
}

/// Peak signal to noise in dB of frames in [-1, 1].
fn psnr(x: &ArrayD<f32>, reference: &ArrayD<f32>) -> f64 {
    let square: f64 = x.iter().zip(reference).map(|(&x, &r)| (f64::from(x) - f64::from(r)).powi(2)).sum();
    10.0 * (4.0 / (square / x.len() as f64)).log10()
}
