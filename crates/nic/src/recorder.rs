//! The flight recorder: the last records of a NIC, oldest overwritten first, readable after its process is gone.

use glassnic_events::{Event, KeyAccess};
use glassnic_wire::command::body::{
    self, AccessDenied, AsyncEvent, CompletionError, Nak, Refusal, StateMoved, Timeout, Traffic,
};
use glassnic_wire::command::{Body, CommandFlags, CommandOpcode, CommandRecord, RECORD_LEN};

use crate::context::{ContextMemory, Header};
use crate::fields::{FieldInfo, Fields};
use crate::qpc::{Field, Image};
use crate::sync::{Ordering, fence};

/// Bytes of a slot: one record.
pub const SLOT_LEN: usize = RECORD_LEN;

/// Index of the record's sequence number among the words of its slot: a slot whose number does not fit its place
/// is being written.
const SEQ_WORD: usize = 7;

/// Writes records. There is one writer, the holder of the NIC.
#[derive(Clone, Debug)]
pub struct Recorder {
    memory: ContextMemory,
}

impl Recorder {
    /// The recorder of a segment.
    #[must_use]
    pub fn new(memory: ContextMemory) -> Self {
        Self { memory }
    }

    /// Keeps a record. Its sequence number and time are set here; numbers count from 1.
    pub fn keep(&self, now_ns: u64, mut record: CommandRecord) {
        let slots = self.memory.layout().recorder_slots as u64;
        let Some(next) = self.memory.counter(Header::RecorderNext).filter(|_| slots > 0) else { return };
        let number = next.load(Ordering::Relaxed);
        record.set_seq(number + 1);
        record.set_timestamp_ns(now_ns);
        let Some(words) = self.memory.recorder((number % slots) as usize) else { return };
        let bytes = record.to_bytes();
        words[SEQ_WORD].store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        for (i, (word, value)) in words.iter().zip(bytes.as_chunks().0).enumerate() {
            if i != SEQ_WORD {
                word.store(u64::from_le_bytes(*value), Ordering::Relaxed);
            }
        }
        words[SEQ_WORD].store(number + 1, Ordering::Release);
        next.store(number + 1, Ordering::Release);
    }

    /// Keeps what happened inside the device.
    pub fn event(&self, now_ns: u64, event: &Event) {
        if let Some(record) = record_of(event) {
            self.keep(now_ns, record);
        }
    }

    /// Keeps that a call was refused.
    pub fn refused(&self, now_ns: u64, refusal: &glassnic_events::Refusal, thread: u32) {
        if let Some(record) = refused(refusal, thread) {
            self.keep(now_ns, record);
        }
    }

    /// Keeps that an access to memory was turned down.
    pub fn turned_down(&self, now_ns: u64, qpn: u32, access: &KeyAccess) {
        let region = access.region;
        let body = AccessDenied {
            key: access.key.into(),
            addr: access.addr.into(),
            length: access.len.into(),
            region_start: region.map_or(0, |region| region.start).into(),
            region_length: region.map_or(0, |region| region.len).into(),
            access: (region.map_or(0, |region| region.access) as u16).into(),
            check: (access.check.value() as u16).into(),
            region: region.map_or(0, |region| if region.other_key { 3 } else { 1 }),
            ..AccessDenied::default()
        };
        if let Some(mut record) = record(CommandOpcode::AccessDenied, qpn, &body) {
            record.set_pd(region.map_or(0, |region| region.pd));
            self.keep(now_ns, record);
        }
    }

