//! `glassnic ps`, `glassnic qp …` and the lists of other objects: the NICs of this user's processes, from outside.

use std::io::{self, IsTerminal};
use std::thread;
use std::time::Duration;

use clap::{Args, Subcommand};
use glassnic_explain::both;
use glassnic_inspect::{Host, NicModel, NicReading, QpModel, qp_text, text, timeline};
use serde::Serialize;
use serde_json::{Value, json};

use crate::lang;
use crate::out::{self, Reader};

/// How often `--watch` looks again.
const INTERVAL: Duration = Duration::from_secs(1);

/// The greatest QP number: 24 bits.
const QPN_MAX: u32 = 0xff_ffff;

/// How to look.
#[derive(Args, Clone, Copy)]
pub(crate) struct View {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Look again each second, until interrupted; with --json, a line each time
    #[arg(long)]
    watch: bool,
    /// Only the NICs of this process
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
}

#[derive(Subcommand)]
pub(crate) enum QpTask {
    /// List the QPs: number, type, state, peer, use of the queues, first error
    Ls {
        #[command(flatten)]
        view: View,
    },
    /// Show all that the device and the driver know of a QP
    ///
    /// The first line is for scripts: QPN: 0x1234 State: RTS SQ WQE count: 8/16 Last error: None
    Show {
        /// Number of the QP, decimal or 0x…
        #[arg(value_parser = parse_qpn)]
        qpn: u32,
        #[command(flatten)]
        view: View,
    },
    /// Show the 256 bytes of a QP's context, and each field in them
    Hex {
        /// Number of the QP, decimal or 0x…
        #[arg(value_parser = parse_qpn)]
        qpn: u32,
        #[command(flatten)]
        view: View,
    },
    /// Tell what happened to a QP, and to its peer if that is on this host
    ///
    /// Commands with their threads and times, transitions, the first post and packet, NAKs, errors, as far back as the
    /// flight recorder goes. QPs that were destroyed are told of too.
    Log {
        /// Number of the QP, decimal or 0x…
        #[arg(value_parser = parse_qpn)]
        qpn: u32,
        #[command(flatten)]
        view: View,
    },
}

#[derive(Subcommand)]
pub(crate) enum ListTask {
    /// List them
    Ls {
        #[command(flatten)]
        view: View,
    },
}

/// A kind of object that can be listed.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Cq,
    Mr,
    Mw,
    Pd,
    Srq,
    Ah,
}

fn parse_qpn(text: &str) -> Result<u32, String> {
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.ok().filter(|qpn| (1..=QPN_MAX).contains(qpn)).ok_or_else(|| {
        both!(
            lang(),
            "a QP number is 1 to {QPN_MAX}, or 0x1 to {QPN_MAX:#x}",
            "QP 号为 1 到 {QPN_MAX}，或 0x1 到 {QPN_MAX:#x}"
        )
    })
}

/// What is shown: as JSON and as text.
struct Shown {
    json: Value,
    text: String,
}

/// Shows the processes with a NIC.
///
/// # Errors
/// A line when the folder of processes cannot be read.
pub(crate) fn ps(view: View) -> Result<(), String> {
    show(view, |host| {
        let nics = nics(host, view);
        let process = |nic: &&NicModel| {
            let mut states = serde_json::Map::new();
            for qp in &nic.qps {
                let count = states.get(&qp.state).and_then(Value::as_u64).unwrap_or(0);
                states.insert(qp.state.clone(), (count + 1).into());
            }
            json!({
                "pid": nic.pid, "command": nic.command, "device": nic.device, "state": nic.state,
                "age_ns": nic.age_ns, "qps": states, "segment": nic.segment,
            })
        };
        Ok(Shown { json: nics.iter().map(process).collect(), text: text::ps(lang(), &nics) })
    })
}

