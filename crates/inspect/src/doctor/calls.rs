//! Calls that a program should not have made, or not in this way.

use glassnic_events::{Call, QpState, Refusal, Rule};
use glassnic_verbs::driver::Field;
use glassnic_wire::command::{CommandOpcode, CommandRecord, body};

use super::ends::ends;
use super::finding::{Certainty, Fault, Finding, Severity};
use crate::read::{Host, NicReading};
use crate::words::body_of;

/// Everything about calls.
pub(super) fn rules(host: &Host) -> Vec<Finding> {
    let mut found: Vec<_> = host.nics.iter().filter_map(forked).collect();
    for end in ends(host) {
        let times = end.driver(Field::Overlaps);
        if times > 0 {
            let threads = [Field::OverlapBy, Field::OverlapWith].map(|field| end.driver(field));
            let fault = Fault::Overlaps { times, threads };
            found.push(end.finding(Severity::Warning, Certainty::Certain, fault));
        }
        let times = end.driver(Field::EarlyQueries);
        if times > 0 {
            let fault = Fault::EarlyQueries { times, write_back_ns: end.nic.model.write_back_ns };
            found.push(end.finding(Severity::Warning, Certainty::Certain, fault));
        }
    }
    found.extend(host.nics.iter().flat_map(destroyed));
    found.extend(host.nics.iter().flat_map(|nic| refusals(host, nic)));
    found
}

/// The same of QPs that are no more: the records of their end tell.
fn destroyed(nic: &NicReading) -> Vec<Finding> {
    let ends = nic.records.iter().filter(|record| record.opcode() == Ok(CommandOpcode::DestroyQp));
    let found = ends.flat_map(|record| {
        let b = body_of::<body::DestroyQp>(record);
        let times = u32::from(b.overlaps.get());
        let threads = [b.overlap_by.get(), b.overlap_with.get()];
        let overlaps = (times > 0).then_some(Fault::Overlaps { times, threads });
        let times = u32::from(b.early_queries.get());
        let write_back_ns = nic.model.write_back_ns;
        let early = (times > 0).then_some(Fault::EarlyQueries { times, write_back_ns });
        let found = overlaps.into_iter().chain(early);
        let of = |fault| Finding::of(nic, Severity::Warning, Certainty::Certain, fault);
        found.map(move |fault| Finding { qpn: Some(record.qpn()), ..of(fault) })
    });
    found.collect()
}

fn forked(nic: &NicReading) -> Option<Finding> {
    let used = nic.model.forked_use?;
    let fault = Fault::ForkedUse { child: used.child, times: used.times };
    let mut finding = Finding::of(nic, Severity::Error, Certainty::Certain, fault);
    finding.others.push(used.child);
    Some(finding)
}

/// Refusals of one kind, as one.
struct Kind<'a> {
    refusal: Refusal,
    record: &'a CommandRecord,
    times: usize,
    stayed: bool,
}

/// Refusals, the last of each kind. A kind is a call, a rule and, where a QP stayed where it was, the QP.
fn refusals(host: &Host, nic: &NicReading) -> Vec<Finding> {
    let mut kinds: Vec<Kind<'_>> = Vec::new();
    for record in &nic.records {
        let Some(refusal) = refusal(record).filter(|refusal| !is_usual(refusal)) else { continue };
        let stayed = stayed(host, nic, record, &refusal);
        let known = kinds.iter_mut().find(|kind| {
            let (one, other) = (&kind.refusal, &refusal);
            let same = one.call == other.call && one.rule.code() == other.rule.code();
            same && kind.stayed == stayed && (!stayed || one.qpn == other.qpn)
        });
        match known {
            Some(kind) => {
                (kind.refusal, kind.record) = (refusal, record);
                kind.times += 1;
            }
            None => kinds.push(Kind { refusal, record, times: 1, stayed }),
        }
    }
    let finding = |kind: &Kind<'_>| {
        let Kind { refusal, record, times, stayed } = *kind;
        let ago_ns = host.now_ns.saturating_sub(record.timestamp_ns());
        let fault = Fault::Refused { refusal, times, ago_ns, stayed };
        // A program that asked for something else then has coped with it.
        let (severity, certainty) = match stayed {
            true => (Severity::Error, Certainty::Likely),
            false => (Severity::Hint, Certainty::Possible),
        };
        let finding = Finding::of(nic, severity, certainty, fault);
        Finding { qpn: refusal.qpn, ..finding }
    };
    kinds.iter().map(finding).collect()
}

fn refusal(record: &CommandRecord) -> Option<Refusal> {
    if record.opcode() != Ok(CommandOpcode::Refusal) {
        return None;
    }
    Refusal::from_words(&body_of::<body::Refusal>(record).words.map(|word| word.get()))
}

/// Programs post until the queue is full; that is no fault.
fn is_usual(refusal: &Refusal) -> bool {
    matches!(refusal.rule, Rule::QueueFull { .. })
}

/// Whether a QP that was to be moved did not get where it was to go, however often the program tried.
fn stayed(host: &Host, nic: &NicReading, refused: &CommandRecord, refusal: &Refusal) -> bool {
    let (Some(qpn), Some((from, to))) = (refusal.qpn, refusal.moving) else { return false };
    if !matches!(refusal.call, Call::ModifyQp | Call::SafeModify) || from == to {
        return false;
    }
    let later = nic.records_of(qpn).rev().take_while(|record| record.seq() > refused.seq());
    let mut moved = later.filter_map(|record| record.body::<body::ModifyQp>());
    let got_there = moved.any(|b| u32::from(b.to_state) == to.value());
    let is_there = || host.qps_of(qpn).any(|(of, _)| std::ptr::eq(of, nic));
    !got_there && to != QpState::Reset && is_there()
}
