//! A record of the flight recorder in words.

use std::fmt::Display;

use glassnic_events::{
    AsyncEventType, AttrMask, Call, Cause, Check, DropReason, FirstCause, Gid, NakCode, ObjectKind, QpState,
    QpType, Refusal, WcStatus, WrOpcode,
};
use glassnic_explain::{InWords, Lang, explain_first_cause_in, explain_in};
use glassnic_verbs::attr::{AccessFlags, Mtu};
use glassnic_verbs::timing::{ack_timeout_ns, rnr_delay_ns};
use glassnic_wire::command::{Body, CommandOpcode, CommandRecord, body};
use glassnic_wire::opcode::Opcode;

use crate::decode::bracketed;

pub(crate) use glassnic_explain::both;

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
        return Told::new(
            qp,
            "?",
            format!("{} {:#06x}", lang.pick("a record of opcode", "记录，操作码"), record.opcode_number()),
        );
    };
    match opcode {
        Op::CreateQp => Told::new(qp, lang.pick("created", "已创建"), created(lang, record)),
        Op::ModifyQp => modified(lang, qp, record),
        Op::QueryQp => Told::new(qp, lang.pick("queried", "查询"), queried(record)),
        Op::DestroyQp => Told::new(qp, lang.pick("destroyed", "已销毁"), Call::DestroyQp.name()),
        Op::StateMoved => {
            let b = body_of::<body::StateMoved>(record);
            let mut how = words::<Cause>(lang, b.cause.get());
            if b.wr_id.get() != 0 {
                how.push_str(&both!(lang, ": wr_id={:#x}", "：wr_id={:#x}", b.wr_id));
            }
            Told::new(qp, arrow(lang, b.from_state, b.to_state), how)
        }
        Op::Refusal => refused(lang, qp, record),
        Op::CompletionError => Told::new(qp, lang.pick("error", "错误"), failed(lang, record)),
        Op::FirstError => Told::new(qp, lang.pick("first error", "首个错误"), first_cause(lang, record)),
        Op::NakSent => Told::new(qp, lang.pick("NAK sent", "发出 NAK"), nak(lang, record)),
        Op::NakReceived => Told::new(qp, lang.pick("NAK received", "收到 NAK"), nak(lang, record)),
        Op::AccessDenied => Told::new(qp, lang.pick("access refused", "拒绝访问"), denied(lang, record)),
        Op::Timeout | Op::Retransmit => resends(lang, qp, opcode, record),
        Op::AsyncEvent => {
            let b = body_of::<body::AsyncEvent>(record);
            let mut how = name::<AsyncEventType>(b.event_type.get());
            if b.event_type.get() == AsyncEventType::CqErr.value() {
                let note = both!(lang, "CQ {:#x} has overrun", "CQ {:#x} 已溢出", b.handle);
                how = bracketed(lang, &how, &note);
            }
            let of_srq = [AsyncEventType::SrqLimitReached, AsyncEventType::SrqErr];
            if of_srq.iter().any(|event| event.value() == b.event_type.get()) {
                let srq = format!("SRQ {:#x}", b.handle);
                return Told::new(srq, lang.pick("event", "事件"), how);
            }
            Told::new(qp, lang.pick("event", "事件"), how)
        }
        Op::FirstPost | Op::FirstPacketSent | Op::FirstPacketReceived | Op::PacketDropped => {
            traffic(lang, qp, opcode, &body_of(record))
        }
        Op::DestroyWaits | Op::DestroyWaited => waits(lang, opcode, record),
        _ => other(lang, opcode, record),
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

/// The words for a number of an enumeration.
pub(crate) fn words<E: TryFrom<u32> + InWords>(lang: Lang, value: impl Into<u32>) -> String {
    let value = value.into();
    E::try_from(value).map_or_else(|_| format!("{value}?"), |known| known.in_words(lang).to_owned())
}

/// `RESET → INIT`, or the state alone where it stays.
pub(crate) fn arrow(lang: Lang, from: u8, to: u8) -> String {
    let (from, to) = (name::<QpState>(from), name::<QpState>(to));
    if from == to { both!(lang, "stays {to}", "仍为 {to}") } else { format!("{from} → {to}") }
}

fn created(lang: Lang, record: &CommandRecord) -> String {
    let b = body_of::<body::CreateQp>(record);
    let (qp_type, reset) = (name::<QpType>(b.qp_type), QpState::Reset);
    let mut parts = vec![
        both!(lang, "{qp_type} in {reset}", "{qp_type}，处于 {reset}"),
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

fn modified(lang: Lang, qp: String, record: &CommandRecord) -> Told {
    let b = body_of::<body::ModifyQp>(record);
    let changes = changes(lang, &b);
    let how = if changes.is_empty() {
        Call::ModifyQp.name().to_owned()
    } else {
        format!("{}: {}", Call::ModifyQp, changes.join(" "))
    };
    Told::new(qp, arrow(lang, b.from_state, b.to_state), how)
}

/// What the mask says, in the order in which programs fill it in.
fn changes(lang: Lang, b: &body::ModifyQp) -> Vec<String> {
    let mask = AttrMask::from_bits_retain(b.attr_mask.get());
    let rnr_retry = rnr_retry(lang, b.rnr_retry);
    let timeout = ack_timeout(lang, b.timeout);
    let min_rnr_timer =
        bracketed(lang, &b.min_rnr_timer.to_string(), &milliseconds(rnr_delay_ns(b.min_rnr_timer)));
    let all = [
        (AttrMask::PORT, format!("port_num={}", b.port_num)),
        (AttrMask::ACCESS_FLAGS, format!("qp_access_flags={}", access(b.access))),
        (AttrMask::QKEY, format!("qkey={:#x}", b.dest_qpn_or_qkey)),
        (AttrMask::PATH_MTU, format!("path_mtu={}", mtu(b.path_mtu))),
        (AttrMask::DEST_QPN, format!("dest_qp_num={:#x}", b.dest_qpn_or_qkey)),
        (AttrMask::RQ_PSN, format!("rq_psn={:#x}", b.rq_psn)),
        (AttrMask::AV, format!("dgid={} sgid_index={}", Gid(b.dgid), b.sgid_index)),
        (AttrMask::MAX_DEST_RD_ATOMIC, format!("max_dest_rd_atomic={}", b.max_dest_rd_atomic)),
        (AttrMask::MIN_RNR_TIMER, format!("min_rnr_timer={min_rnr_timer}")),
        (AttrMask::SQ_PSN, format!("sq_psn={:#x}", b.sq_psn)),
        (AttrMask::TIMEOUT, format!("timeout={timeout}")),
        (AttrMask::RETRY_CNT, format!("retry_cnt={}", b.retry_cnt)),
        (AttrMask::RNR_RETRY, format!("rnr_retry={rnr_retry}")),
        (AttrMask::MAX_QP_RD_ATOMIC, format!("max_rd_atomic={}", b.max_rd_atomic)),
    ];
    all.into_iter().filter(|(bit, _)| mask.contains(*bit)).map(|(_, text)| text).collect()
}

/// `14 (67.11 ms)`.
pub(crate) fn ack_timeout(lang: Lang, code: u8) -> String {
    let time = ack_timeout_ns(code).map_or(lang.pick("for ever", "无限").to_owned(), milliseconds);
    bracketed(lang, &code.to_string(), &time)
}

pub(crate) fn rnr_retry(lang: Lang, count: u8) -> String {
    if count == 7 {
        bracketed(lang, "7", lang.pick("without end", "不限次数"))
    } else {
        count.to_string()
    }
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
    let how = match Refusal::from_words(&words) {
        Some(refusal) => explain_in(lang, &refusal).to_string(),
        None => format!("errno {}", record.errno()),
    };
    Told::new(subject, lang.pick("refused", "被拒绝"), how)
}

fn failed(lang: Lang, record: &CommandRecord) -> String {
    let b = body_of::<body::CompletionError>(record);
    let (status, check) = (name::<WcStatus>(b.status), words::<Check>(lang, b.check.get()));
    both!(lang, "{status} for wr_id={:#x}: {check}", "{status}，wr_id={:#x}：{check}", b.wr_id)
}

fn first_cause(lang: Lang, record: &CommandRecord) -> String {
    let b = body_of::<body::CompletionError>(record);
    let status = WcStatus::try_from(u32::from(b.status));
    let check = Check::try_from(u32::from(b.check.get()));
    let (Ok(status), Ok(check)) = (status, check) else { return failed(lang, record) };
    // Records have 0 where there is none.
    let some = |value: u64| Some(value).filter(|value| *value != 0);
    let psn = some(b.psn.get().into()).and_then(|psn| psn.try_into().ok());
    let cause = FirstCause { wr_id: some(b.wr_id.get()), psn, status, check };
    let explained = explain_first_cause_in(lang, record.qpn(), &cause);
    format!("{}{}{}", explained.what, lang.pick("; ", "；"), explained.remedy)
}

fn denied(lang: Lang, record: &CommandRecord) -> String {
    let b = body_of::<body::AccessDenied>(record);
    let (length, addr, key) = (b.length, b.addr, b.key);
    let check = words::<Check>(lang, b.check.get());
    both!(
        lang,
        "{length} bytes at {addr:#x} with key {key:#x}: {check}",
        "用键 {key:#x} 访问 {addr:#x} 处的 {length} 字节：{check}"
    )
}

fn nak(lang: Lang, record: &CommandRecord) -> String {
    let b = body_of::<body::Nak>(record);
    let psn = b.psn;
    // AETH syndrome, IBA table 45: bits 5 and 6 are 01 for RNR and 11 for a NAK with its code.
    if b.syndrome >> 5 & 3 == 1 {
        let wait = milliseconds(b.delay_ns.get());
        return both!(
            lang,
            "RNR at PSN {psn:#x}: no receive is posted, wait {wait}",
            "RNR，PSN {psn:#x}：没有已提交的接收请求，等待 {wait}"
        );
    }
    let code = words::<NakCode>(lang, b.syndrome & 31);
    match Check::try_from(u32::from(b.check.get())) {
        Ok(check) if check != Check::None => {
            let check = check.in_words(lang);
            both!(lang, "{code} at PSN {psn:#x}: {check}", "{code}，PSN {psn:#x}：{check}")
        }
        _ => both!(lang, "{code} at PSN {psn:#x}", "{code}，PSN {psn:#x}"),
    }
}

fn resends(lang: Lang, qp: String, opcode: CommandOpcode, record: &CommandRecord) -> Told {
    let b = body_of::<body::Timeout>(record);
    let (psn, left) = (b.oldest_psn, b.retries_left);
    match opcode {
        CommandOpcode::Timeout => {
            let how = both!(
                lang,
                "no answer to PSN {psn:#x}, {left} retries left",
                "PSN {psn:#x} 没有应答，还可重试 {left} 次"
            );
            Told::new(qp, lang.pick("timeout", "超时"), how)
        }
        _ => Told::new(
            qp,
            lang.pick("sends again", "重传"),
            both!(lang, "from PSN {psn:#x}", "从 PSN {psn:#x} 开始"),
        ),
    }
}

fn traffic(lang: Lang, qp: String, opcode: CommandOpcode, b: &body::Traffic) -> Told {
    let psn = b.psn;
    let first = lang.pick("first packet", "首个报文");
    match (opcode, b.side) {
        (CommandOpcode::FirstPost, 0) => {
            Told::new(qp, lang.pick("first send", "首个发送"), name::<WrOpcode>(b.opcode))
        }
        (CommandOpcode::FirstPost, _) => {
            Told::new(qp, lang.pick("first receive", "首个接收"), lang.pick("posted", "已提交"))
        }
        (CommandOpcode::FirstPacketSent, _) => {
            let (packet, peer) = (Opcode(b.opcode), b.peer_qpn);
            let how = both!(
                lang,
                "{packet} sent to QP {peer:#x}, PSN {psn:#x}",
                "已向 QP {peer:#x} 发出 {packet}，PSN {psn:#x}"
            );
            Told::new(qp, first, how)
        }
        (CommandOpcode::FirstPacketReceived, _) => {
            Told::new(qp, first, both!(lang, "came in, PSN {psn:#x}", "已收到，PSN {psn:#x}"))
        }
        _ => {
            let reason = words::<DropReason>(lang, b.cause.get());
            let how = both!(lang, "PSN {psn:#x}: {reason}", "PSN {psn:#x}：{reason}");
            Told::new(qp, lang.pick("packet dropped", "丢弃报文"), how)
        }
    }
}

fn waits(lang: Lang, opcode: CommandOpcode, record: &CommandRecord) -> Told {
    let b = body_of::<body::Waiting>(record);
    let subject = format!("{} {:#x}", name::<ObjectKind>(b.kind.get()), record.pd());
    match opcode {
        CommandOpcode::DestroyWaits => {
            let how = both!(
                lang,
                "destroy waits until {} events are acknowledged",
                "销毁在等待 {} 个事件被确认",
                b.events
            );
            Told::new(subject, lang.pick("waits", "等待"), how)
        }
        _ => Told::new(
            subject,
            lang.pick("waited", "等待结束"),
            lang.pick("all events are acknowledged", "事件都已确认"),
        ),
    }
}

/// Commands on other objects, whose handle stands where QPs have their PD.
fn other(lang: Lang, opcode: CommandOpcode, record: &CommandRecord) -> Told {
    use CommandOpcode as Op;
    let handle = record.pd();
    let (created, destroyed) = (lang.pick("created", "已创建"), lang.pick("destroyed", "已销毁"));
    let (kind, what, call) = match opcode {
        Op::AllocPd => ("PD", lang.pick("allocated", "已分配"), Call::AllocPd),
        Op::DeallocPd => ("PD", lang.pick("freed", "已释放"), Call::DeallocPd),
        Op::RegMr => return registered(lang, Call::RegMr, record),
        Op::ReregMr => return registered(lang, Call::ReregMr, record),
        Op::AllocDm => ("DM", lang.pick("allocated", "已分配"), Call::AllocDm),
        Op::FreeDm => ("DM", lang.pick("freed", "已释放"), Call::FreeDm),
        Op::AllocMw => {
            let b = body_of::<body::AllocMw>(record);
            let how = format!("{}: type={} rkey={:#x}", Call::AllocMw, b.mw_type, b.rkey);
            return Told::new(format!("PD {handle:#x}"), lang.pick("memory window", "内存窗口"), how);
        }
        Op::DeallocMw => ("MW", lang.pick("freed", "已释放"), Call::DeallocMw),
        Op::DeregMr => ("MR", lang.pick("deregistered", "已注销"), Call::DeregMr),
        Op::CreateCq => {
            let entries = body_of::<body::CreateQueue>(record).granted;
            return Told::new(
                format!("CQ {handle:#x}"),
                created,
                format!("{}: cqe={entries}", Call::CreateCq),
            );
        }
        Op::ResizeCq => {
            let entries = body_of::<body::CreateQueue>(record).granted;
            let how = format!("{}: cqe={entries}", Call::ResizeCq);
            return Told::new(format!("CQ {handle:#x}"), lang.pick("resized", "已改大小"), how);
        }
        Op::ModifyCq => {
            let b = body_of::<body::CreateQueue>(record);
            let how =
                format!("{}: cq_count={} cq_period={}", Call::ModifyCq, b.moderate_count, b.moderate_period);
            return Told::new(format!("CQ {handle:#x}"), lang.pick("moderated", "已设节流"), how);
        }
        Op::DestroyCq => ("CQ", destroyed, Call::DestroyCq),
        Op::CreateSrq | Op::ModifySrq => return shared_queue(lang, opcode, record),
        Op::QuerySrq => ("SRQ", lang.pick("queried", "已查询"), Call::QuerySrq),
        Op::DestroySrq => ("SRQ", destroyed, Call::DestroySrq),
        Op::CreateAh => ("AH", created, Call::CreateAh),
        Op::DestroyAh => ("AH", destroyed, Call::DestroyAh),
        _ => {
            let object = both!(lang, "object {handle:#x}", "对象 {handle:#x}");
            return Told::new("NIC", opcode.name(), object);
        }
    };
    Told::new(format!("{kind} {handle:#x}"), what, call.name())
}

fn shared_queue(lang: Lang, opcode: CommandOpcode, record: &CommandRecord) -> Told {
    let b = body_of::<body::CreateQueue>(record);
    let (what, call) = match opcode {
        CommandOpcode::CreateSrq => (lang.pick("created", "已创建"), Call::CreateSrq),
        _ => (lang.pick("modified", "已修改"), Call::ModifySrq),
    };
    let sizes = format!("{call}: max_wr={} max_sge={} srq_limit={}", b.granted, b.max_sge, b.limit);
    Told::new(format!("SRQ {:#x}", record.pd()), what, sizes)
}

fn registered(lang: Lang, call: Call, record: &CommandRecord) -> Told {
    let b = body_of::<body::RegMr>(record);
    let access = access(b.access.get() as u8);
    let how = format!("{}: length={} lkey={:#x} rkey={:#x} access={access}", call, b.length, b.lkey, b.rkey);
    Told::new(format!("PD {:#x}", record.pd()), lang.pick("memory", "内存"), how)
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
                Op::FirstPacketSent,
                0x1234,
                &body::Traffic {
                    opcode: 4,
                    psn: 0xdef.into(),
                    peer_qpn: 0x4321.into(),
                    ..Default::default()
                },
            )),
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
        let moved = body::StateMoved {
            from_state: 3,
            to_state: 6,
            cause: 2.into(),
            wr_id: 3.into(),
            ..Default::default()
        };
        let overrun = body::AsyncEvent { handle: 0x100.into(), ..Default::default() };
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
            line(&record(Op::AsyncEvent, 5, &overrun)),
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
