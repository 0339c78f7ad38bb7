//! Frames as text.

use std::fmt::Write;

use glassnic_explain::{Lang, both};
use glassnic_inspect::text::pad;
use glassnic_wire::command::CommandRecord;
use glassnic_wire::dissect::{Content, Dissection, Roce};
use glassnic_wire::frame::Ip;

use super::Seen;
use super::model::{self, Item};
use super::words;

/// Width of the column of header names.
const NAME: usize = 12;

/// One line for a frame of many. `first` is the time of the first.
pub(super) fn line(lang: Lang, seen: &Seen<'_>, first: Option<u64>) -> String {
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
                Content::Roce(roce) => write!(out, "  {}", packet(lang, roce)),
                Content::Command(record) => {
                    let mut body = model::body(lang, record);
                    body.retain(|item| item.value != 0);
                    let gap = if body.is_empty() { "" } else { lang.pick(", ", "，") };
                    write!(out, "  {}{gap}{}", command(lang, record), list(&body))
                }
            }
        }
    };
    for odd in seen.found.iter().flat_map(|found| &found.odd) {
        let _ = write!(out, "{}{}", lang.pick("; ", "；"), words::oddity(lang, odd));
    }
    out
}

fn packet(lang: Lang, roce: &Roce<'_>) -> String {
    let mut out = roce.headers.to_string();
    if roce.headers.bth.opcode.info().is_some_and(|info| info.payload) {
        let _ = write!(out, " len {}", roce.payload_len);
    }
    let _ = write!(out, "{}ICRC {}", lang.pick(", ", "，"), words::verdict(lang, roce.icrc));
    out
}

/// Opcode, number, QPN, handle: what every record has.
fn command(lang: Lang, record: &CommandRecord) -> String {
    let name = record.opcode().map_or(lang.pick("unknown opcode", "未知操作码"), |opcode| opcode.name());
    let handle = match record.opcode() {
        Ok(opcode) if opcode.name().ends_with("_QP") => lang.pick("PD handle", "PD 句柄"),
        _ => lang.pick("handle", "句柄"),
    };
    let (number, qpn, pd) = (record.opcode_number(), record.qpn(), record.pd());
    let mut out = both!(
        lang,
        "{name} ({number:#06x}), QPN {qpn:#08x}, {handle} {pd:#010x}",
        "{name} ({number:#06x})，QPN {qpn:#08x}，{handle} {pd:#010x}"
    );
    if record.errno() != 0 {
        let _ = write!(out, "{}{}", lang.pick(", ", "，"), model::errno(record));
    }
    out
}

/// A frame with all its fields.
pub(super) fn full(lang: Lang, seen: &Seen<'_>) -> String {
    let (link, captured) = (words::link(lang, seen.link), seen.bytes.len());
    let mut out = both!(lang, "{} bytes, {link}", "{} 字节，{link}", seen.sent_len);
    if seen.bytes.len() < seen.sent_len {
        let cut = both!(lang, ", of which {captured} were captured", "，其中捕获了 {captured} 字节");
        out.push_str(&cut);
    }
    out.push('\n');
    match &seen.found {
        Ok(found) => fields(lang, &mut out, found),
        Err(why) => row(&mut out, lang.pick("error", "错误"), why),
    }
    out
}

fn row(out: &mut String, name: &str, text: &str) {
    let _ = writeln!(out, "  {}  {text}", pad(name, NAME));
}

fn list(items: &[Item]) -> String {
    let texts: Vec<String> = items.iter().map(|item| format!("{}={}", item.name, item.text)).collect();
    texts.join(" ")
}

fn fields(lang: Lang, out: &mut String, found: &Dissection<'_>) {
    if let Some(eth) = &found.eth {
        let tag =
            |tag: u16| both!(lang, ", VLAN {} priority {}", "，VLAN {} 优先级 {}", tag & 0xfff, tag >> 13);
        let vlan = eth.vlan.map(tag).unwrap_or_default();
        row(out, "Ethernet", &format!("{} → {}{vlan}", model::mac(eth.src), model::mac(eth.dst)));
    }
    if let Some(ip) = &found.ip {
        let (name, text) = ip_fields(lang, ip);
        row(out, name, &text);
    }
    match &found.content {
        Content::Roce(roce) => {
            let (from, to, len) = (roce.udp.sport, roce.udp.dport, roce.udp.len);
            row(out, "UDP", &both!(lang, "{from} → {to}, {len} bytes", "{from} → {to}，{len} 字节"));
            for (name, items) in model::headers(&roce.headers) {
                row(out, name, &list(&items));
            }
            let len = roce.payload_len;
            row(out, lang.pick("payload", "负载"), &both!(lang, "{len} bytes", "{len} 字节"));
            row(out, "ICRC", &words::verdict(lang, roce.icrc));
        }
        Content::Command(record) => {
            row(out, lang.pick("command", "命令"), &command(lang, record));
            let flags: Vec<String> =
                record.flags().iter_names().map(|(name, _)| name.to_lowercase()).collect();
            let flags = if flags.is_empty() { lang.pick("none", "无").into() } else { flags.join("|") };
            let (errno, seq, time) = (record.errno(), record.seq(), record.timestamp_ns());
            let status = format!("errno={errno} flags={flags} seq={seq} timestamp_ns={time}");
            row(out, lang.pick("status", "状态"), &status);
            let body = model::body(lang, record);
            let fields = match body.iter().all(|item| item.value == 0) {
                true => lang.pick("all zero", "全为零").to_owned(),
                false => list(&body),
            };
            row(out, lang.pick("fields", "字段"), &fields);
        }
    }
    for odd in &found.odd {
        row(out, lang.pick("odd", "异常"), &words::oddity(lang, odd));
    }
}

/// The header's name, and what is in it.
fn ip_fields(lang: Lang, ip: &Ip) -> (&'static str, String) {
    match ip {
        Ip::V4(ip) => {
            let df = if ip.flags_fragment & 0x4000 != 0 { lang.pick(", DF", "，DF") } else { "" };
            let text = both!(
                lang,
                "{} → {}, TOS {:#04x}, id {:#06x}{df}, TTL {}, {} bytes",
                "{} → {}，TOS {:#04x}，id {:#06x}{df}，TTL {}，{} 字节",
                ip.src,
                ip.dst,
                ip.tos,
                ip.id,
                ip.ttl,
                ip.total_len
            );
            ("IPv4", text)
        }
        Ip::V6(ip) => {
            let text = both!(
                lang,
                "{} → {}, traffic class {:#04x}, flow label {:#07x}, hop limit {}, {} bytes after the header",
                "{} → {}，流量类别 {:#04x}，流标签 {:#07x}，跳数上限 {}，头部之后 {} 字节",
                ip.src,
                ip.dst,
                ip.tclass,
                ip.flow_label,
                ip.hop_limit,
                ip.payload_len
            );
            ("IPv6", text)
        }
    }
}
