//! The completer: acknowledgements and answers.

use glassnic_events::{Cause, Check, Event, FirstCause, QpState, QpType, WcStatus, WrOpcode};
use glassnic_wire::opcode::{Kind, OpcodeInfo, Position};
use glassnic_wire::{Aeth, Decoded, NakCode, Psn};

use super::Moment;
use super::segment::{end_psn, gather, window};
use crate::device::{Device, Incoming, KeyFault, Payload};
use crate::qp::Qp;
use crate::queue::SendQueue;
use crate::wqe::{Completion, Operation, SendFlags};

impl Qp {
    /// ACK, NAK, READ response or atomic ACK.
    pub(crate) fn handle_response<D: Device>(
        &mut self,
        dev: &mut D,
        sq: &mut SendQueue,
        now: u64,
        inc: &Incoming<'_>,
        info: &OpcodeInfo,
    ) {
        if self.config.qp_type != QpType::Rc || !matches!(self.state(), QpState::Rts | QpState::Sqd) {
            return;
        }
        let psn = inc.headers.bth.psn;
        // Answers to what was never sent, or was acknowledged already, are ghosts (IBA 9.7.5.1.2).
        if psn.is_before(self.req.una) || !psn.is_before(self.req.sent_end) {
            return;
        }
        match info.kind {
            Kind::ReadResponse => self.read_response(dev, sq, now, inc, info),
            Kind::AtomicAck => self.atomic_response(dev, sq, now, inc),
            _ => {
                if let Some(aeth) = inc.headers.aeth {
                    self.acknowledge(dev, sq, now, psn, aeth);
                }
            }
        }
        self.finish_local(dev, sq);
        self.report_stop(dev, sq);
    }

    fn acknowledge<D: Device>(&mut self, dev: &mut D, sq: &mut SendQueue, now: u64, psn: Psn, aeth: Aeth) {
        match aeth.syndrome.decode() {
            Decoded::Ack { .. } => {
                self.advance(dev, sq, now, psn.next());
            }
            Decoded::Rnr { timer } => {
                if self.advance(dev, sq, now, psn) {
                    self.receiver_not_ready(dev, sq, now, psn, timer);
                }
            }
            Decoded::Nak(code) => {
                dev.event(Event::NakReceived {
                    qpn: self.config.qpn.value(),
                    psn: psn.value(),
                    code: event_nak(code),
                });
                if self.advance(dev, sq, now, psn) {
                    self.refused(dev, sq, now, code);
                }
            }
            Decoded::Reserved => {}
        }
    }

    /// A NAK for the oldest request; everything before it is acknowledged.
    fn refused<D: Device>(&mut self, dev: &mut D, sq: &mut SendQueue, now: u64, code: NakCode) {
        let (status, check) = match code {
            NakCode::PsnSequence => return self.gap(dev, sq, now),
            NakCode::InvalidRequest => (WcStatus::RemInvReqErr, Check::NakInvalidRequest),
            NakCode::RemoteAccess => (WcStatus::RemAccessErr, Check::NakRemoteAccess),
            NakCode::RemoteOperational => (WcStatus::RemOpErr, Check::NakRemoteOperational),
            _ => return,
        };
        self.fail_head(dev, sq, status, check);
    }

    /// Everything before `end` is acknowledged. False if a READ or atomic before it has no answer: the answer
    /// was lost, and we go back for it (IBA 9.7.5.1.1, an implied NAK).
    fn advance<D: Device>(&mut self, dev: &mut D, sq: &mut SendQueue, now: u64, end: Psn) -> bool {
        let before = self.req.una;
        let mut complete = true;
        while sq.head() != self.req.assigned {
            let w = *sq.wqe(sq.head());
            let awaits = w.req.opcode.is_read_or_atomic() && !w.done;
            if awaits {
                complete = !end.is_after(w.response_psn);
                break;
            }
            if end.is_before(end_psn(&w)) {
                if end.is_after(self.req.una) {
                    self.req.una = end;
                }
                break;
            }
            self.req.una = end_psn(&w);
            self.complete_head(dev, sq, WcStatus::Success, Check::None);
        }
        if self.req.una != before {
            self.note_progress(sq, now);
        }
        if !complete {
            self.gap(dev, sq, now);
        }
        complete
    }

    /// Something new was acknowledged: retry counters start afresh, and so does the timer.
    fn note_progress(&mut self, sq: &SendQueue, now: u64) {
        self.req.retry_left = self.attr.retry_cnt;
        self.req.rnr_left = self.attr.rnr_retry;
        self.req.recovering = false;
        self.req.rnr_until = Moment::NEVER;
        if self.req.cursor.psn.is_before(self.req.una) {
            // Acknowledged although we had gone back to send it again.
            self.rewind(sq, self.req.una);
        }
        self.restart_timer(now);
    }

