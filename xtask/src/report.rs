//! Counts of what passed and failed, and the steps that they come from.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::cargo;

/// The running total of a whole run.
pub(crate) struct Report {
    started: Instant,
    passed: u64,
    failed: u64,
    failures: Vec<String>,
}

impl Report {
    /// An empty report; the clock starts.
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), passed: 0, failed: 0, failures: Vec::new() }
    }

    /// Runs a check that passes or fails as a whole.
    pub(crate) fn check(&mut self, name: &str, check: impl FnOnce() -> Result<()>) {
        self.announce(name);
        match check() {
            Ok(()) => self.passed += 1,
            Err(error) => self.fail(name, &format!("{error:#}")),
        }
    }

    /// Runs a `cargo test` command, shows its output as it comes and counts its tests.
    pub(crate) fn tests(&mut self, name: &str, command: &mut Command) {
        self.announce(name);
        match stream(command) {
            Ok(counts) => {
                self.passed += counts.passed;
                self.failed += counts.failed;
                if counts.failed > 0 {
                    self.failures.push(format!("{name}: {} failed", counts.failed));
                }
                // A test binary that crashed or did not compile has no result line of its own.
                if !counts.success && counts.failed == 0 {
                    self.fail(
                        name,
                        &format!("`{}` failed before its tests had a result", cargo::line(command)),
                    );
                }
                if counts.success && counts.passed == 0 {
                    self.fail(name, "ran no test");
                }
            }
            Err(error) => self.fail(name, &format!("{error:#}")),
        }
    }

    /// Prints what failed, then the plain closing line.
    ///
    /// # Errors
    /// When anything failed.
    pub(crate) fn close(self) -> Result<()> {
        println!("\n[{}] done", self.clock());
        for failure in &self.failures {
            println!("FAILED {failure}");
        }
        println!("{} passed, {} failed", self.passed, self.failed);
        if self.failed > 0 {
            bail!("{} failed", self.failed);
        }
        Ok(())
    }

    fn announce(&self, name: &str) {
        println!("[{}] {name}", self.clock());
    }

    fn fail(&mut self, name: &str, why: &str) {
        println!("FAILED {name}: {why}");
        self.failed += 1;
        self.failures.push(name.to_owned());
    }

    fn clock(&self) -> String {
        let seconds = self.started.elapsed().as_secs();
        format!("{:02}:{:02}", seconds / 60, seconds % 60)
    }
}

struct Counts {
    passed: u64,
    failed: u64,
    success: bool,
}

fn stream(command: &mut Command) -> Result<Counts> {
    let line = cargo::line(command);
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot run `{line}`"))?;
    let stdout = child.stdout.take().context("no output to read")?;
    let mut counts = Counts { passed: 0, failed: 0, success: false };
    for text in BufReader::new(stdout).split(b'\n') {
        let text = text.context("cannot read the output")?;
        let text = String::from_utf8_lossy(&text);
        println!("{text}");
        if let Some((passed, failed)) = result_line(&text) {
            counts.passed += passed;
            counts.failed += failed;
        }
    }
    counts.success = child.wait().with_context(|| format!("lost `{line}`"))?.success();
    Ok(counts)
}

/// The two counts of libtest's closing line, as in
/// `test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s`.
fn result_line(line: &str) -> Option<(u64, u64)> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut parts = counts.split("; ");
    let passed = parts.next()?.strip_suffix(" passed")?.parse().ok()?;
    let failed = parts.next()?.strip_suffix(" failed")?.parse().ok()?;
    Some((passed, failed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_counted_and_others_are_not() {
        let good =
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.00s";
        let bad =
            "test result: FAILED. 12 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s";
        assert_eq!(result_line(good), Some((3, 0)));
        assert_eq!(result_line(bad), Some((12, 2)));
        assert_eq!(result_line("test tidy::tests::x ... ok"), None);
        assert_eq!(result_line("test result: ok. many passed; 0 failed"), None);
    }
}
