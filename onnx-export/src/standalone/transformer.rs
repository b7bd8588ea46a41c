//! An expert's step: latents, timestep and prompt to velocity.
//!
//! Timesteps are whole numbers up to 1000, and temporal positions lie within 512 of the first frame of the clip: both are
//! looked up in tables made in f64, which is exact where computing sines of large angles in f32 is not.

use safetensors::SafeTensorError;

use super::linker::Linker;
use super::port;
use crate::bundle::Manifest;
use crate::graph::{Builder, DataType, Graph, Value};
use crate::models::Net;
use crate::models::wan::{self, LatentGrid, PATCH, WanConfig};

/// The largest timestep.
const LAST_TIMESTEP: i64 = 1000;

/// Temporal positions are in `-POSITIONS..POSITIONS`.
const POSITIONS: i64 = 512;

const ABOUT: &str = "A denoising step of one expert. hidden_states: noisy latents (16 channels), mask (4) and encoded known \
                     frames (16). frame_positions: of latent frames on the rotary time axis: 0, 1, 2, … for the clip, -5 (M - j) \
                     for memory frame j of M, which come first. encoder_hidden_states: embeddings of the prompt, zero past its \
                     end. velocity: before guidance.";

/// Inputs `hidden_states` `[1, in_dim, frames, height, width]`, `timestep` `[1]` (i64), `frame_positions` `[frames]` (i64)
/// and `encoder_hidden_states` `[1, text_len, text_dim]`; output `velocity` `[1, out_dim, frames, height, width]`.
///
/// # Errors
/// When the bundle's weight file can't be described.
pub fn transformer(manifest: &Manifest, net: Net, grid: LatentGrid) -> Result<Vec<u8>, SafeTensorError> {
    let config = &manifest.nets.transformer;
    let LatentGrid { frames, height, width } = grid;
    let mut linker = Linker::new(manifest, net)?;
    let latents =
        linker.input(port("hidden_states", DataType::F32, &[1, config.in_dim, frames, height, width]));
    let timestep = linker.input(port("timestep", DataType::I64, &[1]));
    let positions = linker.input(port("frame_positions", DataType::I64, &[frames]));
    let prompt = [1, config.text_len, config.text_dim];
    let prompt = linker.input(port("encoder_hidden_states", DataType::F32, &prompt));

    let mut given =
        linker.add_all("inputs", "", &[&latents, &timestep, &prompt], |g| inputs(g, config, grid));
    let prompt = given.pop().expect("the prompt is the last of the inputs");
    let [cos, sin] = linker.add("rotary", "", &[&positions], |g| rotary(g, config, grid));
    let [context] = linker.add("context", "", &[&prompt], |g| wan::context(g, config));
    let given: Vec<_> = given.iter().collect();
    let [mut hidden, time, modulation] =
        linker.add("prologue", "", &given, |g| wan::prologue(g, config, grid));
    for layer in 0..config.num_layers {
        let given = [&hidden, &modulation, &cos, &sin, &context];
        [hidden] = linker.add(&format!("block_{layer}"), &wan::block_prefix(layer), &given, |g| {
            wan::whole_block(g, config, grid)
        });
    }
    let [patches] = linker.add("epilogue", "", &[&hidden, &time], |g| wan::epilogue(g, config, grid));
    let shape = [1, config.out_dim, frames, height, width];
    let [velocity] = linker.add("velocity", "", &[&patches], |g| velocity(g, config, grid));
    linker.output(port("velocity", DataType::F32, &shape), &velocity);
    Ok(linker.finish(net.name(), ABOUT))
}

/// Patches to the velocity with a batch of one: [`wan::unpatchify`] as a graph.
fn velocity(mut g: Builder<'_>, config: &WanConfig, grid: LatentGrid) -> Graph {
    let LatentGrid { frames, height, width } = grid;
    let (rows, columns, channels) = (height / PATCH, width / PATCH, config.out_dim);
    let x = g.input("patches", DataType::F32, &[grid.tokens(), PATCH * PATCH * channels]);
    let x = g.reshape(&x, &[frames, rows, columns, PATCH, PATCH, channels]);
    let x = g.transpose(&x, &[5, 0, 1, 3, 2, 4]);
    let x = g.reshape(&x, &[1, channels, frames, height, width]);
    g.output("velocity", &x);
    g.finish("velocity")
}

