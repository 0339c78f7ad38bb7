//! What is shown of a frame: its headers as lists of fields, and as JSON.

use glassnic_capture::lua::is_hex;
use glassnic_capture::names::Enumeration;
use glassnic_events::{Cause, Check, DropReason, Errno, Gid};
use glassnic_explain::{InWords, Lang};
use glassnic_wire::Headers;
use glassnic_wire::command::{CommandRecord, body};
use glassnic_wire::dissect::{Content, Roce, Verdict};
use glassnic_wire::frame::Ip;
use serde_json::{Map, Value, json};

use super::Seen;
use super::words::oddity;

/// A field: its name, its value, and the value as people write it.
pub(super) struct Item {
    pub(super) name: &'static str,
    pub(super) value: Value,
    pub(super) text: String,
}

fn dec(name: &'static str, value: impl Into<u64>) -> Item {
    let value = value.into();
    Item { name, value: value.into(), text: value.to_string() }
}

fn flag(name: &'static str, value: bool) -> Item {
    Item { name, value: value.into(), text: u8::from(value).to_string() }
}

fn hex(name: &'static str, digits: usize, value: impl Into<u64>) -> Item {
    let value = value.into();
    Item { name, value: value.into(), text: format!("{value:#0width$x}", width = digits + 2) }
}

fn words(name: &'static str, text: String) -> Item {
    Item { name, value: text.clone().into(), text }
}

/// The transport headers of a packet, each with its fields.
pub(super) fn headers(headers: &Headers) -> Vec<(&'static str, Vec<Item>)> {
    let bth = &headers.bth;
    let mut all = vec![(
        "BTH",
        vec![
            words("opcode", bth.opcode.to_string()),
            hex("opcode_number", 2, bth.opcode.0),
            hex("dest_qp", 6, bth.dest_qp.value()),
            hex("psn", 6, bth.psn.value()),
            flag("ack_req", bth.ack_req),
            flag("solicited", bth.solicited),
            flag("mig_req", bth.mig_req),
            hex("pkey", 4, bth.pkey),
            dec("pad", bth.pad),
            dec("tver", bth.tver),
            flag("fecn", bth.fecn),
            flag("becn", bth.becn),
        ],
    )];
    let mut put = |name, items| all.push((name, items));
    if let Some(h) = &headers.deth {
        put("DETH", vec![hex("qkey", 8, h.qkey), hex("src_qp", 6, h.src_qp.value())]);
    }
    if let Some(h) = &headers.xrceth {
        put("XRCETH", vec![hex("srqn", 6, h.srqn)]);
    }
    if let Some(h) = &headers.feth {
        put("FETH", vec![hex("flush", 8, h.0)]);
    }
    if let Some(h) = &headers.reth {
        put("RETH", vec![hex("va", 1, h.va), hex("rkey", 8, h.rkey), dec("dma_len", h.dma_len)]);
    }
    if let Some(h) = &headers.atomic {
        let operands = [hex("swap_add", 1, h.swap_add), hex("compare", 1, h.compare)];
        put("AtomicETH", [hex("va", 1, h.va), hex("rkey", 8, h.rkey)].into_iter().chain(operands).collect());
    }
    if let Some(h) = &headers.aeth {
        let syndrome = hex("syndrome_number", 2, h.syndrome.0);
        put("AETH", vec![words("syndrome", h.syndrome.to_string()), syndrome, dec("msn", h.msn)]);
    }
    if let Some(h) = &headers.atomic_ack {
        put("AtomicAckETH", vec![hex("original", 1, h.original)]);
    }
    if let Some(imm) = headers.imm {
        put("ImmDt", vec![hex("imm", 8, imm)]);
    }
    if let Some(rkey) = headers.ieth {
        put("IETH", vec![hex("rkey", 8, rkey)]);
    }
    all
}

/// The fields of a command record that belong to its opcode; none where the opcode is not known.
pub(super) fn body(lang: Lang, record: &CommandRecord) -> Vec<Item> {
    let Some(body) = record.opcode().ok().and_then(body::info) else { return Vec::new() };
    let bytes = record.to_bytes();
    let fields = body.fields.iter().filter(|field| !field.is_reserved());
    let item = |field: &body::Field| match field.number(&bytes) {
        Some(number) => {
            let mut item = match is_hex(field.name) {
                true => hex(field.name, 1, number),
                false => dec(field.name, number),
            };
            let kind = Enumeration::of(body.name, field.name);
            if let Some(name) = kind.and_then(|kind| name_of(lang, kind, number)) {
                item.text = format!("{name} ({number})");
            }
            item
        }
        None => match <[u8; 16]>::try_from(field.bytes(&bytes)) {
            Ok(gid) => words(field.name, Gid(gid).to_string()),
            Err(_) => {
                words(field.name, field.bytes(&bytes).iter().map(|byte| format!("{byte:02x}")).collect())
            }
        },
    };
    fields.map(item).collect()
}

