//! `cargo xtask install --prefix P`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use anyhow::{Context, Result};

use crate::cargo;

/// File as cargo names it, file as the loader looks for it, name as the linker looks for it.
const LIBRARIES: [(&str, &str, &str); 2] = [
    ("libibverbs.so", "libibverbs.so.1", "libibverbs.so"),
    ("librdmacm.so", "librdmacm.so.1", "librdmacm.so"),
];

/// Builds in release mode and installs below `prefix`: `bin/glassnic`, `lib/glassnic/`, `include/glassnic.h`, `share/man/man1/`.
///
/// # Errors
/// When the build fails or a file cannot be written.
pub(crate) fn run(prefix: &Path) -> Result<()> {
    let built = cargo::build_release()?;
    let prefix = std::path::absolute(prefix).context("bad prefix")?;
    let (bin, lib, man) = (prefix.join("bin"), prefix.join("lib/glassnic"), prefix.join("share/man/man1"));
    let include = prefix.join("include");
    for folder in [&bin, &lib, &man, &include] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    place(&built.join("glassnic"), &bin.join("glassnic"))?;
    place(&cargo::root().join("include/glassnic.h"), &include.join("glassnic.h"))?;
    for (file, runtime, development) in LIBRARIES {
        place(&built.join(file), &lib.join(runtime))?;
        link(runtime, &lib.join(development))?;
    }
    cargo::run(std::process::Command::new(bin.join("glassnic")).arg("man").arg(&man))?;
    println!(
        "installed below {}; try: {} run -- ibv_devinfo",
        prefix.display(),
        bin.join("glassnic").display()
    );
    Ok(())
}

/// Copies a file in one step, so that a program that runs from the old one is not disturbed.
fn place(from: &Path, to: &Path) -> Result<()> {
    let new = to.with_extension("new");
    let copy = || {
        fs::copy(from, &new)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755))?;
        fs::rename(&new, to)
    };
    copy().with_context(|| format!("cannot install {} as {}", from.display(), to.display()))
}

fn link(target: &str, path: &Path) -> Result<()> {
    if path.symlink_metadata().is_ok() {
        fs::remove_file(path).with_context(|| format!("cannot replace {}", path.display()))?;
    }
    symlink(target, path).with_context(|| format!("cannot make the link {}", path.display()))
}