/// What the prologue takes (latents, condition if there is one, embedded timestep) and the prompt, without batch.
fn inputs(mut g: Builder<'_>, config: &WanConfig, grid: LatentGrid) -> Graph {
    let LatentGrid { frames, height, width } = grid;
    let x = g.input("x", DataType::F32, &[1, config.in_dim, frames, height, width]);
    let timestep = g.input("timestep", DataType::I64, &[1]);
    let prompt = g.input("prompt", DataType::F32, &[1, config.text_len, config.text_dim]);
    let x = g.reshape(&x, &[config.in_dim, frames, height, width]);
    let latents = g.slice(&x, 0, 0, config.out_dim);
    g.output("latents", &latents);
    if config.condition_channels() > 0 {
        let condition = g.slice(&x, 0, config.out_dim, config.in_dim);
        g.output("condition", &condition);
    }
    let table: Vec<f32> =
        (0..=LAST_TIMESTEP).flat_map(|timestep| wan::timestep_embedding(timestep, config.freq_dim)).collect();
    let table = g.constant_f32(&table, &[LAST_TIMESTEP as usize + 1, config.freq_dim]);
    let embedded = g.gather_rows(&table, &timestep);
    g.output("timestep_embedding", &embedded);
    let prompt = g.reshape(&prompt, &[config.text_len, config.text_dim]);
    g.output("prompt_rows", &prompt);
    g.finish("inputs")
}

/// Positions of frames to the cosines and sines of all tokens.
fn rotary(mut g: Builder<'_>, config: &WanConfig, grid: LatentGrid) -> Graph {
    let positions = g.input("positions", DataType::I64, &[grid.frames]);
    let offset = g.constant_i64(&[POSITIONS], &[]);
    let rows = g.add(&positions, &offset);
    // One token for each position, then one for each place in a frame.
    let all: Vec<i64> = (-POSITIONS..POSITIONS).collect();
    let one_token = LatentGrid { frames: all.len(), height: PATCH, width: PATCH };
    let (cos, sin) = wan::rotary_table(config, one_token, &all);
    let (cos_within, sin_within) = wan::rotary_table(config, LatentGrid { frames: 1, ..grid }, &[0]);
    for (name, over_time, within) in [("cos", cos, cos_within), ("sin", sin, sin_within)] {
        let table = table(&mut g, config, grid, &rows, &over_time, &within);
        g.output(name, &table);
    }
    g.finish("rotary")
}

/// The columns for time of `over_time`'s `rows`, and those for space of `within`, side by side for each token.
fn table(
    g: &mut Builder<'_>,
    config: &WanConfig,
    grid: LatentGrid,
    rows: &Value,
    over_time: &[f32],
    within: &[f32],
) -> Value {
    let half = config.head_dim() / 2;
    let time = half - 2 * (config.head_dim() / 6);
    let columns = |table: &[f32], range: std::ops::Range<usize>| -> Vec<f32> {
        table.chunks(half).flat_map(|row| row[range.clone()].to_vec()).collect()
    };
    let (frames, places) = (grid.frames, grid.tokens() / grid.frames);
    let over_time = columns(over_time, 0..time);
    let over_time = g.constant_f32(&over_time, &[over_time.len() / time, time]);
    let over_time = g.gather_rows(&over_time, rows);
    let over_time = g.reshape(&over_time, &[frames, 1, time]);
    let within = g.constant_f32(&columns(within, time..half), &[1, places, half - time]);
    let mut spread = |x: &Value| {
        let zeros = g.zeros(&[frames, places, x.dim(2)]);
        g.add(x, &zeros)
    };
    let (over_time, within) = (spread(&over_time), spread(&within));
    let both = g.concat(&[&over_time, &within], 2);
    g.reshape(&both, &[grid.tokens(), half])
}
