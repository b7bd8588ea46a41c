//! A small graph builder in which a net reads like its reference.

/// A weight a net expects: its canonical name and its shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightSpec {
    /// Canonical name, as in the bundle's weight files.
    pub name: String,
    /// Shape as in the checkpoint.
    pub shape: Vec<usize>,
}
