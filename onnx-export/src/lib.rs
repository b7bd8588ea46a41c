//! From checkpoints to what the engine runs.
//!
//! - [`models`] defines each net once, readable next to its reference, over the builder in [`graph`].
//! - [`weights`] reads checkpoints strictly, names their tensors canonically and merges LoRA.
//! - [`bundle`] is the folder that `storymem export` writes and everything else opens.
//! - [`export`] makes a bundle from checkpoints, [`demo`] one from random numbers; [`inspect`] says what any of them is.
//! - [`standalone`] joins the graphs of a net into one model for other tools.
//!
//! Two ideas carry it. Weights are *inputs* of the graphs, so one graph serves all layers of a net and no second
//! copy of a weight is ever made; and graphs are built for the shape at hand, in milliseconds, so no shape needs
//! a new export. Nothing here runs a graph.

pub mod bundle;
pub mod demo;
pub mod export;
pub mod graph;
pub mod inspect;
pub mod models;
#[allow(missing_docs, clippy::all, rustdoc::all, unused_qualifications)]
#[rustfmt::skip]
pub mod proto;
pub mod standalone;
pub mod weights;
