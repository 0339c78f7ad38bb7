//! Completion channels: what the device knows of them is that they are there, so that an inspector finds who sleeps where.

use glassnic_events::{Call, ObjectKind, Refusal, Rule};
use glassnic_wire::command::CommandOpcode;

use crate::device::Nic;
use crate::object::{Channel, Kind, Live};

impl Nic {
    /// Creates a completion channel (`ibv_create_comp_channel(3)`) over this file descriptor; gives its handle and the
    /// words that its owner keeps.
    ///
    /// # Errors
    /// As many as there is room for.
    pub fn create_channel(&mut self, fd: u32, now: u64) -> Result<(u32, Live), Refusal> {
        let Some(handle) = self.channels.insert(()) else {
            let (limit, held) = (self.channels.limit().into(), self.channels.len().into());
            let rule = Rule::LimitReached { kind: ObjectKind::CompChannel, limit, held };
            return Err(self.refuse(now, Call::CreateCompChannel, None, rule));
        };
        self.ledger.note(now, CommandOpcode::CreateCompChannel, handle);
        self.ledger.enter(now, Kind::Channel, handle, 0, |image| {
            image.set(Channel::Fd, fd.into());
        });
        Ok((handle, Live::new(self.ledger.memory.clone(), Kind::Channel, handle)))
    }

    /// Destroys a completion channel (`ibv_destroy_comp_channel(3)`), which no CQ reports to.
    pub fn destroy_channel(&mut self, handle: u32, now: u64) {
        if self.channels.remove(handle).is_some() {
            self.ledger.leave(Kind::Channel, handle);
            self.ledger.note(now, CommandOpcode::DestroyCompChannel, handle);
        }
    }

    /// Events of a CQ go to a channel.
    pub fn report_to(&mut self, cq: u32, channel: u32) {
        if let Some(entry) = self.cqs.get_mut(cq) {
            entry.channel = channel;
            entry.queue.show_size(channel);
        }
    }
}
