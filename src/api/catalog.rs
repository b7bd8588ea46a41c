//! What is served: the manifests of the bundles, without their weights.

use onnx_export::bundle::{BundleVariant, Manifest};

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
        self.manifests.iter().find(|manifest| variants(manifest.variant).contains(&variant))
    }

    /// Every variant that some bundle can make.
    pub fn served(&self) -> Vec<Variant> {
        let all = [Variant::M2v, Variant::Mi2v, Variant::Mm2v];
        all.into_iter().filter(|&variant| self.get(variant).is_some()).collect()
    }
}

/// What a bundle can make.
pub fn variants(bundle: BundleVariant) -> &'static [Variant] {
    match bundle {
        BundleVariant::M2v => &[Variant::M2v],
        BundleVariant::Mi2v => &[Variant::M2v, Variant::Mi2v],
        BundleVariant::Mm2v => &[Variant::M2v, Variant::Mm2v],
        BundleVariant::T2v => &[],
    }
}
