//! What the device writes down of its commands: who made them, what they changed, which objects there are.

use glassnic_events::{Call, Event, Refusal, Rule};
use glassnic_wire::command::{Body, CommandFlags, CommandOpcode, CommandRecord};

use crate::context::ContextMemory;
use crate::driver::{self, Block};
use crate::object::{self, Head, Kind};
use crate::qpc::Image;
use crate::recorder::{Executed, Recorder};

/// Attempts to read a context that only the caller writes.
const TRIES: u32 = 4;

/// Who makes a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Its thread.
    pub thread: u32,
    /// Number of the place in the program that makes an object; 0 where it is not known.
    pub site: u32,
}

/// A command that is being executed, and the context that it changes.
#[derive(Debug)]
struct Executing {
    command: Executed,
    change: Option<(u32, Image)>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) memory: ContextMemory,
    pub(crate) recorder: Recorder,
    caller: Caller,
    executing: Option<Executing>,
}

impl Ledger {
    pub(crate) fn new(memory: ContextMemory) -> Self {
        Self { recorder: Recorder::new(memory.clone()), memory, caller: Caller::default(), executing: None }
    }

    pub(crate) fn caller(&self) -> Caller {
        self.caller
    }

    /// Commands come from this caller now.
    pub(crate) fn begin(&mut self, caller: Caller) {
        self.caller = caller;
        self.executing = None;
    }

    /// True while the end of a command is to be kept.
    pub(crate) fn is_executing(&self) -> bool {
        self.executing.is_some()
    }

    /// The command is done.
    pub(crate) fn end(&mut self, now: u64) {
        let Some(Executing { command, change }) = self.executing.take() else { return };
        let change = change.and_then(|(slot, before)| Some((before, self.context(slot)?)));
        self.recorder.executed(now, &command, change.as_ref().map(|(before, after)| (before, after)));
    }

    /// Keeps a command without fields of its own.
    pub(crate) fn note(&mut self, now: u64, opcode: CommandOpcode, handle: u32) {
        self.record(now, CommandRecord::new(opcode), opcode, 0, handle);
    }

    /// Keeps a command.
    pub(crate) fn keep<B: Body>(&mut self, now: u64, opcode: CommandOpcode, qpn: u32, handle: u32, body: &B) {
        if let Ok(record) = CommandRecord::with_body(opcode, body) {
            self.record(now, record, opcode, qpn, handle);
        }
    }

    fn record(&mut self, now: u64, mut record: CommandRecord, opcode: CommandOpcode, qpn: u32, handle: u32) {
        // The one before in the same call is done.
        self.end(now);
        record.set_qpn(qpn);
        record.set_pd(handle);
        record.set_status(0, CommandFlags::DONE);
        self.recorder.keep(now, record);
        let command = Executed { opcode, qpn, handle, thread: self.caller.thread, started_ns: now };
        self.executing = Some(Executing { command, change: None });
    }

    /// The command changes the context of this slot, which was like this before.
    pub(crate) fn changes(&mut self, slot: u32, before: Image) {
        if let Some(executing) = &mut self.executing {
            executing.change = Some((slot, before));
        }
    }

    /// A context as it is.
    pub(crate) fn context(&self, slot: u32) -> Option<Image> {
        Image::load(self.memory.qpc(slot as usize)?, TRIES)
    }

    /// Makes a refusal and keeps it, with the QP's driver's block where it has one.
    pub(crate) fn refuse(&mut self, now: u64, slot: Option<u32>, refusal: Refusal) -> Refusal {
        self.end(now);
        self.recorder.refused(now, &refusal, self.caller.thread);
        if let Some(slot) = slot {
            let block = Block::new(self.memory.clone(), slot);
            let count = block.get(driver::Field::Refused) as u32;
            let errno = glassnic_events::errno(&refusal.rule).0 as u32;
            let what = (refusal.call.value() & 0xffff) | errno << 16;
            block.store_pair(driver::Field::Refused, count.wrapping_add(1), what);
            block.store(driver::Field::RefusedNs, now);
        }
        refusal
    }

    /// An object is there.
    pub(crate) fn enter(
        &self,
        now: u64,
        kind: Kind,
        handle: u32,
        pd: u32,
        fill: impl FnOnce(&mut object::Image),
    ) {
        let mut image = object::Image::default();
        image.set(Head::Thread, self.caller.thread.into()).set(Head::CreatedNs, now);
        image.set(Head::Site, self.caller.site.into()).set(Head::Pd, pd.into());
        fill(&mut image);
        image.store(&self.memory, kind, handle);
    }

    /// An object is gone.
    pub(crate) fn leave(&self, kind: Kind, handle: u32) {
        object::clear(&self.memory, kind, handle);
    }

    /// Keeps what happened.
    pub(crate) fn event(&self, now: u64, event: &Event) {
        self.recorder.event(now, event);
    }
}

/// A refusal of a call on no QP.
pub(crate) fn refusal(call: Call, qpn: Option<u32>, rule: Rule) -> Refusal {
    Refusal { qpn, ..Refusal::new(call, rule) }
}
