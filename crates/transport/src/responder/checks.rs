//! The line of checks that every RC and UC request passes.

use glassnic_events::{AsyncEventType, Cause, Check, DropReason, Event, FirstCause, WcStatus};
use glassnic_wire::opcode::{Kind, OpcodeInfo, Position};
use glassnic_wire::{Feth, NakCode, Psn, Syndrome};

use super::{Answer, Message};
use crate::attr::AccessFlags;
use crate::device::{Device, Incoming, KeyFault, RemoteAccess};
use crate::qp::Qp;
use crate::requester::event_nak;
use crate::timing;
use crate::wqe::MAX_MESSAGE;

/// Why a request is not executed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// No receive is posted: the requester shall wait and send again.
    NotReady,
    /// NAK invalid request (IBA 9.7.5.2.4): out of sequence, not enabled, too many reads, wrong length.
    Invalid(Check),
    /// The message is longer than the receive it is going to: NAK invalid request, and the receive fails.
    TooLong,
    /// NAK remote access.
    Access(KeyFault),
    /// The responder's own receive cannot be written: NAK remote operational error.
    Local(KeyFault),
}

impl Qp {
    /// A request on a reliable connection.
    pub(crate) fn handle_rc_request<D: Device>(
        &mut self,
        dev: &mut D,
        inc: &Incoming<'_>,
        info: &OpcodeInfo,
    ) {
        let psn = inc.headers.bth.psn;
        let ahead = psn.diff(self.resp.expected);
        if ahead > 0 {
            return self.report_gap(dev);
        }
        if ahead < 0 {
            // A descriptor of several packets may reach past what has arrived; then the rest is asked for anew.
            let reach = psn + covers(inc, info, self.mtu());
            if reach.is_after(self.resp.expected) && inc.npsn > 1 {
                self.resp.nak_sent = false;
                return self.report_gap(dev);
            }
            return self.handle_duplicate(dev, inc, info);
        }
        match self.check_and_execute(dev, inc, info) {
            Ok(()) => self.resp.nak_sent = false,
            Err(fault) => self.refuse(dev, psn, fault),
        }
    }

    /// The checks in order (IBA 9.7.4.1), then the operation.
    pub(crate) fn check_and_execute<D: Device>(
        &mut self,
        dev: &mut D,
        inc: &Incoming<'_>,
        info: &OpcodeInfo,
    ) -> Result<(), Fault> {
        self.check_sequence(info)?;
        self.check_enabled(inc, info)?;
        self.check_resources(info)?;
        self.check_length(inc, info)?;
        match info.kind {
            Kind::Send => self.execute_send(dev, inc, info),
            Kind::Write => self.execute_write(dev, inc, info),
            Kind::ReadRequest => self.execute_read(dev, inc),
            Kind::CmpSwap | Kind::FetchAdd => self.execute_atomic(dev, inc, info),
            Kind::Flush => self.execute_flush(dev, inc),
            Kind::AtomicWrite => self.execute_atomic_write(dev, inc),
            _ => Err(Fault::Invalid(Check::OpcodeUnsupported)),
        }
    }

    /// First, Middle and Last have to follow one another.
    fn check_sequence(&self, info: &OpcodeInfo) -> Result<(), Fault> {
        let starts = matches!(info.position, Position::First | Position::Only);
        let fits = match self.resp.work.message.get() {
            None | Some(Message::None | Message::Discard) => starts,
            Some(Message::Send { .. }) => !starts && info.kind == Kind::Send,
            Some(Message::Write { .. }) => !starts && info.kind == Kind::Write,
        };
        if fits { Ok(()) } else { Err(Fault::Invalid(Check::OpcodeSequence)) }
    }

    /// The QP grants the kind of operation (`qp_access_flags`).
    fn check_enabled(&self, inc: &Incoming<'_>, info: &OpcodeInfo) -> Result<(), Fault> {
        let needs = match info.kind {
            Kind::Write | Kind::AtomicWrite => AccessFlags::REMOTE_WRITE,
            Kind::Flush => flush_rights(inc).ok_or(Fault::Invalid(Check::OpcodeUnsupported))?.0,
            Kind::ReadRequest => AccessFlags::REMOTE_READ,
            Kind::CmpSwap | Kind::FetchAdd => AccessFlags::REMOTE_ATOMIC,
            _ => return Ok(()),
        };
        if self.attr.access.contains(needs) { Ok(()) } else { Err(Fault::Invalid(Check::QpAccess)) }
    }

