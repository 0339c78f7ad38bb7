//! `cargo xtask demo`: from a fresh checkout to two programs that talk.

use std::process::Command;

use anyhow::Result;

use crate::{cargo, packages};

/// Installs the stock programs if they are missing, builds, and runs `glassnic demo`.
///
/// # Errors
/// When the programs cannot be installed, the build fails, or the demo does.
pub(crate) fn run() -> Result<()> {
    packages::ensure(packages::DEMO)?;
    println!("building (about a minute the first time)");
    let built = cargo::build_release()?;
    cargo::run(Command::new(built.join("glassnic")).arg("demo"))
}
