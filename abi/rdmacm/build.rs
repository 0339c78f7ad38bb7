//! Makes the version nodes and the trampolines of `symbols.txt`, and tells the linker the name of the library.

#[path = "../ibverbs/build/table.rs"]
mod table;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=../ibverbs/build/table.rs");
    table::build("librdmacm.so.1")
}
