//! That CANN's front end would take every graph, as far as can be told without it.

use std::collections::BTreeSet;

use onnx_export::bundle::{BundleVariant, Dtype, Manifest, shot_graphs};
use onnx_export::graph::cann::{
    Attention, FLASH_ATTENTION, OPSET, Precision, Problem, is_registered, provider_report,
};
use onnx_export::graph::{AttentionSpec, Builder, CannLowering, CpuLowering, DataType, Graph};
use onnx_export::models::wan::LatentGrid;
use onnx_export::proto::{GraphProto, OperatorSetIdProto, tensor_shape_proto::dimension};

use super::common::{TREES, clip_folder, exported};
use super::{CHUNKED, EXACT, FLASH};

const SMALL: LatentGrid = LatentGrid { frames: 3, height: 6, width: 4 };
/// 832x480, 81 frames, three memory frames.
const FULL: LatentGrid = LatentGrid { frames: 3 + 21, height: 60, width: 104 };

fn manifest(tree: &str, dtype: Dtype) -> Manifest {
    let (bundle, _folder) = exported(tree, false, &["--clip", &clip_folder(tree)]);
    Manifest { dtype, ..bundle.manifest().clone() }
}

/// Wan2.2-I2V-A14B and CLIP ViT-B/32.
fn full_size(dtype: Dtype) -> Manifest {
    Manifest::a14b(BundleVariant::Mi2v, dtype)
}

fn proto(graph: &Graph) -> &GraphProto {
    graph.model.graph.as_ref().unwrap()
}

fn count(graph: &Graph, operator: &str) -> usize {
    proto(graph).node.iter().filter(|node| node.op_type() == operator).count()
}

#[test]
fn cann_would_take_every_graph_of_every_lowering_bundle_and_size() {
    let by_memory = CannLowering { attention: Attention::Chunked { queries: usize::MAX }, ..FLASH };
    for name in ["A14B"].into_iter().chain(TREES) {
        let grid = if name == "A14B" { FULL } else { SMALL };
        for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32] {
            let manifest = if name == "A14B" { full_size(dtype) } else { manifest(name, dtype) };
            for lowering in [FLASH, CHUNKED, EXACT, by_memory] {
                // Chunks of 7 of 37,440 queries would be no graph to compile.
                let lowering = match lowering.attention {
                    Attention::Chunked { .. } if name == "A14B" => {
                        CannLowering { attention: by_memory.attention, ..lowering }
                    }
                    _ => lowering,
                };
                for graph in shot_graphs(&manifest, &lowering, grid) {
                    let what = format!("{name} {} {lowering} {}", dtype.name(), graph.name);
                    assert_eq!(provider_report(&graph), [], "{what}");
                    let imports: Vec<_> =
                        graph.model.opset_import.iter().map(|set| (set.domain(), set.version())).collect();
                    assert_eq!(imports, [("", OPSET)], "{what}");
                    assert!(
                        proto(&graph).node.iter().all(|node| is_registered(node.op_type(), 16)),
                        "{what}"
                    );
                    // Weights are inputs; what is inside are tables and shapes, the largest the text encoder's buckets.
                    let bytes = graph.to_bytes().len();
                    assert!(bytes < 4 << 20, "{what}: {bytes} bytes");
                }
            }
        }
    }
}

#[test]
fn flash_attention_is_used_where_it_can_be() {
    let uses = |manifest: &Manifest, lowering: CannLowering| -> Vec<(String, usize)> {
        let used =
            |graph: Graph| Some((graph.name.clone(), count(&graph, FLASH_ATTENTION))).filter(|(_, n)| *n > 0);
        shot_graphs(manifest, &lowering, FULL).into_iter().filter_map(used).collect()
    };
    let f16 = full_size(Dtype::F16);
    assert_eq!(uses(&f16, FLASH), [("wan_block".to_owned(), 2)]);
    assert_eq!(uses(&f16, CannLowering { precision: Precision::F32, ..FLASH }), []);
    assert_eq!(uses(&f16, CannLowering { attention: Attention::Chunked { queries: 1024 }, ..FLASH }), []);
    assert_eq!(uses(&full_size(Dtype::Bf16), FLASH), []);
}

