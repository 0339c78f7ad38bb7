//! One QP as text.

use std::fmt::Write;

use crate::decode::{FieldModel, span};
use crate::model::{NicModel, QpModel};
use crate::text::{process, table};
use crate::timeline::Entry;

/// `QPN: 0x1234 State: RTS SQ WQE count: 8/16 Last error: None`: the line that scripts may rely on.
#[must_use]
pub fn headline(qp: &QpModel) -> String {
    let QpModel { qpn, state, sq, .. } = qp;
    let error = qp.first_error.as_ref().map_or("None", |error| &error.status_name);
    format!("QPN: {qpn:#x} State: {state} SQ WQE count: {}/{} Last error: {error}", sq.used, sq.depth)
}

/// What the device and the driver know of a QP, side by side, and every field of both.
#[must_use]
pub fn show(nic: &NicModel, qp: &QpModel) -> String {
    let mut out = headline(qp);
    let NicModel { command, device, segment, .. } = nic;
    // Writing to a string does not fail.
    let _ = write!(
        out,
        "\n{} on {device}, process {} {command}, segment {segment}; created {} ago\n",
        qp.qp_type,
        process(nic),
        span(qp.age_ns)
    );
    for frame in &qp.site {
        let _ = writeln!(out, "  at {frame}");
    }
    if let Some(peer) = &qp.peer {
        let whose =
            peer.pid.map_or_else(|| "not on this host, or gone".into(), |pid| format!("process {pid}"));
        let _ = writeln!(out, "peer: QP {:#x} at {}, {whose}", peer.qpn, peer.gid);
    }
    if let Some(error) = &qp.first_error {
        let _ = writeln!(out, "first error: {}; {}", error.what, error.remedy);
    }
    out.push('\n');
    out.push_str(&table(&side_by_side(qp), ""));
    out.push_str("\ndevice: every field of the QP context\n");
    fields(&mut out, &qp.device);
    out.push_str("\ndriver: every field of its block\n");
    fields(&mut out, &qp.driver);
    out
}

/// What both sides have a word on. They may differ: the driver says what calls asked for and polling gave back, the
/// device what it does.
fn side_by_side(qp: &QpModel) -> Vec<Vec<String>> {
    let device = |name| decoded(&qp.device, name);
    let driver = |name| decoded(&qp.driver, name);
    let posted_less_released = |posted, released| {
        let number = |name| value(&qp.driver, name) as u32;
        // Both wrap in 32 bits.
        let used = number(posted).wrapping_sub(number(released));
        format!("{used} ({} posted, {} given back)", number(posted), number(released))
    };
    let row = |what: &str, device: String, driver: String| vec![what.to_owned(), device, driver];
    vec![
        row("", "DEVICE (QP context)".into(), "DRIVER (its block)".into()),
        row("qpn", device("qpn"), driver("qpn")),
        row("state", device("state"), driver("state")),
        row(
            "created",
            device("created_ns"),
            format!("{} by thread {}", driver("created_ns"), driver("created_by")),
        ),
        row(
            "send queue",
            format!("{} of {}", device("sq_used"), device("sq_depth")),
            posted_less_released("sq_posted", "sq_released"),
        ),
        row(
            "receive queue",
            format!("{} of {}", device("rq_used"), device("rq_depth")),
            posted_less_released("rq_posted", "rq_released"),
        ),
        row(
            "first error / refusals",
            device("first_check"),
            match value(&qp.driver, "refused") {
                0 => "0".to_owned(),
                n => format!("{n}, the last {} of {}", driver("refused_ns"), driver("refused_call")),
            },
        ),
        row(
            "modified",
            "-".into(),
            format!(
                "{} times, last {} by thread {}",
                driver("modifies"),
                driver("modified_ns"),
                driver("modified_by")
            ),
        ),
        row("queried", "-".into(), driver("queried_ns")),
    ]
}

fn find<'a>(fields: &'a [FieldModel], name: &str) -> Option<&'a FieldModel> {
    fields.iter().find(|field| field.name == name)
}

fn decoded(fields: &[FieldModel], name: &str) -> String {
    find(fields, name).map_or_else(|| "?".to_owned(), |field| field.decoded.clone())
}

fn value(fields: &[FieldModel], name: &str) -> u64 {
    find(fields, name).and_then(|field| field.value).unwrap_or(0)
}

fn fields(out: &mut String, fields: &[FieldModel]) {
    let row =
        |field: &FieldModel| vec![format!("  {}", field.name), field.decoded.clone(), field.doc.to_owned()];
    out.push_str(&table(&fields.iter().map(row).collect::<Vec<_>>(), ""));
}

/// The 256 bytes, as hexdump(1) shows them, and below it each field by its offset.
#[must_use]
pub fn hex(qp: &QpModel) -> String {
    let mut out = String::new();
    for (line, bytes) in qp.context.bytes().chunks(16).enumerate() {
        let text: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let (left, right) = text.split_at(text.len().min(8));
        let _ = writeln!(out, "{:#04x}  {}  {}", line * 16, left.join(" "), right.join(" "));
    }
    out.push('\n');
    let mut rows = vec![["OFFSET", "FIELD", "BYTES", "VALUE", "WHAT"].map(str::to_owned).to_vec()];
    rows.extend(qp.device.iter().map(|field| {
        vec![
            format!("{:#04x}", field.offset),
            field.name.to_owned(),
            field.bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            field.decoded.clone(),
            field.doc.to_owned(),
        ]
    }));
    out.push_str(&table(&rows, ""));
    out
}

/// What happened, a line each; times count from the first.
#[must_use]
pub fn log(entries: &[Entry]) -> String {
    let began = entries.first().map_or(0, |entry| entry.at_ns);
    let with_peer = entries.iter().any(|entry| entry.at_peer);
    let mut rows = vec![["TIME", "QP", "PID", "THREAD", "TOOK", "WHAT", "HOW"].map(str::to_owned).to_vec()];
    rows.extend(entries.iter().map(|entry| {
        let mark = match (with_peer, entry.at_peer) {
            (true, true) => " (peer)",
            _ => "",
        };
        vec![
            format!("{:.3} ms", entry.at_ns.saturating_sub(began) as f64 / 1e6),
            format!("{:#x}{mark}", entry.qpn),
            entry.pid.to_string(),
            entry.thread.map_or("-".into(), |thread| thread.to_string()),
            entry.took_ns.map_or("-".into(), |ns| span(ns.into())),
            entry.what.clone(),
            entry.how.clone(),
        ]
    }));
    table(&rows, "the flight recorder has nothing of it any more")
}
