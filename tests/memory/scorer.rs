//! An ONNX model of the operator's that scores frames.

use std::path::Path;

use image::{Rgb, RgbImage};
use onnx_export::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto,
    TypeProto, ValueInfoProto, attribute_proto::AttributeType, tensor_proto, tensor_shape_proto, type_proto,
};
use prost::Message;
use storymem::engine::StopToken;
use storymem::pipeline::PipelineError;
use storymem::pipeline::memory::{ModelScorer, Quality, QualityGate};
use tempfile::TempDir;

use super::common::runtime;
use super::scenes::scene;

const FLOAT: i32 = tensor_proto::DataType::Float as i32;

/// What each colour's mean counts in the score: no two orders of the colours give the same.
const WEIGHTS: [f32; 3] = [1.0, 10.0, 100.0];

/// A model that scores by the mean of each colour: `pixels` to one number. Sizes that are `None` are left open.
fn model(shape: [Option<i64>; 4]) -> ModelProto {
    let ints = |name: &str, ints: Vec<i64>| AttributeProto {
        name: Some(name.into()),
        r#type: Some(AttributeType::Ints as i32),
        ints,
        ..Default::default()
    };
    let flat = AttributeProto {
        name: Some("keepdims".into()),
        r#type: Some(AttributeType::Int as i32),
        i: Some(0),
        ..Default::default()
    };
    let graph = GraphProto {
        name: Some("scorer".into()),
        node: vec![
            node("ReduceMean", &["pixels"], "means", vec![ints("axes", vec![2, 3]), flat]),
            node("MatMul", &["means", "weights"], "score", Vec::new()),
        ],
        initializer: vec![TensorProto {
            name: Some("weights".into()),
            dims: vec![3, 1],
            data_type: Some(FLOAT),
            float_data: WEIGHTS.to_vec(),
            ..Default::default()
        }],
        input: vec![port("pixels", FLOAT, &shape)],
        output: vec![port("score", FLOAT, &[shape[0], Some(1)])],
        ..Default::default()
    };
    let opset = OperatorSetIdProto { domain: Some(String::new()), version: Some(13) };
    ModelProto { ir_version: Some(8), opset_import: vec![opset], graph: Some(graph), ..Default::default() }
}

fn node(op: &str, inputs: &[&str], output: &str, attribute: Vec<AttributeProto>) -> NodeProto {
    NodeProto {
        name: Some(format!("make_{output}")),
        op_type: Some(op.into()),
        input: inputs.iter().map(|&input| input.into()).collect(),
        output: vec![output.into()],
        attribute,
        ..Default::default()
    }
}

fn port(name: &str, elem_type: i32, shape: &[Option<i64>]) -> ValueInfoProto {
    use tensor_shape_proto::{Dimension, dimension::Value};
    let dim = |(i, size): (usize, &Option<i64>)| Dimension {
        value: Some(size.map_or_else(|| Value::DimParam(format!("{name}_{i}")), Value::DimValue)),
        ..Default::default()
    };
    let shape = Some(TensorShapeProto { dim: shape.iter().enumerate().map(dim).collect() });
    let tensor = type_proto::Tensor { elem_type: Some(elem_type), shape };
    ValueInfoProto {
        name: Some(name.into()),
        r#type: Some(TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..Default::default() }),
        ..Default::default()
    }
}

/// Lets a model take images of another shape.
fn take(graph: &mut GraphProto, shape: &[Option<i64>]) {
    graph.input[0] = port("pixels", FLOAT, shape);
    graph.node = vec![node("ReduceMean", &["pixels"], "score", Vec::new())];
    graph.initializer.clear();
    graph.output = vec![port("score", FLOAT, &vec![Some(1); shape.len()])];
}

/// The gate that an operator names on the command line; and the folder its model lives in.
fn gate(model: &[u8]) -> (Result<Box<dyn QualityGate>, PipelineError>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("taste.onnx");
    std::fs::write(&path, model).unwrap();
    let quality: Quality = path.to_str().unwrap().parse().unwrap();
    (quality.open(&runtime(), 1.5), folder)
}

