//! Work queues: receives that are missing, sends that cannot be posted.

use glassnic_events::{DropReason, QpState, QpType};
use glassnic_verbs::{driver, qpc};

use super::ends::{End, Peer, ends};
use super::finding::{Certainty, Fault, Finding, Severity};
use crate::read::Host;

/// A receive that comes later than this was not only a little late.
const LATE_NS: u64 = 1_000_000_000;

/// Everything about work queues.
pub(super) fn rules(host: &Host) -> Vec<Finding> {
    let rules: [fn(&Host, &End<'_>) -> Option<Finding>; 3] = [no_receive, rnr_loop, queue_full];
    ends(host).flat_map(|end| rules.into_iter().filter_map(move |rule| rule(host, &end))).collect()
}

fn no_receive(host: &Host, end: &End<'_>) -> Option<Finding> {
    let since_ns = end.since(host, qpc::Field::EmptySinceNs).filter(|since| *since > LATE_NS)?;
    let is_reliable = end.qp_type() == Some(QpType::Rc);
    let in_need = !is_reliable || end.is_alive();
    if end.device(qpc::Field::RqPosted) != 0 || end.state() == QpState::Err || !in_need {
        return None;
    }
    let srq = Some(end.device(qpc::Field::Srq)).filter(|handle| *handle != 0);
    let shared = srq.and_then(|handle| end.nic.model.srqs.iter().find(|srq| srq.object.handle == handle));
    if shared.is_some_and(|srq| srq.posted != 0) {
        return None;
    }
    let peer = end.joined(host);
    // A peer that is gone, or gave up, waits no more; what is left to say is said of its error.
    if is_reliable && peer.is_some_and(|peer| peer.device(qpc::Field::RnrSinceNs) == 0) {
        return None;
    }
    let fault = Fault::NoReceive {
        peer: peer.map(|peer| peer.who()),
        since_ns,
        posted: shared.map_or(end.device(qpc::Field::RqTail), |srq| srq.ever_posted),
        srq,
        rnr_sent: end.device(qpc::Field::RnrSent),
        reliable: is_reliable,
    };
    let certainty = if peer.is_some() { Certainty::Certain } else { Certainty::Likely };
    let lost = end.device(qpc::Field::LastDrop) == DropReason::NoReceive.value();
    let severity = if is_reliable || lost { Severity::Error } else { Severity::Warning };
    let finding = end.finding(severity, certainty, fault);
    Some(match &peer {
        Some(peer) => finding.with(peer),
        None => finding,
    })
}

/// Told of where the peer, whose fault it is, cannot be seen.
fn rnr_loop(host: &Host, end: &End<'_>) -> Option<Finding> {
    let since_ns = end.since(host, qpc::Field::RnrSinceNs).filter(|since| *since > LATE_NS)?;
    if !matches!(end.peer(host), Peer::Remote | Peer::Missing) || end.state() != QpState::Rts {
        return None;
    }
    let fault = Fault::RnrLoop {
        dgid: end.dgid(),
        dest_qpn: end.dest(),
        since_ns,
        received: end.device(qpc::Field::RnrReceived),
        rnr_retry: end.device(qpc::Field::RnrRetry) as u8,
    };
    end.is_alive().then(|| end.finding(Severity::Error, Certainty::Certain, fault))
}

/// Slots come back with the next signalled completion: where all wait for one, and none can be posted, none ever will.
fn queue_full(_: &Host, end: &End<'_>) -> Option<Finding> {
    let depth = end.device(qpc::Field::SqDepth);
    let unsignalled = end.device(qpc::Field::SqUnsignalled);
    let posted = end.driver(driver::Field::SqPosted);
    let in_use = posted.wrapping_sub(end.driver(driver::Field::SqReleased));
    let is_full = depth > 0 && unsignalled >= depth && in_use >= depth;
    let fault = Fault::QueueFull { depth, unsignalled };
    (is_full && end.state() == QpState::Rts).then(|| end.finding(Severity::Error, Certainty::Certain, fault))
}