/// What a number of an enumeration is called: in few words where it is no name of a specification.
fn name_of(lang: Lang, kind: Enumeration, number: u64) -> Option<&'static str> {
    fn words<E: TryFrom<u32> + InWords>(lang: Lang, number: u64) -> Option<&'static str> {
        Some(E::try_from(u32::try_from(number).ok()?).ok()?.in_words(lang))
    }
    match kind {
        Enumeration::Check => words::<Check>(lang, number),
        Enumeration::Cause => words::<Cause>(lang, number),
        Enumeration::DropReason => words::<DropReason>(lang, number),
        _ => kind.name(number),
    }
}

/// An errno as people write it.
pub(super) fn errno(record: &CommandRecord) -> String {
    Errno(record.errno().into()).to_string()
}

/// A frame as a JSON object.
pub(super) fn json(lang: Lang, seen: &Seen<'_>) -> Value {
    let mut frame = Map::new();
    frame.insert("frame".into(), seen.number.into());
    frame.insert("time_ns".into(), seen.time_ns.into());
    frame.insert("length".into(), seen.sent_len.into());
    frame.insert("captured".into(), seen.bytes.len().into());
    frame.insert("link".into(), seen.link.map(|link| link.name()).into());
    let found = match &seen.found {
        Ok(found) => found,
        Err(why) => {
            frame.insert("error".into(), why.as_str().into());
            return frame.into();
        }
    };
    if let Some(eth) = &found.eth {
        let value =
            json!({ "dst": mac(eth.dst), "src": mac(eth.src), "vlan": eth.vlan.map(|tag| tag & 0xfff) });
        frame.insert("eth".into(), value);
    }
    if let Some(ip) = &found.ip {
        frame.insert("ip".into(), ip_json(ip));
    }
    match &found.content {
        Content::Roce(roce) => {
            let udp = json!({ "sport": roce.udp.sport, "dport": roce.udp.dport, "length": roce.udp.len });
            frame.insert("udp".into(), udp);
            frame.insert("roce".into(), roce_json(roce));
        }
        Content::Command(record) => {
            frame.insert("command".into(), command_json(lang, record));
        }
    }
    let odd = found.odd.iter().map(|odd| json!({ "what": odd.name(), "text": oddity(lang, odd) }));
    frame.insert("odd".into(), odd.collect());
    frame.into()
}

fn object(items: Vec<Item>) -> Value {
    items.into_iter().map(|item| (item.name.to_owned(), item.value)).collect::<Map<_, _>>().into()
}

fn ip_json(ip: &Ip) -> Value {
    match ip {
        Ip::V4(ip) => json!({
            "version": 4, "src": ip.src, "dst": ip.dst, "tos": ip.tos, "ttl": ip.ttl, "id": ip.id,
            "dont_fragment": ip.flags_fragment & 0x4000 != 0, "total_length": ip.total_len, "checksum": ip.checksum,
            "checksum_expected": ip.computed_checksum(),
        }),
        Ip::V6(ip) => json!({
            "version": 6, "src": ip.src, "dst": ip.dst, "tos": ip.tclass, "ttl": ip.hop_limit,
            "flow_label": ip.flow_label, "payload_length": ip.payload_len,
        }),
    }
}

fn roce_json(roce: &Roce<'_>) -> Value {
    let icrc = match roce.icrc {
        Verdict::Good => json!({ "verdict": "good" }),
        Verdict::GoodForId(id) => json!({ "verdict": "good_for_id", "ipv4_id": id }),
        Verdict::Wrong { expected, found } => {
            json!({ "verdict": "wrong", "expected": expected, "found": found })
        }
        Verdict::CutOff => json!({ "verdict": "not_captured" }),
    };
    let headers =
        headers(&roce.headers).into_iter().map(|(name, items)| (name.to_lowercase(), object(items)));
    let mut all: Map<String, Value> = headers.collect();
    all.insert("payload_length".into(), roce.payload_len.into());
    all.insert("icrc".into(), icrc);
    all.into()
}

fn command_json(lang: Lang, record: &CommandRecord) -> Value {
    let flags: Vec<String> = record.flags().iter_names().map(|(name, _)| name.to_lowercase()).collect();
    json!({
        "opcode": record.opcode().ok().map(|opcode| opcode.name()), "opcode_number": record.opcode_number(),
        "qpn": record.qpn(), "pd": record.pd(), "errno": record.errno(), "flags": flags, "seq": record.seq(),
        "timestamp_ns": record.timestamp_ns(), "body": object(body(lang, record)),
    })
}

/// A MAC address.
pub(super) fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}
