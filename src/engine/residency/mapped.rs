//! Weights on the CPU: pages of the mapped file, read ahead of their use.

use std::ops::Range;

use super::Stage;
use crate::engine::Weights;

/// Tells the operating system which layer's pages come next, so that a layer is read from the disk while the one before
/// it computes. Where they are in memory already this costs nothing to speak of.
pub(super) struct ReadAhead {
    /// What precedes each layer's weight names, and where the layer lies in the file.
    layers: Vec<(String, Range<usize>)>,
    entered: Option<usize>,
}

impl ReadAhead {
    pub(super) fn new(weights: &Weights, stage: &Stage) -> Self {
        let layer = |(i, prefix): (usize, &String)| {
            let places: Vec<_> = stage.layer_names(i).filter_map(|name| weights.place(&name)).collect();
            let start = places.iter().map(|place| place.start).min()?;
            let end = places.iter().map(|place| place.end).max()?;
            Some((prefix.clone(), start..end))
        };
        Self { layers: stage.prefixes().iter().enumerate().filter_map(layer).collect(), entered: None }
    }

    pub(super) fn enter(&mut self, weights: &Weights, prefix: &str) {
        let Some(layer) = self.layers.iter().position(|(of, _)| of == prefix) else { return };
        // The branches of a guided step enter a layer one after the other.
        if self.entered.replace(layer) != Some(layer) {
            weights.read_ahead(&self.layers[(layer + 1) % self.layers.len()].1);
        }
    }
}
