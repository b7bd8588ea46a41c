//! The autoencoder over a whole clip: its chunks one after the other, caches handed on.

use safetensors::SafeTensorError;

use super::linker::{Linker, Wire};
use super::port;
use crate::bundle::Manifest;
use crate::graph::{Builder, DataType, Graph};
use crate::models::Net;
use crate::models::vae::{self, Chunk, SPATIAL, TEMPORAL};

const ABOUT: &str =
    "Wan 2.1 autoencoder. pixels: in [-1, 1]. latents: normalised, the mode of the posterior.";

/// Input `pixels` `[1, 3, 4 latent_frames - 3, 8 rows, 8 columns]`; output `latents` `[1, z_dim, latent_frames, rows, columns]`.
///
/// # Errors
/// When the bundle's weight file can't be described.
pub fn encode(
    manifest: &Manifest,
    latent_frames: usize,
    rows: usize,
    columns: usize,
) -> Result<Vec<u8>, SafeTensorError> {
    let config = &manifest.nets.vae;
    let pixels =
        Clip { channels: 3, frames: frames(latent_frames), rows: rows * SPATIAL, columns: columns * SPATIAL };
    let latents = Clip { channels: config.z_dim, frames: latent_frames, rows, columns };
    coder(manifest, ("pixels", pixels), ("latents", latents), |g, chunk| {
        vae::encode(g, config, chunk, rows, columns)
    })
}

/// Input `latents` `[1, z_dim, latent_frames, rows, columns]`; output `pixels` `[1, 3, 4 latent_frames - 3, 8 rows,
/// 8 columns]`, clamped to [-1, 1].
///
/// # Errors
/// When the bundle's weight file can't be described.
pub fn decode(
    manifest: &Manifest,
    latent_frames: usize,
    rows: usize,
    columns: usize,
) -> Result<Vec<u8>, SafeTensorError> {
    let config = &manifest.nets.vae;
    let latents = Clip { channels: config.z_dim, frames: latent_frames, rows, columns };
    let pixels =
        Clip { channels: 3, frames: frames(latent_frames), rows: rows * SPATIAL, columns: columns * SPATIAL };
    coder(manifest, ("latents", latents), ("pixels", pixels), |g, chunk| {
        vae::decode(g, config, chunk, rows, columns)
    })
}

/// Pixel frames of a clip.
fn frames(latent_frames: usize) -> usize {
    (latent_frames - 1) * TEMPORAL + 1
}

/// A video's shape.
#[derive(Clone, Copy)]
struct Clip {
    channels: usize,
    frames: usize,
    rows: usize,
    columns: usize,
}

impl Clip {
    fn shape(self) -> [usize; 5] {
        [1, self.channels, self.frames, self.rows, self.columns]
    }
}

fn coder(
    manifest: &Manifest,
    (from_name, from): (&str, Clip),
    (to_name, to): (&str, Clip),
    build: impl Fn(Builder<'_>, Chunk) -> Graph,
) -> Result<Vec<u8>, SafeTensorError> {
    let mut linker = Linker::new(manifest, Net::Vae)?;
    let clip = linker.input(port(from_name, DataType::F32, &from.shape()));
    let chunks = linker.add_all("split", "", &[&clip], |g| split(g, from));
    let (mut caches, mut coded) = (Vec::<Wire>::new(), Vec::new());
    for (i, chunk) in chunks.iter().enumerate() {
        let kind = if i == 0 { Chunk::First } else { Chunk::Next };
        let given: Vec<&Wire> = [chunk].into_iter().chain(&caches).collect();
        let mut outputs = linker.add_all(&format!("chunk_{i}"), "", &given, |g| build(g, kind));
        // The result is the output declared last, after the caches.
        coded.push(outputs.pop().expect("a coder's graph has a result"));
        caches = outputs;
    }
    let coded: Vec<&Wire> = coded.iter().collect();
    let [whole] = linker.add("join", "", &coded, |g| join(g, to, coded.len()));
    linker.output(port(to_name, DataType::F32, &to.shape()), &whole);
    Ok(linker.finish(if from.channels == 3 { "vae_encode" } else { "vae_decode" }, ABOUT))
}

/// A clip to its chunks: the first frame, then as many at a time as make a latent frame.
fn split(mut g: Builder<'_>, clip: Clip) -> Graph {
    let x = g.input("clip", DataType::F32, &clip.shape());
    let at_once = if clip.channels == 3 { TEMPORAL } else { 1 };
    let first = g.slice(&x, 2, 0, 1);
    g.output("chunk_0", &first);
    for (i, start) in (1..clip.frames).step_by(at_once).enumerate() {
        let chunk = g.slice(&x, 2, start, start + at_once);
        g.output(&format!("chunk_{}", i + 1), &chunk);
    }
    g.finish("split")
}

fn join(mut g: Builder<'_>, clip: Clip, chunks: usize) -> Graph {
    let rest = if chunks > 1 { (clip.frames - 1) / (chunks - 1) } else { 0 };
    let parts: Vec<_> = (0..chunks)
        .map(|i| {
            let part = Clip { frames: if i == 0 { 1 } else { rest }, ..clip };
            g.input(&format!("chunk_{i}"), DataType::F32, &part.shape())
        })
        .collect();
    let whole = g.concat(&parts.iter().collect::<Vec<_>>(), 2);
    g.output("clip", &whole);
    g.finish("join")
}
