//! LoRA adapters: pairs of low-rank factors, one for each weight they change.
//!
//! Adapters are where a conversion goes wrong in silence: names that match nothing, an alpha that is ignored, a
//! scale of 1 where `alpha / sqrt(rank)` = 11.3 was trained. So every key must belong to a pair, every pair to a
//! weight it fits, and the scale is part of what the bundle records.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ndarray::Array2;

use super::checkpoint::{Checkpoint, CheckpointError};
use super::file::{TensorFile, TensorView};
use super::merge::LowRank;
use super::names::NameTable;
use super::values;
use crate::graph::WeightSpec;

/// What trainers put before a module's name.
const PREFIXES: &[&str] = &["base_model.model.", "diffusion_model.", "transformer."];

/// What follows a module's name.
const SUFFIXES: &[(&str, Role)] = &[
    (".lora_A.weight", Role::Down),
    (".lora_A.default.weight", Role::Down),
    (".lora_down.weight", Role::Down),
    (".lora_B.weight", Role::Up),
    (".lora_B.default.weight", Role::Up),
    (".lora_up.weight", Role::Up),
    (".alpha", Role::Alpha),
];

/// What a key of an adapter holds.
#[derive(Clone, Copy, Debug)]
enum Role {
    /// The factor applied first, `[rank, in]`.
    Down,
    /// The factor applied second, `[out, rank]`.
    Up,
    /// The scalar alpha.
    Alpha,
}

/// Parts of keys that betray adapters of other kinds.
const OTHER_KINDS: &[(&str, &str)] = &[
    ("dora_scale", "DoRA"),
    ("lora_magnitude_vector", "DoRA"),
    ("lokr_", "LoKr"),
    ("hada_", "LoHa"),
    ("oft_", "OFT"),
    ("lora_mid", "a CP-decomposed LoRA"),
    ("lora_embedding", "an embedding LoRA"),
    ("reshape_weight", "a LoRA that reshapes weights"),
    (".diff", "a full difference of weights"),
];

/// Why an adapter can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoraError {
    /// The file can't be read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The adapter is of another kind than LoRA.
    #[error(
        "`{key}` of `{path}` belongs to {kind}, which can't be merged; use a plain LoRA (lora_A and lora_B pairs)"
    )]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// The kind of adapter.
        kind: &'static str,
    },
    /// Keys are not a factor or an alpha of a weight of the net.
    #[error(
        "`{path}` has {count} keys that fit no weight of the transformer: {keys}; use a LoRA made for Wan2.2 A14B"
    )]
    Unknown {
        /// The file.
        path: PathBuf,
        /// How many.
        count: usize,
        /// The first few.
        keys: String,
    },
    /// Two keys mean the same factor of the same weight.
    #[error("`{first}` and `{second}` of `{path}` are the same factor; export the adapter again")]
    Twice {
        /// The file.
        path: PathBuf,
        /// One key.
        first: String,
        /// The other.
        second: String,
    },
    /// A factor has no partner.
    #[error("`{path}` has `{key}` but not its other half; copy or download it again")]
    HalfPair {
        /// The file.
        path: PathBuf,
        /// The factor (or alpha) that stands alone.
        key: String,
    },
    /// The factors do not fit each other or the weight.
    #[error("`{key}` of `{path}` has shape {shape:?}; the weight {weight:?} needs {expected}")]
    Shape {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// Its shape.
        shape: Vec<usize>,
        /// The shape of the weight.
        weight: Vec<usize>,
        /// What would fit.
        expected: String,
    },
    /// An alpha is not a positive number.
    #[error("`{key}` of `{path}` is {value}; an alpha must be positive and finite")]
    Alpha {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// Its value.
        value: f32,
    },
    /// The file holds no pair.
    #[error("`{path}` holds no LoRA pair; name an adapter file")]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// How the scale of an update follows from its alpha and rank. A file without alpha means alpha = rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum LoraScale {
    /// `alpha / sqrt(rank)`, as StoryMem was trained (PEFT's `use_rslora`): 11.3137 at rank 128.
    #[default]
    RankStabilised,
    /// `alpha / rank`, as most other adapters are.
    Plain,
    /// This number, whatever alpha and rank are.
    Fixed(f64),
}

