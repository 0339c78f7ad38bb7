//! The operations themselves, after all checks that need no memory.

use glassnic_events::{Check, WcOpcode};
use glassnic_wire::Syndrome;
use glassnic_wire::opcode::{Kind, OpcodeInfo, Position};

use super::checks::{Fault, flush_rights};
use super::{Answer, Message};
use crate::device::{AtomicOp, Device, Incoming, KeyFault, Payload, Recv, RemoteAccess};
use crate::qp::Qp;
use crate::requester::gather;
use crate::wqe::{Completion, MAX_MESSAGE, ReceiveWqe, WcFlags};

impl Qp {
    /// SEND: into the oldest receive.
    pub(crate) fn execute_send<D: Device>(
        &mut self,
        dev: &mut D,
        inc: &Incoming<'_>,
        info: &OpcodeInfo,
    ) -> Result<(), Fault> {
        let (receive, received) = match self.resp.work.message.take() {
            Message::Send { receive, received } => (receive, received),
            _ => match self.take_receive(dev) {
                Recv::Wqe(w) => (w, 0),
                Recv::Empty => return Err(Fault::NotReady),
            },
        };
        let total = received + inc.payload.len() as u64;
        let stored = if total > receive.capacity().min(MAX_MESSAGE) {
            Err(Fault::TooLong)
        } else {
            scatter(dev, self.receive_pd(&receive), &receive, received as u32, &inc.payload)
                .map_err(Fault::Local)
        };
        // On a fault the receive stays with the message: RC reports it, UC uses it for the next message.
        if let Err(fault) = stored {
            self.resp.work.message.put(Message::Send { receive, received });
            return Err(fault);
        }
        let ends = matches!(info.position, Position::Last | Position::Only);
        if !ends {
            self.resp.work.message.put(Message::Send { receive, received: total });
            self.finish(inc, false);
            return Ok(());
        }
        let mut c = self.received(&receive, WcOpcode::Recv, total as u32, inc);
        if let Some(key) = inc.headers.ieth {
            if let Err(fault) = dev.invalidate(self.config.pd, self.config.qpn, key) {
                // The receive is used up although the invalidation is refused: it is flushed with the rest.
                self.resp.work.spare.put(Some(receive));
                return Err(Fault::Access(fault));
            }
            c.imm = key;
            c.flags |= WcFlags::WITH_INV;
        }
        self.finish(inc, true);
        dev.complete_recv(c);
        Ok(())
    }

    /// RDMA WRITE.
    pub(crate) fn execute_write<D: Device>(
        &mut self,
        dev: &mut D,
        inc: &Incoming<'_>,
        info: &OpcodeInfo,
    ) -> Result<(), Fault> {
        let len = inc.payload.len() as u32;
        let (va, rkey, left, total) = match (self.resp.work.message.get(), inc.headers.reth) {
            (Some(Message::Write { va, rkey, left, total }), _) => (*va, *rkey, *left, *total),
            (_, Some(r)) => (r.va, r.rkey, r.dma_len, r.dma_len),
            _ => return Err(Fault::Invalid(Check::PacketLength)),
        };
        let ends = matches!(info.position, Position::Last | Position::Only);
        if len > left || (ends && len != left) || (!ends && len >= left) {
            return Err(Fault::Invalid(Check::PacketLength));
        }
        // The key is checked for the whole message first, so that a bad one writes nothing, and for every packet,
        // since a region may be deregistered in between.
        let check = if left == total { u64::from(total) } else { u64::from(len) };
        let to = if check == 0 {
            0
        } else {
            dev.remote(self.config.pd, self.config.qpn, rkey, va, check, RemoteAccess::Write)
                .map_err(Fault::Access)?
        };
        // WRITE with immediate consumes a receive, which has to be there before anything is written.
        let receive = match inc.headers.imm {
            None => None,
            Some(_) => match self.take_receive(dev) {
                Recv::Wqe(w) => Some(w),
                Recv::Empty => return Err(Fault::NotReady),
            },
        };
        if len > 0
            && let Err(fault) = dev.store(to, &inc.payload, 0, len as usize)
        {
            // Without a receive of its own, the one that an unfinished message of UC left stays.
            if receive.is_some() {
                self.resp.work.spare.put(receive);
            }
            return Err(Fault::Access(fault));
        }
        self.resp.work.message.put(if ends {
            Message::None
        } else {
            Message::Write { va: va.wrapping_add(u64::from(len)), rkey, left: left - len, total }
        });
        self.finish(inc, ends);
        if let Some(receive) = receive {
            let c = self.received(&receive, WcOpcode::RecvRdmaWithImm, total, inc);
            dev.complete_recv(c);
        }
        Ok(())
    }

    /// RDMA READ: checked now, answered by and by.
    pub(crate) fn execute_read<D: Device>(&mut self, dev: &mut D, inc: &Incoming<'_>) -> Result<(), Fault> {
        let Some(r) = inc.headers.reth else {
            return Err(Fault::Invalid(Check::PacketLength));
        };
        if r.dma_len > 0 {
            let len = u64::from(r.dma_len);
            dev.remote(self.config.pd, self.config.qpn, r.rkey, r.va, len, RemoteAccess::Read)
                .map_err(Fault::Access)?;
        }
        let psn = self.resp.expected;
        self.resp.expected = psn + r.dma_len.div_ceil(self.mtu()).max(1);
        self.resp.count_message();
        self.resp.work.answers.push_back(Answer::Read {
            psn,
            va: r.va,
            rkey: r.rkey,
            left: r.dma_len,
            first: true,
            msn: self.resp.msn,
            repeat: false,
        });
        Ok(())
    }

