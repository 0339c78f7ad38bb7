//! Control verbs, each with all that it did: the driver's record, the doorbell, what the device did and changed in the
//! context, the status, the time that it took.
//!
//! A verb is several records of the flight recorder: the command, what followed from it, and its end. A [`Tracer`] puts
//! those of one NIC together as they come in, and says how many it never saw.

mod act;
mod fields;
pub mod text;

use glassnic_events::{Call, Errno, Refusal};
use glassnic_explain::{Lang, explain_in};
use glassnic_verbs::{Change, changes};
use glassnic_wire::command::{CommandOpcode, CommandRecord, body};
use serde::Serialize;

use crate::decode::decode;
use crate::words::{Repeats, body_of, tell};
pub use fields::RecordField;

/// What a [`Tracer`] tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Step {
    /// A control verb, or a call that was refused.
    Verb(Box<Verb>),
    /// Something else that the recorder kept.
    Event(EventModel),
    /// Records that were overwritten before they were read.
    Lost {
        /// The process.
        pid: u32,
        /// How many.
        records: u64,
        /// The time of the first one after them: monotonic clock, nanoseconds.
        at_ns: u64,
    },
}

impl Step {
    /// When it happened: monotonic clock, nanoseconds.
    #[must_use]
    pub fn at_ns(&self) -> u64 {
        match self {
            Self::Verb(verb) => verb.at_ns,
            Self::Event(event) => event.at_ns,
            Self::Lost { at_ns, .. } => *at_ns,
        }
    }
}

/// A control verb.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verb {
    /// The process.
    pub pid: u32,
    /// Number of its record in the flight recorder.
    pub seq: u64,
    /// When the device took it, or refused it: monotonic clock, nanoseconds.
    pub at_ns: u64,
    /// The verb, as `ibv_modify_qp`; the opcode where it has none.
    pub call: String,
    /// The QP that it is about.
    pub qpn: Option<u32>,
    /// The object that it is about: `QP 0x12`.
    pub subject: String,
    /// What became of it: `RESET → INIT`.
    pub what: String,
    /// The record that the driver filled; `None` where it refused the call before.
    pub record: Option<RecordModel>,
    /// The 72 bytes of the record, or of the refusal's, in hexadecimal.
    pub hex: String,
    /// What changed in the QP's context, in the order of offsets.
    pub changes: Vec<ChangeModel>,
    /// Whether the command doorbell was rung.
    pub doorbell: bool,
    /// What the device did.
    pub device: Vec<String>,
    /// The outcome.
    pub status: Status,
    /// How long the device took, in nanoseconds; `None` where it never said so.
    pub took_ns: Option<u32>,
    /// The thread that made the call, where it is known.
    pub thread: Option<u32>,
}

/// The record of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordModel {
    /// `MODIFY_QP`.
    pub opcode: String,
    /// Its number.
    pub opcode_number: u16,
    /// QPN, or 0.
    pub qpn: u32,
    /// Handle of the PD, or of the object meant.
    pub pd: u32,
    /// The fields that belong to its opcode.
    pub fields: Vec<RecordField>,
}

/// A field of a QP's context that a command changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeModel {
    /// Its name.
    pub field: &'static str,
    /// Offset in the context, in bytes.
    pub offset: usize,
    /// Its bytes before.
    pub old_bytes: Vec<u8>,
    /// Its bytes after.
    pub new_bytes: Vec<u8>,
    /// Its number before; of one wider than eight bytes none.
    pub old_value: Option<u64>,
    /// Its number after.
    pub new_value: Option<u64>,
    /// What it meant before.
    pub old: String,
    /// What it means.
    pub new: String,
}

/// How a verb ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// 0, or the errno.
    pub errno: u16,
    /// `EINVAL`; none for 0.
    pub name: Option<String>,
    /// Why it was refused, and what to do about it.
    pub explanation: Option<String>,
}

/// Something that happened besides the verbs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventModel {
    /// The process.
    pub pid: u32,
    /// Number of its record.
    pub seq: u64,
    /// When: monotonic clock, nanoseconds.
    pub at_ns: u64,
    /// What the record is, as FIRST_POST.
    pub record: String,
    /// The QP that it is about.
    pub qpn: Option<u32>,
    /// The object that it is about.
    pub subject: String,
    /// What became of it.
    pub what: String,
    /// By what.
    pub how: String,
}

