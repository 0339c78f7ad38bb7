//! What happened to a QP, and to its other end, in the order in which it happened.

use glassnic_wire::command::{CommandOpcode, CommandRecord, body};
use serde::Serialize;

use glassnic_events::AttrMask;
use glassnic_explain::Lang;

use crate::read::Host;
use crate::words::{Repeats, Told, tell};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// When: monotonic clock, nanoseconds.
    pub at_ns: u64,
    /// In which process's NIC.
    pub pid: u32,
    /// To which QP.
    pub qpn: u32,
    /// Whether it happened to the other end.
    pub at_peer: bool,
    /// The thread that made the call, where one did and is known.
    pub thread: Option<u32>,
    /// How long the device took for a command, in nanoseconds.
    pub took_ns: Option<u32>,
    /// What the record is, as CREATE_QP.
    pub record: String,
    /// What became of the QP.
    pub what: String,
    /// By which call or event.
    pub how: String,
}

/// Everything that the recorders still have of a QP in a process, and of its other end on this host.
#[must_use]
pub fn of_qp(lang: Lang, host: &Host, pid: u32, qpn: u32) -> Vec<Entry> {
    let mut entries = Vec::new();
    let own = || host.nics.iter().filter(|nic| nic.model.pid == pid);
    for nic in own() {
        entries.extend(of_records(lang, &nic.records, pid, qpn, false));
    }
    if let Some(peer) =
        own().find_map(|nic| peer_of(&nic.records, qpn)).or_else(|| context_peer(host, pid, qpn))
    {
        for nic in &host.nics {
            // A QP that talks to itself is told once.
            if (nic.model.pid, peer) != (pid, qpn) && is_peer(nic, peer, qpn) {
                entries.extend(of_records(lang, &nic.records, nic.model.pid, peer, true));
            }
        }
    }
    // Stable: what is of one time stays in the order of its recorder.
    entries.sort_by_key(|entry| entry.at_ns);
    entries
}

fn is_peer(nic: &crate::NicReading, peer: u32, of: u32) -> bool {
    let by_context = || {
        let means_us = |qp: &crate::QpModel| qp.peer.as_ref().is_some_and(|back| back.qpn == of);
        nic.model.qps.iter().any(|qp| qp.qpn == peer && means_us(qp))
    };
    peer_of(&nic.records, peer) == Some(of) || by_context()
}

fn context_peer(host: &Host, pid: u32, qpn: u32) -> Option<u32> {
    let nics = host.nics.iter().filter(|nic| nic.model.pid == pid);
    let mut qps = nics.flat_map(|nic| &nic.model.qps);
    qps.find(|qp| qp.qpn == qpn)?.peer.as_ref().map(|peer| peer.qpn)
}

/// With which number a QP was last connected, by the records: they outlive its context.
fn peer_of(records: &[CommandRecord], qpn: u32) -> Option<u32> {
    let connects = records.iter().rev().filter(|record| record.qpn() == qpn);
    connects.filter_map(|record| record.body::<body::ModifyQp>()).find_map(|b| {
        let mask = AttrMask::from_bits_retain(b.attr_mask.get());
        mask.contains(AttrMask::DEST_QPN).then(|| b.dest_qpn_or_qkey.get())
    })
}

/// The records of one QP in words. A command's line has the thread and the time of its end, which is a record of its own.
fn of_records(lang: Lang, records: &[CommandRecord], pid: u32, qpn: u32, at_peer: bool) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut repeats = Repeats::default();
    // A command that has not ended: where its line is, and its opcode.
    let mut open: Option<(usize, u16)> = None;
    for record in records.iter().filter(|record| record.qpn() == qpn) {
        if let Ok(CommandOpcode::Executed) = record.opcode()
            && let Some(end) = record.body::<body::Executed>()
            && let Some((at, opcode)) = open
            && opcode == end.command.get()
            && let Some(entry) = entries.get_mut(at)
        {
            (entry.thread, entry.took_ns) = (Some(end.thread.get()), Some(end.took_ns.get()));
        }
        if repeats.has(record) {
            continue;
        }
        let opcode = record.opcode();
        if opcode.is_ok_and(CommandOpcode::is_command) {
            open = Some((entries.len(), record.opcode_number()));
        }
        let thread = record.body::<body::Refusal>().map(|b| b.thread.get()).filter(|thread| *thread != 0);
        let Told { what, how, .. } = tell(lang, record);
        entries.push(Entry {
            at_ns: record.timestamp_ns(),
            pid,
            qpn,
            at_peer,
            thread,
            took_ns: None,
            record: opcode
                .map_or_else(|_| format!("{:#06x}", record.opcode_number()), |o| o.name().to_owned()),
            what,
            how,
        });
    }
    entries
}
