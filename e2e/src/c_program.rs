//! Small C programs, compiled against the headers and libraries that the system has.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::product;

/// Compiles `c/<name>.c` and returns the program.
///
/// # Panics
/// When it does not compile.
pub fn compile(name: &str) -> PathBuf {
    compile_with(&own(name), &[])
}

/// As [`compile`], of a program that uses `glassnic.h`: with the header and the library that are installed.
///
/// # Panics
/// As [`compile`].
pub fn compile_with_extensions(name: &str) -> PathBuf {
    let path = |folder: &str| product::prefix().join(folder).display().to_string();
    compile_with(&own(name), &["-I".into(), path("include"), "-L".into(), path("lib/glassnic")])
}

fn own(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("c").join(format!("{name}.c"))
}

/// Compiles a program, which is linked with the system's libibverbs, as any program that somebody else built.
///
/// # Panics
/// When it does not compile.
pub fn compile_at(source: &Path) -> PathBuf {
    compile_with(source, &[])
}

fn compile_with(source: &Path, more: &[String]) -> PathBuf {
    let program = product::scratch().join(source.file_stem().unwrap_or_default());
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o"]);
    let output = compiler.arg(&program).arg(source).args(more).arg("-libverbs").output();
    let output = output.unwrap_or_else(|error| panic!("cannot run cc (package gcc): {error}"));
    assert!(
        output.status.success(),
        "{} does not compile (package libibverbs-dev):\n{}",
        source.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    program
}
