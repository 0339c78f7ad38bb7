//! One queue pair: identity, attributes, and the three roles it plays.

mod migrate;
mod modify;

use glassnic_events::{
    AsyncEventType, Cause, Check, DropReason, Event, FirstCause, QpState, QpType, WcOpcode, WcStatus,
};
use glassnic_wire::opcode::{Kind, Opcode};
use glassnic_wire::{Headers, Psn, Qpn};

use crate::attr::QpAttr;
use crate::device::{Device, Incoming, Recv};
use crate::held::{Held, Rare};
use crate::queue::SendQueue;
use crate::requester::{PSN_LIMIT, Requester};
use crate::responder::Responder;
use crate::wqe::{Completion, ReceiveWqe};

/// What a QP is from its creation to its end.
#[derive(Clone, Copy, Debug)]
pub struct QpConfig {
    /// Its number.
    pub qpn: Qpn,
    /// Its service.
    pub qp_type: QpType,
    /// Protection domain, by the device's handle.
    pub pd: u32,
    /// Every send work request is signalled (`sq_sig_all`).
    pub sq_sig_all: bool,
    /// Its receives come from a shared queue.
    pub srq: bool,
}

/// Whether [`Qp::transmit`] has more to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing to do until an input, a command, a post or [`Qp::deadline`].
    Idle,
    /// The budget ran out or the link had no room: call again.
    More,
}

/// A queue pair of service RC, UC or UD. What a query reads comes first, so that it fetches few cache lines.
#[derive(Debug)]
#[repr(C)]
pub struct Qp {
    few: Option<Box<Few>>,
    pub(crate) config: QpConfig,
    pub(crate) attr: Held,
    pub(crate) resp: Responder,
    pub(crate) req: Requester,
}

/// What few queue pairs have.
#[derive(Debug, Default)]
struct Few {
    rare: Rare,
    first_cause: Option<FirstCause>,
    /// A request to migrate came by a path that was not loaded, and the program has been told.
    refused_migration: bool,
}

impl Qp {
    /// A QP in RESET.
    #[must_use]
    pub fn new(config: QpConfig) -> Self {
        Self {
            few: None,
            config,
            attr: Held::default(),
            resp: Responder::default(),
            req: Requester::default(),
        }
    }

    /// Its number.
    #[must_use]
    pub fn qpn(&self) -> Qpn {
        self.config.qpn
    }

    /// Its service.
    #[must_use]
    pub fn qp_type(&self) -> QpType {
        self.config.qp_type
    }

    /// Its protection domain.
    #[must_use]
    pub fn pd(&self) -> u32 {
        self.config.pd
    }

    /// True if every send is signalled, whatever its flags say.
    #[must_use]
    pub fn sq_sig_all(&self) -> bool {
        self.config.sq_sig_all
    }

    /// Its state.
    #[must_use]
    pub fn state(&self) -> QpState {
        self.attr.qp_state
    }

    /// Its attributes as last modified, without the sizes of its queues. PSNs are those given to modify; see
    /// [`Qp::next_psns`].
    #[must_use]
    pub fn attr(&self) -> QpAttr {
        let rare = self.few.as_deref().map(|few| few.rare).unwrap_or_default();
        self.attr.all(&rare, self.sq_draining())
    }

    /// Keeps attributes.
    fn keep(&mut self, attr: &QpAttr) {
        let rare;
        (self.attr, rare) = Held::of(attr);
        if self.few.is_some() || rare != Rare::default() {
            self.few.get_or_insert_default().rare = rare;
        }
    }

    /// Forgets what first went wrong.
    fn forget_first_cause(&mut self) {
        if let Some(few) = &mut self.few {
            few.first_cause = None;
        }
    }

    /// The next PSN that the send queue assigns and the PSN that the receive queue expects.
    #[must_use]
    pub fn next_psns(&self) -> (Psn, Psn) {
        (self.req.next_psn, self.resp.expected)
    }

    /// The oldest PSN that the peer has not acknowledged.
    #[must_use]
    pub fn unacknowledged(&self) -> Psn {
        self.req.una
    }

    /// Messages that the responder completed (24 bits).
    #[must_use]
    pub fn msn(&self) -> u32 {
        self.resp.msn
    }

