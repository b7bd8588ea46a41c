//! LoRA adapters: pairs of low-rank factors, one for each weight they change.
//!
//! Adapters are where a conversion goes wrong in silence: names that match nothing, an alpha that is ignored, a
//! scale of 1 where `alpha / sqrt(rank)` = 11.3 was trained. So every key must belong to a pair, every pair to a
//! weight it fits, and the scale is part of what the bundle records.
//!
//! - `keys` knows how trainers name the factors, `settings` what they say beside them.
//! - [`LoraScale`] is the rule by which alpha and rank make the scale, [`AdapterFile`] what a user asks for.

mod error;
mod keys;
mod origin;
mod pair;
mod request;
mod scale;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use self::keys::{Key, Modules, Role};
use self::pair::{Keys, Pair};
use self::settings::Settings;
use super::file::TensorFile;
use super::merge::LowRank;
use super::names::NameTable;
use crate::graph::WeightSpec;
use crate::models::Net;

pub use error::LoraError;
pub use origin::made_for;
pub use request::AdapterFile;
pub use scale::LoraScale;

/// An adapter whose every key has found its weight.
#[derive(Debug)]
pub struct Adapter {
    file: TensorFile,
    settings: Option<PathBuf>,
    rule: LoraScale,
    strength: f64,
    pairs: BTreeMap<usize, Pair>,
    patterns: BTreeSet<String>,
    image_branch: usize,
    other_expert: usize,
}

/// Pairs of an adapter that are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoraGroup {
    /// Rank of the factors.
    pub rank: usize,
    /// Alpha, if the adapter tells one.
    pub alpha: Option<f64>,
    /// Scale of `B A`, strength included.
    pub scale: f64,
}