#[test]
fn a_model_is_shown_rgb_from_0_to_1_in_its_own_size() {
    let frame = scene(3);
    let mean = |c: usize| {
        let sum: u64 = frame.pixels().map(|pixel| u64::from(pixel[c])).sum();
        sum as f64 / f64::from(frame.width() * frame.height()) / 255.0
    };
    let expected: f64 = (0..3).map(|c| mean(c) * f64::from(WEIGHTS[c])).sum();
    for (shape, tolerance) in [
        // The model adds 200,000 numbers in f32.
        ([Some(1), Some(3), None, None], 0.01),
        ([None, Some(3), None, None], 0.01),
        // A smaller frame has nearly the same mean.
        ([Some(1), Some(3), Some(64), Some(48)], 0.5),
        ([Some(1), Some(3), None, Some(700)], 0.5),
    ] {
        let (gate, _folder) = gate(&model(shape).encode_to_vec());
        let mut gate = gate.unwrap();
        assert_eq!((gate.name(), gate.good_from()), ("model", 1.5));
        let score = gate.score(&frame, &StopToken::default()).unwrap();
        assert!((score - expected).abs() <= tolerance, "{shape:?}: {score}, not {expected}");
        // It is asked again and again.
        assert_eq!(gate.score(&frame, &StopToken::default()).unwrap(), score);
        let white = RgbImage::from_pixel(588, 336, Rgb([255; 3]));
        let score = gate.score(&white, &StopToken::default()).unwrap();
        assert!((score - 111.0).abs() <= 1e-3, "{score}");
    }
}

#[test]
fn models_that_take_or_give_something_else_are_refused() {
    type Change = fn(&mut GraphProto);
    let open = [None, Some(3), None, None];
    let cases: [(&str, Change, &str); 7] = [
        ("two inputs", |g| g.input.push(port("prompt", FLOAT, &[None])), "it has 2 inputs and 1 outputs"),
        (
            "two outputs",
            |g| g.output.push(port("means", FLOAT, &[None, Some(3)])),
            "it has 1 inputs and 2 outputs",
        ),
        ("one colour", |g| take(g, &[None, Some(1), None, None]), "its input is"),
        ("batches", |g| take(g, &[Some(8), Some(3), None, None]), "its input is"),
        ("a matrix", |g| take(g, &[None, Some(3)]), "its input is"),
        (
            "bytes",
            |g| {
                let byte = tensor_proto::DataType::Uint8 as i32;
                g.input[0] = port("bytes", byte, &[Some(1), Some(3), None, None]);
                let cast = AttributeProto {
                    name: Some("to".into()),
                    r#type: Some(AttributeType::Int as i32),
                    i: Some(FLOAT.into()),
                    ..Default::default()
                };
                g.node.insert(0, node("Cast", &["bytes"], "pixels", vec![cast]));
            },
            "its input is",
        ),
        ("an operator of its own", |g| g.node[1].op_type = Some("Taste".into()), "Taste"),
    ];
    for (what, change, says) in cases {
        let mut model = model(open);
        change(model.graph.as_mut().unwrap());
        refused(what, &model.encode_to_vec(), says);
    }
    refused("another file", b"a PyTorch checkpoint", "");
    refused("an empty file", b"", "");
    let missing = ModelScorer::open(&runtime(), Path::new("nowhere.onnx"), 0.0).err().unwrap().to_string();
    assert!(missing.contains("nowhere.onnx"), "{missing}");
}

fn refused(what: &str, model: &[u8], says: &str) {
    let (gate, folder) = gate(model);
    let message = gate.err().unwrap_or_else(|| panic!("{what} must be refused")).to_string();
    let path = folder.path().join("taste.onnx").display().to_string();
    assert!(message.contains(&path) && message.contains(says), "{what}: {message}");
}

#[test]
fn a_model_that_gives_several_numbers_is_found_out_when_it_runs() {
    let mut several = model([None, Some(3), None, None]);
    let graph = several.graph.as_mut().unwrap();
    graph.node.truncate(1);
    graph.output = vec![port("means", FLOAT, &[None, None])];
    let (gate, _folder) = gate(&several.encode_to_vec());
    let error = gate.unwrap().score(&scene(1), &StopToken::default()).unwrap_err().to_string();
    assert!(error.contains("it gave 3 numbers for one image"), "{error}");
}

#[test]
fn a_stopped_model_ends() {
    let (gate, _folder) = gate(&model([None, Some(3), None, None]).encode_to_vec());
    let stop = StopToken::default();
    stop.stop();
    assert!(matches!(gate.unwrap().score(&scene(1), &stop), Err(PipelineError::Stopped)));
}
