//! Weights on the CPU: pages of the mapped file, read ahead of their use.

use std::collections::HashMap;
use std::ops::Range;

use ort::value::DynValue;

use super::Stage;
use crate::engine::weights::View;
use crate::engine::{EngineError, Weights};

/// One net's weights where they lie in the mapped file.
///
/// The operating system is told which layer's pages come next, so that a layer is read from the disk while the one
/// before it computes. Where they are in memory already this costs nothing to speak of.
pub(super) struct Mapped<'w> {
    weights: &'w Weights,
    views: HashMap<String, View<'w>>,
    /// What precedes each layer's weight names, and where the layer lies in the file.
    layers: Vec<(String, Range<usize>)>,
    entered: Option<usize>,
}

impl<'w> Mapped<'w> {
    pub(super) fn new(weights: &'w Weights, stage: &Stage) -> Result<Self, EngineError> {
        let layer = |(i, prefix): (usize, &String)| {
            let places: Vec<_> = stage.layer_names(i).filter_map(|name| weights.place(&name)).collect();
            let start = places.iter().map(|place| place.start).min()?;
            let end = places.iter().map(|place| place.end).max()?;
            Some((prefix.clone(), start..end))
        };
        let common = stage.common().map(|port| port.name.clone());
        let of_layers = (0..stage.layers.len()).flat_map(|layer| stage.layer_names(layer));
        let view = |name: String| weights.view(&name).map(|view| (name, view));
        Ok(Self {
            weights,
            views: common.chain(of_layers).map(view).collect::<Result<_, _>>()?,
            layers: stage.layers.iter().enumerate().filter_map(layer).collect(),
            entered: None,
        })
    }

    pub(super) fn enter(&mut self, prefix: &str) {
        let Some(layer) = self.layers.iter().position(|(of, _)| of == prefix) else { return };
        // The branches of a guided step enter a layer one after the other.
        if self.entered.replace(layer) != Some(layer) {
            self.weights.read_ahead(&self.layers[(layer + 1) % self.layers.len()].1);
        }
    }

    pub(super) fn value(&self, name: &str) -> Result<&DynValue, EngineError> {
        let view = self.views.get(name).ok_or_else(|| EngineError::MissingWeight { name: name.into() })?;
        Ok(view)
    }
}