impl LoraScale {
    fn of(self, alpha: Option<f32>, rank: usize) -> f64 {
        let rank = rank as f64;
        let alpha = alpha.map_or(rank, f64::from);
        match self {
            Self::RankStabilised => alpha / rank.sqrt(),
            Self::Plain => alpha / rank,
            Self::Fixed(scale) => scale,
        }
    }
}

impl FromStr for LoraScale {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "rslora" => Ok(Self::RankStabilised),
            "plain" => Ok(Self::Plain),
            _ => match text.parse() {
                Ok(scale) if f64::is_finite(scale) => Ok(Self::Fixed(scale)),
                _ => Err(format!("`{text}` is not a LoRA scale; use `rslora`, `plain` or a number")),
            },
        }
    }
}

/// An adapter whose every key has found its weight.
#[derive(Debug)]
pub struct Adapter {
    file: Checkpoint,
    pairs: BTreeMap<usize, Pair>,
}

/// The factors of one weight.
#[derive(Clone, Debug, PartialEq)]
struct Pair {
    down: String,
    up: String,
    rank: usize,
    scale: f64,
}

/// The keys that name one module, as they are found.
#[derive(Default)]
struct Keys {
    down: Option<String>,
    up: Option<String>,
    alpha: Option<String>,
}

impl Adapter {
    /// Opens the adapter `path` for the net whose weights are `specs`; `strength` multiplies every scale.
    ///
    /// # Errors
    /// When the file can't be read, is of another kind, or one of its keys is unknown, alone or mis-shaped.
    pub fn open(
        path: &Path,
        scale: LoraScale,
        strength: f64,
        names: &NameTable,
        specs: &[WeightSpec],
    ) -> Result<Self, LoraError> {
        let file = Checkpoint::single(path)?;
        let mut pairs = BTreeMap::new();
        for (position, keys) in collect(&file, names)? {
            let pair = Pair::new(&file, keys, &specs[position].shape, scale, strength)?;
            pairs.insert(position, pair);
        }
        if pairs.is_empty() {
            return Err(LoraError::Empty { path: path.into() });
        }
        Ok(Self { file, pairs })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Positions among the specs of the weights it changes.
    pub fn weights(&self) -> impl ExactSizeIterator<Item = usize> {
        self.pairs.keys().copied()
    }

    /// The ranks and scales that occur, each combination once, ascending by rank.
    pub fn ranks_and_scales(&self) -> Vec<(usize, f64)> {
        let mut found: Vec<(usize, f64)> = self.pairs.values().map(|pair| (pair.rank, pair.scale)).collect();
        found.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        found.dedup();
        found
    }

    /// Lets go of the pages that were read, which count as this process's memory otherwise; they are read again if need be.
    pub fn forget(&self) {
        self.file.files().iter().for_each(TensorFile::forget);
    }

    /// Reads the update of the weight at `position`, if there is one.
    pub fn update(&self, position: usize) -> Option<LowRank> {
        let pair = self.pairs.get(&position)?;
        let matrix = |key: &str| {
            let tensor = self.file.tensor(key)?;
            Array2::from_shape_vec((tensor.shape[0], tensor.shape[1]), read(tensor)).ok()
        };
        Some(LowRank { a: matrix(&pair.down)?, b: matrix(&pair.up)?, scale: pair.scale as f32 })
    }
}

impl Pair {
    fn new(
        file: &Checkpoint,
        keys: Keys,
        weight: &[usize],
        scale: LoraScale,
        strength: f64,
    ) -> Result<Self, LoraError> {
        let path = || file.path().to_owned();
        let (down, up) = match (keys.down, keys.up, &keys.alpha) {
            (Some(down), Some(up), _) => (down, up),
            (Some(key), None, _) | (None, Some(key), _) => {
                return Err(LoraError::HalfPair { path: path(), key });
            }
            (None, None, alpha) => {
                return Err(LoraError::HalfPair { path: path(), key: alpha.clone().unwrap_or_default() });
            }
        };
        let shape = |key: &str| file.tensor(key).map(|tensor| tensor.shape.to_vec()).unwrap_or_default();
        let misfit = |key: String, expected: String| {
            let shape = shape(&key);
            Err(LoraError::Shape { path: path(), key, shape, weight: weight.to_vec(), expected })
        };
        let [rows, columns] = weight else {
            return misfit(down, "no LoRA: only matrices have one".into());
        };
        let rank = match shape(&down).as_slice() {
            [rank, inner] if inner == columns && *rank > 0 => *rank,
            _ => return misfit(down, format!("[rank, {columns}]")),
        };
        if shape(&up) != [*rows, rank] {
            return misfit(up, format!("[{rows}, {rank}] beside its other half of rank {rank}"));
        }
        let alpha = keys.alpha.map(|key| alpha(file, key)).transpose()?;
        Ok(Self { down, up, rank, scale: strength * scale.of(alpha, rank) })
    }
}

/// Sorts the file's keys by the weight they belong to.
fn collect(file: &Checkpoint, names: &NameTable) -> Result<BTreeMap<usize, Keys>, LoraError> {
    let mut found: BTreeMap<usize, Keys> = BTreeMap::new();
    let mut unknown = Vec::new();
    for key in file.names() {
        if let Some((_, kind)) = OTHER_KINDS.iter().find(|(part, _)| key.contains(part)) {
            return Err(LoraError::Unsupported { path: file.path().into(), key: key.into(), kind });
        }
        let place = role(key).and_then(|(module, role)| {
            let position = names.position(&format!("{module}.weight"))?;
            Some((position, role))
        });
        let Some((position, role)) = place else {
            unknown.push(key);
            continue;
        };
        let keys = found.entry(position).or_default();
        let slot = match role {
            Role::Down => &mut keys.down,
            Role::Up => &mut keys.up,
            Role::Alpha => &mut keys.alpha,
        };
        if let Some(first) = slot.replace(key.into()) {
            return Err(LoraError::Twice { path: file.path().into(), first, second: key.into() });
        }
    }
    if unknown.is_empty() {
        return Ok(found);
    }
    let (count, keys) = (unknown.len(), super::matching::list(unknown.into_iter()));
    Err(LoraError::Unknown { path: file.path().into(), count, keys })
}

/// The module a key belongs to, and as what.
fn role(key: &str) -> Option<(&str, Role)> {
    let bare = PREFIXES.iter().find_map(|prefix| key.strip_prefix(prefix)).unwrap_or(key);
    SUFFIXES.iter().find_map(|(end, role)| Some((bare.strip_suffix(end)?, *role)))
}

fn alpha(file: &Checkpoint, key: String) -> Result<f32, LoraError> {
    let value = file.tensor(&key).map(read).unwrap_or_default();
    match value.as_slice() {
        [alpha] if alpha.is_finite() && *alpha > 0.0 => Ok(*alpha),
        values => {
            let value = values.first().copied().unwrap_or(f32::NAN);
            Err(LoraError::Alpha { path: file.path().into(), key, value })
        }
    }
}

fn read(tensor: TensorView<'_>) -> Vec<f32> {
    let mut values = vec![0.0; tensor.shape.iter().product()];
    values::widen(tensor.dtype, tensor.bytes, &mut values);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storymems_scale_is_rank_stabilised() {
        assert!((LoraScale::default().of(None, 128) - 11.313_708_5).abs() < 1e-7);
        assert_eq!("rslora".parse(), Ok(LoraScale::default()));
        assert_eq!("plain".parse::<LoraScale>().unwrap().of(None, 128), 1.0);
        assert_eq!("plain".parse::<LoraScale>().unwrap().of(Some(64.0), 128), 0.5);
        assert_eq!("0.7".parse::<LoraScale>().unwrap().of(Some(64.0), 128), 0.7);
        for text in ["", "rs", "nan", "inf", "1x"] {
            assert!(text.parse::<LoraScale>().is_err(), "{text}");
        }
    }

    #[test]
    fn keys_name_a_module_whoever_wrote_them() {
        for (key, module) in [
            ("base_model.model.blocks.0.self_attn.q.lora_A.weight", "blocks.0.self_attn.q"),
            ("base_model.model.blocks.0.ffn.0.lora_B.default.weight", "blocks.0.ffn.0"),
            ("diffusion_model.blocks.1.ffn.2.lora_down.weight", "blocks.1.ffn.2"),
            ("transformer.blocks.1.attn1.to_out.0.lora_up.weight", "blocks.1.attn1.to_out.0"),
            ("blocks.1.ffn.2.alpha", "blocks.1.ffn.2"),
        ] {
            assert_eq!(role(key).map(|(module, _)| module), Some(module), "{key}");
        }
        assert!(role("blocks.1.ffn.2.weight").is_none());
    }
}
