//! Cargo and other programs, run from the workspace root.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The folder that holds the workspace's `Cargo.toml`.
pub(crate) fn root() -> &'static Path {
    // xtask lies directly below the root.
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or_else(|| Path::new("."))
}

/// A `cargo` command in the workspace root, with the toolchain that runs this program.
pub(crate) fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    // `cargo run` sets these for xtask's own package; a build script must not see them.
    for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION"] {
        command.env_remove(name);
    }
    command
}

/// What `cargo metadata` says of the workspace and, with `with_dependencies`, of all it depends on.
///
/// # Errors
/// When cargo cannot be run, fails, or prints something else than JSON.
pub(crate) fn metadata(with_dependencies: bool) -> Result<Value> {
    let mut command = cargo(["metadata", "--format-version=1"]);
    if !with_dependencies {
        command.arg("--no-deps");
    }
    let output = command.output().context("cannot run cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")
}

/// Where cargo puts what it builds.
///
/// # Errors
/// As [`metadata`].
pub(crate) fn target_dir() -> Result<PathBuf> {
    let metadata = metadata(false)?;
    let dir = metadata["target_directory"].as_str().context("cargo metadata names no target directory")?;
    Ok(PathBuf::from(dir))
}

/// Builds the libraries and the command in release mode; returns the folder that holds them.
///
/// # Errors
/// When the build fails.
pub(crate) fn build_release() -> Result<PathBuf> {
    let packages = ["-p", "glassnic-ibverbs", "-p", "glassnic-rdmacm", "-p", "glassnic-cli"];
    run(cargo(["build", "--release", "--quiet"]).args(packages))?;
    Ok(target_dir()?.join("release"))
}

/// Runs a command to its end with this program's own input and output.
///
/// # Errors
/// When it cannot be started or does not end with status 0.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = line(command);
    let status = command.status().with_context(|| format!("cannot run `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// The command as one would type it.
pub(crate) fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
