//! Shared receive queues.

use std::sync::Arc;

use glassnic_events::{Call, Refusal, Rule};
use glassnic_nic::SrqAttr;
use glassnic_transport::Sge;

use crate::context::Context;
use crate::memory::Pd;
use crate::{gone, in_child};

/// A shared receive queue.
#[derive(Debug)]
pub struct Srq {
    context: Context,
    shared: Arc<glassnic_nic::Srq>,
}

impl Pd {
    /// Creates a shared receive queue (`ibv_create_srq(3)`).
    ///
    /// # Errors
    /// See `ibv_create_srq(3)`.
    pub fn create_srq(&self, attr: &SrqAttr) -> Result<Srq, Refusal> {
        let context = self.context().clone();
        let made = context.nic.creating(|nic, _, now| nic.create_srq(self.handle(), attr, now));
        let shared = made.unwrap_or_else(|| Err(gone(Call::CreateSrq)))?;
        Ok(Srq { context, shared })
    }
}

impl Srq {
    /// Its context.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Its handle.
    #[must_use]
    pub fn handle(&self) -> u32 {
        self.shared.handle
    }

    /// Posts a receive (`ibv_post_srq_recv(3)`).
    ///
    /// # Errors
    /// Full, too many elements.
    pub fn post_recv(&self, wr_id: u64, sges: impl ExactSizeIterator<Item = Sge>) -> Result<(), Rule> {
        let runtime = self.context.nic.runtime();
        if runtime.is_forked() {
            self.context.nic.note_forked_use();
            return in_child().map_or(Ok(()), Err);
        }
        self.shared.post(wr_id, sges)
    }

    /// Changes how many receives it holds, arms its limit, or both (`ibv_modify_srq(3)`).
    ///
    /// # Errors
    /// The first rule that is broken; then nothing has changed.
    pub fn modify(&self, max_wr: Option<u32>, limit: Option<u32>) -> Result<(), Refusal> {
        let done = self.context.nic.command(|nic, _, now| nic.modify_srq(self.handle(), max_wr, limit, now));
        done.unwrap_or_else(|| Err(gone(Call::ModifySrq)))
    }

    /// Its sizes and its limit as they are now (`ibv_query_srq(3)`).
    ///
    /// # Errors
    /// It was destroyed before.
    pub fn query(&self) -> Result<SrqAttr, Refusal> {
        let done = self.context.nic.command(|nic, _, now| nic.query_srq(self.handle(), now));
        done.unwrap_or_else(|| Err(gone(Call::QuerySrq)))
    }

    /// Destroys it (`ibv_destroy_srq(3)`).
    ///
    /// # Errors
    /// EBUSY while a QP takes its receives from it.
    pub fn destroy(&self) -> Result<(), Refusal> {
        let done = self.context.nic.command(|nic, _, now| nic.destroy_srq(self.handle(), now));
        done.unwrap_or_else(|| Err(gone(Call::DestroySrq)))
    }
}

impl Drop for Srq {
    fn drop(&mut self) {
        if !self.shared.is_destroyed() {
            let _ = self.destroy();
        }
    }
}
