//! The device as one QP sees it while it runs.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use glassnic_events::{AsyncEventType, Check, DropReason, Event, KeyAccess, WcStatus};
use glassnic_transport::attr::{AccessFlags, AddressVector};
use glassnic_transport::{
    AtomicOp, BindWindow, Completion, Credit, Device, KeyFault, Payload, ReceiveWqe, Recv, RemoteAccess,
    SendQueue, Tx,
};
use glassnic_wire::{Qpn, Service};

use crate::context::ContextMemory;
use crate::cq::{CompQueue, Pushed};
use crate::driver::{Block, Field as Driver};
use crate::mr::{GUARD, MrTable};
use crate::port::Port;
use crate::recorder::Recorder;
use crate::shared::QpShared;
use crate::srq::Srq;
use crate::world::{Notifier, Subject, World};

/// A CQ as a QP reports to it.
#[derive(Debug)]
pub(crate) struct Report {
    pub cq: Arc<CompQueue>,
    pub handle: u32,
    /// Our number among the CQ's sources; [`UNATTACHED`] until the first completion may come.
    source: u32,
}

/// No number of a source.
const UNATTACHED: u32 = u32::MAX;

impl Report {
    /// To a CQ which does not know of it yet: a queue that is never used costs the CQ nothing.
    pub(crate) fn new(cq: Arc<CompQueue>, handle: u32) -> Self {
        Self { cq, handle, source: UNATTACHED }
    }

    /// Completions of a work queue may come from now on: polling them gives back slots through `credit`.
    fn attach(&mut self, credit: impl FnOnce() -> Credit, block: &Block, field: Driver) {
        if self.source == UNATTACHED {
            self.source = self.cq.attach_seen(credit(), block.clone(), field);
        }
    }

    /// The same of a QP whose receives are another's: the inspector sees the slots there.
    fn attach_shared(&mut self, srq: &Srq) {
        if self.source == UNATTACHED {
            self.source = self.cq.attach(srq.credit());
        }
    }

    /// The work queue is gone or reset: what it has left in the CQ goes with it.
    pub(crate) fn detach(&mut self) {
        self.detach_from(None);
    }

    /// The same of receives; the slots of a shared queue are free again.
    pub(crate) fn detach_from(&mut self, srq: Option<&Arc<Srq>>) {
        if self.source == UNATTACHED {
            return;
        }
        let held = self.cq.detach(std::mem::replace(&mut self.source, UNATTACHED));
        if let Some(srq) = srq {
            srq.credit().release(held);
        }
    }

    /// Sends of a queue that is used may complete.
    pub(crate) fn attach_sends(&mut self, sq: &mut SendQueue, block: &Block) {
        if sq.is_used() {
            self.attach(|| sq.credit(), block, Driver::SqReleased);
        }
    }
}

/// What a QP met since it left RESET.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub rnr_received: u32,
    pub timeouts: u32,
    pub retransmits: u32,
    pub naks_received: u32,
    /// Since when the peer has not been ready; 0 if it always was. And the PSN that it was not ready for.
    pub rnr_since: u64,
    pub rnr_psn: u32,
    pub rnr_sent: u32,
    pub naks_sent: u32,
    pub dropped: u32,
    pub last_drop: u32,
    /// The last access to memory that was turned down.
    pub turned_down: Option<KeyAccess>,
    /// The program has been told of the first cause.
    pub told: bool,
    /// Since when messages find no receive.
    pub empty_since: Option<u64>,
}

impl Counters {
    /// Whether [`Counters::note`] takes notice of it.
    fn counts(event: &Event) -> bool {
        use Event as E;
        matches!(
            event,
            E::RnrNakReceived { .. }
                | E::Timeout { .. }
                | E::Retransmit { .. }
                | E::NakReceived { .. }
                | E::RnrNakSent { .. }
                | E::NakSent { .. }
                | E::PacketDropped { .. }
        )
    }

    fn note(&mut self, now: u64, event: &Event) {
        let more = |n: &mut u32| *n = n.wrapping_add(1);
        match *event {
            Event::RnrNakReceived { psn, .. } => {
                more(&mut self.rnr_received);
                if self.rnr_since == 0 || self.rnr_psn != psn {
                    (self.rnr_since, self.rnr_psn) = (now, psn);
                }
            }
            Event::Timeout { .. } => more(&mut self.timeouts),
            Event::Retransmit { .. } => more(&mut self.retransmits),
            Event::NakReceived { .. } => more(&mut self.naks_received),
            Event::RnrNakSent { .. } => {
                more(&mut self.rnr_sent);
                self.empty_since.get_or_insert(now);
            }
            Event::NakSent { .. } => more(&mut self.naks_sent),
            Event::PacketDropped { reason, .. } => {
                more(&mut self.dropped);
                self.last_drop = reason.value();
                if reason == DropReason::NoReceive {
                    self.empty_since.get_or_insert(now);
                }
            }
            _ => {}
        }
    }
}

