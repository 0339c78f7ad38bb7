//! From a work request to packets.

use arrayvec::ArrayVec;
use glassnic_events::{Check, Event, QpState, QpType, WcStatus, WrOpcode};
use glassnic_wire::opcode::{HeaderSet, Kind, Opcode, Position, Service};
use glassnic_wire::{AtomicEth, Feth, Headers, Psn, Reth};

use super::{ACK_EVERY, Moment, PSN_LIMIT, Stop, WINDOW_PACKETS};
use crate::device::{Device, KeyFault, Span, Tx, TxPayload};
use crate::qp::{Progress, Qp};
use crate::queue::SendQueue;
use crate::timing;
use crate::wqe::{MAX_SGE, Operation, SendFlags, SendWqe, Sge};

/// The checked memory of one packet.
pub(crate) type Spans = ArrayVec<Span, MAX_SGE>;

/// What [`Qp::next_step`] decided.
enum Step {
    Send,
    /// Something else has to happen first.
    Wait,
    /// The link is full.
    Busy,
}

impl Qp {
    /// Sends requests until there are none, the window or the link is full, or the budget is used up.
    pub(crate) fn transmit_requests<D: Device>(
        &mut self,
        dev: &mut D,
        sq: &mut SendQueue,
        now: u64,
        budget: &mut u32,
    ) -> Progress {
        if matches!(self.config.qp_type, QpType::Ud | QpType::Gsi) {
            return self.transmit_datagrams(dev, sq, budget);
        }
        loop {
            self.report_stop(dev, sq);
            if !matches!(self.state(), QpState::Rts | QpState::Sqd) {
                return Progress::Idle;
            }
            match self.next_step(dev, sq, now) {
                Step::Wait if self.stop_is_due(sq) => continue,
                Step::Wait => return Progress::Idle,
                Step::Busy => return Progress::More,
                Step::Send if *budget == 0 => return Progress::More,
                Step::Send => {}
            }
            *budget -= 1;
            let wqe = *sq.wqe(self.req.cursor.wqe);
            if wqe.req.opcode.is_local() {
                self.carry_out(dev, sq, &wqe);
                continue;
            }
            if self.req.cursor.wqe == self.req.assigned {
                self.assign(sq);
            }
            let wqe = *sq.wqe(self.req.cursor.wqe);
            let sent = match wqe.req.opcode {
                WrOpcode::RdmaRead => self.send_read(dev, &wqe),
                o if o.is_atomic() => self.send_atomic(dev, &wqe),
                WrOpcode::Flush => self.send_flush(dev, &wqe),
                WrOpcode::AtomicWrite => self.send_atomic_write(dev, &wqe),
                _ => self.send_data(dev, sq, &wqe),
            };
            match sent {
                Ok(npsn) => self.note_sent(dev, sq, now, &wqe, npsn),
                Err(fault) => self.stop_at_cursor(WcStatus::LocProtErr, fault.local_check()),
            }
        }
    }

    /// Decides whether the element at the cursor may send a packet now.
    fn next_step<D: Device>(&mut self, dev: &mut D, sq: &mut SendQueue, now: u64) -> Step {
        if self.req.rnr_until.get().is_some_and(|t| now < t) {
            return Step::Wait;
        }
        self.req.rnr_until = Moment::NEVER;
        let index = self.req.cursor.wqe;
        // What stopped is never tried again; its predecessors may still have to be.
        if index == sq.tail() || self.req.stop.is_some_and(|s| s.wqe == index) {
            return Step::Wait;
        }
        // An element begins with its first packet; until that may leave, it only waits.
        let fresh = index == self.req.assigned;
        // SQD finishes what it began and begins nothing (IBA 10.3.1.5).
        if fresh && self.state() == QpState::Sqd {
            return Step::Wait;
        }
        let wqe = sq.wqe(index);
        let starts = fresh || self.req.cursor.psn == wqe.first_psn;
        if self.must_wait_for_answers(wqe, starts) {
            return Step::Wait;
        }
        let in_flight = self.req.cursor.psn.diff(self.req.una).unsigned_abs();
        let burst = self.burst(dev);
        if in_flight >= window(burst) {
            return Step::Wait;
        }
        if fresh && let Err((status, check)) = self.examine(dev, sq, index) {
            self.stop_at_cursor(status, check);
            return Step::Wait;
        }
        let bytes = if wqe.req.opcode.is_read_or_atomic() || wqe.req.opcode.is_local() {
            0
        } else {
            let sent =
                if fresh { 0 } else { self.req.cursor.psn.diff(wqe.first_psn).unsigned_abs() * self.mtu() };
            (wqe.length - sent).min(burst.saturating_mul(self.mtu())) as usize
        };
        if !dev.room(&self.attr.ah, self.dest(), self.service(), bytes) {
            return Step::Busy;
        }
        Step::Send
    }