/// A verb whose records are still coming in.
#[derive(Debug)]
struct Open {
    verb: Box<Verb>,
    opcode: CommandOpcode,
    /// What followed that was told of last, and how often.
    last: Option<(CommandOpcode, String, usize)>,
}

/// Puts the records of one NIC together.
#[derive(Debug)]
pub struct Tracer {
    lang: Lang,
    pid: u32,
    next: u64,
    open: Option<Open>,
    repeats: Repeats,
}

impl Tracer {
    /// Of the NIC of a process, from its first record on.
    #[must_use]
    pub fn new(lang: Lang, pid: u32) -> Self {
        Self { lang, pid, next: 1, open: None, repeats: Repeats::default() }
    }

    /// Number of the record that it has to be fed next.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Takes the next records, in their order. What they complete comes back; the last verb may wait for the next call.
    pub fn feed(&mut self, records: &[CommandRecord]) -> Vec<Step> {
        let mut steps = Vec::new();
        for record in records {
            self.take(record, &mut steps);
        }
        // Its end may be in several records: it is whole when nothing came after it.
        if records.is_empty() && self.open.as_ref().is_some_and(|open| open.verb.took_ns.is_some()) {
            self.close(&mut steps);
        }
        steps
    }

    /// There will be no more: the last verb, although its end was never kept.
    pub fn finish(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        self.close(&mut steps);
        steps
    }

    fn take(&mut self, record: &CommandRecord, steps: &mut Vec<Step>) {
        let lost = record.seq().saturating_sub(self.next);
        if lost > 0 {
            self.close(steps);
            steps.push(Step::Lost { pid: self.pid, records: lost, at_ns: record.timestamp_ns() });
        }
        self.next = record.seq().saturating_add(1);
        let repeated = self.repeats.has(record);
        match record.opcode() {
            Ok(CommandOpcode::Executed) => self.executed(record),
            Ok(CommandOpcode::Refusal) => {
                self.close(steps);
                steps.push(Step::Verb(Box::new(self.refusal(record))));
            }
            Ok(opcode) if opcode.is_command() => {
                self.close(steps);
                self.open = Some(Open { verb: Box::new(self.command(opcode, record)), opcode, last: None });
            }
            Ok(_) if repeated => {}
            Ok(opcode) if self.belongs(record) => self.follows(opcode, record),
            _ => {
                self.close(steps);
                steps.push(Step::Event(self.event(record)));
            }
        }
    }

    /// Whether a record is of something that the open verb brought about: the device does one thing at a time.
    fn belongs(&self, record: &CommandRecord) -> bool {
        let open = self.open.as_ref().filter(|open| open.verb.took_ns.is_none());
        open.is_some_and(|open| open.verb.qpn == qpn(record) && open.verb.qpn.is_some())
    }

    fn follows(&mut self, opcode: CommandOpcode, record: &CommandRecord) {
        let Some(open) = &mut self.open else { return };
        let told = tell(self.lang, record);
        // Completions of many requests differ in nothing but their wr_id.
        match &mut open.last {
            Some((last, what, count)) if *last == opcode && *what == told.what => *count += 1,
            _ => {
                open.verb.device.extend(open.last.take().and_then(|last| more(self.lang, &last)));
                open.last = Some((opcode, told.what.clone(), 1));
                open.verb.device.push(format!("{}{}{}", told.what, self.lang.pick(": ", "："), told.how));
            }
        }
    }

    fn executed(&mut self, record: &CommandRecord) {
        let end = body_of::<body::Executed>(record);
        let Some(open) = &mut self.open else { return };
        let verb = &mut open.verb;
        if end.command.get() != open.opcode.number() || qpn(record) != verb.qpn {
            return;
        }
        (verb.took_ns, verb.thread) = (Some(end.took_ns.get()), Some(end.thread.get()));
        let now_ns = record.timestamp_ns();
        verb.changes.extend(changes(&end).iter().map(|change| ChangeModel::of(self.lang, change, now_ns)));
    }

    fn close(&mut self, steps: &mut Vec<Step>) {
        if let Some(mut open) = self.open.take() {
            open.verb.device.extend(open.last.take().and_then(|last| more(self.lang, &last)));
            steps.push(Step::Verb(open.verb));
        }
    }

