//! Findings in English.

use glassnic_events::QpState;
use glassnic_explain::{Lang, check_in, explain_in};

use super::finding::{Fault, Finding, Group, Pile, Severity, Who};
use super::report::{Said, Words, failure, needs};
use crate::decode::span;
use crate::model::NicState;

/// All of them.
pub(super) const WORDS: Words = Words {
    nothing: "nothing wrong",
    head,
    handshake,
    wrong_peer,
    mismatch,
    failed,
    queue,
    completion,
    call,
    objects,
};

fn head(finding: &Finding, what: &str) -> String {
    let severity = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Hint => "hint",
    };
    format!("{severity}: {}: {what}", subject(finding))
}

/// `process 4711 (server, crashed), QP 0x12`.
fn subject(finding: &Finding) -> String {
    let process = &finding.process;
    let state = match process.state {
        NicState::Open => String::new(),
        gone => format!(", {}", gone.name()),
    };
    let qp = finding.qpn.map_or_else(String::new, |qpn| format!(", QP {qpn:#x}"));
    format!("process {} ({}{state}){qp}", process.pid, process.command)
}

fn who(who: &Who) -> String {
    format!("QP {:#x} of process {} ({})", who.qpn, who.process.pid, who.process.command)
}

fn site(frames: &[String]) -> Option<String> {
    frames.first().map(|frame| format!("made at {frame}"))
}

fn times(n: u32) -> String {
    if n == 1 { "once".into() } else { format!("{n} times") }
}

fn group(group: &Group) -> String {
    let at = site(&group.site).map_or_else(String::new, |site| format!(", {site}"));
    format!("{} x {}{at}", group.count, group.kind)
}

fn handshake(finding: &Finding) -> Said {
    match &finding.fault {
        Fault::NotReady { state, age_ns, peer, unanswered, timeouts, refused, .. } => {
            let mut evidence = vec![format!("{} is in {}, and connected to it", who(peer), peer.state)];
            if *unanswered > 0 || *timeouts > 0 {
                evidence.push(format!(
                    "{unanswered} packets of {} have no answer; its timer ran out {}",
                    who(peer),
                    times(*timeouts)
                ));
            }
            evidence.push(format!("it has been in {state} for {}", span(*age_ns)));
            if let Some(refusal) = refused {
                evidence.push(format!("its last modify was refused: {}", explain_in(Lang::En, refusal)));
            }
            let does = if *unanswered > 0 || *timeouts > 0 { "sends to it" } else { "is ready to send" };
            let what = format!("never left {state}, while its peer, {}, {does}", who(peer));
            let first = if *state == QpState::Reset { "ibv_modify_qp to INIT, then " } else { "" };
            let remedy = format!(
                "process {} must call {first}ibv_modify_qp to RTR with {}, then to RTS if it is to send",
                finding.process.pid,
                needs(&finding.fault)
            );
            Said { what, evidence, remedy }
        }
        Fault::BothInInit { age_ns, other, other_age_ns } => Said::new(
            format!("waits in INIT, and so does {}: each may wait for the other's number", who(other)),
            [format!(
                "in INIT for {} and {}, and no QP of either process is further",
                span(*age_ns),
                span(*other_age_ns)
            )],
            "let one side send its QP number, PSN and GID before it waits for the other's; then both call ibv_modify_qp to RTR",
        ),
        _ => Said::default(),
    }
}

fn wrong_peer(finding: &Finding) -> Said {
    match &finding.fault {
        Fault::PeerMissing { dest_qpn, dgid, destroyed, unanswered } => {
            let mut evidence =
                vec![format!("no process of this user has QP {dest_qpn:#x}; dgid={dgid} is this host")];
            if let Some((process, ago_ns)) = destroyed {
                let (pid, command, ago) = (process.pid, &process.command, span(*ago_ns));
                evidence.push(format!("process {pid} ({command}) destroyed it {ago} ago"));
            }
            if *unanswered > 0 {
                evidence.push(format!("{unanswered} packets have no answer"));
            }
            let remedy = match destroyed {
                Some(_) => "destroy the QP only when the peer has got all it waits for",
                None => "give dest_qp_num the qp_num of the peer's QP, as the peer sent it",
            };
            Said {
                what: format!("sends to QP {dest_qpn:#x}, which does not exist"),
                evidence,
                remedy: remedy.into(),
            }
        }
        Fault::PeerGone { peer } => Said::new(
            format!("sends to {}, whose process is gone ({})", who(peer), peer.process.state.name()),
            [format!("the peer was in {} at its end", peer.state)],
            format!("look why process {} ended; then connect again", peer.process.pid),
        ),
        Fault::PeerElsewhere { peer, its_dest } => Said::new(
            format!("is connected to {}, which is connected to another QP", who(peer)),
            [format!("the peer's dest_qp_num is {its_dest:#x}; packets of others it throws away")],
            format!(
                "give the peer dest_qp_num={:#x}, or this QP the number of the QP that was meant",
                finding.qpn.unwrap_or(0)
            ),
        ),
        _ => Said::default(),
    }
}

