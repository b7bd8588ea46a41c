//! How a weight file is laid out.
//!
//! It is a plain safetensors file, with two properties that other writers do not give: tensors lie in the order in
//! which they are used, so that streaming a net reads the disk forwards, and each begins at a multiple of
//! [`ALIGNMENT`], so that providers bind it from the map without a copy. The format wants tensors back to back, with
//! no hole between them; so the header is padded with spaces, which it permits, and a tensor whose size is no multiple
//! of the alignment is followed by a tensor of zero bytes called `__pad.N`. Real nets need hardly any: their widths
//! are multiples of 64. Readers of this crate pass over them; Python's see one more entry.

use std::collections::HashMap;
use std::ops::Range;

use safetensors::SafeTensorError;
use safetensors::tensor::{Dtype as FileDtype, Metadata, TensorInfo};

use super::Dtype;
use crate::graph::WeightSpec;
use crate::models::Net;
use crate::weights::file::PADDING_PREFIX;

/// Every tensor's data begins at a multiple of this many bytes from the start of the file.
pub const ALIGNMENT: usize = 64;

/// Elements in a stretch, rounded to whole rows: enough for every processor's share of a merge, few enough to stay in
/// its cache from one step to the next.
const STRETCH: usize = 1 << 22;

/// A tensor as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTensor {
    /// Canonical name.
    pub name: String,
    /// Dimensions, outermost first.
    pub shape: Vec<usize>,
    /// Element type.
    pub dtype: Dtype,
}

impl StoredTensor {
    /// How `spec` is stored in a bundle whose matrices are `dtype`.
    ///
    /// Matrices are nearly all of a net, so only they are narrowed; what is small decides precision and stays F32:
    /// norms, biases, modulation and position tables, and the whole of the autoencoder and of CLIP, which work in F32. So does the text
    /// encoder's `wo` when the rest is F16, whose range its products leave (`transformers` keeps it in F32 as well).
    pub(super) fn new(net: Net, spec: WeightSpec, dtype: Dtype) -> Self {
        let WeightSpec { name, shape } = spec;
        let is_matrix = shape.len() > 1 && name.ends_with(".weight");
        let narrowed = match net {
            Net::TextEncoder => {
                let overflows = dtype == Dtype::F16 && name.ends_with(".wo.weight");
                is_matrix && !overflows && !name.ends_with(".relative_attention_bias.weight")
            }
            Net::TransformerHigh | Net::TransformerLow => is_matrix,
            Net::Vae | Net::Clip => false,
        };
        Self { name, shape, dtype: if narrowed { dtype } else { Dtype::F32 } }
    }

    /// Bytes of its elements.
    pub fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.size()
    }

    /// The stretches of rows (of the outermost dimension) in which it is read, converted and written.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let rows = self.shape.first().copied().unwrap_or(1);
        let at_once = (STRETCH / self.row().max(1)).max(1);
        (0..rows).step_by(at_once).map(move |first| first..(first + at_once).min(rows))
    }

    /// Elements of a row.
    pub(crate) fn row(&self) -> usize {
        self.shape.iter().skip(1).product()
    }

    /// Zero bytes that follow it in the file.
    pub(super) fn padding(&self) -> usize {
        self.bytes().next_multiple_of(ALIGNMENT) - self.bytes()
    }
}

/// Where each tensor's data begins in a file that holds `tensors` in this order, in bytes.
pub(crate) fn offsets(tensors: &[StoredTensor]) -> Result<Vec<u64>, SafeTensorError> {
    let mut at = header(tensors)?.len() as u64;
    let begin = tensors.iter().map(|tensor| {
        let begin = at;
        at += (tensor.bytes() + tensor.padding()) as u64;
        begin
    });
    Ok(begin.collect())
}

/// The length field and the header of a file that holds `tensors` in this order.
pub(super) fn header(tensors: &[StoredTensor]) -> Result<Vec<u8>, SafeTensorError> {
    let (mut infos, mut offset) = (Vec::new(), 0);
    let mut push = |name: String, dtype, shape, bytes| {
        infos.push((name, TensorInfo { dtype, shape, data_offsets: (offset, offset + bytes) }));
        offset += bytes;
    };
    for (i, tensor) in tensors.iter().enumerate() {
        let dtype = match tensor.dtype {
            Dtype::F16 => FileDtype::F16,
            Dtype::Bf16 => FileDtype::BF16,
            Dtype::F32 => FileDtype::F32,
        };
        push(tensor.name.clone(), dtype, tensor.shape.clone(), tensor.bytes());
        let padding = tensor.padding();
        if padding > 0 && i + 1 < tensors.len() {
            push(format!("{PADDING_PREFIX}{i}"), FileDtype::U8, vec![padding], padding);
        }
    }
    // What `transformers` and diffusers look for before they load a file.
    let facts = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let json = serde_json::to_vec(&Metadata::new(Some(facts), infos)?)?;

    let length_field = size_of::<u64>();
    let padded = (length_field + json.len()).next_multiple_of(ALIGNMENT) - length_field;
    let mut header = (padded as u64).to_le_bytes().to_vec();
    header.extend(json);
    header.resize(length_field + padded, b' ');
    Ok(header)
}
