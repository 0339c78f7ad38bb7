//! Two ends of a connection that do not fit together.

use std::collections::BTreeSet;

use glassnic_events::{Call, Check, Gid, QpState, QpType, Refusal};
use glassnic_verbs::{driver, qpc};
use glassnic_wire::command::{CommandOpcode, body};

use super::ends::{End, Peer, ends};
use super::finding::{Certainty, Fault, Finding, Process, Severity};
use crate::read::{Host, NicReading};

/// A handshake is over by then; what differs is not just on its way.
const SETTLED_NS: u64 = 1_000_000_000;
/// A QP that is ready, and whose peer is not by then, waits for something that does not come.
const PATIENCE_NS: u64 = 3_000_000_000;
/// Two processes that wait for each other by then will go on to do so.
const DEADLOCK_NS: u64 = 10_000_000_000;

/// Everything about the two ends of connections.
pub(super) fn rules(host: &Host) -> Vec<Finding> {
    let mut found: Vec<_> = ends(host).flat_map(|end| of(host, &end)).collect();
    found.extend(ends(host).filter_map(|end| qkey(&end)));
    found.extend(both_in_init(host));
    found
}

/// What is wrong between a QP and the one that it is connected to, as far as this end can see it.
fn of(host: &Host, end: &End<'_>) -> Vec<Finding> {
    if !end.is_ready() || !end.is_alive() && end.first_check().is_none() {
        return Vec::new();
    }
    let settled = end.unmodified_ns(host);
    match end.peer(host) {
        Peer::Found(peer) if !peer.is_alive() && end.is_alive() => gone(end, &peer).into_iter().collect(),
        Peer::Found(peer) if !peer.is_ready() => not_ready(host, end, &peer).into_iter().collect(),
        Peer::Found(peer) if peer.dest() != end.qp.qpn => {
            if !end.is_in_vain() && settled < PATIENCE_NS {
                return Vec::new();
            }
            let fault = Fault::PeerElsewhere { peer: peer.who(), its_dest: peer.dest() };
            vec![end.finding(weight(end), Certainty::Certain, fault).with(&peer)]
        }
        Peer::Found(peer) if settled < SETTLED_NS || peer.unmodified_ns(host) < SETTLED_NS => Vec::new(),
        Peer::Found(peer) => differences(end, &peer),
        Peer::Missing => missing(host, end).into_iter().collect(),
        Peer::Unset | Peer::Remote => Vec::new(),
    }
}

/// Whether a first error of a QP follows from what is wrong between it and its peer.
pub(super) fn explains(host: &Host, end: &End<'_>, check: Check) -> bool {
    of(host, end).iter().any(|finding| match finding.fault {
        Fault::MtuMismatch { .. } => check == Check::PacketLength,
        Fault::RdAtomicMismatch { .. } => check == Check::TooManyReads,
        _ => check == Check::RetryExhausted,
    })
}

fn weight(end: &End<'_>) -> Severity {
    if end.is_in_vain() { Severity::Error } else { Severity::Warning }
}

fn gone(end: &End<'_>, peer: &End<'_>) -> Option<Finding> {
    let fault = Fault::PeerGone { peer: peer.who() };
    end.is_in_vain().then(|| end.finding(Severity::Error, Certainty::Certain, fault).with(peer))
}

/// The peer is in RESET or INIT: it is the one to be changed.
fn not_ready(host: &Host, end: &End<'_>, peer: &End<'_>) -> Option<Finding> {
    let waits = end.unmodified_ns(host).min(peer.unmodified_ns(host));
    if !end.is_in_vain() && (waits < PATIENCE_NS || !end.is_alive()) {
        return None;
    }
    let certainty = if end.is_in_vain() { Certainty::Certain } else { Certainty::Likely };
    let fault = Fault::NotReady {
        state: peer.state(),
        age_ns: peer.unmodified_ns(host),
        peer: end.who(),
        unanswered: end.unanswered(),
        timeouts: end.device(qpc::Field::Timeouts),
        psn: end.driver(driver::Field::SqPsn),
        path_mtu: end.path_mtu(),
        gid: end.gid(),
        refused: refused_modify(peer.nic, peer.qp.qpn),
    };
    Some(peer.finding(weight(end), certainty, fault).with(end))
}

/// The last call on a QP, where it was a modify that was refused.
fn refused_modify(nic: &NicReading, qpn: u32) -> Option<Refusal> {
    let record = nic
        .records_of(qpn)
        .rfind(|record| matches!(record.opcode(), Ok(CommandOpcode::ModifyQp | CommandOpcode::Refusal)))?;
    let words = record.body::<body::Refusal>()?.words.map(|word| word.get());
    Refusal::from_words(&words).filter(|refusal| matches!(refusal.call, Call::ModifyQp | Call::SafeModify))
}

fn missing(host: &Host, end: &End<'_>) -> Option<Finding> {
    if !end.is_in_vain() {
        return None;
    }
    let fault = Fault::PeerMissing {
        dest_qpn: end.dest(),
        dgid: end.dgid(),
        destroyed: destroyed(host, end.dest()),
        unanswered: end.unanswered(),
    };
    let mut finding = end.finding(Severity::Error, Certainty::Certain, fault);
    if let Fault::PeerMissing { destroyed: Some((process, _)), .. } = &finding.fault {
        finding.others.extend(Some(process.pid).filter(|pid| *pid != finding.process.pid));
    }
    Some(finding)
}