    /// Keeps that a command was executed, with what it changed in a QP's context.
    pub fn executed(&self, now_ns: u64, command: &Executed, change: Option<(&Image, &Image)>) {
        let mut part = body::Executed {
            command: command.opcode.number().into(),
            thread: command.thread.into(),
            took_ns: u32::try_from(now_ns.saturating_sub(command.started_ns)).unwrap_or(u32::MAX).into(),
            ..body::Executed::default()
        };
        let mut used = 0;
        let keep = |part: &mut body::Executed, used: &mut usize| {
            part.used = std::mem::take(used) as u8;
            if let Some(mut r) = record(CommandOpcode::Executed, command.qpn, part) {
                r.set_pd(command.handle);
                self.keep(now_ns, r);
            }
            part.changes = [0; 33];
        };
        if let Some((before, after)) = change {
            for field in before.changes(after) {
                let (old, new) = (field.bytes(before.bytes()), field.bytes(after.bytes()));
                if used + 1 + 2 * field.width > part.changes.len() {
                    keep(&mut part, &mut used);
                }
                part.changes[used] = field.offset as u8;
                part.changes[used + 1..][..field.width].copy_from_slice(old);
                part.changes[used + 1 + field.width..][..field.width].copy_from_slice(new);
                used += 1 + 2 * field.width;
            }
        }
        keep(&mut part, &mut used);
    }

    /// Records from number `from` on (counted from 1), oldest first, that are still there and whole.
    #[must_use]
    pub fn read(&self, from: u64) -> Vec<CommandRecord> {
        let slots = self.memory.layout().recorder_slots as u64;
        let end = self.memory.get(Header::RecorderNext);
        let first = from.max(1).max(end.saturating_add(1).saturating_sub(slots));
        (first..=end).filter_map(|number| self.read_one(number, slots)).collect()
    }

    fn read_one(&self, number: u64, slots: u64) -> Option<CommandRecord> {
        let words = self.memory.recorder(((number - 1) % slots.max(1)) as usize)?;
        if words[SEQ_WORD].load(Ordering::Acquire) != number {
            return None;
        }
        let mut bytes = [0; RECORD_LEN];
        for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *to = word.load(Ordering::Relaxed).to_le_bytes();
        }
        fence(Ordering::Acquire);
        (words[SEQ_WORD].load(Ordering::Relaxed) == number).then(|| CommandRecord::from_bytes(&bytes))
    }
}

/// A command that the device has executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Executed {
    /// Which.
    pub opcode: CommandOpcode,
    /// Its QP; 0 where it is about none.
    pub qpn: u32,
    /// Its object, where it is about no QP.
    pub handle: u32,
    /// Thread that made the call.
    pub thread: u32,
    /// When the device took it, monotonic ns.
    pub started_ns: u64,
}

/// A field of a context that a command changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which.
    pub field: &'static FieldInfo,
    old: [u8; 16],
    new: [u8; 16],
}

impl Change {
    /// What it was before, as wide as the field.
    #[must_use]
    pub fn before(&self) -> &[u8] {
        &self.old[..self.field.width]
    }

    /// What it is.
    #[must_use]
    pub fn after(&self) -> &[u8] {
        &self.new[..self.field.width]
    }
}

/// The changes that a record of a command's execution names; what makes no sense ends them.
#[must_use]
pub fn changes(executed: &body::Executed) -> Vec<Change> {
    let mut rest = executed.changes.get(..usize::from(executed.used)).unwrap_or_default();
    let mut changes = Vec::new();
    while let Some((offset, values)) = rest.split_first() {
        let Some(field) = Field::ALL.iter().find(|f| f.offset == usize::from(*offset)) else { break };
        let Some((both, after)) = values.split_at_checked(2 * field.width) else { break };
        let mut change = Change { field, old: [0; 16], new: [0; 16] };
        change.old[..field.width].copy_from_slice(&both[..field.width]);
        change.new[..field.width].copy_from_slice(&both[field.width..]);
        changes.push(change);
        rest = after;
    }
    changes
}

/// A done record of this opcode, QP and body.
fn record<B: Body>(opcode: CommandOpcode, qpn: u32, body: &B) -> Option<CommandRecord> {
    let mut r = CommandRecord::with_body(opcode, body).ok()?;
    r.set_qpn(qpn);
    r.set_status(0, CommandFlags::DONE);
    Some(r)
}

