//! What a run computed at each stage, for comparison with other implementations (`storymem generate --dump`).

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use ndarray::{ArrayBase, ArrayD, ArrayViewD, Axis, Data, Dimension};
use safetensors::Dtype;
use safetensors::tensor::TensorView;

use crate::files;

/// Named f32 arrays; what is recorded under one name again is stacked.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    arrays: BTreeMap<&'static str, Vec<ArrayD<f32>>>,
}

impl Recording {
    /// Keeps a copy of `array`.
    pub fn keep<S: Data<Elem = f32>, D: Dimension>(&mut self, name: &'static str, array: &ArrayBase<S, D>) {
        self.arrays.entry(name).or_default().push(array.to_owned().into_dyn());
    }

    /// What was recorded under `name`: `predictions` as one more leading axis, `frames` joined in time, the rest as it
    /// is.
    pub fn get(&self, name: &str) -> Option<ArrayD<f32>> {
        let parts: Vec<ArrayViewD<'_, f32>> = self.arrays.get(name)?.iter().map(|a| a.view()).collect();
        let joined = match name {
            "predictions" => ndarray::stack(Axis(0), &parts),
            _ => ndarray::concatenate(Axis(parts[0].ndim().min(2) - 1), &parts),
        };
        let joined = joined.expect("arrays of one name have one shape");
        Some(joined.as_standard_layout().into_owned())
    }

    /// Writes every array to a safetensors file, aside first.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let arrays: Vec<_> = self.arrays.keys().filter_map(|&name| Some((name, self.get(name)?))).collect();
        let views = arrays.iter().map(|(name, array)| {
            let values = array.as_slice().expect("arrays leave `get` in standard layout");
            let view = TensorView::new(Dtype::F32, array.shape().to_vec(), bytemuck::cast_slice(values));
            Ok((*name, view.map_err(io::Error::other)?))
        });
        let bytes =
            safetensors::serialize(views.collect::<io::Result<Vec<_>>>()?, None).map_err(io::Error::other)?;
        files::write_whole(path, |file| file.write_all(&bytes))
    }
}
