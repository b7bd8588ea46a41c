//! The CPU's kernel for `NPUPromptFlashAttention`, through ONNX Runtime, against the definition in f64.

use half::f16;
use onnx_export::bundle::Bundle;
use onnx_export::graph::cann::FLASH_ATTENTION;
use onnx_export::graph::{AttentionSpec, Builder, DataType, Graph};
use onnx_export::models::Net;
use onnx_export::proto::AttributeProto;
use proptest::prelude::*;
use storymem::engine::{Engine, EngineError, Stage, StopToken, Weights};
use tempfile::TempDir;

use super::FLASH;
use super::common::{exported, nets, relative_error, runtime};

#[derive(Clone, Copy, Debug)]
struct Case {
    batch: usize,
    queries: usize,
    keys: usize,
    heads: usize,
    head_dim: usize,
    scale: f32,
    /// Greatest magnitude of an input.
    magnitude: f32,
    seed: u64,
}

impl Case {
    fn width(self) -> usize {
        self.heads * self.head_dim
    }

    /// Query, key and value in f16's precision.
    fn inputs(self) -> [Vec<f32>; 3] {
        let mut state = self.seed | 1;
        let mut value = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let unit = (state >> 40) as f32 / (1 << 23) as f32 - 1.0;
            f16::from_f32(unit * self.magnitude).to_f32()
        };
        [self.queries, self.keys, self.keys]
            .map(|tokens| (0..self.batch * tokens * self.width()).map(|_| value()).collect())
    }

    fn graph(self, mut g: Builder<'_>) -> Graph {
        let [q, k, v] = [("q", self.queries), ("k", self.keys), ("v", self.keys)].map(|(name, tokens)| {
            let x = g.input(name, DataType::F32, &[self.batch, tokens, self.width()]);
            g.cast(&x, DataType::F16)
        });
        let y = g.attention(&q, &k, &v, AttentionSpec { heads: self.heads, scale: self.scale, bias: None });
        g.output("y", &y);
        g.finish("attention")
    }

    /// The definition.
    fn expected(self, [q, k, v]: &[Vec<f32>; 3]) -> Vec<f32> {
        let at = |x: &[f32], tokens: usize, batch: usize, token: usize, column: usize| {
            f64::from(x[(batch * tokens + token) * self.width() + column])
        };
        let mut out = Vec::with_capacity(q.len());
        for batch in 0..self.batch {
            for query in 0..self.queries {
                for head in 0..self.heads {
                    let columns = head * self.head_dim..(head + 1) * self.head_dim;
                    let scores: Vec<f64> = (0..self.keys)
                        .map(|key| {
                            let product =
                                |c| at(q, self.queries, batch, query, c) * at(k, self.keys, batch, key, c);
                            f64::from(self.scale) * columns.clone().map(product).sum::<f64>()
                        })
                        .collect();
                    let greatest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let weights: Vec<f64> = scores.iter().map(|score| (score - greatest).exp()).collect();
                    let sum: f64 = weights.iter().sum();
                    out.extend(columns.map(|c| {
                        let weighted = |(key, weight)| weight * at(v, self.keys, batch, key, c);
                        (weights.iter().enumerate().map(weighted).sum::<f64>() / sum) as f32
                    }));
                }
            }
        }
        out
    }
}

/// An engine, and weights to bind to graphs that have none.
struct Host {
    engine: Engine,
    weights: Weights,
    _bundle: (Bundle, TempDir),
}

impl Host {
    fn new() -> Self {
        let bundle = exported("tiny", false, &[]);
        let weights = nets::weights(&bundle.0, Net::Vae);
        Self { engine: Engine::with_lowering(runtime(), FLASH), weights, _bundle: bundle }
    }