/// The record of a refusal.
fn refused(refusal: &glassnic_events::Refusal, thread: u32) -> Option<CommandRecord> {
    let body = Refusal { words: refusal.to_words().map(Into::into), thread: thread.into() };
    let mut r = record(CommandOpcode::Refusal, refusal.qpn.unwrap_or(0), &body)?;
    r.set_status(glassnic_events::errno(&refusal.rule).0 as u16, CommandFlags::DONE);
    Some(r)
}

/// The record of an event; `None` for commands, which have their own.
fn record_of(event: &Event) -> Option<CommandRecord> {
    use CommandOpcode as Op;
    match *event {
        Event::Refused(refusal) => refused(&refusal, 0),
        Event::StateMoved { qpn, from, to, cause, wr_id } => {
            let body = StateMoved {
                from_state: from.value() as u8,
                to_state: to.value() as u8,
                cause: (cause.value() as u16).into(),
                wr_id: wr_id.unwrap_or(0).into(),
                ..StateMoved::default()
            };
            record(Op::StateMoved, qpn, &body)
        }
        Event::FirstPost { qpn, send, opcode } => {
            let opcode = opcode.map_or(0, |o| o.value() as u8);
            let side = (!send).into();
            record(Op::FirstPost, qpn, &Traffic { opcode, side, ..Traffic::default() })
        }
        Event::FirstPacket { qpn, from_qpn, psn } => {
            let peer_qpn = from_qpn.unwrap_or(0).into();
            record(Op::FirstPacketReceived, qpn, &Traffic { psn: psn.into(), peer_qpn, ..Traffic::default() })
        }
        Event::FirstPacketSent { qpn, to_qpn, opcode, psn } => {
            let body = Traffic { opcode, psn: psn.into(), peer_qpn: to_qpn.into(), ..Traffic::default() };
            record(Op::FirstPacketSent, qpn, &body)
        }
        Event::PacketDropped { qpn, psn, reason } => {
            let body = Traffic {
                psn: psn.unwrap_or(0).into(),
                cause: (reason.value() as u16).into(),
                ..Traffic::default()
            };
            record(Op::PacketDropped, qpn.unwrap_or(0), &body)
        }
        Event::NakSent { qpn, psn, code, check } => {
            let body = Nak {
                syndrome: 0x60 | code.value() as u8,
                check: (check.value() as u16).into(),
                psn: psn.into(),
                ..Nak::default()
            };
            record(Op::NakSent, qpn, &body)
        }
        Event::NakReceived { qpn, psn, code } => {
            let body = Nak { syndrome: 0x60 | code.value() as u8, psn: psn.into(), ..Nak::default() };
            record(Op::NakReceived, qpn, &body)
        }
        Event::RnrNakSent { qpn, psn, delay_ns } => {
            let body = Nak { syndrome: 0x20, psn: psn.into(), delay_ns: delay_ns.into(), ..Nak::default() };
            record(Op::NakSent, qpn, &body)
        }
        Event::RnrNakReceived { qpn, psn, delay_ns, retry_left } => {
            let body = Nak {
                syndrome: 0x20,
                retries_left: retry_left.unwrap_or(u8::MAX),
                psn: psn.into(),
                delay_ns: delay_ns.into(),
                ..Nak::default()
            };
            record(Op::NakReceived, qpn, &body)
        }
        Event::Timeout { qpn, psn, retry_left } => {
            let body = Timeout { retries_left: retry_left, oldest_psn: psn.into(), ..Timeout::default() };
            record(Op::Timeout, qpn, &body)
        }
        Event::Retransmit { qpn, psn } => {
            record(Op::Retransmit, qpn, &Timeout { oldest_psn: psn.into(), ..Timeout::default() })
        }
        Event::CompletionError { qpn, wr_id, status, check } => {
            record(Op::CompletionError, qpn, &failure(status, check, None, Some(wr_id)))
        }
        Event::FirstError { qpn, cause } => {
            record(Op::FirstError, qpn, &failure(cause.status, cause.check, cause.psn, cause.wr_id))
        }
        Event::Async { event, subject, qpn } => {
            let body = AsyncEvent {
                event_type: event.value().into(),
                handle: subject.into(),
                ..AsyncEvent::default()
            };
            record(Op::AsyncEvent, qpn.unwrap_or(0), &body)
        }
        _ => None,
    }
}