    /// A fence waits for every READ and atomic before it, and no more of these are out than `max_rd_atomic`.
    fn must_wait_for_answers(&self, wqe: &SendWqe, starts: bool) -> bool {
        let out = self.req.reads_out;
        let fenced = starts && wqe.req.flags.contains(SendFlags::FENCE);
        let full = wqe.req.opcode.is_read_or_atomic() && out >= u32::from(self.attr.max_rd_atomic);
        // Where none may be out at all, nothing is to be waited for: `can_carry_out` refuses.
        out > 0 && (fenced || full)
    }

    /// Checks an element as a whole, before it gets its PSNs.
    fn examine<D: Device>(
        &mut self,
        dev: &mut D,
        sq: &SendQueue,
        index: u32,
    ) -> Result<(), (WcStatus, Check)> {
        let wqe = sq.wqe(index);
        if !self.req.posted_once {
            self.req.posted_once = true;
            let opcode = Some(wqe.req.opcode);
            dev.event(Event::FirstPost { qpn: self.config.qpn.value(), send: true, opcode });
        }
        if !self.can_carry_out(wqe) {
            return Err((WcStatus::LocQpOpErr, Check::BadOperation));
        }
        if wqe.req.opcode.is_atomic() && wqe.length != 8 {
            return Err((WcStatus::LocLenErr, Check::MessageTooLong));
        }
        self.check_sges(dev, sq, index, wqe).map_err(|f| (WcStatus::LocProtErr, f.local_check()))
    }

    /// Binds a window or invalidates a key, in its turn, once: an element that was done before is only passed, when
    /// packets before it are sent again. It is finished when all before it is.
    fn carry_out<D: Device>(&mut self, dev: &mut D, sq: &mut SendQueue, wqe: &SendWqe) {
        if !wqe.done {
            let (pd, qpn) = (self.config.pd, self.config.qpn);
            let done = if wqe.req.opcode == WrOpcode::BindMw {
                dev.bind(pd, qpn, &wqe.req.bind_window()).map_err(|check| (WcStatus::MwBindErr, check))
            } else {
                dev.invalidate_own(pd, qpn, wqe.req.imm).map_err(|check| (WcStatus::LocQpOpErr, check))
            };
            if let Err((status, check)) = done {
                return self.stop_at_cursor(status, check);
            }
            self.assign(sq);
        }
        self.req.cursor.wqe = self.req.cursor.wqe.wrapping_add(1);
        self.finish_local(dev, sq);
    }

    /// Completes what needs no answer and has no predecessor left.
    pub(crate) fn finish_local<D: Device>(&mut self, dev: &mut D, sq: &mut SendQueue) {
        while sq.head() != self.req.assigned && sq.wqe(sq.head()).req.opcode.is_local() {
            self.complete_head(dev, sq, WcStatus::Success, Check::None);
        }
    }

    /// Gives the element at the cursor its PSNs: now it has begun.
    fn assign(&mut self, sq: &mut SendQueue) {
        let (index, first, mtu) = (self.req.cursor.wqe, self.req.next_psn, self.mtu());
        let Some(w) = sq.wqe_mut(index) else { return };
        w.first_psn = first;
        w.npsn = match w.req.opcode {
            o if o.is_local() => 0,
            o if o.is_atomic() => 1,
            _ => w.length.div_ceil(mtu).max(1),
        };
        w.response_psn = first;
        w.done = w.req.opcode.is_local();
        self.req.next_psn = end_psn(w);
        self.req.cursor.psn = first;
        self.req.assigned = index.wrapping_add(1);
    }

