//! A record of the flight recorder in words.

use std::fmt::Display;

use glassnic_events::{
    AsyncEventType, AttrMask, Call, Cause, Check, DropReason, FirstCause, Gid, NakCode, QpState, QpType,
    Refusal, WcStatus, WrOpcode,
};
use glassnic_explain::{Lang, explain_first_cause_in, explain_in};
use glassnic_verbs::attr::{AccessFlags, Mtu};
use glassnic_verbs::timing::{ack_timeout_ns, rnr_delay_ns};
use glassnic_wire::command::{Body, CommandOpcode, CommandRecord, body};

/// What a record tells.
#[derive(Debug, PartialEq, Eq)]
pub struct Told {
    /// The object that it is about: `QP 0x12`.
    pub subject: String,
    /// What became of it: `RESET → INIT`.
    pub what: String,
    /// By which call or event, and with which values.
    pub how: String,
}

impl Told {
    /// What became of an object, and how.
    #[must_use]
    pub fn new(subject: impl Into<String>, what: impl Into<String>, how: impl Into<String>) -> Self {
        Self { subject: subject.into(), what: what.into(), how: how.into() }
    }
}

/// Finds the records that say again what a line has said.
#[derive(Clone, Debug, Default)]
pub struct Repeats {
    /// A move that a command's line has told, and whose own record is still to come.
    moving: Option<(u32, u8, u8)>,
}

impl Repeats {
    /// Whether a record, in the order of the recorder, has been told before. A modify is kept as a command, as the move
    /// that follows from it, and as its end with what it changed; the command's line tells all of it.
    pub fn has(&mut self, record: &CommandRecord) -> bool {
        match record.opcode() {
            Ok(CommandOpcode::ModifyQp) => {
                let moved = record.body::<body::ModifyQp>();
                self.moving = moved.map(|b| (record.qpn(), b.from_state, b.to_state));
                false
            }
            Ok(CommandOpcode::StateMoved) => {
                let moved = record.body::<body::StateMoved>();
                let moved = moved.map(|b| (record.qpn(), b.from_state, b.to_state));
                moved.is_some() && self.moving.take_if(|moving| Some(*moving) == moved).is_some()
            }
            Ok(CommandOpcode::Executed) => true,
            _ => false,
        }
    }
}

/// A record in words. It comes from memory of another process: what is no value is shown as its number.
#[must_use]
pub fn tell(lang: Lang, record: &CommandRecord) -> Told {
    use CommandOpcode as Op;
    let qp = match record.qpn() {
        0 => "NIC".to_owned(),
        qpn => format!("QP {qpn:#x}"),
    };
    let Ok(opcode) = record.opcode() else {
        return Told::new(qp, "?", format!("a record of opcode {:#06x}", record.opcode_number()));
    };
    match opcode {
        Op::CreateQp => Told::new(qp, "created", created(record)),
        Op::ModifyQp => modified(qp, record),
        Op::QueryQp => Told::new(qp, "queried", queried(record)),
        Op::DestroyQp => Told::new(qp, "destroyed", Call::DestroyQp.name()),
        Op::StateMoved => {
            let b = body_of::<body::StateMoved>(record);
            Told::new(qp, arrow(b.from_state, b.to_state), name::<Cause>(b.cause.get()))
        }
        Op::Refusal => refused(lang, qp, record),
        Op::CompletionError => Told::new(qp, "error", failed(record)),
        Op::FirstError => Told::new(qp, "first error", first_cause(lang, record)),
        Op::NakSent => Told::new(qp, "NAK sent", nak(record)),
        Op::NakReceived => Told::new(qp, "NAK received", nak(record)),
        Op::AccessDenied => Told::new(qp, "access refused", denied(record)),
        Op::Timeout => {
            let b = body_of::<body::Timeout>(record);
            let psn = b.oldest_psn;
            Told::new(qp, "timeout", format!("no answer to PSN {psn:#x}, {} retries left", b.retries_left))
        }
        Op::Retransmit => {
            let psn = body_of::<body::Timeout>(record).oldest_psn;
            Told::new(qp, "sends again", format!("from PSN {psn:#x}"))
        }
        Op::AsyncEvent => {
            let b = body_of::<body::AsyncEvent>(record);
            Told::new(qp, "event", name::<AsyncEventType>(b.event_type.get()))
        }
        Op::FirstPost => {
            let b = body_of::<body::Traffic>(record);
            match b.side {
                0 => Told::new(qp, "first send", name::<WrOpcode>(b.opcode)),
                _ => Told::new(qp, "first receive", "posted"),
            }
        }
        Op::FirstPacketSent => {
            Told::new(qp, "first packet", format!("sent, PSN {:#x}", body_of::<body::Traffic>(record).psn))
        }
        Op::FirstPacketReceived => {
            Told::new(qp, "first packet", format!("came in, PSN {:#x}", body_of::<body::Traffic>(record).psn))
        }
        Op::PacketDropped => {
            let b = body_of::<body::Traffic>(record);
            Told::new(
                qp,
                "packet dropped",
                format!("PSN {:#x}: {}", b.psn, name::<DropReason>(b.cause.get())),
            )
        }
        _ => other(opcode, record),
    }
}