#[test]
fn flash_attention_has_the_attributes_cann_wants_and_keeps_within_its_limits() {
    let attention = |width: usize, heads: usize| {
        let mut g = Builder::new(&FLASH, &|_| DataType::F16);
        let [q, k, v] = ["q", "k", "v"].map(|name| g.input(name, DataType::F16, &[1, 32, width]));
        let y = g.attention(&q, &k, &v, AttentionSpec { heads, scale: 0.125, bias: None });
        g.output("y", &y);
        g.finish("attention")
    };
    let graph = attention(128, 2);
    let node = proto(&graph).node.iter().find(|node| node.op_type() == FLASH_ATTENTION).unwrap();
    let attributes: BTreeSet<String> = node
        .attribute
        .iter()
        .map(|a| match (a.i, a.f, &a.s) {
            (Some(i), ..) => format!("{}={i}", a.name()),
            (_, Some(f), _) => format!("{}={f}", a.name()),
            (.., text) => format!("{}={}", a.name(), String::from_utf8_lossy(text.as_ref().unwrap())),
        })
        .collect();
    let expected = [
        "inner_precise=0",
        "input_layout=BSH",
        "next_tokens=2147483647",
        "num_heads=2",
        "num_key_value_heads=0",
        "pre_tokens=2147483647",
        "scale_value=0.125",
        "sparse_mode=0",
    ];
    assert_eq!(attributes, expected.map(str::to_owned).into());
    for (width, heads) in [(257, 257), (513, 1), (65_535, 255)] {
        assert_eq!(count(&attention(width, heads), FLASH_ATTENTION), 0, "{width} wide, {heads} heads");
    }
    for (width, heads) in [(256, 256), (512, 1), (65_534, 254)] {
        assert_eq!(count(&attention(width, heads), FLASH_ATTENTION), 1, "{width} wide, {heads} heads");
    }
}

#[test]
fn scores_of_a_chunk_stay_within_a_gibibyte() {
    let manifest = full_size(Dtype::F16);
    let lowering = CannLowering { attention: Attention::Chunked { queries: usize::MAX }, ..FLASH };
    let block =
        shot_graphs(&manifest, &lowering, FULL).into_iter().find(|graph| graph.name == "wan_block").unwrap();
    // A tenth of the tokens at a time. Self-attention: 40 heads, 24 * 30 * 52 keys, chunks of 176 queries; cross-attention
    // over 512 keys.
    assert_eq!(count(&block, "Softmax"), 3744usize.div_ceil(176) + 1);
}

#[test]
fn the_cpus_graphs_would_be_refused() {
    let manifest = manifest("tiny", Dtype::F32);
    for graph in shot_graphs(&manifest, &CpuLowering, SMALL) {
        let problems = provider_report(&graph);
        assert!(problems.contains(&Problem::Domain("com.microsoft".into())), "{}", graph.name);
        let unknown = |problem: &Problem| matches!(problem, Problem::Operator { opset: 23, .. });
        assert!(problems.iter().any(unknown), "{}", graph.name);
    }
}

