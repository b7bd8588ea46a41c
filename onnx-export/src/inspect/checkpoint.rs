//! What the weights of a net are, and whether the export would take them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::facts::{FileReport, TensorsReport, licence};
use crate::graph::WeightSpec;
use crate::models::Net;
use crate::models::clip::{self, ClipConfig};
use crate::models::umt5::{self, Umt5Config};
use crate::models::vae::{self, VaeConfig};
use crate::models::wan::{self, WanConfig};
use crate::weights::checkpoint::Checkpoint;
use crate::weights::config::{self, ConfigError, Fields};
use crate::weights::file::TensorFile;
use crate::weights::identify::{Identity, Kind};
use crate::weights::matching::{KeyReport, assign};
use crate::weights::names::{NameTable, Naming};

/// The weights of a net.
#[derive(Clone, Debug, Serialize)]
pub struct CheckpointReport {
    /// The file, or the folder of its shards.
    pub path: PathBuf,
    /// What it is, in words.
    pub what: String,
    /// Whether it is of an architecture that can be exported.
    pub supported: bool,
    /// Its tensors.
    pub tensors: TensorsReport,
    /// Its files.
    pub files: Vec<FileReport>,
    /// How its keys agree with what the net needs.
    pub keys: Option<KeysReport>,
    /// The licence that a file states.
    pub licence: Option<String>,
    /// What its files say of themselves.
    pub metadata: BTreeMap<String, String>,
    /// Why it can't be exported.
    pub problem: Option<String>,
}

/// How the keys of a checkpoint agree with what its net needs.
#[derive(Clone, Debug, Serialize)]
pub struct KeysReport {
    /// Where the net's dimensions were taken from.
    pub against: String,
    /// Whose names the tensors have.
    pub names: &'static str,
    /// Keys that fit.
    pub mapped: usize,
    /// Tensors that are missing.
    pub missing: Vec<String>,
    /// Keys that the net does not know.
    pub unexpected: Vec<String>,
    /// Tensors of another shape.
    pub unfit: Vec<String>,
}

impl CheckpointReport {
    pub(super) fn read(checkpoint: &Checkpoint, identity: Identity) -> Self {
        let Identity { kind, what, supported } = identity;
        let quantised = checkpoint.files().iter().find_map(TensorFile::first_unsupported);
        let mut problem = match quantised {
            Some(error) => Some(error.to_string()),
            None if !supported => Some(format!(
                "it is {what}, which can't be exported; use Wan2.2-I2V-A14B, UMT5-XXL and the Wan2.1 autoencoder"
            )),
            None => None,
        };
        let keys = match Expected::of(kind, checkpoint).transpose() {
            Some(Ok(expected)) if supported => {
                let (keys, report) = expected.compare(checkpoint);
                if !report.is_clean() {
                    problem = problem
                        .or_else(|| Some(format!("keys do not agree with {}: {report}", keys.against)));
                }
                Some(keys)
            }
            Some(Err(error)) => {
                problem = problem.or_else(|| Some(error.to_string()));
                None
            }
            _ => None,
        };
        let metadata: BTreeMap<String, String> =
            checkpoint.files().iter().flat_map(|file| file.metadata().clone()).collect();
        Self {
            path: checkpoint.path().into(),
            what,
            supported,
            tensors: TensorsReport::of(checkpoint.raw()),
            files: checkpoint.files().iter().map(FileReport::of).collect(),
            keys,
            licence: licence(&metadata),
            metadata,
            problem,
        }
    }
}

/// What a net needs.
struct Expected {
    net: Net,
    naming: Naming,
    specs: Vec<WeightSpec>,
    against: String,
    /// Whose names the canonical ones are, and whose the others.
    names: [&'static str; 2],
}

impl Expected {
    /// What a checkpoint of this kind needs, by the `config.json` beside it or as it is published.
    fn of(kind: Kind, checkpoint: &Checkpoint) -> Result<Option<Self>, ConfigError> {
        let path = checkpoint.path();
        let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
        let config = folder.join("config.json");
        let fields = if config.exists() { Some(Fields::read(&config)?) } else { None };
        let against = match &fields {
            Some(_) => format!("`{}`", config.display()),
            None => "the published dimensions".into(),
        };
        Ok(Some(match kind {
            Kind::Transformer => {
                let patch = checkpoint.raw().find(|tensor| tensor.name.ends_with("patch_embedding.weight"));
                let in_dim = patch.and_then(|tensor| tensor.shape.get(1).copied()).unwrap_or(36);
                let config = match &fields {
                    Some(fields) => config::wan(fields, checkpoint)?,
                    None => WanConfig::a14b(in_dim),
                };
                let specs = wan::weights(&config);
                let names = ["Wan", "diffusers"];
                Self { net: Net::TransformerHigh, naming: Naming::Transformer, specs, against, names }
            }
            Kind::TextEncoder => {
                let config = fields.as_ref().map(config::umt5).transpose()?.unwrap_or_else(Umt5Config::xxl);
                let (specs, names) = (umt5::weights(&config), ["transformers", "Wan"]);
                Self { net: Net::TextEncoder, naming: Naming::TextEncoder, specs, against, names }
            }
            Kind::Vae => {
                let config = fields.as_ref().map(config::vae).transpose()?.unwrap_or_else(VaeConfig::wan);
                let naming = Naming::Vae { res_blocks: config.num_res_blocks };
                let (specs, names) = (vae::weights(&config), ["diffusers", "Wan"]);
                Self { net: Net::Vae, naming, specs, against, names }
            }
            Kind::Clip => {
                let config =
                    fields.as_ref().map(config::clip).transpose()?.unwrap_or_else(ClipConfig::vit_b_32);
                let (specs, names) = (clip::weights(&config), ["transformers", "transformers"]);
                Self { net: Net::Clip, naming: Naming::Clip, specs, against, names }
            }
            Kind::Adapter | Kind::Other | Kind::Unknown => return Ok(None),
        }))
    }

    fn compare(self, checkpoint: &Checkpoint) -> (KeysReport, KeyReport) {
        let table = NameTable::new(self.naming, &self.specs);
        let (_, report) = assign(self.net, &self.specs, &table, checkpoint);
        let canonical: BTreeSet<&str> = self.specs.iter().map(|spec| spec.name.as_str()).collect();
        let is_other =
            |name: &str| table.position(name).is_some() && !canonical.iter().any(|c| name.ends_with(c));
        let names = self.names[usize::from(checkpoint.names().any(is_other))];
        let keys = KeysReport {
            against: self.against,
            names,
            mapped: report.mapped,
            missing: report.missing.clone(),
            unexpected: report.unexpected.clone(),
            unfit: report.unfit.clone(),
        };
        (keys, report)
    }
}
