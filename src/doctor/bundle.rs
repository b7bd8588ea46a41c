//! The bundle, and whether the device can do with it.

use std::fmt::Write;
use std::path::Path;

use onnx_export::bundle::{Bundle, Dtype};
use onnx_export::graph::cann::{Problem, provider_report};
use onnx_export::graph::{CannLowering, GraphSpec};

use super::Report;
use crate::engine::residency::{Demand, Plan};
use crate::engine::{Bytes, Device, Stage};
use crate::pipeline::Profile;

/// Of many problems of one kind, how many are shown.
const SHOWN: usize = 5;

/// Opens the bundle; with `verify`, also reads every file of it to the end.
pub fn check_bundle(report: &mut Report, path: &Path, device: Device, verify: bool) -> Option<Bundle> {
    let name = "bundle";
    let bundle = match Bundle::open(path) {
        Ok(bundle) => bundle,
        Err(error) => {
            report.problem(name, error);
            return None;
        }
    };
    let manifest = bundle.manifest();
    let bytes = manifest.files.iter().map(|file| file.bytes).sum();
    let dtype = manifest.dtype.name();
    let digest = bundle.digest();
    report.ok(
        name,
        format_args!(
            "`{}` ({}, {dtype}, {}), digest {digest}",
            manifest.name,
            manifest.variant.name(),
            Bytes(bytes)
        ),
    );
    if manifest.random_weights {
        report
            .warn(name, "its weights are random numbers, so videos show noise; export one from checkpoints");
    }
    match (device, manifest.dtype) {
        (Device::Cann(_), Dtype::Bf16) => report.warn(
            name,
            "its weights are BF16, which is computed in F32 on an NPU, right but slow; export it with `--dtype f16`",
        ),
        (Device::Cann(_), Dtype::F32) => report.warn(
            name,
            "its weights are F32, twice the size and far slower on an NPU; export it with `--dtype f16`",
        ),
        _ => {}
    }
    if verify {
        check_digests(report, &bundle);
    }
    Some(bundle)
}

fn check_digests(report: &mut Report, bundle: &Bundle) {
    let name = "bundle's files";
    let files = bundle.verify(&|| {});
    let damaged = files.iter().filter_map(|file| Some(format!("`{}` {}", file.path, file.problem.as_ref()?)));
    let damaged: Vec<_> = damaged.collect();
    match damaged.is_empty() {
        true => report.ok(name, format_args!("all {} are as they were written", files.len())),
        false => {
            report.problem(name, format_args!("{}; copy or export the bundle again", damaged.join(", ")))
        }
    }
}

/// Checks every node of every graph of such shots against what CANN takes.
pub fn check_graphs(
    report: &mut Report,
    bundle: &Bundle,
    profile: &Profile,
    lowering: CannLowering,
) -> Option<Vec<Stage>> {
    let name = "graphs";
    let (mut graphs, mut nodes) = (0, 0);
    let mut problems: Vec<(String, Problem)> = Vec::new();
    let stages = profile.stages_and_graphs(bundle.manifest(), &lowering, &mut |graph| {
        graphs += 1;
        nodes += graph.model.graph.as_ref().map_or(0, |graph| graph.node.len());
        problems.extend(provider_report(graph).into_iter().map(|problem| (graph.name.clone(), problem)));
    });
    let stages = match stages {
        Ok(stages) => stages,
        Err(error) => {
            report.problem(name, error);
            return None;
        }
    };
    if problems.is_empty() {
        report.ok(
            name,
            format_args!(
                "CANN's front end knows all {nodes} nodes of {graphs} graphs ({profile}, {lowering})"
            ),
        );
    } else {
        let shown = problems.iter().take(SHOWN);
        let mut text =
            shown.map(|(graph, problem)| format!("`{graph}`: {problem}")).collect::<Vec<_>>().join("; ");
        if problems.len() > SHOWN {
            let _ = write!(text, "; and {} more", problems.len() - SHOWN);
        }
        report.problem(name, text);
    }
    Some(stages)
}

