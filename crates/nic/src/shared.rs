//! What a QP's owner and the engine share: work queues, state, doorbell.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use glassnic_events::{QpState, QpType, Queue, Rule, StateSet, WrOpcode};
use glassnic_transport::attr::QpCap;
use glassnic_transport::wqe::MAX_MESSAGE;
use glassnic_transport::{PostError, RecvQueue, SendQueue, SendRequest, Sge};

use crate::driver::{Block, Field};
use crate::qp_commands::QpInit;
use crate::srq::Srq;

/// The part of a QP that posting needs. Posting takes the lock of one queue of one QP and nothing else.
#[derive(Debug)]
pub struct QpShared {
    /// Its number.
    pub qpn: u32,
    /// Its service.
    pub qp_type: QpType,
    /// Every send is signalled.
    pub sq_sig_all: bool,
    /// Its protection domain.
    pub pd: u32,
    /// What its queues were made for.
    pub cap: QpCap,
    state: AtomicU8,
    destroyed: AtomicBool,
    sq: Mutex<SendQueue>,
    rq: Mutex<RecvQueue>,
    /// Where its receives come from instead.
    pub(crate) srq: Option<Arc<Srq>>,
    pub(crate) block: Block,
}

impl QpShared {
    pub(crate) fn new(qpn: u32, init: &QpInit, srq: Option<Arc<Srq>>, block: Block) -> Self {
        let cap = init.cap;
        Self {
            qpn,
            qp_type: init.qp_type,
            sq_sig_all: init.sq_sig_all,
            pd: init.pd,
            cap,
            state: AtomicU8::new(QpState::Reset as u8),
            destroyed: AtomicBool::new(false),
            sq: Mutex::new(SendQueue::new(cap.max_send_wr, cap.max_send_sge, cap.max_inline_data)),
            rq: Mutex::new(RecvQueue::new(cap.max_recv_wr, cap.max_recv_sge)),
            srq,
            block,
        }
    }

    /// The state as of the engine's last action.
    #[must_use]
    pub fn state(&self) -> QpState {
        QpState::try_from(u32::from(self.state.load(Ordering::Acquire))).unwrap_or(QpState::Err)
    }

    pub(crate) fn set_state(&self, state: QpState) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// True once it was destroyed.
    #[must_use]
    pub fn is_destroyed(&self) -> bool {
        self.destroyed.load(Ordering::Acquire)
    }

    pub(crate) fn set_destroyed(&self) {
        self.set_state(QpState::Reset);
        self.destroyed.store(true, Ordering::Release);
    }

    /// Takes the send queue, to post a list of requests under one lock and one doorbell.
    ///
    /// # Errors
    /// [`Rule::WrongState`] unless the state takes sends.
    pub fn send(&self) -> Result<Sender<'_>, Rule> {
        let state = self.state();
        if !StateSet::MAY_POST_SEND.contains(state) {
            return Err(Rule::WrongState { state, needs: StateSet::MAY_POST_SEND });
        }
        Ok(Sender { qp: self, sq: self.lock_sq() })
    }

    /// Posts a receive. Call [`QpShared::ring`] after the last of a list.
    ///
    /// # Errors
    /// Wrong state, full queue, too many elements; a QP whose receives come from an SRQ has no queue of its own.
    pub fn post_recv(&self, wr_id: u64, sges: impl ExactSizeIterator<Item = Sge>) -> Result<(), Rule> {
        if let Some(srq) = &self.srq {
            return Err(Rule::ReceivesComeFromSrq { srq: srq.handle });
        }
        let state = self.state();
        if !StateSet::MAY_POST_RECV.contains(state) {
            return Err(Rule::WrongState { state, needs: StateSet::MAY_POST_RECV });
        }
        let mut rq = self.lock_rq();
        rq.post(wr_id, sges).map_err(|e| post_rule(e, Queue::Recv, 0))?;
        self.block.store(Field::RqPosted, rq.tail().into());
        Ok(())
    }

    /// The shared queue that its receives come from.
    #[must_use]
    pub fn srq(&self) -> Option<&Arc<Srq>> {
        self.srq.as_ref()
    }

    /// Tells the engine to look at this QP.
    pub fn ring(&self) {
        self.block.ring();
    }

    /// True if a posted receive needs the engine: only to be flushed.
    #[must_use]
    pub fn flushes(&self) -> bool {
        self.state() == QpState::Err
    }

    /// Slots in use: (send, receive).
    #[must_use]
    pub fn used(&self) -> (u32, u32) {
        (self.lock_sq().used(), self.lock_rq().used())
    }

    pub(crate) fn lock_sq(&self) -> MutexGuard<'_, SendQueue> {
        self.sq.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock_rq(&self) -> MutexGuard<'_, RecvQueue> {
        self.rq.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A send queue held for posting. Requests become visible by [`Sender::commit`]; what is staged and not committed