fn mismatch(fault: &Fault) -> Said {
    match fault {
        Fault::TypeMismatch { qp_type, peer, peer_type } => Said::new(
            format!("is {qp_type}, and its peer, {}, is {peer_type}", who(peer)),
            [],
            "create both with one qp_type",
        ),
        Fault::PsnMismatch { peer, sq_psn, peer_rq_psn } => Said::new(
            format!(
                "begins to send at PSN {sq_psn:#x}, and its peer, {}, expects {peer_rq_psn:#x}",
                who(peer)
            ),
            [format!(
                "sq_psn={sq_psn:#x} here, rq_psn={peer_rq_psn:#x} at the peer: what comes counts as duplicate or gap"
            )],
            format!(
                "call the peer's ibv_modify_qp to RTR with rq_psn={sq_psn:#x}: each side's rq_psn is the other's sq_psn"
            ),
        ),
        Fault::MtuMismatch { peer, path_mtu, peer_path_mtu } => Said::new(
            format!("has path_mtu {path_mtu}, and its peer, {}, {peer_path_mtu}", who(peer)),
            ["messages that are longer than the smaller one are cut where the peer does not expect it"
                .to_owned()],
            format!("give both path_mtu {}", path_mtu.min(peer_path_mtu)),
        ),
        Fault::RdAtomicMismatch { peer, max_rd_atomic, max_dest_rd_atomic } => Said::new(
            format!(
                "may have {max_rd_atomic} reads or atomics outstanding, and its peer, {}, serves {max_dest_rd_atomic}",
                who(peer)
            ),
            [format!(
                "max_rd_atomic={max_rd_atomic} here, max_dest_rd_atomic={max_dest_rd_atomic} at the peer"
            )],
            format!(
                "set max_rd_atomic to at most {max_dest_rd_atomic} here, or raise max_dest_rd_atomic at the peer"
            ),
        ),
        Fault::GidMismatch { peer, dgid, peer_gid } => Said::new(
            format!("sends to {dgid}, and its peer, {}, is at {peer_gid}", who(peer)),
            ["the peer takes only what is sent to the GID at its sgid_index".to_owned()],
            format!("set ah_attr.grh.dgid={peer_gid}, or the peer's sgid_index to the entry of {dgid}"),
        ),
        Fault::QkeyMismatch { qkey, dropped } => Said::new(
            "throws datagrams away because of their Q_Key",
            [format!("its Q_Key is {qkey:#x}; {dropped} packets dropped, the last for this reason")],
            format!("set wr.ud.remote_qkey={qkey:#x} at the sender"),
        ),
        _ => Said::default(),
    }
}

fn failed(finding: &Finding) -> Said {
    let Fault::Failed { state, peer, peer_check, deregistered_ns, access, .. } = &finding.fault else {
        return Said::default();
    };
    let Some(explained) = failure(Lang::En, finding) else { return Said::default() };
    let mut evidence = Vec::new();
    match state {
        Some(state) => {
            evidence.push(format!("it is in {state}; what was flushed after that follows from it"))
        }
        None => evidence.push("it has been destroyed since".into()),
    }
    if let Some(peer) = peer {
        evidence.push(format!("the peer, {}, is in {}", who(peer), peer.state));
    }
    if let Some(check) = peer_check {
        evidence.push(format!("at the peer: {}", check_in(Lang::En, *check)));
    }
    let mut remedy = explained.remedy;
    if access.is_some_and(|access| access.region.is_some_and(|region| region.other_key)) {
        remedy =
            "send the peer mr->rkey and use mr->lkey in sge.lkey: the two are not the same number".into();
    }
    if let Some(ago_ns) = deregistered_ns {
        evidence.push(format!("the memory with that key was deregistered {} before", span(*ago_ns)));
        remedy =
            "call ibv_dereg_mr only after the completion of the last request that uses the memory".into();
    }
    Said { what: explained.what, evidence, remedy }
}