    /// The service has the operation (IBA table 35), and the QP may have it outstanding.
    fn can_carry_out(&self, wqe: &SendWqe) -> bool {
        match wqe.req.opcode {
            WrOpcode::Send | WrOpcode::SendWithImm | WrOpcode::RdmaWrite | WrOpcode::RdmaWriteWithImm => true,
            WrOpcode::SendWithInv => self.config.qp_type == QpType::Rc,
            WrOpcode::LocalInv | WrOpcode::BindMw => true,
            // The answer has to land in memory, so it cannot be inline.
            o if o.is_read_or_atomic() => {
                self.config.qp_type == QpType::Rc
                    && self.attr.max_rd_atomic > 0
                    && !wqe.req.flags.contains(SendFlags::INLINE)
            }
            _ => false,
        }
    }

    /// Checks every scatter/gather element of a request before its first packet leaves.
    pub(crate) fn check_sges<D: Device>(
        &self,
        dev: &D,
        sq: &SendQueue,
        index: u32,
        wqe: &SendWqe,
    ) -> Result<(), KeyFault> {
        if wqe.req.flags.contains(SendFlags::INLINE) {
            return Ok(());
        }
        let write = wqe.req.opcode.fetches();
        for s in sq.sges(index).iter().filter(|s| s.length > 0) {
            dev.local(self.config.pd, s.lkey, s.addr, u64::from(s.length), write)?;
        }
        Ok(())
    }

    /// SEND and WRITE: one descriptor from the cursor on.
    fn send_data<D: Device>(&mut self, dev: &mut D, sq: &SendQueue, wqe: &SendWqe) -> Result<u32, KeyFault> {
        let mtu = self.mtu();
        let done = self.req.cursor.psn.diff(wqe.first_psn).unsigned_abs();
        let offset = done * mtu;
        let left = wqe.npsn - done;
        let npsn = left.min(self.burst(dev));
        let len = (wqe.length - offset).min(npsn.saturating_mul(mtu));
        let (first, last) = (done == 0, npsn == left);
        let opcode = data_opcode(self.service(), wqe.req.opcode, first, last);
        let mut h = Headers::new(opcode, self.dest(), self.req.cursor.psn);
        fill_extensions(&mut h, wqe, first);
        h.bth.solicited = last && wqe.req.flags.contains(SendFlags::SOLICITED);
        if self.config.qp_type == QpType::Rc {
            let in_flight = self.req.cursor.psn.diff(self.req.una).unsigned_abs() + npsn;
            h.bth.ack_req = last || self.req.since_ack + npsn >= ACK_EVERY || in_flight >= WINDOW_PACKETS;
        }
        let index = self.req.cursor.wqe;
        if wqe.req.flags.contains(SendFlags::INLINE) {
            let bytes = &sq.inline_data(index)[offset as usize..(offset + len) as usize];
            self.send(dev, h, npsn, TxPayload::Bytes(bytes));
        } else {
            let spans = gather(dev, self.config.pd, sq.sges(index), offset, len, false)?;
            self.send(dev, h, npsn, TxPayload::Spans(&spans));
        }
        Ok(npsn)
    }

    /// READ: asks for what has not come yet. One packet, many PSNs of answers.
    ///
    /// Nobody paces the answers but us: a long READ is asked for in pieces of a window, each a request of its own
    /// to the responder.
    fn send_read<D: Device>(&mut self, dev: &mut D, wqe: &SendWqe) -> Result<u32, KeyFault> {
        let mtu = self.mtu();
        let done = self.req.cursor.psn.diff(wqe.first_psn).unsigned_abs();
        let offset = done * mtu;
        let left = wqe.npsn - done;
        let piece = window(self.burst(dev));
        let npsn = left.min(piece - done % piece);
        let mut h = Headers::new(Opcode::RC_RDMA_READ_REQUEST, self.dest(), self.req.cursor.psn);
        h.reth = Some(Reth {
            va: wqe.req.remote_addr.wrapping_add(u64::from(offset)),
            rkey: wqe.req.rkey,
            dma_len: (wqe.length - offset).min(npsn.saturating_mul(mtu)),
        });
        h.bth.ack_req = true;
        self.send(dev, h, 1, TxPayload::Bytes(&[]));
        self.req.reads_out += 1;
        Ok(npsn)
    }