    fn command(&self, opcode: CommandOpcode, record: &CommandRecord) -> Verb {
        let told = tell(self.lang, record);
        let fields = RecordField::all(self.lang, record);
        Verb {
            pid: self.pid,
            seq: record.seq(),
            at_ns: record.timestamp_ns(),
            call: act::call(opcode).map_or(opcode.name(), Call::name).to_owned(),
            qpn: qpn(record),
            subject: told.subject,
            what: told.what,
            record: Some(RecordModel {
                opcode: opcode.name().to_owned(),
                opcode_number: opcode.number(),
                qpn: record.qpn(),
                pd: record.pd(),
                fields,
            }),
            hex: hex(record),
            changes: Vec::new(),
            doorbell: true,
            device: vec![act::act(self.lang, opcode, record)],
            status: Status::of(record.errno(), None),
            took_ns: None,
            thread: None,
        }
    }

    fn refusal(&self, record: &CommandRecord) -> Verb {
        let b = body_of::<body::Refusal>(record);
        let refusal = Refusal::from_words(&b.words.map(|word| word.get()));
        let told = tell(self.lang, record);
        let what = match refusal.and_then(|refusal| refusal.moving) {
            Some((from, to)) if from != to => format!("{from} → {to}"),
            _ => told.what,
        };
        Verb {
            pid: self.pid,
            seq: record.seq(),
            at_ns: record.timestamp_ns(),
            call: refusal.map_or("?", |refusal| refusal.call.name()).to_owned(),
            qpn: qpn(record),
            subject: told.subject,
            what,
            record: None,
            hex: hex(record),
            changes: Vec::new(),
            doorbell: false,
            device: Vec::new(),
            status: Status::of(record.errno(), refusal.map(|r| explain_in(self.lang, &r).to_string())),
            took_ns: None,
            thread: Some(b.thread.get()).filter(|thread| *thread != 0),
        }
    }

    fn event(&self, record: &CommandRecord) -> EventModel {
        let told = tell(self.lang, record);
        let name = record.opcode().map(CommandOpcode::name);
        EventModel {
            pid: self.pid,
            seq: record.seq(),
            at_ns: record.timestamp_ns(),
            record: name.map_or_else(|_| format!("{:#06x}", record.opcode_number()), str::to_owned),
            qpn: qpn(record),
            subject: told.subject,
            what: told.what,
            how: told.how,
        }
    }
}

/// `… and 7 more like it`.
fn more(lang: Lang, (.., count): &(CommandOpcode, String, usize)) -> Option<String> {
    let more = count - 1;
    (more > 0).then(|| crate::words::both!(lang, "… and {more} more like it", "……此外还有 {more} 次同样的"))
}

fn qpn(record: &CommandRecord) -> Option<u32> {
    Some(record.qpn()).filter(|qpn| *qpn != 0)
}

fn hex(record: &CommandRecord) -> String {
    record.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Status {
    fn of(errno: u16, explanation: Option<String>) -> Self {
        let name = (errno != 0).then(|| Errno(errno.into()).to_string());
        Self { errno, name, explanation }
    }
}

impl ChangeModel {
    fn of(lang: Lang, change: &Change, now_ns: u64) -> Self {
        let field = change.field;
        let (old_bytes, new_bytes) = (change.before().to_vec(), change.after().to_vec());
        let number = |bytes: &[u8]| {
            (bytes.len() <= 8).then(|| bytes.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte)))
        };
        let meaning = |bytes: &[u8]| {
            // A zero that no enumeration has is a field that nobody has set.
            if bytes.iter().all(|byte| *byte == 0) && matches!(field.name, "path_mtu" | "qp_type") {
                return "0".to_owned();
            }
            let mut block = vec![0; field.offset + field.width];
            block[field.offset..].copy_from_slice(bytes);
            decode(lang, field, &block, now_ns)
        };
        Self {
            field: field.name,
            offset: field.offset,
            old_value: number(&old_bytes),
            new_value: number(&new_bytes),
            old: meaning(&old_bytes),
            new: meaning(&new_bytes),
            old_bytes,
            new_bytes,
        }
    }
}

#[cfg(test)]
mod tests;