/// Who destroyed the QP of this number, and how long ago.
fn destroyed(host: &Host, qpn: u32) -> Option<(Process, u64)> {
    let last = |nic: &NicReading| {
        let end = nic.records_of(qpn).rfind(|record| record.opcode() == Ok(CommandOpcode::DestroyQp));
        end.map(|record| record.timestamp_ns())
    };
    let found = host.nics.iter().filter_map(|nic| Some((last(nic)?, nic))).max_by_key(|(at, _)| *at);
    found.map(|(at, nic)| (Process::of(&nic.model), host.now_ns.saturating_sub(at)))
}

/// Attributes that must agree. Both ends are connected to each other.
fn differences(end: &End<'_>, peer: &End<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |severity, fault| found.push(end.finding(severity, Certainty::Certain, fault).with(peer));
    // What is the same from both ends is told from one.
    let first = (end.nic.model.pid, end.qp.qpn) < (peer.nic.model.pid, peer.qp.qpn);
    let failed = |check| end.first_check() == Some(check) || peer.first_check() == Some(check);
    let weight_if = |bad: bool| if bad { Severity::Error } else { Severity::Warning };
    if end.qp.qp_type != peer.qp.qp_type {
        if first {
            let (qp_type, peer_type) = (end.qp.qp_type.clone(), peer.qp.qp_type.clone());
            add(Severity::Error, Fault::TypeMismatch { qp_type, peer: peer.who(), peer_type });
        }
        return found;
    }
    let sq_psn = end.driver(driver::Field::SqPsn);
    let peer_rq_psn = peer.driver(driver::Field::RqPsn);
    let sends = !matches!(end.state(), QpState::Rtr);
    // UC takes the first PSN that comes.
    if end.qp_type() == Some(QpType::Rc) && sends && sq_psn != peer_rq_psn {
        add(Severity::Error, Fault::PsnMismatch { peer: peer.who(), sq_psn, peer_rq_psn });
    }
    let (path_mtu, peer_path_mtu) = (end.path_mtu(), peer.path_mtu());
    if first && path_mtu != peer_path_mtu {
        let severity = weight_if(failed(Check::PacketLength));
        add(severity, Fault::MtuMismatch { peer: peer.who(), path_mtu, peer_path_mtu });
    }
    let byte = |end: &End<'_>, field| end.device(field) as u8;
    let max_rd_atomic = byte(end, qpc::Field::MaxRdAtomic);
    let max_dest_rd_atomic = byte(peer, qpc::Field::MaxDestRdAtomic);
    if sends && max_rd_atomic > max_dest_rd_atomic {
        let severity = weight_if(failed(Check::TooManyReads));
        add(severity, Fault::RdAtomicMismatch { peer: peer.who(), max_rd_atomic, max_dest_rd_atomic });
    }
    let dgid = end.dgid();
    if let Some(peer_gid) = peer.gid().filter(|gid: &Gid| *gid != dgid) {
        add(weight(end), Fault::GidMismatch { peer: peer.who(), dgid, peer_gid });
    }
    found
}

fn qkey(end: &End<'_>) -> Option<Finding> {
    use glassnic_events::DropReason;
    let is_ud = end.qp_type() == Some(QpType::Ud);
    let by_qkey = end.device(qpc::Field::LastDrop) == DropReason::QkeyMismatch.value();
    let fault =
        Fault::QkeyMismatch { qkey: end.device(qpc::Field::Qkey), dropped: end.device(qpc::Field::Dropped) };
    (is_ud && by_qkey).then(|| end.finding(Severity::Error, Certainty::Certain, fault))
}

/// Two processes of which none has a QP beyond INIT: each seems to wait for the other's number.
fn both_in_init(host: &Host) -> Option<Finding> {
    let stays = |end: &End<'_>| {
        end.is_connected_type() && end.state() == QpState::Init && end.unmodified_ns(host) > DEADLOCK_NS
    };
    let waits = |nic: &&NicReading| {
        let mut qps = nic.model.qps.iter().map(|qp| End { nic, qp });
        nic.model.state == crate::NicState::Open && !nic.model.qps.is_empty() && qps.all(|end| stays(&end))
    };
    let waiting: Vec<_> = host.nics.iter().filter(waits).collect();
    if waiting.len() < 2 {
        return None;
    }
    // One that somebody is connected to is told of there.
    let meant: BTreeSet<u32> = ends(host).map(|end| end.dest()).collect();
    let firsts = waiting.into_iter().filter_map(|nic| {
        let mut qps = nic.model.qps.iter().map(|qp| End { nic, qp });
        qps.find(|end| !meant.contains(&end.qp.qpn))
    });
    let firsts: Vec<_> = firsts.collect();
    let (one, rest) = firsts.split_first()?;
    let other = rest
        .iter()
        .find(|other| other.nic.model.pid != one.nic.model.pid && other.qp.qp_type == one.qp.qp_type)?;
    let fault = Fault::BothInInit {
        age_ns: one.unmodified_ns(host),
        other: other.who(),
        other_age_ns: other.unmodified_ns(host),
    };
    Some(one.finding(Severity::Warning, Certainty::Possible, fault).with(other))
}