    fn send_atomic<D: Device>(&mut self, dev: &mut D, wqe: &SendWqe) -> Result<u32, KeyFault> {
        let opcode = if wqe.req.opcode == WrOpcode::AtomicCmpAndSwp {
            Opcode::RC_COMPARE_SWAP
        } else {
            Opcode::RC_FETCH_ADD
        };
        let mut h = Headers::new(opcode, self.dest(), self.req.cursor.psn);
        let (swap_add, compare) = match wqe.req.opcode {
            WrOpcode::AtomicCmpAndSwp => (wqe.req.swap, wqe.req.compare_add),
            _ => (wqe.req.compare_add, 0),
        };
        h.atomic = Some(AtomicEth { va: wqe.req.remote_addr, rkey: wqe.req.rkey, swap_add, compare });
        h.bth.ack_req = true;
        self.send(dev, h, 1, TxPayload::Bytes(&[]));
        self.req.reads_out += 1;
        Ok(1)
    }

    /// FLUSH: its header says what is to be reached, and whether in a range or the whole region (IBA A19).
    fn send_flush<D: Device>(&mut self, dev: &mut D, wqe: &SendWqe) -> Result<u32, KeyFault> {
        let mut h = Headers::new(Opcode::RC_FLUSH, self.dest(), self.req.cursor.psn);
        h.feth = Some(Feth(wqe.req.swap as u32));
        let dma_len = wqe.req.compare_add as u32;
        h.reth = Some(Reth { va: wqe.req.remote_addr, rkey: wqe.req.rkey, dma_len });
        h.bth.ack_req = true;
        self.send(dev, h, 1, TxPayload::Bytes(&[]));
        self.req.reads_out += 1;
        Ok(1)
    }

    /// ATOMIC WRITE: its eight bytes were copied when it was posted.
    fn send_atomic_write<D: Device>(&mut self, dev: &mut D, wqe: &SendWqe) -> Result<u32, KeyFault> {
        let mut h = Headers::new(Opcode::RC_ATOMIC_WRITE, self.dest(), self.req.cursor.psn);
        h.reth = Some(Reth { va: wqe.req.remote_addr, rkey: wqe.req.rkey, dma_len: 8 });
        h.bth.ack_req = true;
        self.send(dev, h, 1, TxPayload::Bytes(&wqe.req.compare_add.to_ne_bytes()));
        self.req.reads_out += 1;
        Ok(1)
    }

    /// Book-keeping after a descriptor has left.
    fn note_sent<D: Device>(&mut self, dev: &mut D, sq: &mut SendQueue, now: u64, wqe: &SendWqe, npsn: u32) {
        self.req.cursor.psn = self.req.cursor.psn + npsn;
        self.req.since_ack =
            if self.req.since_ack + npsn >= ACK_EVERY { 0 } else { self.req.since_ack + npsn };
        if self.req.cursor.psn.is_after(self.req.sent_end) {
            self.req.sent_end = self.req.cursor.psn;
        }
        let finished = self.req.cursor.psn == wqe.first_psn + wqe.npsn;
        if finished {
            self.req.cursor.wqe = self.req.cursor.wqe.wrapping_add(1);
        }
        if self.config.qp_type == QpType::Uc {
            self.req.una = self.req.cursor.psn;
            if finished {
                self.complete_head(dev, sq, WcStatus::Success, Check::None);
            }
        } else if self.req.timer.get().is_none() {
            self.restart_timer(now);
        }
    }

    /// Hands a descriptor of this connection to the device.
    pub(crate) fn send<D: Device>(
        &mut self,
        dev: &mut D,
        mut headers: Headers,
        npsn: u32,
        payload: TxPayload<'_>,
    ) {
        headers.bth.mig_req = self.mig_req();
        self.leaves(dev, &headers);
        dev.transmit(&Tx { path: &self.attr.ah, headers, npsn, payload });
    }

    /// How many packets one descriptor to the peer may stand for.
    pub(crate) fn burst<D: Device>(&self, dev: &D) -> u32 {
        dev.burst(&self.attr.ah, self.dest(), self.service(), self.mtu()).clamp(1, PSN_LIMIT)
    }

