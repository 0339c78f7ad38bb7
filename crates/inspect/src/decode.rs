//! Fields of the segment's blocks, by name, number and words.

use glassnic_events::{Call, Check, DropReason, Gid, QpState, QpType, WcStatus};
use glassnic_explain::Lang;
use glassnic_verbs::fields::FieldInfo;
use glassnic_verbs::timing::rnr_delay_ns;
use serde::Serialize;

use crate::chinese::doc;
use crate::words::{access, ack_timeout, milliseconds, mtu, name, rnr_retry, words};

/// A field of a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldModel {
    /// Its name.
    pub name: &'static str,
    /// Offset in the block, in bytes.
    pub offset: usize,
    /// Width in bytes.
    pub width: usize,
    /// Its bytes, as they stand in memory.
    pub bytes: Vec<u8>,
    /// Its number; of one wider than eight bytes none.
    pub value: Option<u64>,
    /// What the number means.
    pub decoded: String,
    /// What the field says.
    pub doc: &'static str,
}

impl FieldModel {
    /// All fields of a block.
    pub(crate) fn all(lang: Lang, fields: &'static [FieldInfo], block: &[u8], now_ns: u64) -> Vec<Self> {
        let model = |field: &'static FieldInfo| Self {
            name: field.name,
            offset: field.offset,
            width: field.width,
            bytes: field.bytes(block).to_vec(),
            value: (field.width <= 8).then(|| field.value(block)),
            decoded: decode(lang, field, block, now_ns),
            doc: doc(lang, field.doc),
        };
        fields.iter().map(model).collect()
    }
}

/// What the value of a field means; times are told as how long ago they were.
#[must_use]
pub fn decode(lang: Lang, field: &FieldInfo, block: &[u8], now_ns: u64) -> String {
    let value = field.value(block);
    let code = value as u32;
    match field.name {
        "state" => name::<QpState>(code),
        "qp_type" => name::<QpType>(code),
        "first_status" if code == 0 => lang.pick("none", "无").into(),
        "first_status" => name::<WcStatus>(code),
        "first_check" => words::<Check>(lang, code),
        "last_drop" if code == 0 => lang.pick("none", "无").into(),
        "last_drop" => words::<DropReason>(lang, code),
        "refused_call" if code == 0 => lang.pick("none", "无").into(),
        "refused_call" => name::<Call>(code),
        "access" => access(code as u8),
        "path_mtu" => mtu(code as u8),
        "path_mig_state" => ["MIGRATED", "REARM", "ARMED"].get(code as usize).copied().unwrap_or("?").into(),
        "dgid" | "alt_dgid" => {
            let mut gid = [0; 16];
            gid.iter_mut().zip(field.bytes(block)).for_each(|(to, from)| *to = *from);
            Gid(gid).to_string()
        }
        "timeout" => ack_timeout(lang, code as u8),
        "min_rnr_timer" => bracketed(lang, &value.to_string(), &milliseconds(rnr_delay_ns(code as u8))),
        "rnr_retry" => rnr_retry(lang, code as u8),
        "qpn" | "dest_qpn" | "pd" | "send_cq" | "recv_cq" | "srq" | "qkey" | "first_psn" | "next_psn"
        | "unacknowledged" | "expected_psn" | "flow_label" | "first_wr_id" => format!("{value:#x}"),
        other if other.ends_with("_ns") => match value {
            0 => lang.pick("never", "从未").into(),
            at => ago(lang, now_ns.saturating_sub(at)),
        },
        _ => value.to_string(),
    }
}

/// `7 (without end)`, with the brackets of the language.
pub(crate) fn bracketed(lang: Lang, value: &str, meaning: &str) -> String {
    match lang {
        Lang::Zh => format!("{value}（{meaning}）"),
        _ => format!("{value} ({meaning})"),
    }
}

/// How long ago.
pub(crate) fn ago(lang: Lang, ns: u64) -> String {
    format!("{}{}", span(ns), lang.pick(" ago", " 前"))
}

/// A length of time, as short as a person reads it.
pub(crate) fn span(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        1_000_000_000..60_000_000_000 => format!("{:.1} s", ns as f64 / 1e9),
        60_000_000_000..3_600_000_000_000 => {
            format!("{} min {} s", ns / 60_000_000_000, ns / 1_000_000_000 % 60)
        }
        _ => format!("{} h {} min", ns / 3_600_000_000_000, ns / 60_000_000_000 % 60),
    }
}
