//! The committed ONNX types are what the definition gives.

#[test]
fn the_committed_types_are_generated_from_the_definition() {
    let crate_dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let definition =
        protox::compile([crate_dir.join("proto/onnx.proto")], [crate_dir.join("proto")]).unwrap();
    let out = tempfile::tempdir().unwrap();
    prost_build::Config::new().out_dir(out.path()).compile_fds(definition).unwrap();
    let generated = std::fs::read_to_string(out.path().join("onnx.rs")).unwrap();
    let committed = std::fs::read_to_string(crate_dir.join("src/proto.rs")).unwrap();
    assert!(
        generated == committed,
        "src/proto.rs is stale; run `cargo run -p onnx-export --example regenerate-proto`"
    );
}
