//! What stands around a failure, and what is left at the end.

use glassnic_events::{Check, Leftover, PeerState, QpState};

use crate::chinese::rule::kind_name;
use crate::english::around::destroyer;
use crate::{End, Said, milliseconds};

/// The call that the program was at.
pub(crate) const fn end(end: End) -> &'static str {
    match end {
        End::Exit => "退出时",
        End::Close => "ibv_close_device",
    }
}

/// The other end, as far as it tells why this one got no answer.
pub(crate) fn peer(check: Check, peer: &PeerState) -> Option<String> {
    let Some(state) = peer.state else { return Some("本机上现在没有这个 QP".into()) };
    match (check, peer.empty_ns) {
        (Check::RnrExhausted, _) if peer.receives_posted == 0 => Some("对端从未提交过接收请求".into()),
        (Check::RnrExhausted, Some(ns)) => Some(format!(
            "对端至今提交过 {} 个接收请求，已有 {} 没有可用的接收请求",
            peer.receives_posted,
            milliseconds(ns)
        )),
        (Check::RnrExhausted, None) => None,
        (_, _) if matches!(state, QpState::Reset | QpState::Init) => {
            Some(format!("对端处于 {state}，不接收报文：它没有被转到 RTR"))
        }
        (_, _) if state == QpState::Err => Some("对端处于 ERR".into()),
        _ => Some(format!(
            "对端处于 {state}，连接到 QP {:#x}，期待的 PSN 为 {:#x}",
            peer.dest_qp_num, peer.expected_psn
        )),
    }
}

/// A name with the space that Latin letters have to Chinese ones.
fn apart(name: &str) -> String {
    if name.is_ascii() { format!(" {name} ") } else { name.to_owned() }
}

/// One thing that was left, and how it is cleared away.
pub(crate) fn leftover(left: &Leftover, place: Option<&str>) -> Said {
    match *left {
        Leftover::Objects { kind, count, first, .. } => {
            let place = place.map_or_else(String::new, |place| format!("，创建于 {place}"));
            let (name, which) = (kind_name(kind), if count == 1 { "" } else { "最早的是 " });
            Said {
                what: format!("{count} 个{}未销毁（{which}{name} {first:#x}）{place}", apart(name)),
                remedy: format!("请调用 {}", destroyer(kind)),
            }
        }
        Leftover::Completions { cq, count, qpn, wr_id, status } => Said {
            what: format!(
                "CQ {cq:#x} 中有 {count} 个错误完成没有被轮询；最早的是 QP {qpn:#x} 的 wr_id={wr_id:#x}，{status}"
            ),
            remedy: "请轮询 CQ 直到取空".into(),
        },
        Leftover::AsyncEvents { count, event, subject } => Said {
            what: format!("{count} 个异步错误事件从未读取；最早的是 {event}（{subject:#x}）"),
            remedy: "请用 ibv_get_async_event 读取：在单独的线程中，或当 async_fd 可读时".into(),
        },
    }
}

/// Who holds what a limit was reached with.
pub(crate) fn holder(count: u32, place: &str) -> String {
    format!("其中 {count} 个创建于 {place}")
}

/// How many of the requests of a list were taken.
pub(crate) fn in_list(index: u32) -> String {
    match index {
        0 => "bad_wr 是链表中的第 1 个请求，没有请求被接受".into(),
        _ => format!("bad_wr 是链表中的第 {} 个请求，前面 {index} 个已被接受：请从 bad_wr 继续", index + 1),
    }
}