    fn read_response<D: Device>(
        &mut self,
        dev: &mut D,
        sq: &mut SendQueue,
        now: u64,
        inc: &Incoming<'_>,
        info: &OpcodeInfo,
    ) {
        let psn = inc.headers.bth.psn;
        // A response acknowledges every request before the one it answers.
        let Some(first) = self.request_at(sq, psn) else { return };
        if !self.advance(dev, sq, now, first) {
            return;
        }
        let w = *sq.wqe(sq.head());
        if matches!(w.req.opcode, WrOpcode::Flush | WrOpcode::AtomicWrite) {
            return self.empty_response(dev, sq, now, inc, info);
        }
        if w.req.opcode != WrOpcode::RdmaRead || w.done || psn.is_before(w.response_psn) {
            return;
        }
        if psn != w.response_psn {
            return self.gap(dev, sq, now);
        }
        let done = psn.steps_from(w.first_psn);
        let offset = done * self.mtu();
        let len = (w.length - offset).min(inc.npsn.saturating_mul(self.mtu()));
        let next = psn + inc.npsn;
        let ends = matches!(info.position, Position::Last | Position::Only);
        let reaches = inc.npsn == w.npsn - done;
        // Each piece that was asked for has its own last packet, and nothing comes that was not asked for.
        let piece = (done + inc.npsn).is_multiple_of(window(self.burst(dev)));
        let misplaced = ends != (reaches || piece) || next.is_after(self.req.sent_end);
        if inc.npsn > w.npsn - done || inc.payload.len() != len as usize || misplaced {
            return self.fail_head(dev, sq, WcStatus::BadRespErr, Check::BadResponse);
        }
        if let Err(f) = self.scatter_to(dev, sq, offset, len, &inc.payload) {
            return self.fail_head(dev, sq, WcStatus::LocProtErr, f.local_check());
        }
        let head = sq.head();
        if let Some(wqe) = sq.wqe_mut(head) {
            wqe.response_psn = next;
            wqe.done = reaches;
        }
        self.req.una = next;
        if ends {
            self.req.reads_out = self.req.reads_out.saturating_sub(1);
        }
        if reaches {
            self.complete_head(dev, sq, WcStatus::Success, Check::None);
        }
        self.note_progress(sq, now);
    }

    /// FLUSH and ATOMIC WRITE are answered as a READ of nothing is (IBA A19.4).
    fn empty_response<D: Device>(
        &mut self,
        dev: &mut D,
        sq: &mut SendQueue,
        now: u64,
        inc: &Incoming<'_>,
        info: &OpcodeInfo,
    ) {
        let w = *sq.wqe(sq.head());
        if w.done || inc.headers.bth.psn != w.first_psn {
            return;
        }
        if info.position != Position::Only || !inc.payload.is_empty() || inc.npsn != 1 {
            return self.fail_head(dev, sq, WcStatus::BadRespErr, Check::BadResponse);
        }
        self.answer_head(dev, sq, now);
    }

    fn atomic_response<D: Device>(&mut self, dev: &mut D, sq: &mut SendQueue, now: u64, inc: &Incoming<'_>) {
        let psn = inc.headers.bth.psn;
        let Some(first) = self.request_at(sq, psn) else { return };
        if !self.advance(dev, sq, now, first) {
            return;
        }
        let w = *sq.wqe(sq.head());
        let Some(answer) = inc.headers.atomic_ack else { return };
        if !w.req.opcode.is_atomic() || w.done || psn != w.first_psn {
            return;
        }
        // Carried big-endian, delivered in the byte order of the host (IBA C9-174).
        let bytes = answer.original.to_ne_bytes();
        if let Err(f) = self.scatter_to(dev, sq, 0, 8, &Payload::Bytes(&bytes)) {
            return self.fail_head(dev, sq, WcStatus::LocProtErr, f.local_check());
        }
        self.answer_head(dev, sq, now);
    }

    /// The head, an element with an answer of one packet, has got it.
    fn answer_head<D: Device>(&mut self, dev: &mut D, sq: &mut SendQueue, now: u64) {
        let head = sq.head();
        self.req.una = end_psn(sq.wqe(head));
        if let Some(wqe) = sq.wqe_mut(head) {
            wqe.done = true;
        }
        self.req.reads_out = self.req.reads_out.saturating_sub(1);
        self.complete_head(dev, sq, WcStatus::Success, Check::None);
        self.note_progress(sq, now);
    }

    /// The first PSN of the outstanding element that `psn` belongs to.
    fn request_at(&self, sq: &SendQueue, psn: Psn) -> Option<Psn> {
        let mut index = sq.head();
        while index != self.req.assigned {
            let w = sq.wqe(index);
            if psn.is_before(end_psn(w)) {
                return (!psn.is_before(w.first_psn)).then_some(w.first_psn);
            }
            index = index.wrapping_add(1);
        }
        None
    }

