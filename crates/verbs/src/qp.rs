//! Queue pairs.

use std::sync::Arc;

use glassnic_events::{AttrMask, Call, QpState, QpType, Refusal, Rule};
use glassnic_host::Access;
use glassnic_host::sys::thread_id;
use glassnic_nic::overlap::{Modifying, Underway};
use glassnic_nic::{Nic, QpShared, Sender};
use glassnic_transport::Sge;
use glassnic_transport::attr::{QpAttr, QpCap};

use crate::context::Context;
use crate::cq::Cq;
use crate::memory::Pd;
use crate::srq::Srq;
use crate::{gone, in_child};

/// What a QP is created with (`ibv_qp_init_attr`).
#[derive(Clone, Copy, Debug)]
pub struct QpInit<'a> {
    /// Service: RC, UC or UD.
    pub qp_type: QpType,
    /// Where sends are reported.
    pub send_cq: &'a Cq,
    /// Where receives are reported.
    pub recv_cq: &'a Cq,
    /// Where receives come from, if not from a queue of its own; `cap` then says nothing of receives.
    pub srq: Option<&'a Srq>,
    /// Queue sizes.
    pub cap: QpCap,
    /// Every send is signalled.
    pub sq_sig_all: bool,
}

impl QpInit<'_> {
    pub(crate) fn with_handles(&self, pd: &Pd) -> glassnic_nic::QpInit {
        glassnic_nic::QpInit {
            pd: pd.handle,
            qp_type: self.qp_type,
            send_cq: self.send_cq.handle(),
            recv_cq: self.recv_cq.handle(),
            srq: self.srq.map(Srq::handle),
            cap: self.cap,
            sq_sig_all: self.sq_sig_all,
        }
    }
}

/// A queue pair.
#[derive(Debug)]
pub struct Qp {
    context: Context,
    shared: Arc<QpShared>,
    underway: Underway,
}

impl Qp {
    pub(crate) fn create(pd: &Pd, init: &QpInit<'_>) -> Result<Self, Refusal> {
        let made = pd.context.nic.create_qps(&[init.with_handles(pd)]);
        let shared = made.and_then(|mut made| made.pop()).unwrap_or_else(|| Err(gone(Call::CreateQp)))?;
        Ok(Self::of(&pd.context, shared))
    }

    pub(crate) fn of(context: &Context, shared: Arc<QpShared>) -> Self {
        Self { context: context.clone(), shared, underway: Underway::default() }
    }

    /// Its context.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Its number.
    #[must_use]
    pub fn qpn(&self) -> u32 {
        self.shared.qpn
    }

    /// Its service.
    #[must_use]
    pub fn qp_type(&self) -> QpType {
        self.shared.qp_type
    }

    /// The handle of its protection domain.
    #[must_use]
    pub fn pd(&self) -> u32 {
        self.shared.pd
    }

    /// True if every send is signalled.
    #[must_use]
    pub fn sq_sig_all(&self) -> bool {
        self.shared.sq_sig_all
    }

    /// What its queues hold.
    #[must_use]
    pub fn cap(&self) -> &QpCap {
        &self.shared.cap
    }

    /// Its state.
    #[must_use]
    pub fn state(&self) -> QpState {
        self.shared.state()
    }

    /// Modifies it (`ibv_modify_qp(3)`).
    ///
    /// # Errors
    /// The first rule that is broken; then nothing has changed.
    pub fn modify(&self, mask: AttrMask, attr: &QpAttr) -> Result<(), Refusal> {
        self.modifying(|nic, world, now| nic.modify_qp(world, self.qpn(), mask, attr, now))
    }

    /// Queries it, checks that it is in the state `expected`, and modifies it: one call that no other thread's comes
    /// between.
    ///
    /// # Errors
    /// Another state ([`Rule::StateMismatch`]), and as [`Qp::modify`]; then nothing has changed.
    pub fn safe_modify(&self, expected: QpState, mask: AttrMask, attr: &QpAttr) -> Result<(), Refusal> {
        self.modifying(|nic, world, now| nic.safe_modify_qp(world, self.qpn(), expected, (mask, attr), now))
    }

    fn modifying(
        &self,
        modify: impl FnOnce(&mut Nic, &mut Access<'_>, u64) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let begun = self.begin_modify();
        let done = self.context.nic.command(|nic, world, now| {
            nic.note_overlap(self.qpn(), &begun);
            modify(nic, world, now)
        });
        done.unwrap_or_else(|| Err(gone(Call::ModifyQp)))
    }

    /// A modify of this QP by the calling thread is on its way, until the answer is dropped.
    pub(crate) fn begin_modify(&self) -> Modifying<'_> {
        self.underway.begin(thread_id())
    }

    /// Queries it (`ibv_query_qp(3)`): all attributes, whatever the mask, which is only noted.
    ///
    /// # Errors
    /// It was destroyed before.
    pub fn query(&self, mask: AttrMask) -> Result<QpAttr, Refusal> {
        let done = self.context.nic.command(|nic, _, now| nic.query_qp(self.qpn(), mask, now));
        done.unwrap_or_else(|| Err(gone(Call::QueryQp)))
    }

    /// Holds the send queue for posting. After [`Sender::commit`] and the end of the hold, [`Qp::kick`] sends.
    ///
    /// # Errors
    /// The state does not take sends.
    pub fn sender(&self) -> Result<Sender<'_>, Rule> {
        match self.foreign() {
            None => self.shared.send(),
            Some(rule) => Err(rule),
        }
    }

    /// Posts a receive. After the last of a list, [`Qp::receives_posted`].
    ///
    /// # Errors
    /// Wrong state, full queue, too many elements.
    pub fn post_recv(&self, wr_id: u64, sges: impl ExactSizeIterator<Item = Sge>) -> Result<(), Rule> {
        match self.foreign() {
            None => self.shared.post_recv(wr_id, sges),
            Some(rule) => Err(rule),
        }
    }

    /// In a forked child: the rule that it breaks.
    fn foreign(&self) -> Option<Rule> {
        if !self.context.nic.runtime().is_forked() {
            return None;
        }
        self.context.nic.note_forked_use();
        in_child()
    }

    /// Lets the engine see receives that it has to act on: those of a QP in ERR, to be flushed.
    pub fn receives_posted(&self) {
        if self.shared.flushes() {
            self.shared.ring();
            self.kick();
        }
    }

    /// Makes the engine send: what was posted leaves in this thread.
    pub fn kick(&self) {
        self.context.nic.transmit();
    }

    /// Destroys it (`ibv_destroy_qp(3)`): its completions leave the CQs with it.
    ///
    /// # Errors
    /// It was destroyed before.
    pub fn destroy(&self) -> Result<(), Refusal> {
        let done = self.context.nic.command(|nic, _, now| nic.destroy_qp(self.qpn(), now));
        done.unwrap_or_else(|| Err(gone(Call::DestroyQp)))
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        if !self.shared.is_destroyed() {
            let _ = self.destroy();
        }
    }
}
