//! Frames as text.

use std::fmt::Write;

use glassnic_wire::command::CommandRecord;
use glassnic_wire::dissect::{Content, Dissection, Roce};
use glassnic_wire::frame::Ip;

use super::Seen;
use super::model::{self, Item};

/// Width of the column of header names.
const NAME: usize = 12;

/// One line for a frame of many. `first` is the time of the first.
pub(super) fn line(seen: &Seen<'_>, first: Option<u64>) -> String {
    let mut out = format!("{:>5}", seen.number);
    if let (Some(time), Some(first)) = (seen.time_ns, first) {
        let ns = i128::from(time) - i128::from(first);
        let _ = write!(out, " {:>12.6}", ns as f64 / 1e9);
    }
    let _ = match &seen.found {
        Err(why) => write!(out, "  {why}"),
        Ok(found) => {
            if let Some(ip) = &found.ip {
                let _ = write!(out, "  {} → {}", ip.src(), ip.dst());
            }
            match &found.content {
                Content::Roce(roce) => write!(out, "  {}", packet(roce)),
                Content::Command(record) => {
                    let mut body = model::body(record);
                    body.retain(|item| item.value != 0);
                    let gap = if body.is_empty() { "" } else { ", " };
                    write!(out, "  {}{gap}{}", command(record), list(&body))
                }
            }
        }
    };
    for odd in seen.found.iter().flat_map(|found| &found.odd) {
        let _ = write!(out, "; {odd}");
    }
    out
}

fn packet(roce: &Roce<'_>) -> String {
    let mut out = roce.headers.to_string();
    if roce.headers.bth.opcode.info().is_some_and(|info| info.payload) {
        let _ = write!(out, " len {}", roce.payload_len);
    }
    let _ = write!(out, ", ICRC {}", roce.icrc);
    out
}

/// Opcode, number, QPN, handle: what every record has.
fn command(record: &CommandRecord) -> String {
    let name = record.opcode().map_or("unknown opcode", |opcode| opcode.name());
    let handle = match record.opcode() {
        Ok(opcode) if opcode.name().ends_with("_QP") => "PD handle",
        _ => "handle",
    };
    let (number, qpn, pd) = (record.opcode_number(), record.qpn(), record.pd());
    let mut out = format!("{name} ({number:#06x}), QPN {qpn:#08x}, {handle} {pd:#010x}");
    if record.errno() != 0 {
        let _ = write!(out, ", {}", model::errno(record));
    }
    out
}

/// A frame with all its fields.
pub(super) fn full(seen: &Seen<'_>) -> String {
    let link = seen.link.map_or("unknown link", |link| link.name());
    let mut out = format!("{} bytes, {link}", seen.sent_len);
    if seen.bytes.len() < seen.sent_len {
        let _ = write!(out, ", of which {} were captured", seen.bytes.len());
    }
    out.push('\n');
    match &seen.found {
        Ok(found) => fields(&mut out, found),
        Err(why) => row(&mut out, "error", why),
    }
    out
}

fn row(out: &mut String, name: &str, text: &str) {
    let _ = writeln!(out, "  {name:<NAME$}  {text}");
}

fn list(items: &[Item]) -> String {
    let texts: Vec<String> = items.iter().map(|item| format!("{}={}", item.name, item.text)).collect();
    texts.join(" ")
}

fn fields(out: &mut String, found: &Dissection<'_>) {
    if let Some(eth) = &found.eth {
        let vlan =
            eth.vlan.map(|tag| format!(", VLAN {} priority {}", tag & 0xfff, tag >> 13)).unwrap_or_default();
        row(out, "Ethernet", &format!("{} → {}{vlan}", model::mac(eth.src), model::mac(eth.dst)));
    }
    match &found.ip {
        Some(Ip::V4(ip)) => {
            let df = if ip.flags_fragment & 0x4000 != 0 { ", DF" } else { "" };
            let text = format!(
                "{} → {}, TOS {:#04x}, id {:#06x}{df}, TTL {}, {} bytes",
                ip.src, ip.dst, ip.tos, ip.id, ip.ttl, ip.total_len
            );
            row(out, "IPv4", &text);
        }
        Some(Ip::V6(ip)) => {
            let text = format!(
                "{} → {}, traffic class {:#04x}, flow label {:#07x}, hop limit {}, {} bytes after the header",
                ip.src, ip.dst, ip.tclass, ip.flow_label, ip.hop_limit, ip.payload_len
            );
            row(out, "IPv6", &text);
        }
        None => {}
    }
    match &found.content {
        Content::Roce(roce) => {
            row(out, "UDP", &format!("{} → {}, {} bytes", roce.udp.sport, roce.udp.dport, roce.udp.len));
            for (name, items) in model::headers(&roce.headers) {
                row(out, name, &list(&items));
            }
            row(out, "payload", &format!("{} bytes", roce.payload_len));
            row(out, "ICRC", &roce.icrc.to_string());
        }
        Content::Command(record) => {
            row(out, "command", &command(record));
            let flags: Vec<String> =
                record.flags().iter_names().map(|(name, _)| name.to_lowercase()).collect();
            let flags = if flags.is_empty() { "none".into() } else { flags.join("|") };
            let (seq, time) = (record.seq(), record.timestamp_ns());
            row(
                out,
                "status",
                &format!("errno={} flags={flags} seq={seq} timestamp_ns={time}", record.errno()),
            );
            let body = model::body(record);
            match body.iter().all(|item| item.value == 0) {
                true => row(out, "fields", "all zero"),
                false => row(out, "fields", &list(&body)),
            }
        }
    }
    for odd in &found.odd {
        row(out, "odd", &odd.to_string());
    }
}