impl Adapter {
    /// Opens the adapter that `request` names for the net whose weights are `specs`.
    ///
    /// # Errors
    /// When the file can't be read, is of another kind or for the other expert, or one of its keys is unknown, alone or
    /// mis-shaped.
    pub fn open(request: &AdapterFile, names: &NameTable, specs: &[WeightSpec]) -> Result<Self, LoraError> {
        let file = TensorFile::open_any(&request.path)?;
        let settings = Settings::read(&file)?;
        let stated = settings.as_ref().is_some_and(|settings| settings.use_rslora);
        let default = if stated { LoraScale::RankStabilised } else { LoraScale::Plain };
        let rule = request.rule.unwrap_or(default);

        let Sorted { found, patterns, image_branch, other_expert } =
            sort(&file, request.net, &Modules::new(names))?;
        let mut pairs = BTreeMap::new();
        for (position, keys) in found {
            let pair = Pair::new(&file, keys, &specs[position].shape, settings.as_ref(), |alpha, rank| {
                request.strength * rule.of(alpha, rank)
            })?;
            pairs.insert(position, pair);
        }
        let path = || request.path.clone();
        match (pairs.is_empty(), request.net) {
            (false, _) => {}
            (true, _) if other_expert == 0 => return Err(LoraError::Empty { path: path() }),
            (true, Net::TransformerLow) => {
                return Err(LoraError::OtherExpert { path: path(), found: "high-noise", instead: "high" });
            }
            (true, _) => {
                return Err(LoraError::OtherExpert { path: path(), found: "low-noise", instead: "low" });
            }
        }
        let strength = request.strength;
        let settings = settings.and_then(|settings| settings.file);
        Ok(Self { file, settings, rule, strength, pairs, patterns, image_branch, other_expert })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Every file the adapter consists of, that with its settings included.
    pub fn sources(&self) -> impl Iterator<Item = &Path> {
        self.settings.as_deref().into_iter().chain([self.path()])
    }

    /// The rule that made the scales.
    pub fn rule(&self) -> LoraScale {
        self.rule
    }

    /// What every scale was multiplied with.
    pub fn strength(&self) -> f64 {
        self.strength
    }

    /// The patterns of its keys, with `MODULE` for the name of a module.
    pub fn patterns(&self) -> impl ExactSizeIterator<Item = &str> {
        self.patterns.iter().map(String::as_str)
    }

    /// Keys for the image branch of Wan2.1, which Wan2.2 has not: they change nothing.
    pub fn image_branch_keys(&self) -> usize {
        self.image_branch
    }

    /// Keys for the other expert, in a file that is for both.
    pub fn other_expert_keys(&self) -> usize {
        self.other_expert
    }

    /// Positions among the specs of the weights it changes.
    pub fn weights(&self) -> impl ExactSizeIterator<Item = usize> {
        self.pairs.keys().copied()
    }

    /// The ranks, alphas and scales that occur, each combination once, ascending by rank.
    pub fn groups(&self) -> Vec<LoraGroup> {
        let mut groups: Vec<LoraGroup> = self.pairs.values().map(Pair::group).collect();
        let alpha = |group: &LoraGroup| group.alpha.unwrap_or(group.rank as f64);
        groups.sort_by(|a, b| {
            a.rank.cmp(&b.rank).then(a.scale.total_cmp(&b.scale)).then(alpha(a).total_cmp(&alpha(b)))
        });
        groups.dedup();
        groups
    }

    /// Lets go of the pages that were read, which count as this process's memory otherwise; they are read again if need be.
    pub fn forget(&self) {
        self.file.forget();
    }

    /// Reads the update of the weight at `position`, if there is one.
    ///
    /// # Errors
    /// When a factor holds NaN or infinity.
    pub fn update(&self, position: usize) -> Result<Option<LowRank>, LoraError> {
        self.pairs.get(&position).map(|pair| pair.read(&self.file)).transpose()
    }
}

/// Whether `key` belongs to an adapter of some kind, be it one that we can't merge.
pub(super) fn is_adapter_key(key: &str) -> bool {
    Key::parse(key).is_some_and(|key| key.role != Role::Alpha) || keys::other_kind(key).is_some()
}

/// The keys of a file by the weight they belong to.
struct Sorted {
    found: BTreeMap<usize, Keys>,
    patterns: BTreeSet<String>,
    image_branch: usize,
    other_expert: usize,
}

fn sort(file: &TensorFile, net: Net, modules: &Modules<'_>) -> Result<Sorted, LoraError> {
    if let Some((key, kind)) = file.raw().find_map(|t| Some((t.name, keys::other_kind(t.name)?))) {
        return Err(LoraError::Unsupported { path: file.path().into(), key: key.into(), kind });
    }
    let parsed = || file.raw().map(|tensor| (tensor.name, Key::parse(tensor.name)));
    // Only beside keys for `transformer_2` does `transformer` mean one of two experts.
    let is_for_both = parsed().any(|(_, key)| key.and_then(|k| k.expert()) == Some(Net::TransformerLow));

    let (mut found, mut patterns) = (BTreeMap::<usize, Keys>::new(), BTreeSet::new());
    let (mut image_branch, mut other_expert, mut unknown) = (0, 0, Vec::new());
    for (name, key) in parsed() {
        let place = key.and_then(|key| Some((key, modules.position(&key)?)));
        let Some((key, position)) = place else {
            match key {
                Some(key) if key.is_image_branch() => image_branch += 1,
                _ => unknown.push(name),
            }
            continue;
        };
        if is_for_both && key.expert().is_some_and(|expert| expert != net) {
            other_expert += 1;
            continue;
        }
        patterns.insert(key.pattern());
        let keys = found.entry(position).or_default();
        let slot = match key.role {
            Role::Down => &mut keys.down,
            Role::Up => &mut keys.up,
            Role::Alpha => &mut keys.alpha,
        };
        if let Some(first) = slot.replace(name.into()) {
            return Err(LoraError::Twice { path: file.path().into(), first, second: name.into() });
        }
        keys.module = key.module.into();
    }
    if unknown.is_empty() {
        return Ok(Sorted { found, patterns, image_branch, other_expert });
    }
    let (of, count, keys) = (file.len(), unknown.len(), super::matching::list(unknown.into_iter()));
    Err(LoraError::Unknown { path: file.path().into(), count, of, keys })
}
