//! Writes `src/proto.rs` anew from `proto/onnx.proto`; run it after the definition changes.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let crate_dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let definition = protox::compile([crate_dir.join("proto/onnx.proto")], [crate_dir.join("proto")])?;
    let out = std::env::args().nth(1).map_or_else(|| crate_dir.join("src"), Into::into);
    // Packages become file names: `onnx` gives `onnx.rs`.
    prost_build::Config::new().out_dir(&out).compile_fds(definition)?;
    std::fs::rename(out.join("onnx.rs"), out.join("proto.rs"))?;
    Ok(())
}
