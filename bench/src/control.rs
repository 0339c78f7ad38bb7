//! What control verbs cost: `c/control.c` measures them through the C interface, and this makes ratios and verdicts of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::json;

/// What others report, in the words of the table: (who, microseconds a queue pair from, to).
const PUBLISHED: [(&str, f64, f64); 2] = [
    ("KRCORE (USENIX ATC 2022), a connection", 10.0, 10.0),
    ("verbs on hardware, a queue pair", 400.0, 1000.0),
];

/// Times of the C program, by name: nanoseconds, or bytes.
type Figures = BTreeMap<String, f64>;

/// A comparison within the run: how many times the first is the second.
#[derive(Debug, Serialize)]
struct Ratio {
    name: &'static str,
    from_ns: f64,
    to_ns: f64,
    ratio: f64,
}

/// What must be reached.
#[derive(Debug, Serialize)]
struct Mark {
    name: &'static str,
    value: f64,
    unit: &'static str,
    /// `<=` or `>=`.
    bound: &'static str,
    limit: f64,
    passed: bool,
    /// Why it is missed, where that is known.
    reason: Option<String>,
}

impl Mark {
    fn at_most(name: &'static str, value: f64, limit: f64, unit: &'static str) -> Self {
        Self { name, value, unit, bound: "<=", limit, passed: value <= limit, reason: None }
    }
}

