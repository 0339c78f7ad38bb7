//! `cargo xtask prepush`: what must hold before a change is handed on.

use anyhow::Result;

use crate::cargo::{self, cargo};
use crate::report::Report;
use crate::{layers, tidy};

/// Runs the checks and prints their count.
///
/// # Errors
/// When one fails.
pub(crate) fn run() -> Result<()> {
    let mut report = Report::new();
    checks(&mut report);
    report.close()
}

/// The checks of [`run`], counted in `report`. The cheap ones come first.
pub(crate) fn checks(report: &mut Report) {
    report.check("format (cargo fmt)", || cargo::run(&mut cargo(["fmt", "--all", "--check"])));
    report.check("layers", layers::run);
    report.check("tidy", tidy::run);
    report.check("lints (cargo clippy)", || {
        cargo::run(&mut cargo(["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    });
    report.check("documentation (cargo doc)", || {
        let mut doc = cargo(["doc", "--quiet", "--workspace", "--no-deps", "--document-private-items"]);
        cargo::run(doc.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private-intra-doc-links"))
    });
}
