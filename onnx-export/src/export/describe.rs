//! What people are told about a bundle: its name, its licences, and what looks wrong though it is no mistake.

use std::path::Path;

use super::{ExportOptions, NetPlan};
use crate::bundle::{BundleVariant, LoraFacts, Manifest};
use crate::models::Net;

pub(super) fn name(options: &ExportOptions) -> String {
    let base = file_name(&options.transformer);
    match &options.lora {
        Some(lora) => format!("{} on {base}", file_name(lora)),
        None => base,
    }
}

pub(super) fn licences(options: &ExportOptions) -> Vec<String> {
    let mut licences = vec!["Wan2.2 weights: Apache-2.0".to_owned()];
    if options.lora.is_some() {
        licences.push("StoryMem weights: cc-by-nc-4.0 (no commercial use)".into());
    }
    for adapter in &options.adapters {
        licences.push(format!("{}: see where it came from", file_name(&adapter.path)));
    }
    licences
}

pub(super) fn warnings(options: &ExportOptions, manifest: &Manifest) -> Vec<String> {
    let mut warnings = Vec::new();
    let variant = manifest.variant.name();
    match &options.lora {
        None if manifest.variant != BundleVariant::T2v => warnings.push(format!(
            "no StoryMem LoRA is merged: plain Wan2.2 weights were not trained to remember, so variant `{variant}` will \
             hardly follow its memory; pass `--lora` with StoryMem's folder"
        )),
        Some(lora) if manifest.variant != BundleVariant::M2v => {
            let folder = file_name(lora).to_lowercase();
            let others = [BundleVariant::Mi2v, BundleVariant::Mm2v].map(BundleVariant::name);
            if let Some(other) = others.into_iter().find(|other| *other != variant && folder.contains(other)) {
                warnings.push(format!("`{}` looks like a LoRA for `{other}`, not for `{variant}`", lora.display()));
            }
        }
        _ => {}
    }
    let story = manifest.lora.iter().filter(|facts| facts.file.starts_with("backbone_"));
    for LoraFacts { file, merged, .. } in story {
        // q, k, v and o of both attentions and the two layers of the feed-forward net.
        let expected = 10 * manifest.nets.transformer.num_layers;
        if options.lora.is_some() && *merged != expected {
            warnings
                .push(format!("`{file}` changes {merged} weights; StoryMem's adapters change {expected}"));
        }
    }
    warnings
}

/// What looks wrong with the adapters of a net.
pub(super) fn adapter_warnings(options: &ExportOptions, plan: &NetPlan) -> Vec<String> {
    let net = plan.report().net;
    let mut warnings = Vec::new();
    for adapter in &plan.adapters {
        let path = adapter.path().display();
        let name = file_name(adapter.path()).to_lowercase().replace(['-', ' '], "_");
        let other = if net == Net::TransformerHigh { "low" } else { "high" };
        if name.contains(&format!("{other}_noise")) {
            warnings.push(format!(
                "`{path}` looks like an adapter for the {other}-noise expert and is merged into the other"
            ));
        }
        if adapter.image_branch_keys() > 0 {
            let keys = adapter.image_branch_keys();
            warnings
                .push(format!("{keys} keys of `{path}` are for Wan2.1's image branch, which Wan2.2 has not"));
        }
        let mut further = options.adapters.iter();
        let is_merged_there = further.any(|given| given.net != net && given.path == adapter.path());
        if adapter.other_expert_keys() > 0 && !is_merged_there {
            let keys = adapter.other_expert_keys();
            warnings.push(format!(
                "{keys} keys of `{path}` are for the other expert and are not merged; give it as `{path}@{other}=STRENGTH` \
                 too"
            ));
        }
    }
    warnings
}

pub(super) fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}