    pub(crate) fn dest(&self) -> glassnic_wire::Qpn {
        glassnic_wire::Qpn::new(self.attr.dest_qp_num)
    }

    pub(crate) fn mtu(&self) -> u32 {
        self.attr.path_mtu.bytes()
    }

    pub(crate) fn service(&self) -> Service {
        match self.config.qp_type {
            QpType::Rc => Service::Rc,
            QpType::Uc => Service::Uc,
            _ => Service::Ud,
        }
    }

    pub(crate) fn restart_timer(&mut self, now: u64) {
        let outstanding = self.req.una != self.req.sent_end;
        let after = timing::ack_timeout_ns(self.attr.timeout).filter(|_| outstanding);
        self.req.timer = after.map_or(Moment::NEVER, |after| Moment::at(now.saturating_add(after)));
    }

    /// Nothing after the element at the cursor is sent; its failure waits for its predecessors.
    pub(crate) fn stop_at_cursor(&mut self, status: WcStatus, check: Check) {
        self.req.stop = Some(Stop { wqe: self.req.cursor.wqe, status, check });
    }
}

/// Packets that may be in flight where one descriptor stands for `burst` of them. READs are cut at its multiples.
pub(crate) const fn window(burst: u32) -> u32 {
    if burst > 1 { PSN_LIMIT } else { WINDOW_PACKETS }
}

/// The packet opcode of a part of a message, from the one table.
fn data_opcode(service: Service, op: WrOpcode, first: bool, last: bool) -> Opcode {
    let (kind, mut extra) = match op {
        WrOpcode::RdmaWrite => (Kind::Write, HeaderSet::empty()),
        WrOpcode::RdmaWriteWithImm => (Kind::Write, HeaderSet::IMMDT),
        WrOpcode::SendWithImm => (Kind::Send, HeaderSet::IMMDT),
        WrOpcode::SendWithInv => (Kind::Send, HeaderSet::IETH),
        _ => (Kind::Send, HeaderSet::empty()),
    };
    let position = match (first, last) {
        (true, true) => Position::Only,
        (true, false) => Position::First,
        (false, false) => Position::Middle,
        (false, true) => Position::Last,
    };
    if !last {
        extra = HeaderSet::empty();
    }
    // Every combination is in the table but SEND with invalidate on UC, which `can_carry_out` refuses.
    Opcode::find(service, kind, position, extra).unwrap_or(Opcode::RC_SEND_ONLY)
}

/// Fills the extension headers that the opcode calls for.
fn fill_extensions(h: &mut Headers, wqe: &SendWqe, first: bool) {
    let Some(info) = h.bth.opcode.info() else { return };
    if first && info.headers.contains(HeaderSet::RETH) {
        h.reth = Some(Reth { va: wqe.req.remote_addr, rkey: wqe.req.rkey, dma_len: wqe.length });
    }
    if info.headers.contains(HeaderSet::IMMDT) {
        h.imm = Some(wqe.req.imm);
    }
    if info.headers.contains(HeaderSet::IETH) {
        h.ieth = Some(wqe.req.imm);
    }
}

/// The checked host memory of bytes `offset .. offset + len` of a scatter/gather list.
pub(crate) fn gather<D: Device>(
    dev: &D,
    pd: u32,
    sges: &[Sge],
    mut offset: u32,
    mut len: u32,
    write: bool,
) -> Result<Spans, KeyFault> {
    let mut spans = Spans::new();
    for s in sges {
        if len == 0 {
            break;
        }
        if offset >= s.length {
            offset -= s.length;
            continue;
        }
        let n = (s.length - offset).min(len);
        let addr = dev.local(pd, s.lkey, s.addr.wrapping_add(u64::from(offset)), u64::from(n), write)?;
        // A list has at most MAX_SGE elements, and each gives one span at most.
        spans.push(Span { addr, len: n });
        len -= n;
        offset = 0;
    }
    Ok(spans)
}

/// The PSN after the last one of an element.
pub(crate) fn end_psn(w: &SendWqe) -> Psn {
    w.first_psn + w.npsn
}
