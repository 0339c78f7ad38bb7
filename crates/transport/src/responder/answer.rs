//! Answers leave in PSN order, as the link has room.

use glassnic_wire::opcode::Opcode;
use glassnic_wire::{Aeth, AtomicAckEth, Headers, Psn, Syndrome};

use super::Answer;
use super::checks::Fault;
use crate::device::{Device, KeyFault, RemoteAccess, Span, TxPayload};
use crate::qp::{Progress, Qp};

impl Qp {
    /// Sends answers until none is due, the link is full, or the budget is used up.
    pub(crate) fn transmit_responses<D: Device>(&mut self, dev: &mut D, budget: &mut u32) -> Progress {
        while let Some(answer) = self.resp.work.answers.front().copied() {
            if *budget == 0 {
                return Progress::More;
            }
            let burst = self.burst(dev);
            let bytes = match answer {
                Answer::Read { left, .. } => left.min(burst.saturating_mul(self.mtu())),
                _ => 0,
            };
            if !dev.room(&self.attr.ah, self.dest(), self.service(), bytes as usize) {
                return Progress::More;
            }
            *budget -= 1;
            match answer {
                Answer::Ack { psn, syndrome, msn } => {
                    let mut h = Headers::new(Opcode::RC_ACKNOWLEDGE, self.dest(), psn);
                    h.aeth = Some(Aeth { syndrome, msn });
                    self.send(dev, h, 1, TxPayload::Bytes(&[]));
                    self.resp.work.answers.pop_front();
                }
                Answer::Atomic { psn, original, msn, .. } => {
                    let mut h = Headers::new(Opcode::RC_ATOMIC_ACKNOWLEDGE, self.dest(), psn);
                    h.aeth = Some(Aeth { syndrome: Syndrome::ack(Syndrome::NO_CREDITS), msn });
                    h.atomic_ack = Some(AtomicAckEth { original });
                    self.send(dev, h, 1, TxPayload::Bytes(&[]));
                    self.resp.work.answers.pop_front();
                }
                Answer::Read { .. } => self.send_read_response(dev, burst),
            }
        }
        Progress::Idle
    }

    /// The next part of the READ at the front of the queue.
    fn send_read_response<D: Device>(&mut self, dev: &mut D, burst: u32) {
        let mtu = self.mtu();
        let Some(Answer::Read { psn, va, rkey, left, first, msn, repeat }) =
            self.resp.work.answers.front().copied()
        else {
            return;
        };
        let npsn = left.div_ceil(mtu).max(1).min(burst);
        let len = left.min(npsn.saturating_mul(mtu));
        let last = len == left;
        let span = if len == 0 {
            Span::default()
        } else {
            // Checked again for every packet: the region may be gone since the request came.
            match dev.remote(self.config.pd, self.config.qpn, rkey, va, u64::from(len), RemoteAccess::Read) {
                Ok(addr) => Span { addr, len },
                Err(fault) => return self.break_off_read(dev, psn, fault),
            }
        };
        let opcode = match (first, last) {
            (true, true) => Opcode::RC_RDMA_READ_RESPONSE_ONLY,
            (true, false) => Opcode::RC_RDMA_READ_RESPONSE_FIRST,
            (false, false) => Opcode::RC_RDMA_READ_RESPONSE_MIDDLE,
            (false, true) => Opcode::RC_RDMA_READ_RESPONSE_LAST,
        };
        let mut h = Headers::new(opcode, self.dest(), psn);
        if first || last {
            h.aeth = Some(Aeth { syndrome: Syndrome::ack(Syndrome::NO_CREDITS), msn });
        }
        self.send(dev, h, npsn, TxPayload::Spans(if len == 0 { &[] } else { std::slice::from_ref(&span) }));
        if last {
            self.resp.work.answers.pop_front();
        } else if let Some(front) = self.resp.work.answers.front_mut() {
            *front = Answer::Read {
                psn: psn + npsn,
                va: va.wrapping_add(u64::from(len)),
                rkey,
                left: left - len,
                first: false,
                msn,
                repeat,
            };
        }
    }

    /// A READ that can no longer be answered ends with a NAK at the PSN where it stands, and nothing after it is
    /// answered.
    fn break_off_read<D: Device>(&mut self, dev: &mut D, psn: Psn, fault: KeyFault) {
        self.resp.work.answers.clear();
        self.refuse(dev, psn, Fault::Access(fault));
    }
}