/// Spoils a graph that has everything in one way after the other.
#[test]
fn every_kind_of_problem_is_found() {
    let sound = || {
        let mut g = Builder::new(&FLASH, &|name| match name {
            "half" => DataType::F16,
            _ => DataType::F32,
        });
        let x = g.input("x", DataType::F32, &[1, 4, 3, 6, 6]);
        let (weight, bias) = (g.weight("weight", &[4, 4, 1, 3, 3]), g.weight("bias", &[4]));
        let spec = onnx_export::graph::ConvSpec { strides: &[1, 1, 1], pads: &[0; 6] };
        let y = g.conv(&x, &weight, &bias, spec);
        let y = g.reshape(&y, &[48, 4]);
        let half = g.weight("half", &[4, 4]);
        let y = g.linear(&y, &half, None);
        let y = g.reshape(&y, &[1, 48, 4]);
        let y = g.attention(&y, &y, &y, AttentionSpec { heads: 2, scale: 1.0, bias: None });
        g.output("y", &y);
        g.finish("sound")
    };
    assert_eq!(provider_report(&sound()), []);

    fn node<'a>(graph: &'a mut GraphProto, operator: &str) -> &'a mut onnx_export::proto::NodeProto {
        graph.node.iter_mut().find(|node| node.op_type() == operator).unwrap()
    }
    let spoiled = |spoil: &dyn Fn(&mut GraphProto)| {
        let mut graph = sound();
        spoil(graph.model.graph.as_mut().unwrap());
        provider_report(&graph).into_iter().map(|problem| problem.to_string()).collect::<Vec<_>>()
    };
    let remove = |operator: &'static str, attribute: &'static str| {
        move |graph: &mut GraphProto| node(graph, operator).attribute.retain(|a| a.name() != attribute)
    };
    type Spoil<'a> = &'a dyn Fn(&mut GraphProto);
    let spoils: [(Spoil<'_>, &str); 12] = [
        (
            &|g| node(g, "Gemm").op_type = Some("Gelu".into()),
            "node `Gemm_5`: `Gelu` is not known to CANN at opset 16",
        ),
        (&|g| node(g, "Gemm").domain = Some("com.microsoft".into()), "domain `com.microsoft` is dropped"),
        (&remove("Conv", "dilations"), "node `Conv_1`: attribute `dilations` is missing"),
        (&remove("Conv", "kernel_shape"), "node `Conv_1`: attribute `kernel_shape` is missing"),
        (&remove(FLASH_ATTENTION, "next_tokens"), "attribute `next_tokens` is missing"),
        (&|g| node(g, "Reshape").input[1] = "x".into(), "the shape of `Reshape_3` is not static"),
        (
            &|g| {
                use onnx_export::proto::type_proto::Value::TensorType;
                let Some(TensorType(x)) = g.input[0].r#type.as_mut().unwrap().value.as_mut() else {
                    panic!()
                };
                let dims = &mut x.shape.as_mut().unwrap().dim;
                dims[0].value = Some(dimension::Value::DimParam("batch".into()));
            },
            "the shape of `x` is not static",
        ),
        (&|g| set_type(g, "half", 1), "node `Gemm_5`: its inputs are of different types"),
        (
            &|g| ["x", "weight", "bias"].iter().for_each(|name| set_type(g, name, 16)),
            "node `Conv_1`: `Conv` does not take bf16",
        ),
        (
            &|g| {
                set_type(g, "half", 1);
                g.node.retain(|node| node.op_type() != "Cast");
                let (conv, gemm) = (node(g, "Reshape").output[0].clone(), node(g, "Gemm"));
                gemm.input[0] = conv;
            },
            "`NPUPromptFlashAttention` does not take f32",
        ),
        (&|g| node(g, "Gemm").name = Some("Conv_1".into()), "node name `Conv_1` is not unique"),
        (&|g| node(g, "Conv").name = None, "node name `` is not unique"),
    ];
    for (spoil, expected) in spoils {
        let found = spoiled(spoil);
        assert!(found.iter().any(|problem| problem.contains(expected)), "{expected}: {found:#?}");
    }

    let mut imports_more = sound();
    let domain = Some("npu".into());
    imports_more.model.opset_import.push(OperatorSetIdProto { domain, version: Some(1) });
    assert_eq!(provider_report(&imports_more), [Problem::Domain("npu".into())]);
    let mut imports_nothing = sound();
    imports_nothing.model.opset_import.clear();
    assert_eq!(provider_report(&imports_nothing), [Problem::Imports(0)]);
}

fn set_type(graph: &mut GraphProto, input: &str, dtype: i32) {
    use onnx_export::proto::type_proto::Value::TensorType;
    let port = graph.input.iter_mut().find(|port| port.name() == input).unwrap();
    let Some(TensorType(tensor)) = port.r#type.as_mut().unwrap().value.as_mut() else { panic!() };
    tensor.elem_type = Some(dtype);
}

#[test]
fn an_operator_is_known_at_the_opsets_it_is_registered_for_and_no_others() {
    for (operator, known, unknown) in [
        ("Add", [8, 16, 18], [7, 19, 23]),
        (FLASH_ATTENTION, [11, 16, 19], [10, 17, 18]),
        ("LayerNormalization", [17, 18, 18], [16, 19, 20]),
        ("ReduceL2", [8, 13, 17], [7, 18, 19]),
    ] {
        assert!(known.iter().all(|&opset| is_registered(operator, opset)), "{operator}");
        assert!(unknown.iter().all(|&opset| !is_registered(operator, opset)), "{operator}");
    }
    assert!(!is_registered("Gelu", OPSET) && !is_registered("Attention", OPSET));
}
