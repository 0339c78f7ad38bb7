//! Debian packages that the demo and the tests need beside Rust.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The stock programs of the demo.
pub(crate) const DEMO: &[&str] = &["ibverbs-utils"];

/// Stock programs, headers and network tools of the tests. The guest with Linux's own soft-RoCE
/// installs what only it needs.
pub(crate) const TEST: &[&str] = &[
    "binutils",
    "gcc",
    "ibverbs-utils",
    "iproute2",
    "libc6-dev",
    "libibverbs-dev",
    "librdmacm-dev",
    "perftest",
    "procps",
    "qemu-system-x86",
    "rdma-core",
    "rdmacm-utils",
    "tcpdump",
    "tshark",
    "ucx-utils",
    "util-linux",
];

/// rdma-core's tests, and the programs that they run.
pub(crate) const CONFORMANCE: &[&str] = &["iproute2", "python3", "python3-pyverbs"];

/// Programs of other projects that the benchmark runs for comparison.
pub(crate) const BENCH: &[&str] = &["libfabric-bin", "ucx-utils"];

/// Installs those of `wanted` that are missing.
///
/// # Errors
/// When something is missing and cannot be installed; the error names the command to run by hand.
pub(crate) fn ensure(wanted: &[&str]) -> Result<()> {
    let missing: Vec<&str> = wanted.iter().copied().filter(|package| !is_installed(package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let by_hand = format!("apt-get install --no-install-recommends {}", missing.join(" "));
    if !Path::new("/usr/bin/apt-get").exists() {
        bail!(
            "these programs are needed, and there is no apt-get to install them: {}\n\
             Install your system's packages of the same purpose.",
            missing.join(" ")
        );
    }
    let Some(prefix) = root_prefix() else {
        bail!("these packages are missing; run this as root, then try again:\n    {by_hand}");
    };
    eprintln!("installing {}", missing.join(" "));
    apt(prefix, &["update", "-qq"], &[]).with_context(|| format!("run by hand: {by_hand}"))?;
    apt(prefix, &["install", "-y", "-qq", "--no-install-recommends"], &missing)
        .with_context(|| format!("run by hand: {by_hand}"))
}

/// The words before `apt-get` that make it run as root, or `None` where that is not possible
/// without asking for a password.
fn root_prefix() -> Option<&'static [&'static str]> {
    let own_id = Command::new("id").arg("-u").output().ok()?;
    if own_id.stdout.trim_ascii() == b"0" {
        return Some(&["env"]);
    }
    let sudo = Command::new("sudo").args(["-n", "true"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    sudo.is_ok_and(|status| status.success()).then_some(&["sudo", "-n", "env"])
}

fn apt(prefix: &[&str], words: &[&str], packages: &[&str]) -> Result<()> {
    let mut command = Command::new(prefix[0]);
    command.args(&prefix[1..]).args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]).args(words).args(packages);
    // The output of a good run is of no interest; that of a bad one is all there is to go by.
    let output = command.stdin(Stdio::null()).output().context("cannot run apt-get")?;
    if !output.status.success() {
        let text = [output.stdout, output.stderr].concat();
        bail!("apt-get failed:\n{}", String::from_utf8_lossy(&text));
    }
    Ok(())
}

fn is_installed(package: &str) -> bool {
    let query = Command::new("dpkg-query").args(["-W", "-f", "${db:Status-Status}", package]).output();
    query.is_ok_and(|output| output.stdout == b"installed")
}
