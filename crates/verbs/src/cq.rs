//! Completion queues.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use glassnic_events::{Call, Refusal};
use glassnic_nic::cq::{Arm, CompQueue, Cqe, Moderation};

use crate::context::{Channel, Context};
use crate::gone;

/// A completion queue.
#[derive(Debug)]
pub struct Cq {
    context: Context,
    queue: Arc<CompQueue>,
    handle: u32,
    destroyed: AtomicBool,
}

impl Cq {
    pub(crate) fn create(
        context: &Context,
        cqe: u32,
        channel: Option<(&Channel, u64)>,
        ignore_overrun: bool,
    ) -> Result<Self, Refusal> {
        let made = context.nic.creating(|nic, _, now| nic.create_cq_ex(cqe, ignore_overrun, now));
        let (handle, queue) = made.unwrap_or_else(|| Err(gone(Call::CreateCq)))?;
        if let Some((channel, token)) = channel {
            context.nic.connect(handle, channel.queue.clone(), token);
            context.nic.command(|nic, _, _| nic.report_to(handle, channel.shown.handle));
        }
        Ok(Self { context: context.clone(), queue, handle, destroyed: AtomicBool::new(false) })
    }

    /// Its context.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Its handle.
    #[must_use]
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// Completions that it can hold.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.queue.depth()
    }

    /// Takes at most `most` completions (`ibv_poll_cq(3)`). An empty queue makes the engine take a step first.
    pub fn poll(&self, most: u32, mut take: impl FnMut(&Cqe)) -> u32 {
        let n = self.queue.poll(most, &mut take);
        if n > 0 {
            return n;
        }
        let at_ns = self.context.nic.progress();
        let n = self.queue.poll(most, take);
        if n == 0 {
            self.context.nic.runtime().note_empty_poll(at_ns);
        }
        n
    }

    /// True once a completion found no room: polling then fails.
    #[must_use]
    pub fn is_overrun(&self) -> bool {
        self.queue.is_overrun()
    }

    /// Asks for a completion event (`ibv_req_notify_cq(3)`).
    pub fn arm(&self, solicited_only: bool) {
        if self.queue.arm(solicited_only) {
            self.context.nic.note_armed();
        }
    }

    /// Gives it another size (`ibv_resize_cq(3)`); what it holds stays.
    ///
    /// # Errors
    /// 0, above `max_cqe`, or less than it holds; then nothing has changed.
    pub fn resize(&self, cqe: u32) -> Result<(), Refusal> {
        let done = self.context.nic.command(|nic, _, now| nic.resize_cq(self.handle, cqe, now));
        done.unwrap_or_else(|| Err(gone(Call::ResizeCq)))
    }

    /// Holds its events back from now on (`ibv_modify_cq(3)`).
    ///
    /// # Errors
    /// The device is closed.
    pub fn moderate(&self, moderation: Moderation) -> Result<(), Refusal> {
        let done = self.context.nic.command(|nic, _, now| nic.modify_cq(self.handle, moderation, now));
        done.unwrap_or_else(|| Err(gone(Call::ModifyCq)))
    }

    /// Lets an inspector see how many completion events the program has taken and not acknowledged.
    pub fn show_unacknowledged(&self, events: u64) {
        self.queue.show_unacknowledged(events);
    }

    /// Destroys it (`ibv_destroy_cq(3)`); the events that nobody has read yet are withdrawn, and counted.
    ///
    /// # Errors
    /// EBUSY while a QP reports to it.
    pub fn destroy(&self) -> Result<u32, Refusal> {
        let done = self.context.nic.command(|nic, _, now| nic.destroy_cq(self.handle, now));
        done.unwrap_or_else(|| Err(gone(Call::DestroyCq)))?;
        self.destroyed.store(true, Ordering::Release);
        if self.queue.armed() != Arm::No {
            self.context.nic.note_disarmed();
        }
        Ok(self.context.nic.disconnect(self.handle))
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        if !self.destroyed.load(Ordering::Acquire) {
            let _ = self.destroy();
        }
    }
}
