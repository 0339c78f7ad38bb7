//! Verbs as text.

use std::fmt::Write;

use glassnic_explain::Lang;

use super::{ChangeModel, EventModel, Step, Verb};
use crate::decode::span;
use crate::text::pad;
use crate::words::both;

/// Width of the column of what follows.
const NAME: usize = 9;
/// Columns that a line of many short parts may fill.
const LINE: usize = 110;

/// How verbs are written.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// The language.
    pub lang: Lang,
    /// With the bytes of each record.
    pub hex: bool,
    /// The time that the others count from.
    pub began_ns: u64,
}

/// A step, in one or more lines.
#[must_use]
pub fn write(style: Style, step: &Step) -> String {
    let Style { lang, began_ns, .. } = style;
    let time = format!("{:10.3} ms", step.at_ns().saturating_sub(began_ns) as f64 / 1e6);
    match step {
        Step::Verb(verb) => format!("{time}  {}", self::verb(style, verb)),
        Step::Event(EventModel { pid, subject, what, how, .. }) => {
            format!("{time}  {subject}  {what}  {how}  pid {pid}\n")
        }
        Step::Lost { pid, records, .. } => {
            let said = both!(
                lang,
                "{records} records lost: overwritten before they were read",
                "丢失 {records} 条记录：读取之前已被覆盖"
            );
            format!("{time}  {said}  pid {pid}\n")
        }
    }
}

fn verb(style: Style, verb: &Verb) -> String {
    let Style { lang, hex, .. } = style;
    let Verb { pid, thread, call, subject, what, .. } = verb;
    let by = thread.map_or_else(String::new, |thread| both!(lang, " thread {thread}", " 线程 {thread}"));
    let mut out = format!("{call}  {subject}  {what}  pid {pid}{by}\n");
    let mut part = |name: &str, lines: Vec<String>| {
        for (i, line) in lines.iter().enumerate() {
            let name = if i == 0 { name } else { "" };
            // Writing to a string does not fail.
            let _ = writeln!(out, "    {}{line}", pad(name, NAME));
        }
    };
    part(lang.pick("record", "记录"), record(lang, verb));
    if hex {
        part(lang.pick("bytes", "字节"), bytes(&verb.hex));
    }
    if !verb.changes.is_empty() {
        part("QPC", changes(&verb.changes));
    }
    let rung = match verb.doorbell {
        true => both!(lang, "rung for record {}", "为记录 {} 敲响", verb.seq),
        false => lang.pick("not rung", "未敲响").to_owned(),
    };
    part(lang.pick("doorbell", "门铃"), vec![rung]);
    if !verb.device.is_empty() {
        part(lang.pick("device", "设备"), verb.device.clone());
    }
    part(lang.pick("status", "状态"), vec![status(lang, verb)]);
    out
}

fn record(lang: Lang, verb: &Verb) -> Vec<String> {
    let Some(record) = &verb.record else {
        return vec![lang.pick("none: refused before one was filled", "无：填写之前已被拒绝").to_owned()];
    };
    let mut parts = vec![format!("{} ({:#06x})", record.opcode, record.opcode_number)];
    if record.qpn != 0 {
        parts.push(format!("qpn={:#x}", record.qpn));
    }
    if record.pd != 0 {
        let name = if record.qpn != 0 { "pd" } else { "handle" };
        parts.push(format!("{name}={:#x}", record.pd));
    }
    let meant = record.fields.iter().filter(|field| field.meant);
    parts.extend(meant.map(|field| format!("{}={}", field.name, field.decoded)));
    wrapped(&parts)
}

/// 24 bytes a line.
fn bytes(hex: &str) -> Vec<String> {
    let pairs: Vec<_> =
        hex.as_bytes().chunks(2).map(|pair| String::from_utf8_lossy(pair).into_owned()).collect();
    pairs.chunks(24).enumerate().map(|(i, line)| format!("{:02x}  {}", i * 24, line.join(" "))).collect()
}

/// A line for each field; where all of a context comes or goes, several a line.
fn changes(changes: &[ChangeModel]) -> Vec<String> {
    const FEW: usize = 16;
    let one = |change: &ChangeModel| {
        format!("{:#04x} {} {} → {}", change.offset, change.field, change.old, change.new)
    };
    if changes.len() > FEW {
        return wrapped(&changes.iter().map(one).map(|text| format!("{text},")).collect::<Vec<_>>());
    }
    let width = changes.iter().map(|change| change.field.len()).max().unwrap_or(0);
    let line = |change: &ChangeModel| {
        format!("{:#04x} {:width$}  {} → {}", change.offset, change.field, change.old, change.new)
    };
    changes.iter().map(line).collect()
}

fn status(lang: Lang, verb: &Verb) -> String {
    let took = verb.took_ns.map(|ns| span(ns.into()));
    match (&verb.status.name, &verb.status.explanation) {
        (None, _) => match took {
            Some(took) => both!(lang, "0, took {took}", "0，用时 {took}"),
            None => lang.pick("unknown: its end was never recorded", "未知：没有记录到它的结束").to_owned(),
        },
        (Some(name), Some(why)) => format!("{name} ({}){}{why}", verb.status.errno, lang.pick(": ", "：")),
        (Some(name), None) => format!("{name} ({})", verb.status.errno),
    }
}

/// Parts on lines of limited length.
fn wrapped(parts: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut().filter(|line| line.chars().count() + 2 + part.chars().count() <= LINE) {
            Some(line) => {
                line.push(' ');
                line.push_str(part);
            }
            None => lines.push(part.clone()),
        }
    }
    if let Some(last) = lines.last_mut() {
        let end = last.trim_end_matches(',').len();
        last.truncate(end);
    }
    lines
}