fn failure(
    status: glassnic_events::WcStatus,
    check: glassnic_events::Check,
    psn: Option<u32>,
    wr_id: Option<u64>,
) -> CompletionError {
    CompletionError {
        status: status.value() as u8,
        psn: psn.unwrap_or(0).into(),
        wr_id: wr_id.unwrap_or(0).into(),
        check: (check.value() as u16).into(),
        ..CompletionError::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Layout;
    use glassnic_events::{Cause, QpState};

    #[test]
    fn the_newest_stay_and_the_oldest_go() {
        let memory = ContextMemory::private(Layout::bare(2, 4));
        let recorder = Recorder::new(memory);
        for qpn in 1..=10 {
            let moved = Event::StateMoved {
                qpn,
                from: QpState::Reset,
                to: QpState::Init,
                cause: Cause::Modify,
                wr_id: None,
            };
            recorder.event(u64::from(qpn) * 100, &moved);
        }
        let kept: Vec<_> = recorder.read(0).iter().map(|r| (r.seq(), r.qpn(), r.timestamp_ns())).collect();
        assert_eq!(kept, [(7, 7, 700), (8, 8, 800), (9, 9, 900), (10, 10, 1000)]);
        assert_eq!(recorder.read(10).len(), 1);
        let body: StateMoved = recorder.read(10)[0].body().unwrap();
        assert_eq!((body.from_state, body.to_state), (0, 1));
    }

    #[test]
    fn a_refusal_comes_back_as_data() {
        use glassnic_events::{Call, Field, Refusal as Refused, Rule};
        let recorder = Recorder::new(ContextMemory::private(Layout::bare(0, 4)));
        let rule = Rule::OutOfRange { what: Field::Timeout, offered: 40, min: 0, max: 31 };
        let refusal = Refused::on_qp(Call::ModifyQp, 5, rule);
        recorder.event(1, &Event::Refused(refusal));
        let kept = recorder.read(0);
        assert_eq!(kept[0].errno(), 22);
        let body: Refusal = kept[0].body().unwrap();
        assert_eq!(Refused::from_words(&body.words.map(|w| w.get())), Some(refusal));
    }

    #[test]
    fn what_a_command_changed_comes_back_whole_however_much_it_is() {
        let recorder = Recorder::new(ContextMemory::private(Layout::bare(0, 16)));
        let before = Image::default();
        let mut after = before;
        after.set_dgid([7; 16]);
        for field in [Field::Qpn, Field::State, Field::DestQpn, Field::Timeout, Field::CreatedNs] {
            after.set(field, 0x21);
        }
        let opcode = CommandOpcode::ModifyQp;
        let command = Executed { opcode, qpn: 0x21, handle: 3, thread: 77, started_ns: 1000 };
        recorder.executed(1500, &command, Some((&before, &after)));
        let mut found = Vec::new();
        for record in recorder.read(0) {
            let body: body::Executed = record.body().unwrap();
            assert_eq!(
                (record.qpn(), record.pd(), body.thread.get(), body.took_ns.get()),
                (0x21, 3, 77, 500)
            );
            found.extend(changes(&body));
        }
        let names: Vec<_> = found.iter().map(|c| c.field.name).collect();
        assert_eq!(names, ["qpn", "state", "created_ns", "dgid", "dest_qpn", "timeout"]);
        assert!(found.iter().all(|c| c.before().iter().all(|b| *b == 0)));
        assert_eq!((found[1].after(), found[3].after()), (&[0x21][..], &[7; 16][..]));
    }

    #[test]
    fn nonsense_changes_end_where_they_begin() {
        for used in 0..=255u8 {
            let body = body::Executed { used, changes: [0xfe; 33], ..body::Executed::default() };
            assert_eq!(changes(&body), []);
        }
    }
}