    fn run(&self, case: Case, inputs: &[Vec<f32>; 3]) -> Vec<f32> {
        let mut graph = self.engine.compile(&self.weights, "", |g| case.graph(g)).unwrap();
        let tokens = [case.queries, case.keys, case.keys];
        let inputs: Vec<_> = inputs
            .iter()
            .zip(tokens)
            .map(|(x, tokens)| self.engine.upload(&[case.batch, tokens, case.width()], x.clone()).unwrap())
            .collect();
        let inputs: Vec<_> = inputs.iter().collect();
        let mut held = self.engine.hold(&self.weights, &Stage::of_one(graph.spec())).unwrap();
        let [y] = graph.run(&inputs, &mut held, "", &StopToken::default()).unwrap();
        self.engine.download(&y).unwrap().into_owned()
    }
}

fn cases() -> impl Strategy<Value = Case> {
    // Past the block sizes of the kernel in both directions, and around them.
    let queries = prop_oneof![1usize..20, 250usize..260, 1usize..600];
    let keys = prop_oneof![1usize..20, 508usize..516, 1usize..1100];
    let sizes = (1usize..3, queries, keys, 1usize..4, 1usize..20);
    (sizes, 0.01f32..2.0, 0.1f32..8.0, any::<u64>()).prop_map(
        |((batch, queries, keys, heads, head_dim), scale, magnitude, seed)| Case {
            batch,
            queries,
            keys,
            heads,
            head_dim,
            scale,
            magnitude,
            seed,
        },
    )
}

#[test]
fn the_kernel_computes_attention_whatever_the_shape_and_the_magnitude() {
    let host = Host::new();
    proptest!(ProptestConfig::with_cases(48), |(case in cases())| {
        let inputs = case.inputs();
        let error = relative_error(&host.run(case, &inputs), &case.expected(&inputs));
        // The result's rounding to f16 is 2e-4 of it in the mean square and 5e-4 at most; scores of up to two
        // thousand in f32 are exact to 2e-4, and so are their exponentials.
        prop_assert!(error < 6e-4, "relative error {error:.1e}");
    });
}

#[test]
fn one_key_is_returned_exactly() {
    let host = Host::new();
    let case =
        Case { batch: 2, queries: 3, keys: 1, heads: 2, head_dim: 5, scale: 1.0, magnitude: 100.0, seed: 7 };
    let inputs = case.inputs();
    let values = inputs[2].chunks(case.width()).flat_map(|row| row.repeat(case.queries)).collect::<Vec<_>>();
    assert_eq!(host.run(case, &inputs), values);
}

/// What would be computed wrongly is refused when the graph is compiled.
#[test]
fn attributes_that_would_mean_another_result_are_refused() {
    let host = Host::new();
    let case =
        Case { batch: 1, queries: 4, keys: 4, heads: 2, head_dim: 3, scale: 1.0, magnitude: 1.0, seed: 1 };
    let int = |value: i64| move |attribute: &mut AttributeProto| attribute.i = Some(value);
    type Change<'a> = &'a dyn Fn(&mut AttributeProto);
    let changes: [(&str, Change<'_>, &str); 6] = [
        ("num_heads", &int(0), "`num_heads` has to be given"),
        ("input_layout", &|a| a.s = Some(b"BNSD".to_vec()), "`input_layout` has to be `BSH` on the CPU"),
        ("pre_tokens", &int(0), "`pre_tokens` has to be 2147483647 on the CPU"),
        ("next_tokens", &int(5), "`next_tokens` has to be 2147483647 on the CPU"),
        ("num_key_value_heads", &int(1), "`num_key_value_heads` has to be 0 on the CPU"),
        ("sparse_mode", &int(3), "`sparse_mode` has to be 0 on the CPU"),
    ];
    for (name, change, expected) in changes {
        let changed = |g: Builder<'_>| {
            let mut graph = case.graph(g);
            let nodes = &mut graph.model.graph.as_mut().unwrap().node;
            let node = nodes.iter_mut().find(|node| node.op_type() == FLASH_ATTENTION).unwrap();
            change(node.attribute.iter_mut().find(|attribute| attribute.name() == name).unwrap());
            graph
        };
        match host.engine.compile(&host.weights, "", changed) {
            Err(EngineError::Compile { reason, .. }) => {
                assert!(reason.to_string().contains(expected), "{name}: {reason}");
            }
            other => panic!("{name}: {:?}", other.err()),
        }
    }
}
