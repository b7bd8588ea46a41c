//! The precision check: every net, part by part, on two devices or of two bundles.
//!
//! It is the check by which StoryMem's port to Ascend in PyTorch was accepted (one 910B2, bf16: 3.61 % against the CPU at
//! the transformer's output), for all nets and for each of their layers: the same small random inputs go through both, and
//! what each part gives is compared. An error that grows slowly along the blocks is rounding; one that begins at a part is
//! a fault of that part, or of its weights.
//!
//! The nets are run here graph by graph and not by the pipeline, which keeps what is between graphs on the device.

mod inputs;
mod nets;
mod report;

use onnx_export::bundle::{Bundle, BundleError};
use onnx_export::models::Net;

pub use inputs::Inputs;
pub use report::{Measure, NetReport, Part};

use crate::engine::{Engine, EngineError, StopToken};

/// A bundle on a device.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// The device.
    pub engine: &'a Engine,
    /// The bundle.
    pub bundle: &'a Bundle,
}

/// Why two sides can't be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// The bundles are of different models.
    #[error("`{0}` and `{1}` hold nets of different dimensions; compare bundles of one model")]
    Nets(String, String),
    /// A bundle can't be used.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// A device failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Runs every net on both sides and measures how far `tested` is off `reference`, one report for each net.
///
/// With `isolate` each part of `tested` is given what the part before it gave on the *reference* side, so that its error
/// is its own; otherwise errors add up along a net as they do in use. `progress` is told which net comes next.
///
/// # Errors
/// When the bundles are of different models, or a side can't be run or is stopped.
pub fn compare(
    tested: Side<'_>,
    reference: Side<'_>,
    inputs: &Inputs,
    isolate: bool,
    stop: &StopToken,
    mut progress: impl FnMut(Net),
) -> Result<Vec<NetReport>, CompareError> {
    let manifests = [tested, reference].map(|side| side.bundle.manifest());
    if manifests[0].nets != manifests[1].nets {
        let [tested, reference] = manifests.map(|manifest| manifest.name.clone());
        return Err(CompareError::Nets(tested, reference));
    }
    let mut reports = Vec::new();
    for net in manifests[0].nets.present() {
        progress(net);
        // One side after the other: a device need not have room for both.
        let wanted = nets::run(reference, net, inputs, None, stop)?;
        let found = nets::run(tested, net, inputs, isolate.then_some(&wanted[..]), stop)?;
        reports.push(NetReport::new(net, &found, &wanted));
    }
    Ok(reports)
}
