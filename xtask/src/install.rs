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

/// Files of the workspace that are installed as they are, and where.
const FILES: [(&str, &str); 2] = [
    ("include/glassnic.h", "include/glassnic.h"),
    ("wireshark/glassnic.lua", "share/glassnic/wireshark/glassnic.lua"),
];

/// Builds in release mode and installs below `prefix`: `bin/glassnic`, `lib/glassnic/`, `share/man/man1/`, and [`FILES`].
///
/// # Errors
/// When the build fails or a file cannot be written.
pub(crate) fn run(prefix: &Path) -> Result<()> {
    let built = cargo::build_release()?;
    let prefix = std::path::absolute(prefix).context("bad prefix")?;
    let (bin, lib, man) = (prefix.join("bin"), prefix.join("lib/glassnic"), prefix.join("share/man/man1"));
    fs::create_dir_all(&man).with_context(|| format!("cannot make {}", man.display()))?;
    place(&built.join("glassnic"), &bin.join("glassnic"), 0o755)?;
    for (file, installed) in FILES {
        place(&cargo::root().join(file), &prefix.join(installed), 0o644)?;
    }
    for (file, runtime, development) in LIBRARIES {
        place(&built.join(file), &lib.join(runtime), 0o755)?;
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

/// Copies a file in one step, so that a program that runs from the old one is not disturbed. Makes its folder.
fn place(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let new = to.with_extension("new");
    let copy = || {
        to.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::copy(from, &new)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(mode))?;
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