    /// The QP has room for another READ or atomic (`max_dest_rd_atomic`).
    fn check_resources(&self, info: &OpcodeInfo) -> Result<(), Fault> {
        use Kind as K;
        if !matches!(info.kind, K::ReadRequest | K::CmpSwap | K::FetchAdd | K::Flush | K::AtomicWrite) {
            return Ok(());
        }
        if self.resp.reads_due() < usize::from(self.attr.max_dest_rd_atomic) {
            Ok(())
        } else {
            Err(Fault::Invalid(Check::TooManyReads))
        }
    }

    /// Every packet but the last is full, and the last is neither empty nor too long (IBA 9.7.4.1.6).
    fn check_length(&self, inc: &Incoming<'_>, info: &OpcodeInfo) -> Result<(), Fault> {
        let bad = Err(Fault::Invalid(Check::PacketLength));
        let (len, mtu) = (inc.payload.len() as u64, u64::from(self.mtu()));
        let full = mtu * u64::from(inc.npsn);
        let ok = match info.position {
            Position::First | Position::Middle => len == full,
            Position::Last => len > full - mtu && len <= full,
            Position::Only => len <= full && (len > full - mtu || inc.npsn == 1),
        };
        if !ok || len > MAX_MESSAGE {
            return bad;
        }
        match inc.headers.reth {
            Some(r) if u64::from(r.dma_len) > MAX_MESSAGE => bad,
            Some(r)
                if info.kind == Kind::Write
                    && info.position == Position::Only
                    && u64::from(r.dma_len) != len =>
            {
                bad
            }
            Some(r)
                if info.kind == Kind::Write
                    && info.position == Position::First
                    && u64::from(r.dma_len) <= len =>
            {
                bad
            }
            _ => Ok(()),
        }
    }

    /// A packet is missing: one NAK for a gap, however many packets follow it (IBA 9.7.5.2.2).
    fn report_gap<D: Device>(&mut self, dev: &mut D) {
        if self.resp.nak_sent {
            return;
        }
        self.resp.nak_sent = true;
        let psn = self.resp.expected;
        let code = event_nak(NakCode::PsnSequence);
        dev.event(Event::NakSent {
            qpn: self.config.qpn.value(),
            psn: psn.value(),
            code,
            check: Check::None,
        });
        self.resp.send_back(psn, Syndrome::nak(NakCode::PsnSequence));
    }

    /// A request that was executed before (IBA 9.7.4.3 and table 43).
    fn handle_duplicate<D: Device>(&mut self, dev: &mut D, inc: &Incoming<'_>, info: &OpcodeInfo) {
        let psn = inc.headers.bth.psn;
        match info.kind {
            Kind::Send | Kind::Write => {
                let newest = self.resp.expected.prev();
                self.resp.acknowledge_again(newest, Syndrome::ack(Syndrome::NO_CREDITS));
            }
            Kind::ReadRequest => self.repeat_read(dev, inc),
            // A flush that is made twice is one; what an atomic write has written may have been overwritten since.
            Kind::Flush if self.flush_asked(dev, inc).is_err() => {}
            Kind::Flush | Kind::AtomicWrite => self.answer_empty_again(psn),
            Kind::CmpSwap | Kind::FetchAdd => {
                let Some(saved) = self.resp.work.atomics.iter().rev().find(|a| a.psn == psn).copied() else {
                    return self.dropped(dev, inc, DropReason::Duplicate);
                };
                let due = self
                    .resp
                    .work
                    .answers
                    .iter()
                    .any(|a| matches!(a, Answer::Atomic { psn: p, .. } if *p == psn));
                if !due {
                    let (original, msn) = (saved.original, self.resp.msn);
                    self.resp.answer_again(Answer::Atomic { psn, original, msn, repeat: true });
                }
            }
            _ => {}
        }
    }

    /// A duplicate READ is executed again, after its key was checked again; of what is asked only the part that
    /// lies before the expected PSN can be a duplicate.
    fn repeat_read<D: Device>(&mut self, dev: &mut D, inc: &Incoming<'_>) {
        let Some(r) = inc.headers.reth else { return };
        let psn = inc.headers.bth.psn;
        let npsn = r.dma_len.div_ceil(self.mtu()).max(1);
        let fits = !(psn + npsn).is_after(self.resp.expected) && npsn < 1 << 23;
        let allowed = r.dma_len == 0
            || dev
                .remote(
                    self.config.pd,
                    self.config.qpn,
                    r.rkey,
                    r.va,
                    u64::from(r.dma_len),
                    RemoteAccess::Read,
                )
                .is_ok();
        if !fits || !allowed || !self.attr.access.contains(AccessFlags::REMOTE_READ) {
            return;
        }
        let (end, msn) = (psn + npsn, self.resp.msn);
        let again =
            |repeat| Answer::Read { psn, va: r.va, rkey: r.rkey, left: r.dma_len, first: true, msn, repeat };
        // What is left of its first answer is replaced by the whole; then it is still the first.
        for due in &mut self.resp.work.answers {
            if let Answer::Read { psn: p, repeat, .. } = *due
                && !p.is_before(psn)
                && p.is_before(end)
            {
                *due = again(repeat);
                return;
            }
        }
        self.resp.answer_again(again(true));
    }