    /// Copies part of an answer into the scatter list of the element at the head.
    fn scatter_to<D: Device>(
        &self,
        dev: &mut D,
        sq: &SendQueue,
        offset: u32,
        len: u32,
        payload: &Payload<'_>,
    ) -> Result<(), KeyFault> {
        let spans = gather(dev, self.config.pd, sq.sges(sq.head()), offset, len, true)?;
        let mut at = 0;
        for s in spans {
            dev.store(s.addr, payload, at, s.len as usize)?;
            at += s.len as usize;
        }
        Ok(())
    }

    /// Retires the oldest element. An unsuccessful one is always reported, with the check that failed, a successful one if it was
    /// asked for.
    pub(crate) fn complete_head<D: Device>(
        &mut self,
        dev: &mut D,
        sq: &mut SendQueue,
        status: WcStatus,
        check: Check,
    ) {
        let w = *sq.wqe(sq.head());
        sq.retire();
        let signalled = self.config.sq_sig_all || w.req.flags.contains(SendFlags::SIGNALED);
        if status == WcStatus::Success && !signalled {
            return;
        }
        let read = if w.req.opcode.fetches() { w.length } else { 0 };
        dev.complete_send(Completion {
            wr_id: w.req.wr_id,
            status,
            opcode: w.req.opcode.wc_opcode(),
            byte_len: read,
            qpn: self.config.qpn,
            releases: sq.take_unreleased(),
            vendor_err: check.value(),
            ..Completion::default()
        });
    }

    /// The oldest element failed: reports it, enters ERR and flushes the rest.
    pub(crate) fn fail_head<D: Device>(
        &mut self,
        dev: &mut D,
        sq: &mut SendQueue,
        status: WcStatus,
        check: Check,
    ) {
        if sq.is_idle() {
            return;
        }
        let first = self.send_failure(sq, status, check);
        self.complete_head(dev, sq, status, check);
        self.fail(dev, Cause::RequesterError, first);
        self.flush_send(dev, sq);
    }

    /// A failure that waited for its predecessors is due once it is the oldest.
    pub(crate) fn report_stop<D: Device>(&mut self, dev: &mut D, sq: &mut SendQueue) {
        let Some(stop) = self.req.stop else { return };
        if stop.wqe != sq.head() || sq.is_idle() {
            return;
        }
        self.req.stop = None;
        if self.config.qp_type == QpType::Rc {
            return self.fail_head(dev, sq, stop.status, stop.check);
        }
        // UC and UD: the send queue stops, the receive queue lives on (IBA 10.3.1.6).
        let first = self.send_failure(sq, stop.status, stop.check);
        self.complete_head(dev, sq, stop.status, stop.check);
        let from = self.state();
        self.enter(QpState::Sqe);
        self.note_first_cause(dev, first);
        let cause = Cause::RequesterError;
        let (qpn, to, wr_id) = (self.config.qpn.value(), QpState::Sqe, first.wr_id);
        dev.event(Event::StateMoved { qpn, from, to, cause, wr_id });
        self.flush_send(dev, sq);
    }

    fn send_failure(&self, sq: &SendQueue, status: WcStatus, check: Check) -> FirstCause {
        FirstCause {
            wr_id: Some(sq.wqe(sq.head()).req.wr_id),
            psn: Some(self.req.una.value()),
            status,
            check,
        }
    }

    /// True if the failure that stopped the send queue has no predecessor left.
    pub(crate) fn stop_is_due(&self, sq: &SendQueue) -> bool {
        self.req.stop.is_some_and(|s| s.wqe == sq.head()) && !sq.is_idle()
    }

    /// Completes everything that is posted with a flush error.
    pub(crate) fn flush_send<D: Device>(&mut self, dev: &mut D, sq: &mut SendQueue) {
        while !sq.is_idle() {
            self.complete_head(dev, sq, WcStatus::WrFlushErr, Check::Flushed);
        }
        self.req.assigned = sq.head();
        self.req.cursor.wqe = sq.head();
        self.req.cursor.psn = self.req.next_psn;
        self.req.una = self.req.next_psn;
        self.req.sent_end = self.req.next_psn;
        self.req.reads_out = 0;
        self.req.stop = None;
        self.req.stop();
    }
}

/// The NAK code as the log names it.
pub(crate) fn event_nak(code: NakCode) -> glassnic_events::NakCode {
    use glassnic_events::NakCode as Logged;
    match code {
        NakCode::PsnSequence => Logged::PsnSequence,
        NakCode::InvalidRequest => Logged::InvalidRequest,
        NakCode::RemoteAccess => Logged::RemoteAccess,
        NakCode::RemoteOperational => Logged::RemoteOperational,
        _ => Logged::InvalidRdRequest,
    }
}
