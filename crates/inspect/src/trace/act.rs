//! What the device does with a command.

use glassnic_events::{Call, QpState};
use glassnic_explain::Lang;
use glassnic_wire::command::{CommandOpcode, CommandRecord, body};

use crate::words::{body_of, both, name};

/// The verb behind a command.
pub(super) const fn call(opcode: CommandOpcode) -> Option<Call> {
    use CommandOpcode as Op;
    Some(match opcode {
        Op::OpenDevice => Call::OpenDevice,
        Op::CloseDevice => Call::CloseDevice,
        Op::QueryDevice => Call::QueryDevice,
        Op::CreateQp => Call::CreateQp,
        Op::ModifyQp => Call::ModifyQp,
        Op::QueryQp => Call::QueryQp,
        Op::DestroyQp => Call::DestroyQp,
        Op::AllocPd => Call::AllocPd,
        Op::DeallocPd => Call::DeallocPd,
        Op::RegMr => Call::RegMr,
        Op::ReregMr => Call::ReregMr,
        Op::DeregMr => Call::DeregMr,
        Op::AllocMw => Call::AllocMw,
        Op::DeallocMw => Call::DeallocMw,
        Op::AllocDm => Call::AllocDm,
        Op::FreeDm => Call::FreeDm,
        Op::CreateCq => Call::CreateCq,
        Op::ModifyCq => Call::ModifyCq,
        Op::ResizeCq => Call::ResizeCq,
        Op::DestroyCq => Call::DestroyCq,
        Op::CreateAh => Call::CreateAh,
        Op::DestroyAh => Call::DestroyAh,
        Op::CreateCompChannel => Call::CreateCompChannel,
        Op::DestroyCompChannel => Call::DestroyCompChannel,
        Op::CreateSrq => Call::CreateSrq,
        Op::ModifySrq => Call::ModifySrq,
        Op::QuerySrq => Call::QuerySrq,
        Op::DestroySrq => Call::DestroySrq,
        Op::OpenXrcd => Call::OpenXrcd,
        Op::CloseXrcd => Call::CloseXrcd,
        Op::AttachMcast => Call::AttachMcast,
        Op::DetachMcast => Call::DetachMcast,
        Op::QueryPort => Call::QueryPort,
        _ => return None,
    })
}