fn queue(fault: &Fault) -> Said {
    match fault {
        Fault::NoReceive { peer, since_ns, posted, srq, rnr_sent, reliable } => {
            let what = match (reliable, peer) {
                (true, Some(peer)) => format!("has no receive posted, and {} waits for one", who(peer)),
                (true, None) => "has no receive posted, and its peer waits for one".into(),
                (false, _) => "has no receive posted, and messages to it are lost".into(),
            };
            let ever = match posted {
                0 => "no receive was ever posted".to_owned(),
                n => format!("{n} receives were posted, and all are used up"),
            };
            let mut evidence = vec![format!("messages have found none for {}", span(*since_ns)), ever];
            if *reliable {
                evidence.push(format!("{rnr_sent} RNR NAKs sent"));
            }
            let call = match srq {
                Some(srq) => {
                    evidence.push(format!("its receives come from SRQ {srq:#x}, which is empty"));
                    "ibv_post_srq_recv"
                }
                None => "ibv_post_recv",
            };
            let remedy = format!("call {call} before the peer sends, and again for each one that completes");
            Said { what, evidence, remedy }
        }
        Fault::RnrLoop { dgid, dest_qpn, since_ns, received, rnr_retry } => Said::new(
            "sends the same message again and again: its peer has no receive posted",
            [
                format!("{received} RNR NAKs, for {}; rnr_retry={rnr_retry}", span(*since_ns)),
                format!("the peer is QP {dest_qpn:#x} at {dgid}"),
            ],
            "post receives at the peer; rnr_retry=7 never gives up, a smaller one ends in IBV_WC_RNR_RETRY_EXC_ERR",
        ),
        Fault::QueueFull { depth, unsignalled } => Said::new(
            "has a send queue full of unsignalled requests, and can post none that would free them",
            [format!(
                "{unsignalled} of {depth} slots hold finished requests that wait for a signalled one behind them"
            )],
            format!(
                "set IBV_SEND_SIGNALED on at least one request in {}, and poll its completion",
                (depth / 2).max(1)
            ),
        ),
        _ => Said::default(),
    }
}

fn completion(fault: &Fault) -> Said {
    match fault {
        Fault::CqTooSmall { cq, alike, depth, worst, qps, overrun, site: frames } => {
            let what = match overrun {
                true => format!("CQ {cq:#x} overran: a completion found no room, and its QPs went to ERR"),
                false if *alike > 0 => {
                    format!(
                        "CQ {cq:#x} and {alike} more like it can overrun: more requests can complete than they hold"
                    )
                }
                false => format!("CQ {cq:#x} can overrun: more requests can complete than it holds"),
            };
            let qps: Vec<_> = qps.iter().take(4).map(|qpn| format!("{qpn:#x}")).collect();
            let mut evidence =
                vec![format!("it holds {depth}; the queues of its QPs ({}) hold {worst}", qps.join(", "))];
            evidence.extend(site(frames));
            let remedy = format!(
                "create it with cqe={}, or poll it before more is posted",
                worst.max(&depth.saturating_add(1))
            );
            Said { what, evidence, remedy }
        }
        Fault::AsleepOverCompletions { cq, waiting, armed_with, armed, thread, asleep_ns } => {
            let how = match *armed {
                "none" => "it is not armed, so no event will come".to_owned(),
                armed => format!(
                    "it is armed ({armed}), and held {armed_with} completions when it was armed: no event comes for those"
                ),
            };
            let remedy = match *armed {
                "none" => {
                    "call ibv_req_notify_cq, then poll the CQ until it is empty, and only then ibv_get_cq_event"
                }
                _ => {
                    "after ibv_req_notify_cq poll the CQ until it is empty, and only then call ibv_get_cq_event"
                }
            };
            Said::new(
                format!(
                    "thread {thread} sleeps for an event of CQ {cq:#x}, which holds {waiting} completions"
                ),
                [format!("asleep for {}", span(*asleep_ns)), how],
                remedy,
            )
        }
        Fault::DestroyWaits { kind, handle, events, thread, since_ns } => Said::new(
            format!("the destroy of {kind} {handle:#x} waits for {events} events to be acknowledged"),
            [format!("thread {thread} has waited for {}", span(*since_ns))],
            match kind.as_str() {
                "CQ" => {
                    "call ibv_ack_cq_events for every event that ibv_get_cq_event gave, before ibv_destroy_cq"
                }
                _ => {
                    "call ibv_ack_async_event for every event that ibv_get_async_event gave, before the destroy"
                }
            },
        ),
        Fault::AsyncUnread { waiting, since_ns, events } => {
            let names: Vec<_> = events.iter().map(|event| event.name()).collect();
            Said::new(
                "asynchronous events tell of errors, and nobody reads them",
                [format!("{waiting} wait, the oldest for {}: {}", span(*since_ns), names.join(", "))],
                "call ibv_get_async_event in a thread, or when async_fd is readable, and ibv_ack_async_event",
            )
        }
        _ => Said::default(),
    }
}

