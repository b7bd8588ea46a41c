//! What a net expects against what its checkpoint holds.

use std::fmt;

use super::checkpoint::Checkpoint;
use super::identify::{Identity, Kind, identify};
use super::names::NameTable;
use crate::graph::WeightSpec;
use crate::models::Net;

/// How many names a message lists.
const LISTED: usize = 10;

/// What became of the keys of one net.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyReport {
    /// The net.
    pub net: Net,
    /// Tensors found under one of their names and in the right shape.
    pub mapped: usize,
    /// Weights that a LoRA is merged into.
    pub merged: usize,
    /// Tensors the net needs and the checkpoint has not.
    pub missing: Vec<String>,
    /// Keys the checkpoint has and the net does not know.
    pub unexpected: Vec<String>,
    /// Tensors in another shape than the config promises, or present under two names with different content.
    pub unfit: Vec<String>,
    /// What the checkpoint is, in words, if it is of another architecture.
    pub looks_like: Option<String>,
}

impl KeyReport {
    /// Whether everything found its place.
    pub fn is_clean(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.unfit.is_empty()
    }
}

impl fmt::Display for KeyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { net, mapped, merged, missing, unexpected, unfit, looks_like } = self;
        let (net, misses, surplus) = (net.name(), missing.len(), unexpected.len());
        write!(f, "{net}: {mapped} mapped, {merged} merged, {misses} missing, {surplus} unexpected")?;
        for (what, names) in [("missing", missing), ("unexpected", unexpected), ("unfit", unfit)] {
            if !names.is_empty() {
                write!(f, "; {what}: {}", list(names.iter().map(String::as_str)))?;
            }
        }
        match looks_like {
            Some(what) => write!(f, "; these are the weights of {what}"),
            None => Ok(()),
        }
    }
}

/// Finds each of a net's tensors in its checkpoint: for each spec, the key that holds it.
///
/// The keys are as many as the specs if the report is clean, and must not be used otherwise.
pub fn assign(
    net: Net,
    specs: &[WeightSpec],
    names: &NameTable,
    checkpoint: &Checkpoint,
) -> (Vec<String>, KeyReport) {
    let mut keys: Vec<Option<String>> = vec![None; specs.len()];
    let (mut tied, mut unexpected, mut unfit) = (Vec::new(), Vec::new(), Vec::new());
    for key in checkpoint.names() {
        match (names.position(key), names.tied(key)) {
            (Some(i), _) => match &keys[i] {
                None => keys[i] = Some(key.into()),
                Some(other) => unfit.push(format!("`{key}` and `{other}` (two names of one tensor)")),
            },
            (None, Some(i)) => tied.push((i, key)),
            (None, None) => unexpected.push(key.into()),
        }
    }
    for (i, key) in tied {
        match &keys[i] {
            None => keys[i] = Some(key.into()),
            Some(other) if !same(checkpoint, key, other) => {
                unfit.push(format!("`{key}` (tied to `{other}`, and different from it)"));
            }
            Some(_) => {}
        }
    }
    let (mut mapped, mut missing) = (0, Vec::new());
    for (spec, key) in specs.iter().zip(&keys) {
        match key.as_deref().and_then(|key| checkpoint.tensor(key)) {
            None => missing.push(spec.name.clone()),
            Some(tensor) if tensor.shape != spec.shape => {
                let (name, shape, expected) = (tensor.name, tensor.shape, &spec.shape);
                unfit.push(format!("`{name}` (has shape {shape:?}, needs {expected:?})"));
            }
            Some(_) => mapped += 1,
        }
    }
    let mut report = KeyReport { net, mapped, merged: 0, missing, unexpected, unfit, looks_like: None };
    if !report.is_clean() {
        report.looks_like = other_architecture(net, checkpoint);
    }
    (keys.into_iter().flatten().collect(), report)
}

/// What the checkpoint is, if it is not what `net` should be.
fn other_architecture(net: Net, checkpoint: &Checkpoint) -> Option<String> {
    let expected = match net {
        Net::TextEncoder => Kind::TextEncoder,
        Net::TransformerHigh | Net::TransformerLow => Kind::Transformer,
        Net::Vae => Kind::Vae,
    };
    let Identity { kind, what, supported } = identify(checkpoint.raw());
    let is_other = kind != Kind::Unknown && (kind != expected || !supported);
    is_other.then_some(what)
}

/// The first few of `names` and how many there are besides.
pub(crate) fn list<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(LISTED);
    let shown =
        names.take(LISTED).map(|name| if name.contains('`') { name.into() } else { format!("`{name}`") });
    let mut text = shown.collect::<Vec<String>>().join(", ");
    if more > 0 {
        text += &format!(" and {more} more");
    }
    text
}

fn same(checkpoint: &Checkpoint, a: &str, b: &str) -> bool {
    match (checkpoint.tensor(a), checkpoint.tensor(b)) {
        (Some(a), Some(b)) => a.dtype == b.dtype && a.shape == b.shape && a.bytes == b.bytes,
        _ => false,
    }
}
