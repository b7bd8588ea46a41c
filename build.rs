//! Tells cargo that the program holds the migrations: a new file among them is no change of a source file.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