/// Whether each stage fits into a budget.
pub fn check_plan(report: &mut Report, stages: &[Stage], profile: &Profile, budget: Bytes) {
    let name = "device memory";
    let plan = |stage: &Stage| Plan::new(Demand::of(stage), budget.0);
    let least = stages.iter().map(|stage| Demand::of(stage).least()).max().unwrap_or(0);
    let moved: u64 = stages.iter().filter_map(|stage| Some(plan(stage).ok()?.moved_per_pass())).sum();
    if stages.iter().any(|stage| plan(stage).is_err()) {
        report.problem(
            name,
            format_args!(
                "{profile} needs at least {}, and {budget} may be taken; raise `--device-memory`, or ask for fewer \
                 pixels or frames",
                Bytes(least)
            ),
        );
    } else if moved > 0 {
        report.ok(
            name,
            format_args!(
                "{profile} fits into {budget}; some layers pass through it (`--plan` shows the plan)"
            ),
        );
    } else {
        report.ok(name, format_args!("{profile} fits into {budget}, every net whole"));
    }
}

/// The plan of each stage as a table; without a budget, of a device that has room for everything.
pub fn show_plan(stages: &[Stage], profile: &Profile, budget: Option<Bytes>) -> String {
    let mut text = match budget {
        Some(budget) => format!("plan for {profile} in {budget}, stages in the order of a shot:\n"),
        None => format!(
            "plan for {profile} on a device with room for everything, stages in the order of a shot:\n"
        ),
    };
    let cells = |cells: [&str; 8]| {
        let [stage, rest @ ..] = cells;
        let rest: Vec<_> = rest.iter().map(|cell| format!("{cell:>15}")).collect();
        format!("  {stage:<14}{}\n", rest.concat())
    };
    let columns =
        ["", "weights", "layers staying", "moved a step", "activations", "largest", "graphs", "at least"];
    text += &cells(columns);
    for stage in stages {
        let demand = Demand::of(stage);
        let bytes = |bytes: u64| Bytes(bytes).to_string();
        let (least, layers) = (demand.least(), demand.layers.len());
        let [activations, graphs] = [demand.activations, demand.graphs].map(bytes);
        let largest = bytes(largest_activation(stage));
        let (weights, staying, moved) =
            match Plan::new(demand, budget.map_or(u64::MAX, |Bytes(budget)| budget)) {
                Ok(plan) => {
                    let staying = plan.stays.iter().filter(|&&stays| stays).count();
                    let weights = plan.demand.common + plan.staying() + plan.slots;
                    (bytes(weights), format!("{staying} of {layers}"), bytes(plan.moved_per_pass()))
                }
                Err(_) => ("too small".into(), String::new(), String::new()),
            };
        let staying = if layers == 0 { String::new() } else { staying };
        let least = bytes(least);
        text += &cells([stage.name, &weights, &staying, &moved, &activations, &largest, &graphs, &least]);
    }
    text
}

/// Bytes of the largest value that is handed from graph to graph.
fn largest_activation(stage: &Stage) -> u64 {
    let graphs = stage.graphs.iter().chain(stage.layers.iter().map(|(graph, _)| graph));
    let ports = |graph: &GraphSpec| graph.inputs.iter().chain(&graph.outputs).map(|port| port.bytes()).max();
    graphs.filter_map(ports).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_shows_what_stays_and_what_is_moved() {
        let mut manifest = onnx_export::demo::manifest();
        manifest.nets.transformer.num_layers = 12;
        let profile: Profile = "64x48x9x1".parse().unwrap();
        let stages = profile.stages(&manifest, &CannLowering::default()).unwrap();
        let transformer = stages.iter().find(|stage| stage.name == "transformer").unwrap();
        let demand = Demand::of(transformer);
        let layer = demand.layers[0];
        let line = |budget: Option<u64>| {
            let text = show_plan(&stages, &profile, budget.map(Bytes));
            text.lines().find(|line| line.trim_start().starts_with("transformer")).unwrap().to_owned()
        };
        assert!(line(None).contains("12 of 12") && line(None).contains("0 bytes"), "{}", line(None));
        let tight = line(Some(demand.least() + 3 * layer));
        assert!(tight.contains("3 of 12") && tight.contains(&Bytes(9 * layer).to_string()), "{tight}");
        assert!(line(Some(demand.least() - 1)).contains("too small"));

        let outcome = |budget: u64| {
            let mut report = Report::default();
            check_plan(&mut report, std::slice::from_ref(transformer), &profile, Bytes(budget));
            report.checks.remove(0)
        };
        assert!(outcome(demand.least()).text.contains("pass through"));
        assert!(outcome(demand.least() + 12 * layer).text.contains("every net whole"));
        assert_eq!(outcome(demand.least() - 1).outcome, super::super::Outcome::Problem);
    }
}
