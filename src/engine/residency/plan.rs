//! The decision what of a net lies on a device, as a pure function.

use std::fmt;

use onnx_export::graph::{GraphMemory, Port, aligned};

use super::Stage;
use crate::engine::Bytes;

/// Layers that don't stay are kept in turns in this many places: one is read while the next is filled.
const SLOTS: u64 = 2;

/// What a stage needs of a device's memory, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Compiled graphs: as found when they ran before, or as estimated and a quarter more.
    pub graphs: u64,
    /// Activations between graphs, as many as there ever are at one time.
    pub activations: u64,
    /// Weights that belong to no layer.
    pub common: u64,
    /// Weights of each layer, in the order of use.
    pub layers: Vec<u64>,
}

impl Demand {
    /// Of a stage.
    pub fn of(stage: &Stage) -> Self {
        let layer: u64 = stage.of_layer().map(device_bytes).sum();
        Self {
            graphs: stage.all_graphs().map(|graph| graph_bytes(graph.memory)).sum(),
            activations: stage.activations,
            common: stage.common().map(device_bytes).sum(),
            layers: vec![layer; stage.layers.len()],
        }
    }

    /// Weights of all layers.
    fn all_layers(&self) -> u64 {
        self.layers.iter().sum()
    }

    /// Weights of the largest layer.
    fn largest_layer(&self) -> u64 {
        self.layers.iter().copied().max().unwrap_or(0)
    }

    /// What is there whatever becomes of the layers.
    fn fixed(&self) -> u64 {
        self.graphs + self.activations + self.common
    }

    /// The smallest budget with which the stage runs.
    pub fn least(&self) -> u64 {
        self.fixed() + self.all_layers().min(SLOTS * self.largest_layer())
    }
}

/// Bytes a compiled graph is to have. A quarter is added to what is estimated: a compiler has reasons of its own for
/// memory, such as weights in the layout its matrix unit likes.
pub(in crate::engine) fn graph_bytes(GraphMemory { constants, workspace, .. }: GraphMemory) -> u64 {
    constants + workspace + workspace / 4
}

/// Bytes a bound value occupies on a device.
pub(in crate::engine) fn device_bytes(port: &Port) -> u64 {
    aligned(port.bytes())
}

/// What of a net lies on the device during a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What it was made for.
    pub demand: Demand,
    /// Most bytes to take.
    pub budget: u64,
    /// Which layers stay on the device once they are there.
    pub stays: Vec<bool>,
    /// Bytes of the places through which the other layers pass.
    pub slots: u64,
}

/// A stage that a budget does not suffice for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooSmall {
    /// The budget.
    pub budget: u64,
    /// The smallest that suffices.
    pub least: u64,
}

impl Plan {
    /// Lets as many layers stay as fit beside the rest.
    ///
    /// They are spread evenly among those that don't, so that each upload has as much computing to hide behind as can
    /// be.
    ///
    /// # Errors
    /// When the budget is below [`Demand::least`].
    pub fn new(demand: Demand, budget: u64) -> Result<Self, TooSmall> {
        let least = demand.least();
        let too_small = TooSmall { budget, least };
        let room = budget.checked_sub(demand.fixed()).ok_or(too_small)?;
        let count = demand.layers.len();
        if demand.all_layers() <= room {
            return Ok(Self { demand, budget, stays: vec![true; count], slots: 0 });
        }
        let largest = demand.largest_layer();
        let slots = SLOTS * largest;
        let room = room.checked_sub(slots).ok_or(too_small)?;
        // Layers of a net are of one size. Were they not, some room would stay empty.
        let staying = (room / largest) as usize;
        let stays = (0..count).map(|i| (i + 1) * staying / count > i * staying / count).collect();
        Ok(Self { demand, budget, stays, slots })
    }

    /// Bytes of the layers that stay.
    pub fn staying(&self) -> u64 {
        self.sum(true)
    }