/// Lists objects of a kind.
///
/// # Errors
/// A line when the folder of processes cannot be read.
pub(crate) fn list(kind: Kind, task: &ListTask) -> Result<(), String> {
    let ListTask::Ls { view } = *task;
    show(view, |host| {
        let nics = nics(host, view);
        Ok(match kind {
            Kind::Cq => Shown { json: of_each(&nics, |nic| &nic.cqs)?, text: text::cqs(lang(), &nics) },
            Kind::Mr => Shown { json: of_each(&nics, |nic| &nic.mrs)?, text: text::mrs(lang(), &nics) },
            Kind::Mw => Shown { json: of_each(&nics, |nic| &nic.mws)?, text: text::mws(lang(), &nics) },
            Kind::Pd => Shown { json: of_each(&nics, |nic| &nic.pds)?, text: text::pds(lang(), &nics) },
            Kind::Srq => Shown { json: of_each(&nics, |nic| &nic.srqs)?, text: text::srqs(lang(), &nics) },
            Kind::Ah => Shown { json: of_each(&nics, |nic| &nic.ahs)?, text: text::ahs(lang(), &nics) },
        })
    })
}

/// Shows QPs.
///
/// # Errors
/// A line when the folder of processes cannot be read, or there is no such QP, or more than one.
pub(crate) fn qp(task: &QpTask) -> Result<(), String> {
    match *task {
        QpTask::Ls { view } => show(view, |host| {
            let nics = nics(host, view);
            let mut json = of_each(&nics, |nic| &nic.qps)?;
            // Every field of every QP is `qp show`'s.
            for qp in json.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
                qp.remove("device");
                qp.remove("driver");
            }
            Ok(Shown { json, text: text::qps(lang(), &nics) })
        }),
        QpTask::Show { qpn, view } => show(view, |host| {
            let (nic, qp) = find(host, view, qpn)?;
            Ok(Shown { json: with_process(&nic.model, qp)?, text: qp_text::show(lang(), &nic.model, qp) })
        }),
        QpTask::Hex { qpn, view } => show(view, |host| {
            let (nic, qp) = find(host, view, qpn)?;
            let json = json!({
                "pid": nic.model.pid, "qpn": qpn, "bytes": qp.context.bytes().to_vec(), "fields": qp.device,
            });
            Ok(Shown { json, text: qp_text::hex(lang(), qp) })
        }),
        QpTask::Log { qpn, view } => show(view, |host| {
            let knows = |nic: &NicReading| {
                has(&nic.model, qpn) || nic.records.iter().any(|record| record.qpn() == qpn)
            };
            let nic = the_one(host, view, qpn, knows)?;
            let entries = timeline::of_qp(lang(), host, nic.model.pid, qpn);
            Ok(Shown { json: to_json(&entries)?, text: qp_text::log(lang(), &entries) })
        }),
    }
}

fn has(nic: &NicModel, qpn: u32) -> bool {
    nic.qps.iter().any(|qp| qp.qpn == qpn)
}

fn find(host: &Host, view: View, qpn: u32) -> Result<(&NicReading, &QpModel), String> {
    let nic = the_one(host, view, qpn, |nic| has(&nic.model, qpn))?;
    let qp = nic.model.qps.iter().find(|qp| qp.qpn == qpn);
    qp.map(|qp| (nic, qp)).ok_or_else(|| unknown(host, view, qpn))
}

/// The one NIC that has a QP.
fn the_one(
    host: &Host,
    view: View,
    qpn: u32,
    knows: impl Fn(&NicReading) -> bool,
) -> Result<&NicReading, String> {
    let chosen = host.nics.iter().filter(|nic| view.pid.is_none_or(|pid| pid == nic.model.pid));
    let found: Vec<_> = chosen.filter(|nic| knows(nic)).collect();
    match found[..] {
        [] => Err(unknown(host, view, qpn)),
        [nic] => Ok(nic),
        _ => {
            let mut pids: Vec<_> = found.iter().map(|nic| nic.model.pid.to_string()).collect();
            pids.dedup();
            // A process with two NICs has each number once only, but a pid may have come back.
            let pids = pids.join(", ");
            Err(both!(
                lang(),
                "QP {qpn:#x} is in the NICs of processes {pids}; choose one with --pid",
                "进程 {pids} 的 NIC 中都有 QP {qpn:#x}；用 --pid 选择一个"
            ))
        }
    }
}