/// The fields of a record whose opcode has them.
pub(crate) fn body_of<B: Body + Default>(record: &CommandRecord) -> B {
    record.body().unwrap_or_default()
}

/// The name of a number of an enumeration.
pub(crate) fn name<E: TryFrom<u32> + Display>(value: impl Into<u32>) -> String {
    let value = value.into();
    E::try_from(value).map_or_else(|_| format!("{value}?"), |known| known.to_string())
}

/// `RESET → INIT`, or the state alone where it stays.
pub(crate) fn arrow(from: u8, to: u8) -> String {
    let (from, to) = (name::<QpState>(from), name::<QpState>(to));
    if from == to { format!("stays {to}") } else { format!("{from} → {to}") }
}

fn created(record: &CommandRecord) -> String {
    let b = body_of::<body::CreateQp>(record);
    let mut parts = vec![
        format!("{} in {}", name::<QpType>(b.qp_type), QpState::Reset),
        format!("max_send_wr={}", b.max_send_wr),
        format!("max_recv_wr={}", b.max_recv_wr),
        format!("pd={:#x}", record.pd()),
        format!("send_cq={:#x}", b.send_cq),
        format!("recv_cq={:#x}", b.recv_cq),
    ];
    if b.sq_sig_all == 1 {
        parts.push("sq_sig_all=1".into());
    }
    format!("{}: {}", Call::CreateQp, parts.join(" "))
}

fn modified(qp: String, record: &CommandRecord) -> Told {
    let b = body_of::<body::ModifyQp>(record);
    let changes = changes(&b);
    let how = if changes.is_empty() {
        Call::ModifyQp.name().to_owned()
    } else {
        format!("{}: {}", Call::ModifyQp, changes.join(" "))
    };
    Told::new(qp, arrow(b.from_state, b.to_state), how)
}

