//! Where the two experts lie, and what they are.

use std::path::{Path, PathBuf};

use super::ExportError;
use crate::models::wan::WanConfig;
use crate::weights::checkpoint::Checkpoint;
use crate::weights::config::{self, Fields};

/// Folders of the high-noise and the low-noise expert, in Wan's layout and in diffusers'.
const LAYOUTS: [[&str; 2]; 2] = [["high_noise_model", "low_noise_model"], ["transformer", "transformer_2"]];

/// Both experts, the one for high noise first.
#[derive(Debug)]
pub(super) struct Experts {
    pub(super) config: WanConfig,
    pub(super) checkpoints: [Checkpoint; 2],
    pub(super) config_files: [PathBuf; 2],
}

impl Experts {
    /// Opens the experts in `folder`. One without a `config.json` has its config among the `components`.
    pub(super) fn open(folder: &Path, components: &Path) -> Result<Self, ExportError> {
        let layouts = LAYOUTS.iter().filter(|layout| layout.iter().any(|name| folder.join(name).is_dir()));
        let layout = match layouts.collect::<Vec<_>>().as_slice() {
            [layout] => layout.map(|name| folder.join(name)),
            found => {
                let what = if found.is_empty() { "holds no experts" } else { "holds two pairs of experts" };
                let [wan, diffusers] = LAYOUTS.map(|[high, low]| format!("`{high}` and `{low}`"));
                let problem = format!("{what}; it needs either {wan} or {diffusers}");
                return Err(ExportError::Layout { folder: folder.into(), problem });
            }
        };
        let [high, low] = &layout;
        let checkpoints = [Checkpoint::open(high)?, Checkpoint::open(low)?];
        let config_files = [0, 1].map(|i| {
            let own = layout[i].join("config.json");
            if own.exists() { own } else { components.join(LAYOUTS[1][i]).join("config.json") }
        });
        let read = |i: usize| config::wan(&Fields::read(&config_files[i])?, &checkpoints[i]);
        let (config, low) = (read(0)?, read(1)?);
        config::same_experts(&config, &low, &config_files[1])?;
        Ok(Self { config, checkpoints, config_files })
    }
}
