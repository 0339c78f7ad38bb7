//! Completion queues, their readers, and events that nobody takes.

use std::collections::BTreeMap;

use glassnic_events::{AsyncEventType, ObjectKind, QpState};
use glassnic_verbs::qpc;
use glassnic_wire::command::{CommandOpcode, CommandRecord, body};

use super::ends::End;
use super::finding::{Certainty, Fault, Finding, Severity};
use crate::model::{CqModel, NicState};
use crate::read::{Host, NicReading};
use crate::words::body_of;

/// A thread that sleeps longer has not just gone to sleep.
const ASLEEP_NS: u64 = 1_000_000_000;
/// A destroy, or an event, that waits longer waits for something that does not come.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Everything about completions and events.
pub(super) fn rules(host: &Host) -> Vec<Finding> {
    let of_nic = |nic| {
        let mut found: Vec<_> = cqs(nic);
        found.extend(asleep(nic));
        found.extend(destroy_waits(host, nic));
        found.extend(unread(nic));
        found
    };
    host.nics.iter().flat_map(of_nic).collect()
}

/// What the QPs of a NIC may leave in a CQ.
#[derive(Default)]
struct Load {
    /// Those that report to it.
    qps: Vec<u32>,
    /// Requests of queues that were posted to, should they be full. One that was never posted to has nothing to report.
    posted: u32,
    /// Requests of one queue of each QP, the larger one: as many are meant to be posted, or it would be smaller.
    meant: u32,
}

impl Load {
    /// That of each CQ.
    fn of(nic: &NicReading) -> BTreeMap<u32, Self> {
        let mut loads = BTreeMap::<u32, Self>::new();
        for qp in &nic.model.qps {
            let end = End { nic, qp };
            let posted = |requests, tail| if end.device(tail) == 0 { 0 } else { requests };
            for (cq, [send, recv]) in qp.loads() {
                let load = loads.entry(cq).or_default();
                let posted = [posted(send, qpc::Field::SqTail), posted(recv, qpc::Field::RqTail)];
                load.posted = posted.into_iter().fold(load.posted, u32::saturating_add);
                load.meant = load.meant.saturating_add(send.max(recv));
                if send.max(recv) > 0 {
                    load.qps.push(qp.qpn);
                }
            }
        }
        loads
    }
}

/// A program that makes its CQs too small makes all of them so: what is no more than possible is told once for a place.
fn cqs(nic: &NicReading) -> Vec<Finding> {
    let mut loads = Load::of(nic);
    let mut hints = BTreeMap::<_, usize>::new();
    let mut found = Vec::<Finding>::new();
    for cq in &nic.model.cqs {
        let (handle, depth, overrun) = (cq.object.handle, cq.depth, cq.overrun);
        let load = loads.remove(&handle).unwrap_or_default();
        // Where requests are unsignalled, fewer complete than are posted: a CQ that is nowhere near full may be large enough.
        let is_tight = load.posted > depth && cq.waiting >= depth.div_ceil(2);
        let (severity, certainty, worst) = if overrun {
            (Severity::Error, Certainty::Certain, load.posted)
        } else if is_tight {
            (Severity::Warning, Certainty::Likely, load.posted)
        } else if load.meant > depth && nic.model.state == NicState::Open {
            (Severity::Hint, Certainty::Possible, cq.worst_case)
        } else {
            continue;
        };
        let (qps, site) = (load.qps, cq.object.site.clone());
        let first = (severity == Severity::Hint)
            .then(|| *hints.entry((site.clone(), depth, worst)).or_insert(found.len()))
            .and_then(|at| found.get_mut(at));
        if let Some(Finding { fault: Fault::CqTooSmall { alike, .. }, .. }) = first {
            *alike += 1;
            continue;
        }
        let fault = Fault::CqTooSmall { cq: handle, alike: 0, depth, worst, qps, overrun, site };
        found.push(Finding::of(nic, severity, certainty, fault));
    }
    found
}

