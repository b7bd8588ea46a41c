//! `storymem export` and `storymem generate` as a user types them, against the reference's whole pipelines.

mod common;

use std::path::Path;
use std::process::{Command, Output};

use common::{export_command, fixture, load, relative_error};

/// Peak signal to noise in dB of frames in [-1, 1].
fn psnr<'a>(x: impl IntoIterator<Item = &'a f32>, reference: impl IntoIterator<Item = &'a f32>) -> f64 {
    let pairs: Vec<_> = x.into_iter().zip(reference).collect();
    let square: f64 = pairs.iter().map(|&(x, r)| (f64::from(*x) - f64::from(*r)).powi(2)).sum();
    10.0 * (4.0 / (square / pairs.len() as f64)).log10()
}

fn input(name: &str) -> String {
    fixture("tiny/inputs").join(name).display().to_string()
}

fn generate(bundle: &Path, folder: &Path, known: &[String]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_storymem"))
        .args(["generate", "--prompt", "A young woman walking through a sunlit park"])
        .args(["--negative-prompt", "blurry, low quality, 静止不动的画面", "--bundle"])
        .arg(bundle)
        .args(["--memory", &input("memory_0.png"), &input("memory_1.png")])
        .args(known)
        .args(["--size", "96x64", "--fit", "reference", "--frames", "9", "--steps", "4", "--seed", "42"])
        .args(["--shift", "4", "--guidance", "3.5"])
        .arg("--out")
        .arg(folder.join("v.mp4"))
        .arg("--dump")
        .arg(folder.join("dump.safetensors"))
        .output()
        .unwrap()
}

#[test]
fn whole_pipelines_agree_with_the_reference() {
    let mut failures = Vec::new();
    let mut motion = vec!["--motion".to_owned()];
    motion.extend((0..5).map(|i| input(&format!("motion_{i}.png"))));
    for (name, lora, known, kept) in [
        ("m2v", "MI2V", Vec::new(), 9),
        ("mi2v", "MI2V", vec!["--first-frame".into(), input("first.png")], 8),
        ("mm2v", "MM2V", motion, 4),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let bundle = folder.path().join("bundle");
        let variant = lora.to_lowercase();
        let lora = fixture(&format!("tiny/storymem/Wan2.2-{lora}-A14B"));
        let output = export_command(&bundle, &["--variant", &variant, "--dtype", "f32"], Some(&lora))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let output = generate(&bundle, folder.path(), &known);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {stderr}");
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(stdout.contains(&format!("{kept} frames")), "{name}: {stdout}");

        let (dump, golden) = (
            load(&folder.path().join("dump.safetensors")),
            load(&fixture(&format!("tiny/golden/pipeline_{name}.safetensors"))),
        );
        for (stage, tolerance) in
            [("noise", 1e-6), ("condition", 2e-5), ("predictions", 1e-3), ("latent", 1e-3), ("frames", 1e-2)]
        {
            assert_eq!(dump[stage].shape(), golden[stage].shape(), "{name} {stage}");
            let error = relative_error(&dump[stage], &golden[stage]);
            println!("{name} {stage}: {error:.1e}");
            if error.is_nan() || error > tolerance {
                failures.push(format!("{name} {stage}: relative error {error:.1e}"));
            }
        }
        let psnr = psnr(&dump["frames"], &golden["frames"]);
        println!("{name} frames: {psnr:.0} dB");
        if psnr < 50.0 {
            failures.push(format!("{name} frames: {psnr:.1} dB"));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
