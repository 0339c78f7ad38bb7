//! `glassnic ps`, `glassnic qp …` and the lists of other objects: the NICs of this user's processes, from outside.

use std::io::{self, IsTerminal};
use std::thread;
use std::time::Duration;

use clap::{Args, Subcommand};
use glassnic_explain::both;
use glassnic_inspect::{Host, NicModel, NicReading, QpModel, qp_text, text, timeline};
use serde::ser::{Error, Serialize, SerializeSeq, Serializer};
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

impl View {
    /// What is asked for: JSON or text. The other is not made.
    fn choose<T: Serialize>(
        self,
        json: impl FnOnce() -> Result<T, String>,
        text: impl FnOnce() -> String,
    ) -> Result<String, String> {
        let told = match (self.json, self.watch) {
            (false, _) => return Ok(text()),
            (true, true) => serde_json::to_string(&json()?),
            (true, false) => serde_json::to_string_pretty(&json()?),
        };
        told.map(|text| format!("{text}\n")).map_err(|error| error.to_string())
    }
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
        view.choose(|| Ok(nics.iter().map(process).collect::<Value>()), || text::ps(lang(), &nics))
    })
}

/// Lists objects of a kind.
///
/// # Errors
/// A line when the folder of processes cannot be read.
pub(crate) fn list(kind: Kind, task: &ListTask) -> Result<(), String> {
    let ListTask::Ls { view } = *task;
    show(view, |host| {
        let nics = &nics(host, view)[..];
        match kind {
            Kind::Cq => view.choose(|| Ok(Each(nics, |nic| &nic.cqs)), || text::cqs(lang(), nics)),
            Kind::Mr => view.choose(|| Ok(Each(nics, |nic| &nic.mrs)), || text::mrs(lang(), nics)),
            Kind::Mw => view.choose(|| Ok(Each(nics, |nic| &nic.mws)), || text::mws(lang(), nics)),
            Kind::Pd => view.choose(|| Ok(Each(nics, |nic| &nic.pds)), || text::pds(lang(), nics)),
            Kind::Srq => view.choose(|| Ok(Each(nics, |nic| &nic.srqs)), || text::srqs(lang(), nics)),
            Kind::Ah => view.choose(|| Ok(Each(nics, |nic| &nic.ahs)), || text::ahs(lang(), nics)),
        }
    })
}

/// Shows QPs.
///
/// # Errors
/// A line when the folder of processes cannot be read, or there is no such QP, or more than one.
pub(crate) fn qp(task: &QpTask) -> Result<(), String> {
    match *task {
        QpTask::Ls { view } => show(view, |host| {
            let nics = &nics(host, view)[..];
            view.choose(|| Ok(Each(nics, |nic| &nic.qps)), || text::qps(lang(), nics))
        }),
        QpTask::Show { qpn, view } => show(view, |host| {
            let (nic, qp) = find(host, view, qpn)?;
            view.choose(|| in_full(&nic.model, qp), || qp_text::show(lang(), &nic.model, qp))
        }),
        QpTask::Hex { qpn, view } => show(view, |host| {
            let (nic, qp) = find(host, view, qpn)?;
            let json = || {
                json!({
                    "pid": nic.model.pid, "qpn": qpn, "bytes": qp.context.bytes().to_vec(),
                    "fields": qp.device(lang()),
                })
            };
            view.choose(|| Ok(json()), || qp_text::hex(lang(), qp))
        }),
        QpTask::Log { qpn, view } => show(view, |host| {
            let knows = |nic: &NicReading| has(&nic.model, qpn) || nic.records_of(qpn).next().is_some();
            let nic = the_one(host, view, qpn, knows)?;
            let entries = timeline::of_qp(lang(), host, nic.model.pid, qpn);
            view.choose(|| Ok(&entries), || qp_text::log(lang(), &entries))
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

/// A QP with every field of both sides.
fn in_full(nic: &NicModel, qp: &QpModel) -> Result<Value, String> {
    let mut value = with_process(nic, qp)?;
    if let Some(fields) = value.as_object_mut() {
        fields.insert("device".into(), to_json(&qp.device(lang()))?);
        fields.insert("driver".into(), to_json(&qp.driver(lang()))?);
    }
    Ok(value)
}

/// The objects of all NICs in one array, of which one at a time becomes JSON: there may be very many.
struct Each<'a, T>(&'a [&'a NicModel], fn(&NicModel) -> &Vec<T>);

impl<T: Serialize> Serialize for Each<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(nics, objects) = self;
        let mut all = serializer.serialize_seq(None)?;
        for nic in *nics {
            for object in objects(nic) {
                all.serialize_element(&with_process(nic, object).map_err(S::Error::custom)?)?;
            }
        }
        all.end()
    }
}

/// Shows it once, or each second until standard output is closed; SIGINT ends the process as it does any other.
fn show(view: View, make: impl Fn(&Host) -> Result<String, String>) -> Result<(), String> {
    loop {
        let text = make(&Host::read(lang())?)?;
        let text = match (view.json, view.watch) {
            // Clears the screen, from its first column on.
            (false, true) if io::stdout().is_terminal() => format!("\x1b[H\x1b[2J{text}"),
            (false, true) => format!("{text}\n"),
            _ => text,
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
