//! First errors of QPs, both ends joined.

use std::collections::BTreeSet;

use glassnic_events::{Check, FirstCause, KeyAccess, Region, WcStatus};
use glassnic_wire::command::{CommandOpcode, CommandRecord, body};

use super::ends::{End, ends};
use super::finding::{Certainty, Fault, Finding, Severity};
use super::peers;
use crate::model::QpModel;
use crate::read::{Host, NicReading};
use crate::words::body_of;

/// The first errors of the QPs that there are, and of those that have been destroyed.
pub(super) fn rules(host: &Host) -> Vec<Finding> {
    let living = ends(host).filter_map(|end| of(host, &end));
    living.chain(host.nics.iter().flat_map(of_destroyed)).collect()
}

/// Errors that the program asked for, or that follow from another.
fn is_no_cause(check: Check) -> bool {
    matches!(check, Check::None | Check::ModifiedToErr | Check::Flushed)
}

/// The peer said so: the cause is there.
fn is_peers_word(check: Check) -> bool {
    matches!(check, Check::NakInvalidRequest | Check::NakRemoteAccess | Check::NakRemoteOperational)
}

fn of(host: &Host, end: &End<'_>) -> Option<Finding> {
    let cause = end.first_cause().filter(|cause| !is_no_cause(cause.check))?;
    if peers::explains(host, end, cause.check) || cause.check == Check::CqOverrun {
        return None;
    }
    let peer = end.joined(host);
    let peer_check = peer.and_then(|peer| {
        let own = peer.first_check().filter(|_| is_own_word(&peer));
        own.or_else(|| nak_check(peer.nic, peer.qp.qpn))
    });
    // Told of at the end where the check failed.
    if is_peers_word(cause.check) && peer.is_some_and(|peer| is_own_word(&peer)) {
        return None;
    }
    let denied = |end: End<'_>| access(end.nic, end.qp.qpn, Some(end.qp));
    let access = denied(*end).or_else(|| denied(peer?));
    let fault = Fault::Failed {
        cause,
        state: Some(end.state()),
        path: end.path(),
        deregistered_ns: access.and_then(|access| {
            deregistered(end.nic, access.key).or_else(|| deregistered(peer?.nic, access.key))
        }),
        access,
        peer: peer.map(|peer| peer.who()),
        peer_check,
    };
    let finding = end.finding(Severity::Error, Certainty::Certain, fault);
    Some(match &peer {
        Some(peer) => finding.with(peer),
        None => finding,
    })
}

fn is_own_word(end: &End<'_>) -> bool {
    end.first_check().is_some_and(|check| !is_no_cause(check) && !is_peers_word(check))
}

/// The check behind the last NAK that a QP sent.
fn nak_check(nic: &NicReading, qpn: u32) -> Option<Check> {
    let naks = nic.records_of(qpn).rev();
    let naks = naks.filter(|record| record.opcode() == Ok(CommandOpcode::NakSent));
    let mut checks =
        naks.filter_map(|record| Check::try_from(u32::from(body_of::<body::Nak>(record).check.get())).ok());
    checks.find(|check| !is_no_cause(*check))
}

/// The first errors of QPs that have been destroyed since, as far as the recorder goes back.
fn of_destroyed(nic: &NicReading) -> Vec<Finding> {
    let there: BTreeSet<u32> = nic.model.qps.iter().map(|qp| qp.qpn).collect();
    let firsts = nic.records.iter().filter(|record| record.opcode() == Ok(CommandOpcode::FirstError));
    let firsts = firsts.filter(|record| !there.contains(&record.qpn()));
    let finding = |record: &CommandRecord| {
        let cause = cause_of(record).filter(|cause| !is_no_cause(cause.check))?;
        let qpn = record.qpn();
        let fault = Fault::Failed {
            cause,
            state: None,
            path: None,
            access: access(nic, qpn, None),
            peer: None,
            peer_check: None,
            deregistered_ns: access(nic, qpn, None).and_then(|access| deregistered(nic, access.key)),
        };
        let finding = Finding::of(nic, Severity::Error, Certainty::Likely, fault);
        Some(Finding { qpn: Some(qpn), ..finding })
    };
    firsts.filter_map(finding).collect()
}

fn cause_of(record: &CommandRecord) -> Option<FirstCause> {
    let b = body_of::<body::CompletionError>(record);
    let some = |number: u64| Some(number).filter(|number| *number != 0);
    Some(FirstCause {
        status: WcStatus::try_from(u32::from(b.status)).ok()?,
        check: Check::try_from(u32::from(b.check.get())).ok()?,
        psn: some(b.psn.get().into()).map(|psn| psn as u32),
        wr_id: some(b.wr_id.get()),
    })
}

/// The last access of a QP that was turned down; of one that is no more, `qp` is none.
fn access(nic: &NicReading, qpn: u32, qp: Option<&QpModel>) -> Option<KeyAccess> {
    let record = nic.records_of(qpn).rfind(|record| record.opcode() == Ok(CommandOpcode::AccessDenied))?;
    let b = body_of::<body::AccessDenied>(record);
    let region = (b.region & 1 != 0).then(|| Region {
        start: b.region_start.get(),
        len: b.region_length.get(),
        access: b.access.get().into(),
        pd: record.pd(),
        other_key: b.region & 2 != 0,
    });
    Some(KeyAccess {
        check: Check::try_from(u32::from(b.check.get())).ok()?,
        key: b.key.get(),
        addr: b.addr.get(),
        len: b.length.get(),
        pd: qp.map_or(0, |qp| qp.context.get(glassnic_verbs::qpc::Field::Pd) as u32),
        region,
    })
}

/// How long before the access the memory with this key was deregistered.
fn deregistered(nic: &NicReading, key: u32) -> Option<u64> {
    let is_key = |record: &&CommandRecord| {
        let b = body_of::<body::AccessDenied>(record);
        record.opcode() == Ok(CommandOpcode::AccessDenied) && b.key.get() == key
    };
    let denied = nic.records.iter().find(is_key)?.timestamp_ns();
    let has_key = |record: &&CommandRecord| {
        let keys = record.body::<body::RegMr>().map(|b| [b.lkey.get(), b.rkey.get()]);
        keys.is_some_and(|keys| keys.contains(&key))
    };
    let of_key = nic.records.iter().rev().filter(has_key);
    let last = of_key.into_iter().find(|record| record.timestamp_ns() <= denied)?;
    let ended = last.opcode() == Ok(CommandOpcode::DeregMr);
    ended.then(|| denied.saturating_sub(last.timestamp_ns()))
}
