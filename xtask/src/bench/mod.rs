//! `cargo xtask bench`: the measurements.

use anyhow::{Result, bail};

/// Runs the benchmark.
///
/// # Errors
/// Always: this tree has no benchmark yet.
pub(crate) fn run(_args: &[String]) -> Result<()> {
    bail!("this version of the tree has no benchmark")
}
