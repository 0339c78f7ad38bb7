//! Many control verbs at once, and control verbs that nobody waits for.
//!
//! A *batch* puts its command records under one doorbell: the device is taken once for all of them, and each has its own
//! outcome; what is refused undoes nothing. A *pipeline* gives commands without waiting and holds a handle for each. They
//! are executed in the order in which they were given, before any verb that is called later, so that a program may create
//! one QP while another is modified and a third posts.

use std::fmt;

use glassnic_events::{AttrMask, Call, ObjectKind, Refusal, Rule};
use glassnic_host::{Created, Pending};
use glassnic_transport::attr::QpAttr;

use crate::context::Context;
use crate::memory::Pd;
use crate::qp::{Qp, QpInit};
use crate::{gone, now_ns};

/// A modify of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Modify<'a> {
    /// The QP.
    pub qp: &'a Qp,
    /// Which attributes are given.
    pub mask: AttrMask,
    /// Their values.
    pub attr: QpAttr,
}

impl Pd {
    /// Creates a QP for each of `inits`, under one doorbell. Outcomes are in the order of `inits`.
    #[must_use]
    pub fn create_qps(&self, inits: &[QpInit<'_>]) -> Vec<Result<Qp, Refusal>> {
        let inits: Vec<_> = inits.iter().map(|init| init.with_handles(self)).collect();
        match self.context().nic.create_qps(&inits) {
            Some(made) => made.into_iter().map(|made| Ok(Qp::of(self.context(), made?))).collect(),
            None => inits.iter().map(|_| Err(gone(Call::CreateQp))).collect(),
        }
    }

    /// Creates a QP without waiting for it.
    #[must_use]
    pub fn create_qp_async(&self, init: &QpInit<'_>) -> PendingQp {
        let context = self.context().clone();
        let pending = context.nic.give_create_qp(init.with_handles(self), gone(Call::CreateQp));
        PendingQp { context, pending: Some(pending) }
    }
}

impl Context {
    /// Modifies QPs of this device in order, under one doorbell. Outcomes are in the order of `modifies`; a QP may be in it
    /// more than once.
    #[must_use]
    pub fn modify_qps(&self, modifies: &[Modify<'_>]) -> Vec<Result<(), Refusal>> {
        let begun: Vec<_> = modifies.iter().map(|m| m.qp.begin_modify()).collect();
        let done = self.nic.command(|nic, world, mut now| {
            let mut outcomes = Vec::with_capacity(modifies.len());
            for (modify, begun) in modifies.iter().zip(&begun) {
                if !outcomes.is_empty() {
                    // Each record tells its own time.
                    now = now_ns();
                }
                let qpn = modify.qp.qpn();
                outcomes.push(if modify.qp.context().is(self) {
                    nic.note_overlap(qpn, begun);
                    nic.modify_qp(world, qpn, modify.mask, &modify.attr, now)
                } else {
                    let rule = Rule::OtherContext { kind: ObjectKind::Qp, handle: qpn };
                    Err(nic.refuse(now, Call::ModifyQp, None, rule))
                });
            }
            outcomes
        });
        done.unwrap_or_else(|| modifies.iter().map(|_| Err(gone(Call::ModifyQp))).collect())
    }
}

impl Qp {
    /// Modifies it without waiting for it.
    #[must_use]
    pub fn modify_async(&self, mask: AttrMask, attr: &QpAttr) -> PendingModify {
        let (qpn, attr) = (self.qpn(), *attr);
        let gone = Err(gone(Call::ModifyQp));
        PendingModify(
            self.context().nic.give(move |nic, world, now| nic.modify_qp(world, qpn, mask, &attr, now), gone),
        )
    }
}

/// A QP that is being created. Dropped without [`PendingQp::wait`], it is created and destroyed.
pub struct PendingQp {
    context: Context,
    pending: Option<Pending<Created>>,
}

impl fmt::Debug for PendingQp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingQp").finish_non_exhaustive()
    }
}

impl PendingQp {
    /// True once the device has executed the command. If it has not, makes a step.
    #[must_use]
    pub fn poll(&self) -> bool {
        self.pending.as_ref().is_none_or(Pending::poll)
    }

    /// Waits for the QP.
    ///
    /// # Errors
    /// As [`Pd::create_qp`].
    pub fn wait(mut self) -> Result<Qp, Refusal> {
        self.take().unwrap_or_else(|| Err(gone(Call::CreateQp)))
    }

    fn take(&mut self) -> Option<Result<Qp, Refusal>> {
        let created = self.pending.take()?.wait()?;
        Some(created.map(|shared| Qp::of(&self.context, shared)))
    }
}

impl Drop for PendingQp {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// A modify on its way. Dropped, it is executed all the same.
#[derive(Debug)]
pub struct PendingModify(Pending<Result<(), Refusal>>);

impl PendingModify {
    /// True once the device has executed the command. If it has not, makes a step.
    #[must_use]
    pub fn poll(&self) -> bool {
        self.0.poll()
    }

    /// Waits for its outcome.
    ///
    /// # Errors
    /// As [`Qp::modify`].
    pub fn wait(self) -> Result<(), Refusal> {
        self.0.wait().unwrap_or_else(|| Err(gone(Call::ModifyQp)))
    }
}
