//! When something was lost, or the receiver was not ready: going back, and giving up.

use glassnic_events::{Check, Event, WcStatus};
use glassnic_wire::Psn;

use super::Moment;
use super::segment::end_psn;
use crate::device::Device;
use crate::qp::Qp;
use crate::queue::SendQueue;
use crate::timing;
use crate::wqe::Operation;

/// `rnr_retry` of 7 means to retry without end (IBA 9.7.5.2.8).
const RNR_RETRY_FOREVER: u8 = 7;

impl Qp {
    /// The transport timer or the RNR timer has run out.
    pub(crate) fn requester_timeout<D: Device>(&mut self, dev: &mut D, sq: &mut SendQueue, now: u64) {
        if self.req.rnr_until.get().is_some_and(|t| t <= now) {
            // The next transmit goes on from the cursor, which is where the receiver was not ready.
            self.req.rnr_until = Moment::NEVER;
        }
        if self.req.timer.get().is_none_or(|t| now < t) {
            return;
        }
        self.req.timer = Moment::NEVER;
        dev.event(Event::Timeout {
            qpn: self.config.qpn.value(),
            psn: self.req.una.value(),
            retry_left: self.req.retry_left,
        });
        self.retry(dev, sq, now);
    }

    /// Sends again from the oldest unacknowledged packet, or gives up (IBA 9.7.5.2.8).
    pub(crate) fn retry<D: Device>(&mut self, dev: &mut D, sq: &mut SendQueue, now: u64) {
        if self.req.retry_left == 0 && !self.migrates_instead(dev) {
            return self.fail_head(dev, sq, WcStatus::RetryExcErr, Check::RetryExhausted);
        }
        self.req.retry_left -= 1;
        self.req.recovering = true;
        dev.event(Event::Retransmit { qpn: self.config.qpn.value(), psn: self.req.una.value() });
        self.rewind(sq, self.req.una);
        self.restart_timer(now);
    }

    /// A sign that packets from `una` on were lost. Only the first sign of one gap counts; and while we wait after
    /// an RNR NAK there is nothing to learn from it, since we go back in any case (Linux's soft-RoCE sends a NAK
    /// for the packet behind the one that has to wait).
    pub(crate) fn gap<D: Device>(&mut self, dev: &mut D, sq: &mut SendQueue, now: u64) {
        if !self.req.recovering && self.req.rnr_until.get().is_none() {
            self.retry(dev, sq, now);
        }
    }

    /// The receiver had nothing posted for the request at `psn`.
    pub(crate) fn receiver_not_ready<D: Device>(
        &mut self,
        dev: &mut D,
        sq: &mut SendQueue,
        now: u64,
        psn: Psn,
        timer: u8,
    ) {
        if self.req.rnr_until.get().is_some() || psn.is_before(self.req.una) {
            return;
        }
        let forever = self.attr.rnr_retry == RNR_RETRY_FOREVER;
        dev.event(Event::RnrNakReceived {
            qpn: self.config.qpn.value(),
            psn: psn.value(),
            delay_ns: timing::rnr_delay_ns(timer),
            retry_left: (!forever).then_some(self.req.rnr_left),
        });
        if !forever {
            if self.req.rnr_left == 0 {
                return self.fail_head(dev, sq, WcStatus::RnrRetryExcErr, Check::RnrExhausted);
            }
            self.req.rnr_left -= 1;
        }
        self.rewind(sq, psn);
        self.req.timer = Moment::NEVER;
        self.req.rnr_until = Moment::at(now.saturating_add(timing::rnr_delay_ns(timer)));
    }

    /// Puts the cursor back to `psn`, which is not before the oldest unacknowledged one.
    pub(crate) fn rewind(&mut self, sq: &SendQueue, psn: Psn) {
        let mut index = sq.head();
        self.req.reads_out = 0;
        while index != self.req.assigned {
            let w = sq.wqe(index);
            if psn.is_before(end_psn(w)) {
                break;
            }
            if w.req.opcode.is_read_or_atomic() && !w.done {
                self.req.reads_out += 1;
            }
            index = index.wrapping_add(1);
        }
        self.req.cursor.wqe = index;
        self.req.cursor.psn = psn;
        self.req.since_ack = 0;
    }
}
