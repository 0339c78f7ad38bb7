//! What stands around a failure, and what is left at the end.

use glassnic_events::{Check, Leftover, ObjectKind, PeerState, QpState};

use crate::{End, Said, milliseconds};

/// The call that the program was at.
pub(crate) const fn end(end: End) -> &'static str {
    match end {
        End::Exit => "at exit",
        End::Close => "ibv_close_device",
    }
}

/// The other end, as far as it tells why this one got no answer.
pub(crate) fn peer(check: Check, peer: &PeerState) -> Option<String> {
    let Some(state) = peer.state else { return Some("there is no such queue pair on this host now".into()) };
    match (check, peer.empty_ns) {
        (Check::RnrExhausted, _) if peer.receives_posted == 0 => {
            Some("the peer has never posted a receive".into())
        }
        (Check::RnrExhausted, Some(ns)) => Some(format!(
            "the peer has posted {} receives so far and has had none for {}",
            peer.receives_posted,
            milliseconds(ns)
        )),
        (Check::RnrExhausted, None) => None,
        (_, _) if matches!(state, QpState::Reset | QpState::Init) => {
            Some(format!("the peer is in {state} and takes no packets: it was not moved to RTR"))
        }
        (_, _) if state == QpState::Err => Some("the peer is in ERR".into()),
        _ => Some(format!(
            "the peer is in {state}, connected to QP {:#x}, and expects PSN {:#x}",
            peer.dest_qp_num, peer.expected_psn
        )),
    }
}

/// One thing that was left, and how it is cleared away.
pub(crate) fn leftover(left: &Leftover, place: Option<&str>) -> Said {
    match *left {
        Leftover::Objects { kind, count, first, .. } => {
            let (plural, were) = if count == 1 { ("", "was") } else { ("s", "were") };
            let place = place.map_or_else(String::new, |place| format!(", created at {place}"));
            let which = if count == 1 { String::new() } else { "the oldest is ".into() };
            Said {
                what: format!(
                    "{count} {kind}{plural} {were} not destroyed ({which}{kind} {first:#x}){place}"
                ),
                remedy: format!("call {}", destroyer(kind)),
            }
        }
        Leftover::Completions { cq, count, qpn, wr_id, status } => {
            let plural = if count == 1 { "" } else { "s" };
            Said {
                what: format!(
                    "{count} completion{plural} with an error left in CQ {cq:#x}; the oldest: wr_id={wr_id:#x} of QP \
                     {qpn:#x}, {status}"
                ),
                remedy: "poll the CQ until it is empty".into(),
            }
        }
        Leftover::AsyncEvents { count, event, subject } => {
            let plural = if count == 1 { "" } else { "s" };
            Said {
                what: format!(
                    "{count} asynchronous error event{plural} never read; the oldest: {event} ({subject:#x})"
                ),
                remedy: "read them with ibv_get_async_event, in a thread or when async_fd is readable".into(),
            }
        }
    }
}

/// Who holds what a limit was reached with.
pub(crate) fn holder(count: u32, place: &str) -> String {
    format!("{count} of them were created at {place}")
}

/// How many of the requests of a list were taken.
pub(crate) fn in_list(index: u32) -> String {
    match index {
        0 => "bad_wr is the first request of the list; none was taken".into(),
        _ => format!(
            "bad_wr is request {} of the list; the {index} before it were taken: go on from bad_wr",
            index + 1
        ),
    }
}

/// The verb that destroys an object.
pub(crate) const fn destroyer(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Qp => "ibv_destroy_qp",
        ObjectKind::Cq => "ibv_destroy_cq",
        ObjectKind::Mr => "ibv_dereg_mr",
        ObjectKind::Mw => "ibv_dealloc_mw",
        ObjectKind::Dm => "ibv_free_dm",
        ObjectKind::Pd => "ibv_dealloc_pd",
        ObjectKind::Ah => "ibv_destroy_ah",
        ObjectKind::Srq => "ibv_destroy_srq",
        ObjectKind::CompChannel => "ibv_destroy_comp_channel",
        _ => "what destroys it",
    }
}