    /// Retries that are left: (transport, RNR).
    #[must_use]
    pub fn retries_left(&self) -> (u8, u8) {
        (self.req.retry_left, self.req.rnr_left)
    }

    /// What first went wrong in this life of the QP.
    #[must_use]
    pub fn first_cause(&self) -> Option<&FirstCause> {
        self.few.as_deref()?.first_cause.as_ref()
    }

    /// In SQD: work in flight is not finished yet (`sq_draining`).
    #[must_use]
    pub fn sq_draining(&self) -> bool {
        self.state() == QpState::Sqd && !self.req.drained
    }

    /// True if [`Qp::transmit`] has nothing to do: nothing is posted, nobody is owed an answer, and the state asks for
    /// nothing by itself, as SQD and the states of error do.
    #[must_use]
    pub fn is_idle(&self, sq: &SendQueue) -> bool {
        let quiet = matches!(self.state(), QpState::Reset | QpState::Init | QpState::Rtr | QpState::Rts);
        quiet && sq.is_idle() && self.resp.work.answers.is_empty()
    }

    /// When [`Qp::handle_timeout`] must be called next.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        self.req.deadline()
    }

    /// Takes a packet that is addressed to this QP.
    pub fn handle_packet<D: Device>(
        &mut self,
        dev: &mut D,
        sq: &mut SendQueue,
        now: u64,
        inc: &Incoming<'_>,
    ) {
        let admitted = self.admit(inc).and_then(|()| match self.config.qp_type.is_connected() {
            true => self.follow_migration(dev, inc),
            false => Ok(()),
        });
        if let Err(reason) = admitted {
            return self.dropped(dev, inc, reason);
        }
        if !self.resp.saw_packet {
            self.resp.saw_packet = true;
            self.resp.reserve();
            dev.event(Event::FirstPacket {
                qpn: self.config.qpn.value(),
                from_qpn: inc.headers.deth.map(|d| d.src_qp.value()),
                psn: inc.headers.bth.psn.value(),
            });
            if self.state() == QpState::Rtr && self.config.qp_type.is_connected() {
                dev.raise(AsyncEventType::CommEst);
            }
        }
        let Some(info) = inc.opcode().info() else {
            return self.dropped(dev, inc, DropReason::UnknownOpcode);
        };
        match info.kind {
            Kind::Ack | Kind::AtomicAck | Kind::ReadResponse => self.handle_response(dev, sq, now, inc, info),
            _ => match self.config.qp_type {
                QpType::Rc => self.handle_rc_request(dev, inc, info),
                QpType::Uc => self.handle_uc_request(dev, inc, info),
                _ => self.handle_ud(dev, inc),
            },
        }
        if self.state() == QpState::Err {
            self.flush_send(dev, sq);
        }
    }

    /// The checks that decide whether a packet is for us at all (IBA 9.6): a failure drops it without a word.
    fn admit(&self, inc: &Incoming<'_>) -> Result<(), DropReason> {
        let bth = &inc.headers.bth;
        if bth.tver != 0 || inc.npsn == 0 || inc.npsn > PSN_LIMIT {
            return Err(DropReason::Malformed);
        }
        if !service_matches(bth.opcode, self.config.qp_type) {
            return Err(DropReason::WrongService);
        }
        // IBA 10.9.1.2: equal in the low 15 bits, and not both limited members. Our table holds 0xFFFF, a full
        // member, so any membership of the sender will do.
        if bth.pkey & 0x7fff != 0x7fff {
            return Err(DropReason::PkeyMismatch);
        }
        match self.state() {
            QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe => {}
            _ => return Err(DropReason::WrongState),
        }
        Ok(())
    }

    /// True if all that it has to answer is an acknowledgement which says that all is well: one that may wait a little,
    /// as a responder may coalesce them (IBA 9.7.5.1.3).
    #[must_use]
    pub fn owes_only_ack(&self) -> bool {
        self.resp.owes_only_ack()
    }

    /// Sends what there is to send, at most `budget` descriptors: answers first, then requests.
    pub fn transmit<D: Device>(
        &mut self,
        dev: &mut D,
        sq: &mut SendQueue,
        now: u64,
        budget: &mut u32,
    ) -> Progress {
        let answered = self.transmit_responses(dev, budget);
        self.flush(dev, sq);
        if answered == Progress::More {
            return Progress::More;
        }
        if !matches!(self.state(), QpState::Rts | QpState::Sqd) {
            return Progress::Idle;
        }
        let progress = self.transmit_requests(dev, sq, now, budget);
        if self.state() == QpState::Sqd {
            self.note_drained(dev, sq);
        }
        self.flush(dev, sq);
        progress
    }

    /// In SQE and ERR: completes with a flush error what is posted.
    fn flush<D: Device>(&mut self, dev: &mut D, sq: &mut SendQueue) {
        if matches!(self.state(), QpState::Sqe | QpState::Err) {
            self.flush_send(dev, sq);
        }
        if self.state() == QpState::Err && self.resp.flush {
            self.flush_receives(dev);
        }
    }

    /// Acts on the clock.
    pub fn handle_timeout<D: Device>(&mut self, dev: &mut D, sq: &mut SendQueue, now: u64) {
        if matches!(self.state(), QpState::Rts | QpState::Sqd) {
            self.requester_timeout(dev, sq, now);
        }
    }

    /// True once all that was sent before SQD is finished (IBA 10.3.1.5); raises the event if it was asked for.
    fn note_drained<D: Device>(&mut self, dev: &mut D, sq: &SendQueue) {
        if self.req.drained || sq.head() != self.req.assigned {
            return;
        }
        self.req.drained = true;
        if self.attr.en_sqd_async_notify {
            dev.raise(AsyncEventType::SqDrained);
        }
    }

    /// Enters ERR because of `first`, unless already there. The first cause stays.
    pub(crate) fn fail<D: Device>(&mut self, dev: &mut D, cause: Cause, first: FirstCause) {
        let from = self.state();
        self.note_first_cause(dev, first);
        if from == QpState::Err {
            return;
        }
        self.enter(QpState::Err);
        self.req.stop();
        self.resp.flush = true;
        self.resp.enter_error();
        let (qpn, to, wr_id) = (self.config.qpn.value(), QpState::Err, first.wr_id);
        dev.event(Event::StateMoved { qpn, from, to, cause, wr_id });
    }

    /// A completion found no room in its queue: enters ERR, unless already there.
    pub fn cq_overran<D: Device>(&mut self, dev: &mut D) {
        let (status, check) = (WcStatus::WrFlushErr, Check::CqOverrun);
        self.catastrophe(dev, Cause::CqOverrun, FirstCause { wr_id: None, psn: None, status, check });
    }

    /// The device has stopped, of which the device tells: enters ERR, unless it does nothing yet.
    pub fn device_stopped<D: Device>(&mut self, dev: &mut D) {
        if self.state() != QpState::Reset {
            let (status, check) = (WcStatus::FatalErr, Check::DeviceFatal);
            self.fail(dev, Cause::DeviceFatal, FirstCause { wr_id: None, psn: None, status, check });
        }
    }

    /// Somebody wants to see how its program takes a fatal error: enters ERR, unless it does nothing yet.
    pub fn provoked<D: Device>(&mut self, dev: &mut D) {
        if self.state() != QpState::Reset {
            let (status, check) = (WcStatus::FatalErr, Check::Provoked);
            self.catastrophe(dev, Cause::Provoked, FirstCause { wr_id: None, psn: None, status, check });
        }
    }

    /// Enters ERR for what no completion can tell of, so that an event does (IBA 11.6.3.3).
    fn catastrophe<D: Device>(&mut self, dev: &mut D, cause: Cause, first: FirstCause) {
        let failed_before = self.state() == QpState::Err;
        self.fail(dev, cause, first);
        if !failed_before {
            dev.raise(AsyncEventType::QpFatal);
        }
    }

    pub(crate) fn note_first_cause<D: Device>(&mut self, dev: &mut D, cause: FirstCause) {
        if self.first_cause().is_none() {
            self.few.get_or_insert_default().first_cause = Some(cause);
            dev.event(Event::FirstError { qpn: self.config.qpn.value(), cause });
        }
    }

    pub(crate) fn enter(&mut self, state: QpState) {
        self.attr.qp_state = state;
    }

    /// Logs a packet that is not served.
    pub(crate) fn dropped<D: Device>(&self, dev: &mut D, inc: &Incoming<'_>, reason: DropReason) {
        dev.event(Event::PacketDropped {
            qpn: Some(self.config.qpn.value()),
            psn: Some(inc.headers.bth.psn.value()),
            reason,
        });
    }

    /// A packet is about to leave: the first is logged.
    #[inline]
    pub(crate) fn leaves<D: Device>(&mut self, dev: &mut D, headers: &Headers) {
        if !self.req.sent_packet {
            self.req.sent_packet = true;
            dev.event(Event::FirstPacketSent {
                qpn: self.config.qpn.value(),
                to_qpn: headers.bth.dest_qp.value(),
                opcode: headers.bth.opcode.0,
                psn: headers.bth.psn.value(),
            });
        }
    }

    /// The oldest receive: one that an unfinished message of UC left behind, or the next of the queue.
    pub(crate) fn take_receive<D: Device>(&mut self, dev: &mut D) -> Recv {
        match self.resp.take_spare() {
            Some(w) => Recv::Wqe(w),
            None => dev.take_receive(),
        }
    }

    /// The receive that the QP has in hand, as it ends: of a shared queue it is to be put back there.
    pub fn take_held_receive(&mut self) -> Option<ReceiveWqe> {
        self.resp.take_current_receive().or_else(|| self.resp.take_spare())
    }

    /// Forgets an unfinished message. Its receive is used by the next one: of this QP, or of whichever QP comes first.
    pub(crate) fn drop_partial<D: Device>(&mut self, dev: &mut D) {
        if let Some(receive) = self.resp.take_current_receive() {
            self.keep_for_next(dev, receive);
        }
        if self.config.srq
            && let Some(receive) = self.resp.take_spare()
        {
            dev.put_back(receive);
        }
    }

    /// A receive was taken and not filled.
    pub(crate) fn keep_for_next<D: Device>(&mut self, dev: &mut D, receive: ReceiveWqe) {
        if receive.srq.is_some() {
            dev.put_back(receive);
        } else {
            self.resp.work.spare.put(Some(receive));
        }
    }

    /// What lies in a shared queue belongs to all its QPs: only what this one has in hand is flushed. No more will be taken,
    /// which the program is told once, so that it knows when it has seen all (IBA 10.2.9.3, `ibv_get_async_event(3)`).
    fn flush_shared<D: Device>(&mut self, dev: &mut D) {
        self.resp.flush = false;
        while let Some(w) = self.take_held_receive() {
            dev.complete_recv(self.recv_failure(w.wr_id, WcStatus::WrFlushErr, Check::Flushed));
        }
        dev.raise(AsyncEventType::QpLastWqeReached);
    }

    /// Completes every receive that is posted, and the one in use, with a flush error.
    pub(crate) fn flush_receives<D: Device>(&mut self, dev: &mut D) {
        if self.config.srq {
            return self.flush_shared(dev);
        }
        self.drop_partial(dev);
        while let Recv::Wqe(w) = self.take_receive(dev) {
            dev.complete_recv(self.recv_failure(w.wr_id, WcStatus::WrFlushErr, Check::Flushed));
        }
    }

    pub(crate) fn recv_failure(&self, wr_id: u64, status: WcStatus, check: Check) -> Completion {
        Completion {
            wr_id,
            status,
            opcode: WcOpcode::Recv,
            qpn: self.config.qpn,
            releases: 1,
            vendor_err: check.value(),
            ..Completion::default()
        }
    }
}

/// True if packets of this opcode belong to QPs of this type.
fn service_matches(opcode: Opcode, qp_type: QpType) -> bool {
    use glassnic_wire::opcode::Service;
    let Some(info) = opcode.info() else { return false };
    matches!(
        (info.service, qp_type),
        (Service::Rc, QpType::Rc) | (Service::Uc, QpType::Uc) | (Service::Ud, QpType::Ud | QpType::Gsi)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An idle QP's state; what a working one has more is behind boxes.
    #[test]
    fn an_idle_qp_is_small() {
        let sizes = [
            ("Qp", size_of::<Qp>(), 176),
            ("Held", size_of::<Held>(), 68),
            ("Requester", size_of::<Requester>(), 64),
            ("Responder", size_of::<Responder>(), 24),
        ];
        for (what, bytes, most) in sizes {
            println!("{what}: {bytes} bytes");
            assert!(bytes <= most, "{what} has {bytes} bytes, at most {most}");
        }
    }
}
