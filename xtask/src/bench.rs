//! `cargo xtask bench`: builds the benchmark and runs it.

use std::process::Command;

use anyhow::Result;

use crate::cargo::{self, cargo};
use crate::packages;

/// Runs the benchmark with `args`, in release mode. Standard output is the benchmark's own.
///
/// # Errors
/// When it cannot be built, or fails.
pub(crate) fn run(args: &[String]) -> Result<()> {
    if args.iter().any(|arg| arg == "control") {
        // It measures the libraries through the C interface.
        cargo::build_release()?;
    }
    let compares =
        !args.iter().any(|arg| matches!(arg.as_str(), "--no-others" | "--help" | "-h" | "control"));
    if compares && let Err(error) = packages::ensure(packages::BENCH) {
        // What is missing then is a row of the table, which says so too.
        eprintln!("{error:#}");
    }
    cargo::run(&mut cargo(["build", "--release", "--quiet", "--package", "glassnic-bench"]))?;
    cargo::run(Command::new(cargo::target_dir()?.join("release/glassnic-bench")).args(args))
}
