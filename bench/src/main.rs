//! How fast is GlassNIC on this machine, and how far from what the machine can do?
//!
//! One run, one table. Each link is measured through a small verbs program ([`verbs`]), beside the limits of the
//! machine ([`limits`], [`udp`]) and beside other people's programs ([`others`]), in sweeps over all of them, so that
//! ratios are between figures of the same minutes. Two processes talk wherever a link joins two processes; see [`pair`].

mod child;
mod control;
mod limits;
mod others;
mod pair;
mod report;
mod stats;
mod sys;
mod table;
mod udp;
mod verbs;

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};

use report::{Group, Report};

/// Measure latency and bandwidth of each link, beside the limits of the machine
#[derive(Parser)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench")]
struct Cli {
    /// Print JSON to standard output instead of the table; progress goes to standard error always
    #[arg(long)]
    json: bool,
    /// One sweep and a tenth of the repetitions: to see that all works, not to compare
    #[arg(long)]
    quick: bool,
    /// Only these links
    #[arg(long, value_delimiter = ',', value_name = "LINK")]
    link: Vec<Group>,
    /// Without the programs of UCX and libfabric
    #[arg(long)]
    no_others: bool,
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(Subcommand)]
enum Part {
    /// Measure control verbs instead: alone, in batches and in pipelines, among few queue pairs and among many
    Control {
        /// Print JSON to standard output instead of the table
        #[arg(long)]
        json: bool,
        /// A tenth of the repetitions and of the queue pairs: to see that all works, not to compare
        #[arg(long)]
        quick: bool,
    },
    /// One of the processes of a measurement
    #[command(hide = true)]
    Side(pair::Side),
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    match &cli.part {
        Some(Part::Side(side)) => return side.run(),
        Some(Part::Control { json, quick }) => return control::run(*json || cli.json, *quick || cli.quick),
        None => {}
    }
    let scale = if cli.quick { pair::Scale::Quick } else { pair::Scale::Full };
    let groups = if cli.link.is_empty() { Group::ALL.to_vec() } else { cli.link.clone() };
    let mut report = Report::new(scale);
    for sweep in 1..=scale.sweeps() {
        for group in &groups {
            eprintln!("sweep {sweep} of {}: {}", scale.sweeps(), group.title());
            for (part, who, kind) in pair::parts(*group) {
                report.add(*group, who, *kind, part.measure(*group, scale));
            }
            if !cli.no_others {
                others::measure(*group, scale, &mut report);
            }
        }
    }
    if cli.json {
        table::print_json(&report)?
    } else {
        table::print(&report)
    }
    if report.is_empty() {
        bail!("nothing could be measured");
    }
    Ok(())
}
