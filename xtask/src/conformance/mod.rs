//! `cargo xtask conformance`: rdma-core's own tests judge the device.
//!
//! Each test of the pyverbs suite runs in a process of its own. None may fail, and each that skips itself needs a line in
//! [`SKIPS`] that says why; a line that no longer applies fails the run as well.

mod skips;
mod suite;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::json;

use crate::cargo;
use crate::packages;
use skips::{Skips, Verdict};
use suite::{Outcome, Suite};

/// The list of skips, below the workspace root.
const SKIPS: &str = "conformance/skip.toml";

/// The device that the suite is run on.
const DEVICE: &str = "glass0";

/// What to run, and how.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only tests with this in their name
    filter: Option<String>,
    /// Print the result as JSON; progress goes to standard error
    #[arg(long)]
    json: bool,
    /// Seconds that a test may take
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(5..))]
    limit: u64,
}

/// A test that was run.
struct Done {
    test: String,
    outcome: Outcome,
    verdict: Verdict,
    took: Duration,
}

/// Installs what is missing, builds, runs the suite and prints its result.
///
/// # Errors
/// When the suite cannot be had, or anything in it fails the run.
pub(crate) fn run(options: &Options) -> Result<()> {
    packages::ensure(packages::CONFORMANCE)?;
    let built = cargo::build_release()?;
    let skips = Skips::read(&cargo::root().join(SKIPS))?;
    let launcher = vec![built.join("glassnic").display().to_string(), "run".into(), "--sysfs".into()];
    let limit = Duration::from_secs(options.limit);
    let suite = Suite::prepare(&suite::work_folder()?, launcher, DEVICE, limit)?;
    let all = suite.tests()?;
    let wanted = |test: &&String| options.filter.as_ref().is_none_or(|filter| test.contains(filter.as_str()));
    let tests: Vec<&String> = all.iter().filter(wanted).collect();
    if tests.is_empty() {
        bail!("no test of the suite has {:?} in its name", options.filter.as_deref().unwrap_or_default());
    }
    let mut done = Vec::new();
    for (index, test) in tests.iter().enumerate() {
        let (outcome, took) = suite.run(test)?;
        let verdict = skips.judge(test, &outcome);
        eprintln!("[{:3}/{}] {}", index + 1, tests.len(), line(test, &verdict, took));
        done.push(Done { test: (*test).clone(), outcome, verdict, took });
    }
    // A part of the suite says nothing about the rest of the list.
    let unknown = if options.filter.is_none() { skips.unknown(&all) } else { Vec::new() };
    if options.json {
        println!("{:#}", as_json(&done, &unknown));
    } else {
        print!("{}", table(&done));
    }
    close(&suite, &done, &unknown)
}

fn line(test: &str, verdict: &Verdict, took: Duration) -> String {
    let (word, why) = match verdict {
        Verdict::Pass => ("ok", ""),
        Verdict::Skip(why) => ("skip", why.as_str()),
        Verdict::Fault(why) => ("FAULT", why.as_str()),
    };
    format!("{word:5} {:5.1} s  {test}  {why}", took.as_secs_f64()).trim_end().to_owned()
}

/// A line for each module, and one for all.
fn table(done: &[Done]) -> String {
    let mut modules: BTreeMap<&str, [u32; 3]> = BTreeMap::new();
    for one in done {
        let module = one.test.split('.').next().unwrap_or_default();
        let counts = modules.entry(module).or_default();
        counts[match one.verdict {
            Verdict::Pass => 0,
            Verdict::Skip(_) => 1,
            Verdict::Fault(_) => 2,
        }] += 1;
    }
    let row = |name: &str, [pass, skip, fault]: [u32; 3]| format!("{name:24} {pass:6} {skip:7} {fault:6}\n");
    let mut text = format!("{:24} {:>6} {:>7} {:>6}\n", "module", "passed", "skipped", "faults");
    let mut all = [0; 3];
    for (module, counts) in modules {
        text += &row(module, counts);
        all = std::array::from_fn(|index| all[index] + counts[index]);
    }
    text + &row("all", all)
}

fn as_json(done: &[Done], unknown: &[&str]) -> serde_json::Value {
    let tests: Vec<_> = done
        .iter()
        .map(|one| {
            let (outcome, said) = match &one.outcome {
                Outcome::Pass => ("pass", ""),
                Outcome::Skip(said) => ("skip", said.as_str()),
                Outcome::Fault(said) => ("fault", said.as_str()),
            };
            let (verdict, why) = match &one.verdict {
                Verdict::Pass => ("pass", ""),
                Verdict::Skip(why) => ("skip", why.as_str()),
                Verdict::Fault(why) => ("fault", why.as_str()),
            };
            json!({
                "test": one.test, "outcome": outcome, "said": said, "verdict": verdict, "why": why,
                "seconds": (one.took.as_secs_f64() * 1000.0).round() / 1000.0,
            })
        })
        .collect();
    json!({ "suite": suite::version(), "device": DEVICE, "tests": tests, "listed_but_gone": unknown })
}

/// What fails the run, to standard error.
fn close(suite: &Suite, done: &[Done], unknown: &[&str]) -> Result<()> {
    let mut faults = 0;
    for one in done {
        if let Verdict::Fault(why) = &one.verdict {
            faults += 1;
            eprintln!("FAULT {}: {why}\n      see {}", one.test, suite.log(&one.test).display());
        }
    }
    for test in unknown {
        faults += 1;
        eprintln!("FAULT {test}: skip.toml lists it, and the suite has no such test");
    }
    if faults > 0 {
        bail!("{faults} of the suite's {} tests fail the run", done.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(test: &str, verdict: Verdict) -> Done {
        Done { test: test.into(), outcome: Outcome::Pass, verdict, took: Duration::from_millis(1500) }
    }

    #[test]
    fn the_table_counts_by_module() {
        let done = [
            done("test_a.A.a", Verdict::Pass),
            done("test_a.A.b", Verdict::Fault("x".into())),
            done("test_b.B.a", Verdict::Skip("y".into())),
        ];
        let text = table(&done);
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[1], ["test_a", "1", "0", "1"]);
        assert_eq!(rows[2], ["test_b", "0", "1", "0"]);
        assert_eq!(rows[3], ["all", "1", "1", "1"]);
        let json = as_json(&done, &["gone"]);
        assert_eq!(json["tests"][2]["why"], "y");
        assert_eq!(json["tests"][0]["seconds"], 1.5);
    }
}
