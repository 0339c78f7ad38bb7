//! The fields of a command's record, by name.

use glassnic_capture::lua::is_hex;
use glassnic_capture::names::Enumeration;
use glassnic_events::{AttrMask, Check, Gid};
use glassnic_explain::Lang;
use glassnic_verbs::timing::rnr_delay_ns;
use glassnic_wire::command::{CommandRecord, body};
use serde::Serialize;

use crate::decode::bracketed;
use crate::words::{access, ack_timeout, body_of, milliseconds, mtu, rnr_retry, words};

/// A field that belongs to a record's opcode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordField {
    /// Its name.
    pub name: &'static str,
    /// Offset in the record, in bytes.
    pub offset: usize,
    /// Its number; of one wider than eight bytes none.
    pub value: Option<u64>,
    /// What it means.
    pub decoded: String,
    /// Whether it says something: of a modify's fields only those do that its mask names.
    pub meant: bool,
}

impl RecordField {
    /// All fields of a record; none where the opcode is not known or has none.
    pub(super) fn all(lang: Lang, record: &CommandRecord) -> Vec<Self> {
        let Some(info) = record.opcode().ok().and_then(body::info) else { return Vec::new() };
        let bytes = record.to_bytes();
        let mask = record
            .body::<body::ModifyQp>()
            .map(|_| AttrMask::from_bits_retain(body_of::<body::ModifyQp>(record).attr_mask.get()));
        let fields = info.fields.iter().filter(|field| !field.is_reserved());
        let model = |field: &body::Field| Self {
            name: field.name,
            offset: field.offset,
            value: field.number(&bytes),
            decoded: decoded(lang, info.name, field, &bytes),
            meant: mask.is_none_or(|mask| bit_of(field.name).is_none_or(|bit| mask.intersects(bit))),
        };
        fields.map(model).collect()
    }
}

/// The bits of a modify's mask that give a field its meaning.
fn bit_of(field: &str) -> Option<AttrMask> {
    Some(match field {
        "path_mtu" => AttrMask::PATH_MTU,
        "timeout" => AttrMask::TIMEOUT,
        "dest_qpn_or_qkey" => AttrMask::DEST_QPN.union(AttrMask::QKEY),
        "rq_psn" => AttrMask::RQ_PSN,
        "sq_psn" => AttrMask::SQ_PSN,
        "dgid" | "sgid_index" => AttrMask::AV,
        "access" => AttrMask::ACCESS_FLAGS,
        "max_rd_atomic" => AttrMask::MAX_QP_RD_ATOMIC,
        "max_dest_rd_atomic" => AttrMask::MAX_DEST_RD_ATOMIC,
        "min_rnr_timer" => AttrMask::MIN_RNR_TIMER,
        "retry_cnt" => AttrMask::RETRY_CNT,
        "rnr_retry" => AttrMask::RNR_RETRY,
        "port_num" => AttrMask::PORT,
        _ => return None,
    })
}

fn decoded(lang: Lang, body: &str, field: &body::Field, bytes: &[u8; 72]) -> String {
    let Some(number) = field.number(bytes) else {
        return match <[u8; 16]>::try_from(field.bytes(bytes)) {
            Ok(gid) => Gid(gid).to_string(),
            Err(_) => field.bytes(bytes).iter().map(|byte| format!("{byte:02x}")).collect(),
        };
    };
    if matches!(field.name, "check" | "first_check") {
        return words::<Check>(lang, number as u32);
    }
    if let Some(name) = Enumeration::of(body, field.name).and_then(|kind| kind.name(number)) {
        return name.to_owned();
    }
    let code = number as u8;
    match field.name {
        "attr_mask" => AttrMask::from_bits_retain(number as u32).to_string(),
        "access" => access(code),
        "path_mtu" => mtu(code),
        "timeout" => ack_timeout(lang, code),
        "rnr_retry" => rnr_retry(lang, code),
        "min_rnr_timer" => bracketed(lang, &number.to_string(), &milliseconds(rnr_delay_ns(code))),
        other if is_hex(other) => format!("{number:#x}"),
        _ => number.to_string(),
    }
}