/// Measures and prints.
///
/// # Errors
/// No compiler, no library, or a verb that fails.
pub(crate) fn run(json: bool, quick: bool) -> Result<()> {
    let (rounds, many) = if quick { (20, 10_000) } else { (200, 100_000) };
    let figures = measure(rounds, many)?;
    let (ratios, marks) = (ratios(&figures)?, marks(&figures)?);
    if json {
        let published = PUBLISHED.map(|(who, from, to)| json!({ "who": who, "from_us": from, "to_us": to }));
        let all = json!({
            "machine": crate::table::machine(), "quick": quick, "many": many, "figures": figures, "ratios": ratios,
            "lives_per_s": 1e9 / figure(&figures, "life")?, "published": published, "marks": marks,
        });
        println!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    println!("{}", crate::table::machine());
    if quick {
        println!("quick run: these figures tell that it works, not how fast it is");
    }
    print(&figures, &ratios, &marks, many)
}

/// Compiles and runs the program against the library beside this one.
fn measure(rounds: u32, many: u32) -> Result<Figures> {
    let built = std::env::current_exe()?.parent().map(Path::to_path_buf).unwrap_or_default();
    let library = built.join("libibverbs.so");
    if !library.exists() {
        bail!("{} is missing; use cargo xtask bench control", library.display());
    }
    let folder = tempdir()?;
    let result = compile(&folder, &library).and_then(|program| {
        // Memory in a process of its own, where nothing has been given back that many would then find.
        Ok(run_program(&program, &folder, [rounds, many])? + &run_program(&program, &folder, [0, many])?)
    });
    let _ = std::fs::remove_dir_all(&folder);
    parse(&result?)
}

fn tempdir() -> Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("glassnic-bench.{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

fn compile(folder: &Path, library: &Path) -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in ["libibverbs.so", "libibverbs.so.1"] {
        std::os::unix::fs::symlink(library, folder.join(name)).context("cannot link to the library")?;
    }
    let program = folder.join("control");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-I"]);
    compiler.arg(here.join("../include")).arg("-o").arg(&program).arg(here.join("c/control.c"));
    compiler.arg("-L").arg(folder).arg("-libverbs");
    let output = compiler.output().context("cannot run cc (package gcc)")?;
    if !output.status.success() {
        bail!(
            "c/control.c does not compile (package libibverbs-dev):\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(program)
}

fn run_program(program: &Path, folder: &Path, arguments: [u32; 2]) -> Result<String> {
    let mut run = Command::new(program);
    run.args(arguments.iter().map(u32::to_string)).env("LD_LIBRARY_PATH", folder);
    let output = run.output().context("cannot run the compiled program")?;
    if !output.status.success() {
        bail!("the program failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn parse(text: &str) -> Result<Figures> {
    let line = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    text.lines().map(|l| line(l).with_context(|| format!("not a figure: {l}"))).collect()
}

fn figure(figures: &Figures, name: &str) -> Result<f64> {
    figures.get(name).copied().with_context(|| format!("the program gave no {name}"))
}

/// Create and the three modifies of a queue pair, in batches of this size.
fn whole(figures: &Figures, size: u32) -> Result<f64> {
    Ok(figure(figures, &format!("create_batch_{size}"))?
        + 3.0 * figure(figures, &format!("modify_batch_{size}"))?)
}

fn ratios(figures: &Figures) -> Result<Vec<Ratio>> {
    let f = |name: &str| figure(figures, name);
    let pairs = [
        ("create: single calls / batches of 8", f("create_batch_1")?, f("create_batch_8")?),
        ("create: single calls / batches of 64", f("create_batch_1")?, f("create_batch_64")?),
        ("modify: single calls / batches of 8", f("modify_batch_1")?, f("modify_batch_8")?),
        ("modify: single calls / batches of 64", f("modify_batch_1")?, f("modify_batch_64")?),
        ("create: memory taken on demand / from the pool", f("create_on_demand")?, f("create_from_pool")?),
        ("create to RTS: in sequence / in a pipeline", f("sequence")?, f("pipeline")?),
        ("create to RTS: single calls / in a pipeline", whole(figures, 1)?, f("pipeline")?),
    ];
    Ok(pairs
        .into_iter()
        .map(|(name, from_ns, to_ns)| Ratio { name, from_ns, to_ns, ratio: from_ns / to_ns })
        .collect())
}

fn marks(figures: &Figures) -> Result<Vec<Mark>> {
    let times = |name: &str| {
        Ok::<f64, anyhow::Error>(
            figure(figures, &format!("many_{name}"))? / figure(figures, &format!("few_{name}"))?,
        )
    };
    let (single, batch) = (whole(figures, 1)?, whole(figures, 64)?);
    let gain = single / batch;
    let reason = (gain < 2.0).then(|| {
        format!(
            "a single call is nearly as fast: of its {:.2} us, {:.2} are the device's own work on a command, which a batch \
             does too; lock, doorbell and clock are {:.0} %",
            single / 4e3,
            batch / 4e3,
            100.0 * (1.0 - batch / single).max(0.0)
        )
    });
    Ok(vec![
        Mark::at_most(
            "create, three modifies, query, destroy",
            figure(figures, "life_with_query")? / 1e3,
            5.0,
            "us",
        ),
        Mark {
            name: "rate of a batch of 64 over single calls, create to RTS",
            value: gain,
            unit: "times",
            bound: ">=",
            limit: 2.0,
            passed: gain >= 2.0,
            reason,
        },
        Mark::at_most(
            "memory of an idle queue pair, without rings",
            figure(figures, "idle_bytes")?,
            1024.0,
            "bytes",
        ),
        Mark::at_most("create among many / among 100", times("create")?, 1.5, "times"),
        Mark::at_most("lookup among many / among 100, one after the other", times("lookup")?, 1.5, "times"),
        Mark::at_most("modify among many / among 100, one after the other", times("modify")?, 1.5, "times"),
        random_lookup(figures, times("random_lookup")?)?,
    ])
}

/// Lookups of queue pairs that nobody has touched for long. Where the mark is missed, the machine's part of it is measured.
fn random_lookup(figures: &Figures, value: f64) -> Result<Mark> {
    let mark = Mark::at_most("lookup among many / among 100, at random", value, 1.5, "times");
    if mark.passed {
        return Ok(mark);
    }
    let f = |name: &str| figure(figures, name);
    let (few, more) = (f("few_random_lookup")?, f("many_random_lookup")? - f("few_random_lookup")?);
    let (places, fetch) = (f("lookup_places")?, f("many_fetch")? - f("few_fetch")?);
    let reason = format!(
        "it takes {more:.0} ns more, and the mark allows {:.0}; of these, {fetch:.0} are the machine's: a lookup touches {} cache \
         lines in {places} places, each found by the one before, which plain memory of this size and shape takes as long to \
         fetch. One place alone is {:.0} ns",
        few / 2.0,
        f("lookup_lines")?,
        fetch / places,
    );
    Ok(Mark { reason: Some(reason), ..mark })
}

fn print(figures: &Figures, ratios: &[Ratio], marks: &[Mark], many: u32) -> Result<()> {
    let us = |name: &str| Ok::<f64, anyhow::Error>(figure(figures, name)? / 1e3);
    println!("\n{:<52} {:>9} {:>9} {:>7}", "us a queue pair (medians)", "first", "second", "ratio");
    for r in ratios {
        println!("{:<52} {:>9.2} {:>9.2} {:>6.2}x", r.name, r.from_ns / 1e3, r.to_ns / 1e3, r.ratio);
    }
    println!("\n{:<52} {:>9} {:>9} {:>7}", "us, with queue pairs there", "100", many, "ratio");
    let rows = [
        ("create", "create"),
        ("lookup (ibv_query_qp), one after the other", "lookup"),
        ("lookup (ibv_query_qp), at random", "random_lookup"),
        ("  of it, fetching as many cache lines", "fetch"),
        ("modify, one after the other", "modify"),
    ];
    for (what, name) in rows {
        let (few, many) = (us(&format!("few_{name}"))?, us(&format!("many_{name}"))?);
        println!("{what:<52} {few:>9.2} {many:>9.2} {:>6.2}x", many / few);
    }
    let life = us("life")?;
    println!("\n{:<52} {:>9} {:>9}", "create, RTS, destroy", "us", "per s");
    println!("{:<52} {life:>9.2} {:>9.0}", "GlassNIC", 1e6 / life);
    for (who, from, to) in PUBLISHED {
        let (span, rate) = if from == to {
            (format!("{from:.0}"), format!("{:.0}", 1e6 / from))
        } else {
            (format!("{from:.0}-{to:.0}"), format!("{:.0}-{:.0}", 1e6 / to, 1e6 / from))
        };
        println!("{who:<52} {span:>9} {rate:>9}");
    }
    println!(
        "\n{:.0} bytes an idle queue pair in RTS, of which {:.0} are the process's own and the rest is context memory that \
         others can read; ibv_open_device {:.0} us\n",
        figure(figures, "idle_bytes")?,
        figure(figures, "idle_own_bytes")?,
        us("open")?
    );
    for m in marks {
        let verdict = if m.passed { "pass" } else { "MISS" };
        println!("{verdict}  {} {:.2} {} ({} {})", m.name, m.value, m.unit, m.bound, m.limit);
        if let Some(reason) = &m.reason {
            println!("      {reason}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(batch: f64) -> Figures {
        let text = format!(
            "create_batch_1 2000\nmodify_batch_1 1000\ncreate_batch_8 1\nmodify_batch_8 1\ncreate_batch_64 {batch}\n\
             modify_batch_64 {batch}\ncreate_on_demand 3\ncreate_from_pool 2\nsequence 4\npipeline 2\nlife 1\n\
             life_with_query 5001\nidle_bytes 1024\nidle_own_bytes 640\nfew_create 2\nmany_create 3\nfew_lookup 1\nmany_lookup 2\n\
             few_modify 1\nmany_modify 1\nfew_random_lookup 100\nmany_random_lookup 400\n\
             few_fetch 20\nmany_fetch 260\nlookup_lines 10\nlookup_places 6\n"
        );
        parse(&text).unwrap()
    }

    #[test]
    fn marks_are_judged_and_a_batch_that_gains_little_says_why() {
        let passed = |batch| marks(&sample(batch)).unwrap().iter().map(|m| m.passed).collect::<Vec<_>>();
        assert_eq!(passed(625.0), [false, true, true, true, false, true, false]);
        assert_eq!(passed(626.0), [false, false, true, true, false, true, false]);
        let slow = marks(&sample(1000.0)).unwrap();
        assert!(slow[1].reason.as_ref().unwrap().contains("lock, doorbell and clock are 20 %"), "{slow:?}");
        let random = slow[6].reason.as_ref().unwrap();
        assert!(
            random.contains("300 ns more, and the mark allows 50; of these, 240 are the machine's"),
            "{random}"
        );
        assert!(
            random.contains("10 cache lines in 6 places") && random.ends_with("alone is 40 ns"),
            "{random}"
        );
        assert_eq!(ratios(&sample(1.0)).unwrap()[5].ratio, 2.0);
    }

    #[test]
    fn what_is_no_figure_is_an_error() {
        assert!(parse("life fast\n").is_err());
        assert!(marks(&Figures::new()).is_err());
    }
}