/// is taken back when this is dropped.
#[derive(Debug)]
pub struct Sender<'a> {
    qp: &'a QpShared,
    sq: MutexGuard<'a, SendQueue>,
}

impl Sender<'_> {
    /// Stages a request with its payload in `sges`.
    ///
    /// # Errors
    /// What `ibv_post_send(3)` refuses: see [`check_opcode`], and the queue's limits.
    pub fn stage(&mut self, req: &SendRequest, sges: impl ExactSizeIterator<Item = Sge>) -> Result<(), Rule> {
        check_opcode(self.qp.qp_type, req.opcode)?;
        self.sq.stage(req, sges).map_err(|e| post_rule(e, Queue::Send, self.sq.unreleased()))
    }

    /// Stages a request whose payload of `length` bytes `fill` copies now.
    ///
    /// # Errors
    /// As [`Sender::stage`].
    pub fn stage_inline(
        &mut self,
        req: &SendRequest,
        length: u64,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Rule> {
        check_opcode(self.qp.qp_type, req.opcode)?;
        self.sq.stage_inline(req, length, fill).map_err(|e| post_rule(e, Queue::Send, self.sq.unreleased()))
    }

    /// Makes what was staged visible and rings the doorbell.
    pub fn commit(&mut self) {
        if self.sq.commit() > 0 {
            self.qp.block.store(Field::SqPosted, self.sq.tail().into());
            self.qp.ring();
        }
    }
}

impl Drop for Sender<'_> {
    fn drop(&mut self) {
        self.sq.abort();
    }
}

/// The operations that each service has (`ibv_post_send(3)`).
///
/// # Errors
/// [`Rule::BadOpcode`].
pub fn check_opcode(qp_type: QpType, opcode: WrOpcode) -> Result<(), Rule> {
    use WrOpcode as O;
    let ok = match opcode {
        O::Send | O::SendWithImm => true,
        O::RdmaWrite | O::RdmaWriteWithImm | O::LocalInv | O::BindMw => {
            matches!(qp_type, QpType::Rc | QpType::Uc)
        }
        O::RdmaRead
        | O::AtomicCmpAndSwp
        | O::AtomicFetchAndAdd
        | O::SendWithInv
        | O::Flush
        | O::AtomicWrite => qp_type == QpType::Rc,
        _ => false,
    };
    if ok { Ok(()) } else { Err(Rule::BadOpcode { opcode, qp_type }) }
}

pub(crate) fn post_rule(e: PostError, queue: Queue, silent: u32) -> Rule {
    match e {
        PostError::Full { depth } => Rule::QueueFull { queue, depth, silent },
        PostError::TooManySges { offered, max } => Rule::TooManySges { queue, offered, max },
        PostError::InlineTooLarge { offered, max } => Rule::InlineTooLarge { offered, max },
        PostError::TooLong { offered } => Rule::MessageTooLong { offered, max: MAX_MESSAGE },
    }
}
