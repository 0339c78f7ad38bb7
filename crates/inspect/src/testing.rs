//! Flight recorders for tests.

use glassnic_nic::context::{ContextMemory, Layout};
use glassnic_nic::recorder::{Executed, Recorder};
use glassnic_verbs::qpc::{self, Image};
use glassnic_wire::command::{Body, CommandFlags, CommandOpcode, CommandRecord};

/// A recorder, and the clock of who writes it.
pub(crate) struct Device {
    pub(crate) memory: ContextMemory,
    pub(crate) now: u64,
    /// The context of the one QP that is changed.
    pub(crate) image: Image,
}

impl Device {
    pub(crate) fn new(slots: usize) -> Self {
        let memory = ContextMemory::private(Layout::bare(1, slots));
        Self { memory, now: 5_000_000, image: Image::default() }
    }

    pub(crate) fn recorder(&self) -> Recorder {
        Recorder::new(self.memory.clone())
    }

    pub(crate) fn begin<B: Body>(&mut self, opcode: CommandOpcode, qpn: u32, body: &B) -> Executed {
        self.now += 100_000;
        let mut record = CommandRecord::with_body(opcode, body).unwrap();
        record.set_qpn(qpn);
        record.set_pd(1);
        record.set_status(0, CommandFlags::DONE);
        self.recorder().keep(self.now, record);
        Executed { opcode, qpn, handle: 1, thread: 77, started_ns: self.now }
    }

    pub(crate) fn end(&mut self, command: &Executed, changed: &[(qpc::Field, u64)]) {
        let before = self.image;
        changed.iter().for_each(|(field, value)| self.image.set(*field, *value));
        self.now += 1500;
        self.recorder().executed(self.now, command, Some((&before, &self.image)));
    }

    pub(crate) fn records(&self, from: u64) -> Vec<CommandRecord> {
        self.recorder().read(from)
    }
}