    /// Bytes that are uploaded for every pass over the layers, after the first.
    pub fn moved_per_pass(&self) -> u64 {
        self.sum(false)
    }

    /// Bytes of weights on the device at most.
    pub fn weights(&self) -> u64 {
        self.demand.common + self.staying() + self.slots
    }

    /// Bytes of the device in use at most.
    pub fn peak(&self) -> u64 {
        self.demand.graphs + self.demand.activations + self.weights()
    }

    fn sum(&self, stays: bool) -> u64 {
        let layers = self.demand.layers.iter().zip(&self.stays);
        layers.filter(|&(_, &stay)| stay == stays).map(|(bytes, _)| bytes).sum()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { demand, budget, stays, slots } = self;
        let staying = stays.iter().filter(|&&stays| stays).count();
        let [peak, budget] = [self.peak(), *budget].map(Bytes);
        let [common, layers] = [demand.common, self.staying()].map(Bytes);
        let [activations, graphs] = [demand.activations, demand.graphs].map(Bytes);
        write!(f, "{peak} of {budget}: common weights {common}")?;
        if !stays.is_empty() {
            write!(f, ", {staying} of {} layers {layers}", stays.len())?;
        }
        if *slots > 0 {
            let [slots, moved] = [*slots, self.moved_per_pass()].map(Bytes);
            write!(f, ", the others pass through {slots} ({moved} a pass)")?;
        }
        write!(f, ", activations {activations}, compiled graphs {graphs}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn demands() -> impl Strategy<Value = Demand> {
        let sizes = || 0..10_000u64;
        (sizes(), sizes(), sizes(), prop::collection::vec(1..1_000u64, 0..50))
            .prop_map(|(graphs, activations, common, layers)| Demand { graphs, activations, common, layers })
    }

    proptest! {
        #[test]
        fn a_plan_stays_within_its_budget_and_there_is_one_from_the_least_on(
            demand in demands(),
            budget in 0..100_000u64,
        ) {
            let least = demand.least();
            match Plan::new(demand.clone(), budget) {
                Ok(plan) => {
                    prop_assert!(budget >= least);
                    prop_assert!(plan.peak() <= budget, "{plan}");
                    prop_assert_eq!(plan.staying() + plan.moved_per_pass(), demand.all_layers());
                    // Nothing is moved without a place to move it to, nor is there a place for nothing.
                    prop_assert_eq!(plan.moved_per_pass() > 0, plan.slots > 0);
                }
                Err(refusal) => {
                    prop_assert!(budget < least);
                    prop_assert_eq!(refusal, TooSmall { budget, least });
                }
            }
        }

        #[test]
        fn more_memory_never_means_more_to_move(count in 1..50usize, size in 1..1_000u64, more in 0..50_000u64) {
            // Layers of one size, as nets have them.
            let demand = Demand { layers: vec![size; count], ..Demand::default() };
            let least = demand.least();
            let moved = |budget| Plan::new(demand.clone(), budget).unwrap().moved_per_pass();
            prop_assert!(moved(least + more) <= moved(least));
        }

        #[test]
        fn layers_that_stay_are_spread_evenly(layers in 3..60usize, staying in 0..57usize) {
            prop_assume!(staying + 2 < layers);
            let demand = Demand { layers: vec![10; layers], ..Demand::default() };
            let plan = Plan::new(demand, (staying as u64 + 2) * 10).unwrap();
            prop_assert_eq!(plan.stays.iter().filter(|&&stays| stays).count(), staying);
            // In each stretch of the layers there are as many as its share, up to one.
            for (start, end) in (0..layers).flat_map(|start| (start..=layers).map(move |end| (start, end))) {
                let found = plan.stays[start..end].iter().filter(|&&stays| stays).count() as f64;
                let share = (staying * (end - start)) as f64 / layers as f64;
                prop_assert!((found - share).abs() <= 1.0, "{start}..{end}: {found} for {share}");
            }
        }
    }
}