fn call(fault: &Fault) -> Said {
    match fault {
        Fault::ForkedUse { child, times: n } => Said::new(
            format!("its forked child {child} used the device that it had opened"),
            [format!("refused {}", times(*n))],
            "open the device in the child, after fork(2); what the parent opened belongs to the parent",
        ),
        Fault::Overlaps { times: n, threads: [one, other] } => Said::new(
            "threads modify it at once, in an order that the program does not choose",
            [format!("{}, by threads {one} and {other}", times(*n))],
            "take a lock around query, check and ibv_modify_qp, or give the QP to one thread",
        ),
        Fault::EarlyQueries { times: n, write_back_ns } => Said::new(
            "was queried so soon after a modify that the answer was the old one",
            [format!("{}; this device writes its contexts back after {}", times(*n), span(*write_back_ns))],
            "remember what was set instead of asking, or ask again later",
        ),
        Fault::Refused { refusal, times: n, ago_ns, stayed } => {
            let explained = explain_in(Lang::En, refusal);
            let mut evidence = vec![format!("{}, last {} ago", times(*n as u32), span(*ago_ns))];
            if *stayed {
                evidence.push("the QP has not moved since".into());
            }
            Said {
                what: format!("{} was refused: {}", explained.subject, explained.what),
                evidence,
                remedy: explained.remedy,
            }
        }
        _ => Said::default(),
    }
}

fn objects(fault: &Fault) -> Said {
    match fault {
        Fault::NearLimit { kind, held, limit, sites } => Said::new(
            format!("has {held} of at most {limit} {kind}s"),
            sites.iter().map(group),
            format!("destroy the {kind}s that are no longer used, or share them"),
        ),
        Fault::LeftBehind { groups } => Said::new(
            "left objects behind at its end",
            groups.iter().map(group),
            "destroy what was created before the end, QPs first, PDs last: a program that goes on would leak them",
        ),
        Fault::Piled { group: of, pile, age_ns } => {
            let (kind, count) = (of.kind, of.count);
            let (what, remedy) = match pile {
                Pile::NeverModified => (
                    format!("leaks QPs: {count} of one place were never moved from RESET"),
                    "call ibv_destroy_qp where the set-up of a QP is given up".to_owned(),
                ),
                Pile::SameMemory { addr, length } => (
                    format!("leaks MRs: {count} of one place are of the same {length} bytes at {addr:#x}"),
                    "register the memory once, or call ibv_dereg_mr after each use".to_owned(),
                ),
                Pile::Unused => (
                    format!("leaks {kind}s: nothing uses {count} that were made at one place"),
                    format!("destroy a {kind} with the last object that uses it"),
                ),
                Pile::SameDestination { dgid } => (
                    format!("leaks AHs: {count} of one place lead to {dgid}"),
                    "keep one AH a destination, or call ibv_destroy_ah after the send has completed"
                        .to_owned(),
                ),
            };
            Said::new(what, [group(of), format!("the oldest is {} old", span(*age_ns))], remedy)
        }
        Fault::Growing { group: of, before, span_ns } => {
            let (kind, count) = (of.kind, of.count);
            Said::new(
                format!("makes more and more {kind}s at one place, and has destroyed none"),
                [format!("{before} became {count} in {}", span(*span_ns)), group(of)],
                format!("destroy each {kind} after its last use, or use one again"),
            )
        }
        Fault::Idle { qpns, state, age_ns, site: frames } => Said::new(
            format!("has {} QPs in {state} that have carried nothing yet", qpns.len()),
            [format!("the oldest is {} old", span(*age_ns))].into_iter().chain(site(frames)),
            "destroy them if their peers will not come",
        ),
        _ => Said::default(),
    }
}