fn asleep(nic: &NicReading) -> Vec<Finding> {
    if nic.model.state != NicState::Open {
        return Vec::new();
    }
    let finding = |cq: &CqModel| {
        let channel = nic.model.channels.iter().find(|channel| channel.object.handle == cq.channel)?;
        let asleep_ns = channel.asleep_ns.filter(|asleep| *asleep > ASLEEP_NS && channel.waiting == 0)?;
        if cq.channel == 0 || cq.waiting == 0 {
            return None;
        }
        let fault = Fault::AsleepOverCompletions {
            cq: cq.object.handle,
            waiting: cq.waiting,
            armed_with: cq.armed_with,
            armed: cq.armed,
            thread: channel.sleeper,
            asleep_ns,
        };
        // Whoever asks for solicited completions only may leave the others where they are.
        let (severity, certainty) = match cq.armed {
            "solicited" => (Severity::Hint, Certainty::Possible),
            // It sleeps for another CQ, and may poll this one by the way.
            "none" if is_armed(nic, cq.channel) => (Severity::Warning, Certainty::Likely),
            _ => (Severity::Error, Certainty::Certain),
        };
        Some(Finding::of(nic, severity, certainty, fault))
    };
    nic.model.cqs.iter().filter_map(finding).collect()
}

/// Whether an event may come on a channel.
fn is_armed(nic: &NicReading, channel: u32) -> bool {
    nic.model.cqs.iter().any(|cq| cq.channel == channel && cq.armed != "none")
}

fn destroy_waits(host: &Host, nic: &NicReading) -> Vec<Finding> {
    let is = |record: &CommandRecord, opcode| record.opcode() == Ok(opcode);
    let waits = nic.records.iter().enumerate();
    let waits = waits.filter(|(_, record)| is(record, CommandOpcode::DestroyWaits));
    let finding = |(at, record): (usize, &CommandRecord)| {
        let b = body_of::<body::Waiting>(record);
        let later = nic.records.get(at + 1..).unwrap_or_default();
        let is_over = later.iter().any(|later| {
            let other = body_of::<body::Waiting>(later);
            is(later, CommandOpcode::DestroyWaited) && later.pd() == record.pd() && other.kind == b.kind
        });
        let since_ns = host.now_ns.saturating_sub(record.timestamp_ns());
        if is_over || since_ns < PATIENCE_NS {
            return None;
        }
        let kind = ObjectKind::try_from(u32::from(b.kind.get())).ok()?;
        let (handle, events, thread) = (record.pd(), b.events.get(), b.thread.get());
        let fault =
            Fault::DestroyWaits { kind: kind.name().to_uppercase(), handle, events, thread, since_ns };
        Some(Finding::of(nic, Severity::Error, Certainty::Certain, fault))
    };
    waits.filter_map(finding).collect()
}

fn unread(nic: &NicReading) -> Option<Finding> {
    let waiting = nic.model.asynchronous.waiting;
    let since_ns = nic.model.asynchronous.waiting_ns.filter(|since| *since > PATIENCE_NS)?;
    let records = nic.records.iter().filter(|record| record.opcode() == Ok(CommandOpcode::AsyncEvent));
    let events = records.filter_map(|record| {
        AsyncEventType::try_from(body_of::<body::AsyncEvent>(record).event_type.get()).ok()
    });
    let mut events: Vec<_> = events.collect();
    events.drain(..events.len().saturating_sub(waiting as usize));
    if nic.model.cqs.iter().any(|cq| cq.overrun) && !events.contains(&AsyncEventType::CqErr) {
        events.push(AsyncEventType::CqErr);
    }
    let fault = Fault::AsyncUnread { waiting, since_ns, events: events.clone() };
    let is_moved_by_error = nic.model.qps.iter().any(|qp| End { nic, qp }.state() == QpState::Err);
    let severity = if is_moved_by_error { Severity::Warning } else { Severity::Hint };
    // Others may wait: many programs take none.
    events.iter().any(|event| event.is_error()).then(|| Finding::of(nic, severity, Certainty::Certain, fault))
}
