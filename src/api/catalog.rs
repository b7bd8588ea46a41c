//! What is served: the manifests of the bundles, without their weights.

use onnx_export::bundle::Manifest;

use crate::pipeline::Variant;

/// The manifests of the bundles a service was started with.
#[derive(Clone, Debug)]
pub struct Catalog {
    manifests: Vec<Manifest>,
}

impl Catalog {
    /// In the order of preference: the first that can make a variant gives the defaults for it.
    pub fn new(manifests: Vec<Manifest>) -> Self {
        Self { manifests }
    }

    /// The bundle whose defaults count for `variant`.
    pub fn get(&self, variant: Variant) -> Option<&Manifest> {
        self.manifests.iter().find(|manifest| Variant::served_by(manifest.variant).contains(&variant))
    }

    /// Every variant that some bundle can make.
    pub fn served(&self) -> Vec<Variant> {
        Variant::ALL.into_iter().filter(|&variant| self.get(variant).is_some()).collect()
    }
}
