//! A report as a table for people and as JSON for programs.

use anyhow::Result;
use serde_json::{Value, json};

use crate::pair::Scale;
use crate::report::{Bound, FLOORS, Floor, Group, Kind, Report, Row};
use crate::stats::{LARGE, SMALL};

/// Prints the table.
pub(crate) fn print(report: &Report) {
    println!("{}", machine());
    if report.scale == Scale::Quick {
        println!("quick run: these figures tell that it works, not how fast it is");
    }
    println!();
    println!(
        "{:<20} {:<22} {:>8} {:>8} {:>7}  {:>7} {:>6}  {:>7} {:>6}  floor",
        "", "", "8 B us", "p99", "limit", "64 KiB", "limit", "1 MiB", "limit"
    );
    for group in Group::ALL {
        let mut rows = report.rows(group).peekable();
        if rows.peek().is_some() {
            println!("{}", group.title());
        }
        rows.for_each(|row| println!("{}", line(report, row).trim_end()));
    }
    for missing in &report.missing {
        println!("missing: {} over {}: {}", missing.who, link(missing.link), missing.why);
    }
    println!(
        "\n8 B: half a round trip in microseconds, median and 99th percentile; of READ and get the whole round trip; of\n\
         process_vm_writev one call. 64 KiB, 1 MiB: GB/s (1 GB = 10^9 bytes). limit: how many times the latency, which\n\
         part of the bandwidth of the best limit over the same link. All figures are medians over {} sweep(s).\n\
         WRITE waits for the bytes in memory and polls its CQ meanwhile; \"memory only\" does not poll. libfabric's\n\
         bandwidth is that of a ping-pong.",
        report.scale.sweeps()
    );
}

fn line(report: &Report, row: &Row) -> String {
    let ours = row.kind != Kind::Limit;
    let us = |ns: f64| format!("{:.2}", ns / 1e3);
    let times = report.ratio(row, SMALL).filter(|_| ours).map(|r| format!("{r:.1} x"));
    let latency = row.figure(SMALL);
    let mut line = format!(
        "  {:<18} {:<22} {:>8} {:>8} {:>7}",
        row.who,
        row.op,
        latency.map(|(p50, _)| us(p50)).unwrap_or_default(),
        latency.and_then(|(_, p99)| p99).map(us).unwrap_or_default(),
        times.unwrap_or_default()
    );
    for size in LARGE {
        let gb = row.figure(size).map(|(value, _)| format!("{:.2}", value / 1e9));
        let part = report.ratio(row, size).filter(|_| ours).map(|r| format!("{:.0} %", r * 100.0));
        line += &format!("  {:>7} {:>6}", gb.unwrap_or_default(), part.unwrap_or_default());
    }
    for floor in FLOORS.iter().filter(|f| belongs(f, row)) {
        let met = match report.is_met(floor) {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "not measured",
        };
        line += &format!("  {}: {met}", floor_text(floor));
    }
    line
}

fn belongs(floor: &Floor, row: &Row) -> bool {
    row.kind == Kind::GlassNic && row.link == floor.link && row.op == floor.op
}

fn floor_text(floor: &Floor) -> String {
    let size = if floor.size == SMALL { "8 B" } else { "1 MiB" };
    match floor.bound {
        Bound::Ns(ns) => format!("{size} <= {} us", ns / 1e3),
        Bound::BytesPerS(bytes) => format!("{size} >= {} GB/s", bytes / 1e9),
        Bound::TimesLimit(times) => format!("{size} <= {times} x limit"),
        Bound::TimesUnrecorded(times) => format!("{size} <= {times} x recorder off"),
    }
}

fn link(group: Group) -> &'static str {
    match group {
        Group::Memory => "memory",
        Group::Shm => "shm",
        Group::Udp => "udp",
    }
}

/// Prints everything, the sweeps included.
pub(crate) fn print_json(report: &Report) -> Result<()> {
    let mut rows = Vec::new();
    for row in Group::ALL.into_iter().flat_map(|group| report.rows(group)) {
        for size in [SMALL, LARGE[0], LARGE[1]] {
            let Some((value, p99)) = row.figure(size) else { continue };
            let unit = if size == SMALL { "ns" } else { "bytes/s" };
            rows.push(json!({
                "link": row.link, "who": row.who, "kind": row.kind, "op": row.op, "bytes": size, "unit": unit,
                "round_trip": size == SMALL && row.is_round_trip(), "value": value, "p99": p99,
                "ratio_to_limit": report.ratio(row, size), "sweeps": row.each_sweep(size),
            }));
        }
    }
    let floors: Vec<Value> = FLOORS
        .iter()
        .map(|f| {
            json!({
                "link": f.link, "op": f.op, "bytes": f.size, "floor": floor_text(f), "met": report.is_met(f),
            })
        })
        .collect();
    let all = json!({
        "machine": machine(), "quick": report.scale == Scale::Quick, "rows": rows, "floors": floors,
        "missing": report.missing,
    });
    println!("{}", serde_json::to_string_pretty(&all)?);
    Ok(())
}

/// Processor, cores, kernel, and how busy it all is.
pub(crate) fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model =
        cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map(|(_, m)| m);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    format!(
        "{}, {cores} core(s) to use, Linux {}, load {} at the end",
        model.unwrap_or("unknown processor"),
        kernel.trim(),
        load.split(' ').next().unwrap_or("unknown")
    )
}
