//! Makes checkpoints of the real size without the real weights, and exports one expert of them with time and memory measured.
//!
//! usage: full-size tree FOLDER [--blocks N] [--fill N] [--rest] [--link] [--small-text]
//!        full-size export FOLDER BUNDLE

mod tree;
mod values;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use onnx_export::bundle::{BundleVariant, Dtype};
use onnx_export::export::{ExportError, ExportOptions, Plan, Stage};
use onnx_export::models::Net;
use onnx_export::weights::lora::LoraScale;
use tree::Recipe;

#[derive(Parser)]
enum Command {
    /// Writes a tree; what is not filled is holes.
    Tree {
        folder: PathBuf,
        /// Blocks of each expert.
        #[arg(long, default_value_t = 40)]
        blocks: usize,
        /// How many of them, from the first on, have values.
        #[arg(long, default_value_t = 0)]
        fill: usize,
        /// Fill everything outside the blocks, and the adapters.
        #[arg(long)]
        rest: bool,
        /// Make the low-noise expert of links to the high-noise expert's files.
        #[arg(long)]
        link: bool,
        /// A text encoder of one layer and few tokens.
        #[arg(long)]
        small_text: bool,
    },
    /// Exports the text encoder and the high-noise expert in f16, then stops.
    Export { folder: PathBuf, bundle: PathBuf },
}

fn main() -> Result<(), Box<dyn Error>> {
    match Command::parse() {
        Command::Tree { folder, blocks, fill, rest, link, small_text } => {
            let mut recipe = Recipe { blocks, filled: 0..fill, fill_rest: rest, ..Recipe::full_size() };
            recipe.link_experts = link;
            if small_text {
                (recipe.text_layers, recipe.vocabulary) = (1, 256);
            }
            Ok(recipe.write(&folder)?)
        }
        Command::Export { folder, bundle } => export(&folder, &bundle),
    }
}

fn export(folder: &Path, bundle: &Path) -> Result<(), Box<dyn Error>> {
    let options = ExportOptions {
        clip: None,
        components: folder.join("base_i2v_diffusers"),
        transformer: folder.join("base_i2v"),
        lora: Some(folder.join("storymem/Wan2.2-MI2V-A14B")),
        lora_scale: LoraScale::RankStabilised,
        adapters: Vec::new(),
        variant: BundleVariant::Mi2v,
        dtype: Dtype::F16,
        standalone: None,
    };
    let plan = Plan::check(&options)?;
    let stop = AtomicBool::new(false);
    let (mut begun, mut last) = (None, Duration::ZERO);
    let result = plan.write(
        bundle,
        &mut |progress| match (progress.net, progress.stage) {
            (Net::TransformerHigh, Stage::Writing) => {
                let begun = begun.get_or_insert_with(Instant::now);
                last = begun.elapsed();
            }
            (Net::TransformerLow, _) => stop.store(true, Ordering::Relaxed),
            _ => {}
        },
        &stop,
    );
    match result {
        Err(ExportError::Paused { kept, partial, .. }) => {
            let elapsed = begun.map_or(Duration::ZERO, |begun| begun.elapsed());
            println!(
                "high-noise expert converted in {:.1} s, on the disk after {:.1} s; {kept} bytes in {}",
                last.as_secs_f64(),
                elapsed.as_secs_f64(),
                partial.display()
            );
            println!("{}", std::fs::read_to_string("/proc/self/status")?);
            Ok(())
        }
        result => Err(format!("the export should have been stopped after one expert: {result:?}").into()),
    }
}
