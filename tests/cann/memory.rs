//! The device's memory: never more than the budget, however little that is, and the same results.

use std::fs;
use std::path::{Path, PathBuf};

use ndarray::{Array2, Array4};
use onnx_export::bundle::{Bundle, Manifest};
use onnx_export::graph::CannLowering;
use onnx_export::models::Net;
use onnx_export::models::wan::LatentGrid;
use storymem::engine::residency::{Demand, Plan};
use storymem::engine::{Bytes, DeviceOptions, Engine, EngineError, Runtime, RuntimeOptions, StopToken};
use storymem::pipeline::noise::randn;
use storymem::pipeline::{Denoiser, PipelineError, Profile, Size};

use super::common::nets::weights;
use super::common::relative_error;
use super::emulator::{DEVICE, Machine, engine};

/// Steps with each expert.
const STEPS: usize = 3;
const LAYERS: usize = 20;

/// A transformer whose weights are most of what it needs, as in the full-size model.
fn manifest() -> Manifest {
    let mut manifest = onnx_export::demo::manifest();
    let transformer = &mut manifest.nets.transformer;
    (transformer.dim, transformer.ffn_dim) = (256, 1024);
    (transformer.num_heads, transformer.num_layers, transformer.text_len) = (4, LAYERS, 64);
    manifest
}

const PROFILE: Profile = Profile { size: Size { width: 32, height: 32 }, frames: 5, memory: 1 };

/// What the transformer needs.
fn demand() -> Demand {
    let stages = PROFILE.stages(&manifest(), &CannLowering::default()).unwrap();
    Demand::of(stages.iter().find(|stage| stage.name == "transformer").unwrap())
}

/// Velocities of a few steps with either expert.
fn velocities(engine: &Engine, bundle: &Path) -> Result<Vec<f32>, PipelineError> {
    let bundle = Bundle::open(bundle).unwrap();
    let config = &bundle.manifest().nets.transformer;
    let stop = StopToken::default();
    let (frames, side) = (3, 4);
    let grid = LatentGrid { frames, height: side, width: side };
    let condition = randn(2, [config.condition_channels(), frames, side, side]);
    let [high, low] = [Net::TransformerHigh, Net::TransformerLow].map(|net| weights(&bundle, net));
    let mut denoiser = Denoiser::new(engine, config, &high, grid, &[-5, 0, 1], Some(condition.view()))?;
    let prompt = Array2::from_shape_fn([config.text_len, config.text_dim], |(i, j)| (i + j) as f32 * 1e-2);
    let latents: Array4<f32> = randn(1, [16, frames, side, side]);
    let mut all = Vec::new();
    for weights in [&high, &low] {
        let mut expert = denoiser.expert(weights, &prompt, &prompt, &stop)?;
        for step in 0..STEPS {
            all.extend(denoiser.velocity(&mut expert, &latents, 900 - 100 * step as i64, 3.5, &stop)?);
        }
    }
    Ok(all)
}

#[test]
#[ignore = "runs on the emulator, started by the test below"]
fn part_velocities() {
    let memory = std::env::var("BUDGET").unwrap().parse().unwrap();
    let engine = engine(DeviceOptions { memory: Some(memory), ..DeviceOptions::default() });
    let velocities = velocities(&engine, &PathBuf::from(std::env::var_os("BUNDLE").unwrap())).unwrap();
    fs::write(std::env::var_os("RESULT").unwrap(), bytemuck::cast_slice::<f32, u8>(&velocities)).unwrap();
}

#[test]
fn at_every_budget_the_memory_suffices_and_the_results_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("bundle");
    onnx_export::demo::write_like(&bundle, manifest()).unwrap();
    let demand = demand();
    let layer = demand.layers[0];
    let expert = demand.common + LAYERS as u64 * layer;
    let least = demand.least();
    assert!(least < expert / 3, "{} of {}", Bytes(least), Bytes(expert));

    let mut results = Vec::new();
    for (budget, stay) in [(least, 0), (least + 5 * layer, 5), (2 * expert, LAYERS)] {
        let plan = Plan::new(demand.clone(), budget).unwrap();
        assert_eq!(plan.stays.iter().filter(|&&stays| stays).count(), stay);
        let machine = Machine::new();
        let result = folder.path().join("result");
        machine.run_part(
            "memory::part_velocities",
            &[
                ("BUDGET", budget.to_string()),
                ("BUNDLE", bundle.display().to_string()),
                ("RESULT", result.display().to_string()),
                // One byte more would not be had.
                ("CANN_EMULATOR_DEVICE_BYTES", budget.to_string()),
            ],
        );
        let log = machine.log();
        println!("{plan}; peak {}", log.peak());
        assert!(log.peak() <= Bytes(budget));
        assert!(log.peak() <= Bytes(plan.peak()));
        // Each layer that stays is uploaded once for each expert, the others at every step, and at the end perhaps once
        // more, for a step that does not come.
        let uploaded = log.copied("aclrtMemcpy", "host_to_device");
        let passing = plan.moved_per_pass();
        let expected = 2 * (demand.common + plan.staying() + STEPS as u64 * passing);
        let slack = 2 * plan.slots + demand.activations * 2 * STEPS as u64;
        assert!(uploaded <= expected + slack, "{} for {}", Bytes(uploaded), Bytes(expected));
        // Layers are uploaded by a thread of their own, so that computing goes on meanwhile.
        let threads: Vec<_> = log
            .calls("aclrtMemcpy")
            .filter(|call| call["kind"] == "host_to_device" && call["bytes"] == 256 * 1024 * 2)
            .map(|call| call["thread"].as_i64().unwrap())
            .collect();
        let computing = log.calls("aclmdlExecuteAsync").next().unwrap()["thread"].as_i64().unwrap();
        assert!(!threads.is_empty() && threads.iter().all(|&thread| thread != computing));
        results.push(fs::read(&result).unwrap());
    }
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "where weights lie changes nothing");

    let runtime = Runtime::load(&RuntimeOptions::default()).unwrap();
    let on_cpu = velocities(&Engine::open(runtime, storymem::engine::Device::Cpu).unwrap(), &bundle).unwrap();
    let error = relative_error(bytemuck::cast_slice::<u8, f32>(&results[0]), &on_cpu);
    println!("against the CPU: {error:.1e}");
    assert!(error < 6e-3, "{error:.1e}");
}

#[test]
#[ignore = "runs on the emulator, started by the test below"]
fn part_too_little() {
    let least = demand().least();
    let engine = engine(DeviceOptions { memory: Some(Bytes(least - 1)), ..DeviceOptions::default() });
    let result = velocities(&engine, &PathBuf::from(std::env::var_os("BUNDLE").unwrap()));
    let Err(PipelineError::Engine(error @ EngineError::DeviceMemory { .. })) = result else {
        panic!("{result:?}")
    };
    let said = error.to_string();
    let EngineError::DeviceMemory { device, least: named, .. } = error else { unreachable!() };
    assert_eq!((device, named), (DEVICE, Bytes(least)));
    assert!(said.contains("transformer") && said.contains("--device-memory"), "{said}");
}

#[test]
fn too_small_a_budget_is_refused_with_the_smallest_that_works() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("bundle");
    onnx_export::demo::write_like(&bundle, manifest()).unwrap();
    let machine = Machine::new();
    machine.run_part("memory::part_too_little", &[("BUNDLE", bundle.display().to_string())]);
    let log = machine.log();
    assert_eq!(log.copied("aclrtMemcpy", "host_to_device"), 0, "nothing was taken to the device");
}