/// What the mask says, in the order in which programs fill it in.
fn changes(b: &body::ModifyQp) -> Vec<String> {
    let mask = AttrMask::from_bits_retain(b.attr_mask.get());
    let rnr_retry = if b.rnr_retry == 7 { "7 (without end)".to_owned() } else { b.rnr_retry.to_string() };
    let timeout = ack_timeout_ns(b.timeout).map_or("for ever".to_owned(), milliseconds);
    let all = [
        (AttrMask::PORT, format!("port_num={}", b.port_num)),
        (AttrMask::ACCESS_FLAGS, format!("qp_access_flags={}", access(b.access))),
        (AttrMask::QKEY, format!("qkey={:#x}", b.dest_qpn_or_qkey)),
        (AttrMask::PATH_MTU, format!("path_mtu={}", mtu(b.path_mtu))),
        (AttrMask::DEST_QPN, format!("dest_qp_num={:#x}", b.dest_qpn_or_qkey)),
        (AttrMask::RQ_PSN, format!("rq_psn={:#x}", b.rq_psn)),
        (AttrMask::AV, format!("dgid={} sgid_index={}", Gid(b.dgid), b.sgid_index)),
        (AttrMask::MAX_DEST_RD_ATOMIC, format!("max_dest_rd_atomic={}", b.max_dest_rd_atomic)),
        (
            AttrMask::MIN_RNR_TIMER,
            format!("min_rnr_timer={} ({})", b.min_rnr_timer, milliseconds(rnr_delay_ns(b.min_rnr_timer))),
        ),
        (AttrMask::SQ_PSN, format!("sq_psn={:#x}", b.sq_psn)),
        (AttrMask::TIMEOUT, format!("timeout={} ({timeout})", b.timeout)),
        (AttrMask::RETRY_CNT, format!("retry_cnt={}", b.retry_cnt)),
        (AttrMask::RNR_RETRY, format!("rnr_retry={rnr_retry}")),
        (AttrMask::MAX_QP_RD_ATOMIC, format!("max_rd_atomic={}", b.max_rd_atomic)),
    ];
    all.into_iter().filter(|(bit, _)| mask.contains(*bit)).map(|(_, text)| text).collect()
}

pub(crate) fn access(bits: u8) -> String {
    let names: Vec<_> =
        AccessFlags::from_bits_truncate(bits.into()).iter_names().map(|(name, _)| name).collect();
    if names.is_empty() { "0".into() } else { names.join("|") }
}

pub(crate) fn mtu(code: u8) -> String {
    let known = Mtu::ALL.iter().find(|mtu| mtu.value() == u32::from(code));
    known.map_or_else(|| format!("{code}?"), |mtu| mtu.bytes().to_string())
}

pub(crate) fn milliseconds(ns: u64) -> String {
    format!("{:.2} ms", ns as f64 / 1e6)
}

fn queried(record: &CommandRecord) -> String {
    let b = body_of::<body::QueryQp>(record);
    format!("{}: {} sq_psn={:#x} rq_psn={:#x}", Call::QueryQp, name::<QpState>(b.state), b.sq_psn, b.rq_psn)
}

fn refused(lang: Lang, subject: String, record: &CommandRecord) -> Told {
    let words = body_of::<body::Refusal>(record).words.map(|word| word.get());
    match Refusal::from_words(&words) {
        Some(refusal) => Told::new(subject, "refused", explain_in(lang, &refusal).to_string()),
        None => Told::new(subject, "refused", format!("errno {}", record.errno())),
    }
}

fn failed(record: &CommandRecord) -> String {
    let b = body_of::<body::CompletionError>(record);
    let (status, check) = (name::<WcStatus>(b.status), name::<Check>(b.check.get()));
    format!("{status} for wr_id={:#x}: {check}", b.wr_id)
}

fn first_cause(lang: Lang, record: &CommandRecord) -> String {
    let b = body_of::<body::CompletionError>(record);
    let status = WcStatus::try_from(u32::from(b.status));
    let check = Check::try_from(u32::from(b.check.get()));
    let (Ok(status), Ok(check)) = (status, check) else { return failed(record) };
    // Records have 0 where there is none.
    let some = |value: u64| Some(value).filter(|value| *value != 0);
    let psn = some(b.psn.get().into()).and_then(|psn| psn.try_into().ok());
    let cause = FirstCause { wr_id: some(b.wr_id.get()), psn, status, check };
    let explained = explain_first_cause_in(lang, record.qpn(), &cause);
    format!("{}; {}", explained.what, explained.remedy)
}

fn denied(record: &CommandRecord) -> String {
    let b = body_of::<body::AccessDenied>(record);
    let check = name::<Check>(b.check.get());
    format!("{} bytes at {:#x} with key {:#x}: {check}", b.length, b.addr, b.key)
}

