//! What is tested: an installation of this tree, in a folder that every user can read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder that this tree was installed below (`bin/glassnic`, `lib/glassnic/`).
///
/// The first call builds and installs, so that no test runs an old build. `GLASSNIC_E2E_PREFIX` names
/// an installation to test instead.
///
/// # Panics
/// When the tree does not build or install.
pub fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| match std::env::var_os("GLASSNIC_E2E_PREFIX") {
        Some(prefix) => PathBuf::from(prefix),
        None => install(),
    })
}

/// The `glassnic` command of [`prefix`].
pub fn glassnic() -> PathBuf {
    prefix().join("bin/glassnic")
}

/// The root of the workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or_else(|| Path::new("."))
}

/// A folder of this process for files that other users and namespaces read too. Folders of test
/// processes that are no more are removed.
///
/// # Panics
/// When it cannot be made.
pub fn scratch() -> &'static Path {
    static SCRATCH: OnceLock<PathBuf> = OnceLock::new();
    SCRATCH.get_or_init(|| {
        remove_stale(&std::env::temp_dir());
        let dir = std::env::temp_dir().join(format!("{SCRATCH_PREFIX}{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap_or_else(|error| panic!("cannot make {}: {error}", dir.display()));
        dir
    })
}

const SCRATCH_PREFIX: &str = "glassnic-e2e.";

fn remove_stale(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(SCRATCH_PREFIX));
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Another test process may be removing the same folder.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn install() -> PathBuf {
    let prefix = scratch().join("prefix");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--package", "xtask", "--", "install", "--prefix"]).arg(&prefix);
    let output = command.current_dir(workspace()).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run cargo: {error}"));
    assert!(
        output.status.success(),
        "cargo xtask install failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    prefix
}