    /// FETCH AND ADD, COMPARE AND SWAP.
    pub(crate) fn execute_atomic<D: Device>(
        &mut self,
        dev: &mut D,
        inc: &Incoming<'_>,
        info: &OpcodeInfo,
    ) -> Result<(), Fault> {
        let Some(a) = inc.headers.atomic else {
            return Err(Fault::Invalid(Check::PacketLength));
        };
        if a.va % 8 != 0 {
            return Err(Fault::Invalid(Check::AtomicUnaligned));
        }
        let at = dev
            .remote(self.config.pd, self.config.qpn, a.rkey, a.va, 8, RemoteAccess::Atomic)
            .map_err(Fault::Access)?;
        let op = if info.kind == Kind::CmpSwap {
            AtomicOp::CmpSwap { compare: a.compare, swap: a.swap_add }
        } else {
            AtomicOp::FetchAdd(a.swap_add)
        };
        let original = dev.atomic(at, op).map_err(Fault::Access)?;
        let psn = self.resp.expected;
        self.resp.remember(psn, original);
        self.resp.expected = psn.next();
        self.resp.count_message();
        let msn = self.resp.msn;
        self.resp.work.answers.push_back(Answer::Atomic { psn, original, msn, repeat: false });
        Ok(())
    }

    /// FLUSH.
    pub(crate) fn execute_flush<D: Device>(&mut self, dev: &mut D, inc: &Incoming<'_>) -> Result<(), Fault> {
        self.flush_asked(dev, inc)?;
        self.finish_empty();
        Ok(())
    }

    /// The memory's part of a FLUSH.
    pub(crate) fn flush_asked<D: Device>(&mut self, dev: &mut D, inc: &Incoming<'_>) -> Result<(), Fault> {
        let (Some(r), Some((rights, whole))) = (inc.headers.reth, flush_rights(inc)) else {
            return Err(Fault::Invalid(Check::PacketLength));
        };
        let range = (!whole).then_some((r.va, u64::from(r.dma_len)));
        dev.flush(self.config.pd, self.config.qpn, r.rkey, range, rights).map_err(Fault::Access)
    }

    /// ATOMIC WRITE: eight bytes at once.
    pub(crate) fn execute_atomic_write<D: Device>(
        &mut self,
        dev: &mut D,
        inc: &Incoming<'_>,
    ) -> Result<(), Fault> {
        let Some(r) = inc.headers.reth.filter(|r| r.dma_len == 8) else {
            return Err(Fault::Invalid(Check::PacketLength));
        };
        // So small a payload travels in the descriptor on every link.
        let Payload::Bytes(bytes) = inc.payload else { return Err(Fault::Invalid(Check::PacketLength)) };
        let Ok(bytes) = <[u8; 8]>::try_from(bytes) else { return Err(Fault::Invalid(Check::PacketLength)) };
        if r.va % 8 != 0 {
            return Err(Fault::Invalid(Check::AtomicUnaligned));
        }
        let at = dev
            .remote(self.config.pd, self.config.qpn, r.rkey, r.va, 8, RemoteAccess::Word)
            .map_err(Fault::Access)?;
        dev.atomic(at, AtomicOp::Write(u64::from_ne_bytes(bytes))).map_err(Fault::Access)?;
        self.finish_empty();
        Ok(())
    }

    /// A request was executed that takes one PSN and is answered with nothing.
    fn finish_empty(&mut self) {
        let psn = self.resp.expected;
        self.resp.expected = psn.next();
        self.resp.count_message();
        let msn = self.resp.msn;
        self.resp.work.answers.push_back(Answer::empty(psn, msn, false));
    }

    /// A SEND or WRITE packet was executed.
    fn finish(&mut self, inc: &Incoming<'_>, message_ends: bool) {
        self.resp.expected = self.resp.expected + inc.npsn;
        if message_ends {
            self.resp.count_message();
        }
        if inc.headers.bth.ack_req {
            let newest = self.resp.expected.prev();
            self.resp.acknowledge(newest, Syndrome::ack(Syndrome::NO_CREDITS));
        }
    }

    /// The protection domain that the keys of a receive belong to.
    pub(crate) fn receive_pd(&self, receive: &ReceiveWqe) -> u32 {
        receive.srq.map_or(self.config.pd, |srq| srq.pd)
    }

    /// The completion of a receive.
    pub(crate) fn received(
        &self,
        receive: &ReceiveWqe,
        opcode: WcOpcode,
        byte_len: u32,
        inc: &Incoming<'_>,
    ) -> Completion {
        let mut c = Completion {
            wr_id: receive.wr_id,
            opcode,
            byte_len,
            qpn: self.config.qpn,
            src_qp: glassnic_wire::Qpn::new(self.attr.dest_qp_num),
            releases: 1,
            solicited: inc.headers.bth.solicited,
            ..Completion::default()
        };
        if let Some(imm) = inc.headers.imm {
            c.imm = imm;
            c.flags |= WcFlags::WITH_IMM;
        }
        c
    }
}

/// Copies a payload into a receive, from byte `offset` of the receive on.
pub(crate) fn scatter<D: Device>(
    dev: &mut D,
    pd: u32,
    receive: &ReceiveWqe,
    offset: u32,
    payload: &Payload<'_>,
) -> Result<(), KeyFault> {
    let spans = gather(dev, pd, &receive.sges, offset, payload.len() as u32, true)?;
    let mut at = 0;
    for s in spans {
        dev.store(s.addr, payload, at, s.len as usize)?;
        at += s.len as usize;
    }
    Ok(())
}