fn nak(record: &CommandRecord) -> String {
    let b = body_of::<body::Nak>(record);
    // AETH syndrome, IBA table 45: bits 5 and 6 are 01 for RNR and 11 for a NAK with its code.
    if b.syndrome >> 5 & 3 == 1 {
        return format!(
            "RNR at PSN {:#x}: no receive is posted, wait {}",
            b.psn,
            milliseconds(b.delay_ns.get())
        );
    }
    let code = name::<NakCode>(b.syndrome & 31);
    match Check::try_from(u32::from(b.check.get())) {
        Ok(check) if check != Check::None => format!("{code} at PSN {:#x}: {check}", b.psn),
        _ => format!("{code} at PSN {:#x}", b.psn),
    }
}

/// Commands on other objects, whose handle stands where QPs have their PD.
fn other(opcode: CommandOpcode, record: &CommandRecord) -> Told {
    use CommandOpcode as Op;
    let handle = record.pd();
    let (kind, what, call) = match opcode {
        Op::AllocPd => ("PD", "allocated", Call::AllocPd),
        Op::DeallocPd => ("PD", "freed", Call::DeallocPd),
        Op::RegMr => return registered(record),
        Op::DeregMr => ("MR", "deregistered", Call::DeregMr),
        Op::CreateCq => {
            let entries = body_of::<body::CreateQueue>(record).granted;
            return Told::new(
                format!("CQ {handle:#x}"),
                "created",
                format!("{}: cqe={entries}", Call::CreateCq),
            );
        }
        Op::DestroyCq => ("CQ", "destroyed", Call::DestroyCq),
        Op::CreateAh => ("AH", "created", Call::CreateAh),
        Op::DestroyAh => ("AH", "destroyed", Call::DestroyAh),
        _ => return Told::new("NIC", opcode.name(), format!("object {handle:#x}")),
    };
    Told::new(format!("{kind} {handle:#x}"), what, call.name())
}