/// What the device does with a command, in a sentence.
pub(super) fn act(lang: Lang, opcode: CommandOpcode, record: &CommandRecord) -> String {
    use CommandOpcode as Op;
    let (qpn, handle) = (record.qpn(), record.pd());
    match opcode {
        Op::CreateQp => both!(
            lang,
            "takes a context from the pool, registers QPN {qpn:#x} for it, state RESET",
            "从池中取一个上下文，登记 QPN {qpn:#x}，状态为 RESET"
        ),
        Op::ModifyQp => modify(lang, &body_of(record)),
        Op::QueryQp => {
            let b = body_of::<body::QueryQp>(record);
            let (state, sq, rq) = (name::<QpState>(b.state), b.sq_used, b.rq_used);
            both!(
                lang,
                "reads the context: state {state}, {sq} sends and {rq} receives in the queues; nothing changes",
                "读取上下文：状态 {state}，队列中有 {sq} 个发送、{rq} 个接收；不改变任何内容"
            )
        }
        Op::DestroyQp => {
            let b = body_of::<body::DestroyQp>(record);
            let (posted, finished) = (b.sq_tail, b.sq_head);
            both!(
                lang,
                "stops the QP ({finished} of {posted} sends finished), takes its completions out of the CQs, gives the \
                 context back to the pool, rests QPN {qpn:#x}",
                "停止 QP（{posted} 个发送中完成 {finished} 个），从 CQ 中清除它的完成，把上下文还给池，QPN {qpn:#x} 暂不再用"
            )
        }
        Op::RegMr | Op::ReregMr => {
            let b = body_of::<body::RegMr>(record);
            let (lkey, rkey, length) = (b.lkey, b.rkey, b.length);
            both!(
                lang,
                "enters {length} bytes in the table of memory regions, grants lkey {lkey:#x} and rkey {rkey:#x}",
                "把 {length} 字节登记到 MR 表，给出 lkey {lkey:#x} 和 rkey {rkey:#x}"
            )
        }
        Op::ResizeCq => {
            let entries = body_of::<body::CreateQueue>(record).granted;
            both!(
                lang,
                "moves what CQ {handle:#x} holds into room for {entries} completions",
                "把 CQ {handle:#x} 中的完成移到可容纳 {entries} 个完成的空间"
            )
        }
        Op::ModifyCq => {
            let b = body_of::<body::CreateQueue>(record);
            let (count, period) = (b.moderate_count, b.moderate_period);
            both!(
                lang,
                "holds events of CQ {handle:#x} back until {count} completions or {period} µs have come together",
                "CQ {handle:#x} 的事件推迟到积累 {count} 个完成或经过 {period} µs"
            )
        }
        Op::ModifySrq => {
            let b = body_of::<body::CreateQueue>(record);
            let (depth, limit) = (b.granted, b.limit);
            match limit.get() {
                0 => both!(
                    lang,
                    "the SRQ holds {depth} receives, its limit is not armed",
                    "SRQ 可容纳 {depth} 个接收，未设水线"
                ),
                _ => both!(
                    lang,
                    "the SRQ holds {depth} receives, and tells once when it has fewer than {limit}",
                    "SRQ 可容纳 {depth} 个接收，少于 {limit} 个时通知一次"
                ),
            }
        }
        Op::QuerySrq => lang.pick("reads the SRQ; nothing changes", "读取 SRQ；不改变任何内容").to_owned(),
        Op::AllocPd
        | Op::CreateCq
        | Op::CreateAh
        | Op::CreateSrq
        | Op::CreateCompChannel
        | Op::AllocMw
        | Op::AllocDm => {
            both!(lang, "enters object {handle:#x} in its table", "把对象 {handle:#x} 登记到表中")
        }
        Op::DeallocPd
        | Op::DeregMr
        | Op::DestroyCq
        | Op::DestroyAh
        | Op::DestroySrq
        | Op::DeallocMw
        | Op::FreeDm => {
            both!(lang, "takes object {handle:#x} out of its table", "从表中删除对象 {handle:#x}")
        }
        _ => lang.pick("executes it", "执行").to_owned(),
    }
}

/// What a QP does in the state that it comes to.
fn modify(lang: Lang, b: &body::ModifyQp) -> String {
    let loads = lang.pick("loads the context", "载入上下文");
    let semicolon = lang.pick("; ", "；");
    if b.from_state == b.to_state {
        return loads.to_owned();
    }
    let peer = b.dest_qpn_or_qkey;
    let then = match QpState::try_from(u32::from(b.to_state)) {
        Ok(QpState::Reset) => lang.pick("the queues are empty again", "队列重新变空").to_owned(),
        Ok(QpState::Init) => {
            lang.pick("receives may be posted, packets are dropped", "可以提交接收，但丢弃报文").to_owned()
        }
        // Datagrams have no peer.
        Ok(QpState::Rtr) if b.rq_psn.get() == 0 && peer.get() == 0 => {
            lang.pick("the responder takes packets", "响应方接收报文").to_owned()
        }
        Ok(QpState::Rtr) => both!(
            lang,
            "the responder takes packets of QP {peer:#x} from PSN {:#x} on",
            "响应方接收 QP {peer:#x} 的报文，从 PSN {:#x} 开始",
            b.rq_psn
        ),
        Ok(QpState::Rts) => both!(
            lang,
            "the requester may send, from PSN {:#x} on",
            "请求方可以发送，从 PSN {:#x} 开始",
            b.sq_psn
        ),
        Ok(QpState::Sqd) => lang
            .pick("what was sent is finished, nothing new is begun", "完成已发送的请求，不再开始新的")
            .to_owned(),
        Ok(QpState::Err) => lang.pick("all requests are flushed", "刷新（flush）所有请求").to_owned(),
        _ => String::new(),
    };
    if then.is_empty() { loads.to_owned() } else { format!("{loads}{semicolon}{then}") }
}