/// See the module.
pub(crate) struct Env<'a, W> {
    pub world: &'a mut W,
    pub mrs: &'a mut MrTable,
    pub memory: &'a ContextMemory,
    pub recorder: &'a Recorder,
    pub port: &'a Port,
    pub notifier: &'a dyn Notifier,
    pub shared: &'a QpShared,
    pub send_report: &'a mut Report,
    pub recv_report: &'a mut Report,
    /// Of a QP that has met nothing worth counting, none.
    pub counters: &'a mut Option<Box<Counters>>,
    pub now: u64,
    /// The last access to memory that was turned down.
    pub turned_down: Cell<Option<KeyAccess>>,
    /// A completion found no room.
    pub overrun: bool,
    /// When events that are held back are due: see [`crate::device::Nic::moderated`].
    pub moderated: &'a mut BinaryHeap<Reverse<(u64, u32)>>,
    /// The port was taken down: nothing leaves.
    pub silent: bool,
}

impl<W: World> Env<'_, W> {
    /// The oldest receive of a shared queue; tells once that it has fallen below its limit.
    fn take_shared(&self, srq: &Srq) -> Option<ReceiveWqe> {
        let (receive, reached) = srq.take();
        if reached {
            let (event, subject) = (AsyncEventType::SrqLimitReached, srq.handle);
            self.recorder.event(self.now, &Event::Async { event, subject, qpn: None });
            self.notifier.asynchronous(event, Subject::Srq(srq.handle));
        }
        receive
    }

    /// Keeps which access failed, for the refusal that follows from it.
    fn turn_down(&self, check: Check, pd: u32, key: u32, remote: bool, (addr, len): (u64, u64)) {
        let region = self.mrs.region(key, remote);
        self.turned_down.set(Some(KeyAccess { check, key, addr, len, pd, region }));
    }

    /// Memory that pages on demand is looked for before it is read, or where it is to be there `now`.
    fn paged_in(&self, at: u64, len: u64, write: bool, now: bool) -> Result<u64, KeyFault> {
        let asks = at & GUARD != 0 && (now || !write);
        if asks && !self.world.is_there(at & !GUARD, len, write) {
            return Err(KeyFault::Unmapped);
        }
        Ok(at)
    }

    fn complete(&mut self, c: Completion, send: bool) {
        if !send {
            let shared = self.shared;
            match &shared.srq {
                Some(srq) => self.recv_report.attach_shared(srq),
                None => {
                    self.recv_report.attach(|| shared.lock_rq().credit(), &shared.block, Driver::RqReleased);
                }
            }
        }
        let report = if send { &*self.send_report } else { &*self.recv_report };
        if c.status != WcStatus::Success {
            let (qpn, wr_id, status) = (c.qpn.value(), c.wr_id, c.status);
            let check = if status == WcStatus::WrFlushErr { Check::Flushed } else { Check::None };
            self.recorder.event(self.now, &Event::CompletionError { qpn, wr_id, status, check });
        }
        match report.cq.push(c, report.source, self.now) {
            Pushed::Quiet => {}
            Pushed::Event => self.notifier.completion(report.handle),
            Pushed::Later(at) => self.moderated.push(Reverse((at, report.handle))),
            Pushed::Overrun(first) => {
                self.overrun = true;
                if first {
                    let (event, qpn) = (AsyncEventType::CqErr, Some(self.shared.qpn));
                    self.recorder.event(self.now, &Event::Async { event, subject: report.handle, qpn });
                    self.notifier.asynchronous(event, Subject::Cq(report.handle));
                }
            }
        }
    }
}