fn unknown(host: &Host, view: View, qpn: u32) -> String {
    let others = host.nics.iter().filter(|nic| view.pid.is_some() && has(&nic.model, qpn));
    let others: Vec<_> = others.map(|nic| nic.model.pid.to_string()).collect();
    let others_are = others.join(", ");
    match (view.pid, others.is_empty()) {
        (Some(pid), false) => both!(
            lang(),
            "no QP {qpn:#x} in process {pid}, but in {others_are}; choose that with --pid",
            "进程 {pid} 中没有 QP {qpn:#x}，它在 {others_are} 中；用 --pid 选择"
        ),
        (Some(pid), true) => both!(
            lang(),
            "no QP {qpn:#x} in process {pid}; glassnic qp ls shows those there are",
            "进程 {pid} 中没有 QP {qpn:#x}；glassnic qp ls 列出现有的 QP"
        ),
        (None, _) => both!(
            lang(),
            "no QP {qpn:#x} in any process of this user; glassnic qp ls shows those there are",
            "当前用户的进程中都没有 QP {qpn:#x}；glassnic qp ls 列出现有的 QP"
        ),
    }
}

fn nics(host: &Host, view: View) -> Vec<&NicModel> {
    let chosen = host.nics.iter().filter(|nic| view.pid.is_none_or(|pid| pid == nic.model.pid));
    chosen.map(|nic| &nic.model).collect()
}

fn to_json(value: &impl Serialize) -> Result<Value, String> {
    serde_json::to_value(value).map_err(|error| error.to_string())
}

/// An object, and whose it is.
fn with_process(nic: &NicModel, object: &impl Serialize) -> Result<Value, String> {
    let mut value = to_json(object)?;
    if let Some(fields) = value.as_object_mut() {
        fields.insert("pid".into(), nic.pid.into());
        fields.insert("process_state".into(), nic.state.name().into());
    }
    Ok(value)
}

/// The objects of all NICs in one array.
fn of_each<'a, T: Serialize + 'a>(
    nics: &[&'a NicModel],
    objects: impl Fn(&'a NicModel) -> &'a Vec<T>,
) -> Result<Value, String> {
    let all = nics.iter().flat_map(|nic| objects(nic).iter().map(|object| with_process(nic, object)));
    all.collect::<Result<Vec<_>, _>>().map(Value::Array)
}

/// Shows it once, or each second until standard output is closed; SIGINT ends the process as it does any other.
fn show(view: View, make: impl Fn(&Host) -> Result<Shown, String>) -> Result<(), String> {
    loop {
        let Shown { json, text } = make(&Host::read(lang())?)?;
        let text = match (view.json, view.watch) {
            (true, true) => format!("{json}\n"),
            (true, false) => format!("{json:#}\n"),
            // Clears the screen, from its first column on.
            (false, true) if io::stdout().is_terminal() => format!("\x1b[H\x1b[2J{text}"),
            (false, true) => format!("{text}\n"),
            (false, false) => text,
        };
        if out::print(&text)? == Reader::Gone || !view.watch {
            return Ok(());
        }
        thread::sleep(INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        assert_eq!((parse_qpn("18"), parse_qpn("0x12"), parse_qpn("0XfF")), (Ok(18), Ok(18), Ok(255)));
        for wrong in ["", "0", "0x", "0x1000000", "-1", "twelve", "12x"] {
            assert!(parse_qpn(wrong).unwrap_err().contains("0x1 to 0xffffff"), "{wrong}");
        }
    }
}
