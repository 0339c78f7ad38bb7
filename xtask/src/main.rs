//! The developer's front door: `cargo xtask demo | test | conformance | prepush | install | bench | layers`.
//!
//! Everything that CI does is a subcommand here, so that it can be run by hand in the same way.

mod bench;
mod cargo;
mod conformance;
mod demo;
mod faults;
mod install;
mod layers;
mod packages;
mod prepush;
mod report;
mod test;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Build, show, check and install GlassNIC.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Let two stock verbs programs talk on this machine and tell what their queue pairs do
    Demo,
    /// Run every check and every test; the last line is "N passed, N failed"
    Test,
    /// Let rdma-core's own tests (pyverbs) judge the device, each in a process of its own
    Conformance {
        #[command(flatten)]
        options: conformance::Options,
    },
    /// The quick checks: format, lints, documentation, layers, tidiness
    Prepush,
    /// Install the libraries, the command and its man pages below a prefix
    Install {
        /// Folder that receives bin/, lib/glassnic/ and share/man/
        #[arg(long, value_name = "DIR")]
        prefix: PathBuf,
    },
    /// Measure latency and bandwidth of each link, beside the limits of the machine
    Bench {
        /// Arguments for the benchmark itself
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Check that dependencies between the crates go one way
    Layers,
    /// Check file lengths, left-overs, where unsafe code and clocks stand, and the tests that docs/faults.md names
    Tidy,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Task::Demo => demo::run(),
        Task::Test => test::run(),
        Task::Conformance { options } => conformance::run(&options),
        Task::Prepush => prepush::run(),
        Task::Install { prefix } => install::run(&prefix),
        Task::Bench { args } => bench::run(&args),
        Task::Layers => layers::run(),
        Task::Tidy => tidy::run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
