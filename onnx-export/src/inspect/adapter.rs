//! What an adapter is, and whether the export would take it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::facts::{FileReport, TensorsReport, licence};
use crate::models::Net;
use crate::models::wan;
use crate::weights::file::TensorFile;
use crate::weights::lora::{self, Adapter, AdapterFile, LoraError, LoraScale};
use crate::weights::names::{NameTable, Naming};

/// A LoRA adapter.
#[derive(Clone, Debug, Serialize)]
pub struct AdapterReport {
    /// What it was made for, judged by its shapes.
    pub made_for: String,
    /// Its tensors.
    pub tensors: TensorsReport,
    /// Its file.
    pub file: FileReport,
    /// Weights that it changes.
    pub merged: usize,
    /// Patterns of its keys, `MODULE` standing for a module's name.
    pub patterns: Vec<String>,
    /// Its pairs, those that are alike as one.
    pub pairs: Vec<PairsReport>,
    /// The rule of the scale that its own settings name, or `plain`.
    pub rule: LoraScale,
    /// Keys for the image branch of Wan2.1, which change nothing.
    pub image_branch_keys: usize,
    /// Keys for the other of two experts that the file is for.
    pub other_expert_keys: usize,
    /// The licence that the file states.
    pub licence: Option<String>,
    /// What the file says of itself.
    pub metadata: BTreeMap<String, String>,
    /// Why it can't be merged.
    pub problem: Option<String>,
}

/// Pairs of an adapter that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PairsReport {
    /// Rank of the factors.
    pub rank: usize,
    /// Alpha, if the adapter tells one; without one, alpha = rank.
    pub alpha: Option<f64>,
    /// Scale under `plain`: alpha / rank.
    pub plain: f64,
    /// Scale under `rslora`: alpha / sqrt(rank).
    pub rslora: f64,
}

impl AdapterReport {
    pub(super) fn read(file: &TensorFile) -> Self {
        let config = lora::made_for(file);
        let made_for = match config.dim {
            5120 => format!("a Wan transformer of 14B, {} blocks", config.num_layers),
            3072 => "Wan2.2-TI2V-5B".into(),
            1536 => "Wan2.1 1.3B".into(),
            dim => format!("a Wan transformer {dim} wide, {} blocks", config.num_layers),
        };
        let specs = wan::weights(&config);
        let names = NameTable::new(Naming::Transformer, &specs);
        let open = |net| {
            let request = AdapterFile { path: file.path().into(), net, rule: None, strength: 1.0 };
            Adapter::open(&request, &names, &specs)
        };
        let adapter = match open(Net::TransformerHigh) {
            Err(LoraError::OtherExpert { .. }) => open(Net::TransformerLow),
            other => other,
        };
        let mut report = Self {
            made_for,
            tensors: TensorsReport::of(file.raw()),
            file: FileReport::of(file),
            merged: 0,
            patterns: Vec::new(),
            pairs: Vec::new(),
            rule: LoraScale::Plain,
            image_branch_keys: 0,
            other_expert_keys: 0,
            licence: licence(file.metadata()),
            metadata: file.metadata().clone(),
            problem: None,
        };
        match adapter {
            Ok(adapter) => {
                report.merged = adapter.weights().len();
                report.patterns = adapter.patterns().map(str::to_owned).collect();
                report.pairs = adapter.groups().iter().map(PairsReport::of).collect();
                report.rule = adapter.rule();
                report.image_branch_keys = adapter.image_branch_keys();
                report.other_expert_keys = adapter.other_expert_keys();
            }
            Err(error) => {
                if matches!(error, LoraError::Unknown { count, of, .. } if count == of) {
                    report.made_for = "another net than Wan's transformer".into();
                }
                report.problem = Some(error.to_string());
            }
        }
        report
    }
}

impl PairsReport {
    fn of(group: &lora::LoraGroup) -> Self {
        let (rank, alpha) = (group.rank, group.alpha);
        let scale = |rule: LoraScale| rule.of(alpha, rank);
        Self { rank, alpha, plain: scale(LoraScale::Plain), rslora: scale(LoraScale::RankStabilised) }
    }
}