fn registered(record: &CommandRecord) -> Told {
    let b = body_of::<body::RegMr>(record);
    let access = access(b.access.get() as u8);
    let how =
        format!("{}: length={} lkey={:#x} rkey={:#x} access={access}", Call::RegMr, b.length, b.lkey, b.rkey);
    Told::new(format!("PD {:#x}", record.pd()), "memory", how)
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassnic_events::{Field, Rule};

    fn record<B: Body>(opcode: CommandOpcode, qpn: u32, body: &B) -> CommandRecord {
        let mut record = CommandRecord::with_body(opcode, body).unwrap();
        record.set_qpn(qpn);
        record
    }

    fn line(record: &CommandRecord) -> String {
        let Told { subject, what, how } = tell(Lang::En, record);
        format!("{subject} | {what} | {how}")
    }

    #[test]
    fn a_life_of_a_queue_pair() {
        let create = body::CreateQp {
            send_cq: 1.into(),
            recv_cq: 1.into(),
            max_send_wr: 1.into(),
            max_recv_wr: 500.into(),
            qp_type: 2,
            ..Default::default()
        };
        let init = AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::ACCESS_FLAGS;
        let to_init = body::ModifyQp {
            attr_mask: init.bits().into(),
            to_state: 1,
            port_num: 1,
            access: 2,
            ..Default::default()
        };
        let rtr = AttrMask::STATE
            | AttrMask::AV
            | AttrMask::PATH_MTU
            | AttrMask::DEST_QPN
            | AttrMask::RQ_PSN
            | AttrMask::MAX_DEST_RD_ATOMIC
            | AttrMask::MIN_RNR_TIMER;
        let gid = "::ffff:192.0.2.7".parse::<std::net::Ipv6Addr>().unwrap().octets();
        let to_rtr = body::ModifyQp {
            attr_mask: rtr.bits().into(),
            from_state: 1,
            to_state: 2,
            path_mtu: 3,
            dest_qpn_or_qkey: 0x4321.into(),
            rq_psn: 0xabc.into(),
            dgid: gid,
            max_dest_rd_atomic: 1,
            min_rnr_timer: 12,
            ..Default::default()
        };
        let rts = AttrMask::STATE
            | AttrMask::SQ_PSN
            | AttrMask::TIMEOUT
            | AttrMask::RETRY_CNT
            | AttrMask::RNR_RETRY
            | AttrMask::MAX_QP_RD_ATOMIC;
        let to_rts = body::ModifyQp {
            attr_mask: rts.bits().into(),
            from_state: 2,
            to_state: 3,
            timeout: 14,
            sq_psn: 0xdef.into(),
            max_rd_atomic: 1,
            retry_cnt: 7,
            rnr_retry: 7,
            ..Default::default()
        };
        use CommandOpcode as Op;
        let lines = [
            line(&record(Op::CreateQp, 0x1234, &create)),
            line(&record(Op::ModifyQp, 0x1234, &to_init)),
            line(&record(Op::ModifyQp, 0x1234, &to_rtr)),
            line(&record(Op::ModifyQp, 0x1234, &to_rts)),
            line(&record(Op::FirstPost, 0x1234, &body::Traffic { opcode: 2, ..Default::default() })),
            line(&record(
                Op::FirstPacketReceived,
                0x1234,
                &body::Traffic { psn: 0xabc.into(), ..Default::default() },
            )),
            line(&record(Op::DestroyQp, 0x1234, &body::DestroyQp::default())),
        ];
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn what_goes_wrong() {
        use CommandOpcode as Op;
        let rule = Rule::OutOfRange { what: Field::Timeout, offered: 40, min: 0, max: 31 };
        let refusal = Refusal::on_qp(Call::ModifyQp, 5, rule).moving(QpState::Rtr, QpState::Rts);
        let refusal = body::Refusal { words: refusal.to_words().map(Into::into), ..Default::default() };
        let rnr = body::Nak { syndrome: 0x20, psn: 7.into(), delay_ns: 640_000.into(), ..Default::default() };
        let access = Check::RkeyAccess.value() as u16;
        let nak = body::Nak { syndrome: 0x62, psn: 8.into(), check: access.into(), ..Default::default() };
        let exhausted = Check::RetryExhausted.value() as u16;
        let error = body::CompletionError {
            status: 12,
            check: exhausted.into(),
            wr_id: 3.into(),
            ..Default::default()
        };
        let moved = body::StateMoved { from_state: 3, to_state: 6, cause: 2.into(), ..Default::default() };
        let dropped = body::Traffic { cause: 3.into(), psn: 9.into(), ..Default::default() };
        let timeout = body::Timeout { retries_left: 6, oldest_psn: 9.into(), ..Default::default() };
        let lines = [
            line(&record(Op::Refusal, 5, &refusal)),
            line(&record(Op::NakSent, 5, &nak)),
            line(&record(Op::NakReceived, 5, &rnr)),
            line(&record(Op::Timeout, 5, &timeout)),
            line(&record(Op::Retransmit, 5, &timeout)),
            line(&record(Op::FirstError, 5, &error)),
            line(&record(Op::CompletionError, 5, &error)),
            line(&record(Op::StateMoved, 5, &moved)),
            line(&record(Op::PacketDropped, 0, &dropped)),
            line(&record(
                Op::AsyncEvent,
                5,
                &body::AsyncEvent { event_type: 1.into(), ..Default::default() },
            )),
        ];
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn nonsense_is_shown_as_its_number_and_does_no_harm() {
        let bytes = [0xff; glassnic_wire::command::RECORD_LEN];
        assert_eq!(line(&CommandRecord::from_bytes(&bytes)), "QP 0xffffffff | ? | a record of opcode 0xffff");
        for opcode in CommandOpcode::ALL {
            let mut bytes = bytes;
            bytes[..2].copy_from_slice(&opcode.number().to_le_bytes());
            assert!(!line(&CommandRecord::from_bytes(&bytes)).is_empty(), "{opcode}");
        }
        let moved = body::StateMoved { from_state: 9, to_state: 250, cause: 77.into(), ..Default::default() };
        assert_eq!(line(&record(CommandOpcode::StateMoved, 5, &moved)), "QP 0x5 | 9? → 250? | 77?");
    }
}