    /// The answer of a FLUSH or ATOMIC WRITE is due again, unless it still is.
    fn answer_empty_again(&mut self, psn: Psn) {
        if !self.resp.work.answers.iter().any(|a| a.psn() == psn) {
            let msn = self.resp.msn;
            self.resp.answer_again(Answer::empty(psn, msn, true));
        }
    }

    /// Turns a fault into its NAK, its completion and its state (IBA table 58): here and nowhere else.
    pub(crate) fn refuse<D: Device>(&mut self, dev: &mut D, psn: Psn, fault: Fault) {
        let (code, status, check) = match fault {
            Fault::NotReady => return self.not_ready(dev, psn),
            Fault::Invalid(check) => (NakCode::InvalidRequest, WcStatus::RemInvReqErr, check),
            Fault::Access(key) => (NakCode::RemoteAccess, WcStatus::RemAccessErr, key.remote_check()),
            Fault::TooLong => (NakCode::InvalidRequest, WcStatus::LocLenErr, Check::ReceiveTooSmall),
            Fault::Local(key) => (NakCode::RemoteOperational, WcStatus::LocProtErr, key.local_check()),
        };
        self.nak(dev, psn, code, check);
        let mut wr_id = None;
        match fault {
            Fault::Invalid(_) => dev.raise(AsyncEventType::QpReqErr),
            Fault::Access(_) => dev.raise(AsyncEventType::QpAccessErr),
            _ => {
                wr_id = self.resp.take_current_receive().map(|r| r.wr_id);
                if let Some(id) = wr_id {
                    dev.complete_recv(self.recv_failure(id, status, check));
                }
            }
        }
        self.fail(dev, Cause::ResponderError, FirstCause { wr_id, psn: Some(psn.value()), status, check });
    }

    /// An RNR NAK each time the request at `psn` comes; what follows it is dropped until it comes again.
    fn not_ready<D: Device>(&mut self, dev: &mut D, psn: Psn) {
        self.resp.nak_sent = true;
        if self.resp.work.answers.iter().any(|a| a.is_rnr_at(psn)) {
            return;
        }
        let timer = self.attr.min_rnr_timer;
        let delay_ns = timing::rnr_delay_ns(timer);
        dev.event(Event::RnrNakSent { qpn: self.config.qpn.value(), psn: psn.value(), delay_ns });
        self.resp.send_back(psn, Syndrome::rnr(timer));
    }

    fn nak<D: Device>(&mut self, dev: &mut D, psn: Psn, code: NakCode, check: Check) {
        dev.event(Event::NakSent {
            qpn: self.config.qpn.value(),
            psn: psn.value(),
            code: event_nak(code),
            check,
        });
        let msn = self.resp.msn;
        self.resp.work.answers.push_back(Answer::Ack { psn, syndrome: Syndrome::nak(code), msn });
    }
}

/// What a FLUSH asks for, and whether of the whole region (IBA A19.3.3): placement in bits 0 to 3, selectivity in 4 and 5.
pub(crate) fn flush_rights(inc: &Incoming<'_>) -> Option<(AccessFlags, bool)> {
    let Feth(bits) = inc.headers.feth?;
    let (placement, selectivity) = (bits & 0xf, bits >> 4 & 3);
    let rights = AccessFlags::from_bits(placement * AccessFlags::FLUSH_GLOBAL.bits())?;
    let known = !rights.is_empty() && AccessFlags::FLUSH.contains(rights) && selectivity < 2;
    known.then_some((rights, selectivity == 1))
}

/// The PSNs that a request takes.
fn covers(inc: &Incoming<'_>, info: &OpcodeInfo, mtu: u32) -> u32 {
    match (info.kind, inc.headers.reth) {
        (Kind::ReadRequest, Some(r)) => r.dma_len.div_ceil(mtu).max(1),
        _ => inc.npsn,
    }
}