impl<W: World> Device for Env<'_, W> {
    fn local(&self, pd: u32, lkey: u32, addr: u64, len: u64, write: bool) -> Result<u64, KeyFault> {
        // What is to be written is found out by writing; what is read has to be there before it is sent.
        let found =
            self.mrs.local(pd, lkey, addr, len, write).and_then(|at| self.paged_in(at, len, write, false));
        found.inspect_err(|fault| {
            self.turn_down(fault.local_check(), pd, lkey, false, (addr, len));
        })
    }

    fn remote(
        &self,
        pd: u32,
        qpn: Qpn,
        rkey: u32,
        addr: u64,
        len: u64,
        access: RemoteAccess,
    ) -> Result<u64, KeyFault> {
        let (write, now) =
            (access != RemoteAccess::Read, matches!(access, RemoteAccess::Atomic | RemoteAccess::Word));
        let found = self.mrs.remote(pd, qpn.value(), rkey, addr, len, access);
        found.and_then(|at| self.paged_in(at, len, write, now)).inspect_err(|fault| {
            self.turn_down(fault.remote_check(), pd, rkey, true, (addr, len));
        })
    }

    fn invalidate(&mut self, pd: u32, qpn: Qpn, rkey: u32) -> Result<(), KeyFault> {
        // Only memory windows of type 2 may be invalidated by a peer; a region of ibv_reg_mr may not (IBA 10.6.5).
        let handle = self.mrs.invalidate(pd, qpn.value(), rkey).inspect_err(|fault| {
            self.turn_down(fault.remote_check(), pd, rkey, true, (0, 0));
        })?;
        self.mrs.show_window(self.memory, handle);
        Ok(())
    }

    fn flush(
        &mut self,
        pd: u32,
        _qpn: Qpn,
        rkey: u32,
        range: Option<(u64, u64)>,
        rights: AccessFlags,
    ) -> Result<(), KeyFault> {
        let (addr, len) = range.unwrap_or_default();
        self.mrs.flushable(pd, rkey, range, rights).inspect_err(|fault| {
            self.turn_down(fault.remote_check(), pd, rkey, true, (addr, len));
        })?;
        // What was written by the device is in memory that all processors see alike; what is left is its order.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        Ok(())
    }

    fn bind(&mut self, pd: u32, qpn: Qpn, bind: &BindWindow) -> Result<(), Check> {
        self.mrs.bind(pd, qpn.value(), bind)?;
        self.mrs.show_window(self.memory, bind.window);
        Ok(())
    }

    fn invalidate_own(&mut self, pd: u32, qpn: Qpn, key: u32) -> Result<(), Check> {
        let done = self.mrs.invalidate(pd, qpn.value(), key);
        let handle = done.map_err(|fault| match fault {
            KeyFault::NotInvalidatable => Check::OwnInvalidateRefused,
            other => other.remote_check(),
        })?;
        self.mrs.show_window(self.memory, handle);
        Ok(())
    }

    fn store(&mut self, to: u64, payload: &Payload<'_>, offset: usize, len: usize) -> Result<(), KeyFault> {
        self.world.store(to, payload, offset, len)
    }

    fn atomic(&mut self, at: u64, op: AtomicOp) -> Result<u64, KeyFault> {
        self.world.atomic(at, op)
    }

    fn take_receive(&mut self) -> Recv {
        let taken = match &self.shared.srq {
            Some(srq) => self.take_shared(srq),
            None => self.shared.lock_rq().take(),
        };
        if taken.is_some()
            && let Some(counters) = self.counters
        {
            counters.empty_since = None;
        }
        taken.map_or(Recv::Empty, Recv::Wqe)
    }

    fn put_back(&mut self, receive: ReceiveWqe) {
        if let Some(srq) = &self.shared.srq {
            srq.put_back(&receive);
        }
    }

    fn complete_send(&mut self, c: Completion) {
        self.complete(c, true);
    }

    fn complete_recv(&mut self, c: Completion) {
        self.complete(c, false);
    }

    fn burst(&self, path: &AddressVector, dest: Qpn, service: Service, mtu: u32) -> u32 {
        self.world.burst(path, dest, service, mtu)
    }

    fn room(&mut self, path: &AddressVector, dest: Qpn, service: Service, bytes: usize) -> bool {
        self.world.room(path, dest, service, bytes)
    }

    fn transmit(&mut self, tx: &Tx<'_>) {
        // An address that the host has lost since the modify: nothing can be sent from it.
        if let Some(gid) = self.port.gid(tx.path.sgid_index)
            && !self.silent
        {
            self.world.transmit(gid, tx);
        }
    }

    fn event(&mut self, e: Event) {
        if Counters::counts(&e) {
            self.counters.get_or_insert_default().note(self.now, &e);
        }
        self.recorder.event(self.now, &e);
    }

    fn raise(&mut self, e: AsyncEventType) {
        let (subject, qpn) = (self.shared.qpn, Some(self.shared.qpn));
        self.recorder.event(self.now, &Event::Async { event: e, subject, qpn });
        self.notifier.asynchronous(e, Subject::Qp(self.shared.qpn));
    }
}
