//! `cargo xtask test`: everything that CI asks.

use anyhow::Result;

use crate::cargo::{self, cargo};
use crate::report::Report;
use crate::{packages, prepush};

/// Installs what is missing, then runs all checks and tests; a failure does not stop the rest.
///
/// # Errors
/// When a needed program cannot be installed, or anything failed.
pub(crate) fn run() -> Result<()> {
    let mut report = Report::new();
    println!("programs that the tests need");
    packages::ensure(packages::TEST)?;
    prepush::checks(&mut report);
    report.check("release build of the libraries and the command", || cargo::build_release().map(drop));
    let units = ["test", "--quiet", "--workspace", "--exclude", "glassnic-e2e", "--no-fail-fast"];
    report.tests("unit, protocol and ABI tests", &mut cargo(units));
    report.tests("what is shared without a lock, under loom", &mut loom()?);
    // One at a time: two programs that poll are all that a small machine bears.
    let real = ["test", "--package", "glassnic-e2e", "--no-fail-fast", "--", "--test-threads=1"];
    report.tests("real programs, as two users would start them", &mut cargo(real));
    report.close()
}

/// The tests with loom's atomics, of the rings and of what the device shares with threads and inspectors. They live in a
/// target folder of their own, as the flag rebuilds every dependency.
fn loom() -> Result<std::process::Command> {
    let packages = ["--package", "glassnic-ring", "--package", "glassnic-nic"];
    let mut command = cargo(["test", "--quiet", "--release", "--lib"]);
    // Others of their tests use the same atomics outside of a model, which loom does not have.
    command.args(packages).arg("loom_tests");
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", cargo::target_dir()?.join("loom"));
    Ok(command)
}
