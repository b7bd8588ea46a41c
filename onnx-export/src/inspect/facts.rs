//! What can be counted in a file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use super::InspectError;
use crate::bundle::sha256_whole;
use crate::weights::file::{RawTensor, TensorFile};

/// A file.
#[derive(Clone, Debug, Serialize)]
pub struct FileReport {
    /// The file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256 in lower-case hex, where it is known.
    pub sha256: Option<String>,
}

impl FileReport {
    pub(super) fn of(file: &TensorFile) -> Self {
        Self { path: file.path().into(), bytes: file.total_bytes(), sha256: None }
    }

    pub(super) fn hash(&mut self, tick: &dyn Fn()) -> Result<(), InspectError> {
        let hashed = sha256_whole(&self.path, tick);
        self.sha256 = Some(hashed.map_err(|reason| InspectError::Read { path: self.path.clone(), reason })?);
        Ok(())
    }
}

/// Tensors, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TensorsReport {
    /// How many there are.
    pub count: usize,
    /// Their elements.
    pub parameters: usize,
    /// The same by element type.
    pub dtypes: BTreeMap<String, TypeReport>,
}

/// Tensors of one element type, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TypeReport {
    /// How many there are.
    pub count: usize,
    /// Their elements.
    pub parameters: usize,
}

impl TensorsReport {
    pub(super) fn of<'a>(tensors: impl Iterator<Item = RawTensor<'a>>) -> Self {
        let mut report = Self::default();
        for tensor in tensors {
            let of_type = report.dtypes.entry(tensor.dtype.to_string()).or_default();
            of_type.count += 1;
            of_type.parameters += tensor.elements();
            report.count += 1;
            report.parameters += tensor.elements();
        }
        report
    }
}

/// The licence that a file's header states.
pub(super) fn licence(metadata: &BTreeMap<String, String>) -> Option<String> {
    let fields = ["modelspec.license", "license", "licence"];
    fields.iter().find_map(|field| metadata.get(*field)).cloned()
}
