//! The four operations on a QP: create, modify, query, destroy.

use std::cell::Cell;
use std::sync::Arc;

use glassnic_events::{
    AttrMask, Call, Field, ObjectKind, QpState, QpType, Refusal, Rule, StateSet, Transition,
};
use glassnic_transport::attr::{QpAttr, QpCap};
use glassnic_transport::state::{check_modify, reachable};
use glassnic_transport::{Qp, QpConfig};
use glassnic_wire::Qpn;
use glassnic_wire::command::CommandOpcode;
use glassnic_wire::command::body::{CreateQp, DestroyQp, ModifyQp, QueryQp};

use crate::context::Header;
use crate::device::{Nic, QpEntry};
use crate::driver::{Block, Field as Driver};
use crate::env::{Env, Report};
use crate::lag::attributes;
use crate::qpc::Image;
use crate::shared::QpShared;
use crate::world::World;

/// `ibv_qp_init_attr`, with handles.
#[derive(Clone, Copy, Debug)]
pub struct QpInit {
    /// Protection domain.
    pub pd: u32,
    /// Service.
    pub qp_type: QpType,
    /// Send CQ.
    pub send_cq: u32,
    /// Receive CQ.
    pub recv_cq: u32,
    /// The shared receive queue that it takes its receives from; its own receive queue then has no slots, whatever `cap` says.
    pub srq: Option<u32>,
    /// Queue sizes.
    pub cap: QpCap,
    /// Every send is signalled.
    pub sq_sig_all: bool,
}

/// Why no QP was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateError {
    /// Refused.
    Refused(Refusal),
    /// The device needs another block of QP numbers ([`Nic::add_qpn_block`]), then the call may be repeated.
    NeedsQpns,
}

impl Nic {
    /// Creates a QP in RESET: a context from the pool, a number, and the mapping between them.
    ///
    /// # Errors
    /// A limit, a bad handle, a service that is not there; or no number.
    pub fn create_qp(&mut self, init: &QpInit, now: u64) -> Result<Arc<QpShared>, CreateError> {
        let checked = self.check_create(init);
        checked.map_err(|rule| CreateError::Refused(self.refuse(now, Call::CreateQp, None, rule)))?;
        let slot = self.free_slots.front().copied().unwrap_or(self.qps.len());
        let qpn = self.qpns.take(slot, now).ok_or(CreateError::NeedsQpns)?;
        if self.free_slots.pop_front().is_none() {
            self.qps.grow();
            self.ledger.memory.set(Header::QpHigh, self.qps.len().into());
        }
        let block = Block::new(self.ledger.memory.clone(), slot);
        let max_inline_data = self.limits.inline_granted(init.qp_type, init.cap.max_inline_data);
        let mut cap = QpCap { max_inline_data, ..init.cap };
        let srq = init.srq.and_then(|srq| self.srqs.get_mut(srq)).map(|entry| {
            entry.qps += 1;
            (cap.max_recv_wr, cap.max_recv_sge) = (0, 0);
            entry.srq.clone()
        });
        let given = QpInit { cap, ..*init };
        let shared = Arc::new(QpShared::new(qpn, &given, srq, block.clone()));
        let (send, recv) = (self.report(init.send_cq), self.report(init.recv_cq));
        let (Some(send), Some(recv)) = (send, recv) else {
            // Both were there when they were checked.
            return Err(CreateError::NeedsQpns);
        };
        if let Some(pd) = self.pds.get_mut(init.pd) {
            pd.qps += 1;
        }
        let config = QpConfig {
            qpn: Qpn::new(qpn),
            qp_type: init.qp_type,
            pd: init.pd,
            sq_sig_all: init.sq_sig_all,
            srq: init.srq.is_some(),
        };
        let entry = QpEntry {
            qp: Qp::new(config),
            shared: shared.clone(),
            send,
            recv,
            ready: false,
            ack_waits: false,
            armed: u64::MAX,
            lag: None,
            counters: None,
        };
        self.qps.put(slot, entry);
        block.store(Driver::CreatedNs, now);
        self.write_context(slot, true);
        let body = CreateQp {
            send_cq: init.send_cq.into(),
            recv_cq: init.recv_cq.into(),
            srq: init.srq.unwrap_or(0).into(),
            max_send_wr: cap.max_send_wr.into(),
            max_recv_wr: cap.max_recv_wr.into(),
            max_inline: max_inline_data.into(),
            max_send_sge: (cap.max_send_sge as u16).into(),
            max_recv_sge: (cap.max_recv_sge as u16).into(),
            qp_type: init.qp_type.value() as u8,
            sq_sig_all: init.sq_sig_all.into(),
            ..CreateQp::default()
        };
        self.ledger.keep(now, CommandOpcode::CreateQp, qpn, init.pd, &body);
        self.ledger.changes(slot, Image::default());
        let caller = self.ledger.caller();
        block.store_pair(Driver::Qpn, qpn, QpState::Reset.value());
        block.store_pair(Driver::CreatedBy, caller.thread, caller.site);
        Ok(shared)
    }

    fn check_create(&self, init: &QpInit) -> Result<(), Rule> {
        self.runs()?;
        if !self.limits.serves(init.qp_type) {
            return Err(Rule::NotSupported { what: Field::QpType, value: init.qp_type.value().into() });
        }
        if self.pds.get(init.pd).is_none() {
            return Err(Rule::BadHandle { kind: ObjectKind::Pd, handle: init.pd });
        }
        for handle in [init.send_cq, init.recv_cq] {
            if self.cqs.get(handle).is_none() {
                return Err(Rule::BadHandle { kind: ObjectKind::Cq, handle });
            }
        }
        if let Some(handle) = init.srq
            && self.srqs.get(handle).is_none()
        {
            return Err(Rule::BadHandle { kind: ObjectKind::Srq, handle });
        }
        let l = &self.limits;
        // With an SRQ, sizes of a receive queue mean nothing (ibv_create_qp(3)).
        let none = QpCap { max_recv_wr: 0, max_recv_sge: 0, ..init.cap };
        let c = if init.srq.is_some() { &none } else { &init.cap };
        let caps = [
            (Field::MaxSendWr, c.max_send_wr, l.max_qp_wr),
            (Field::MaxRecvWr, c.max_recv_wr, l.max_qp_wr),
            (Field::MaxSendSge, c.max_send_sge, l.max_sge),
            (Field::MaxRecvSge, c.max_recv_sge, l.max_sge),
            (Field::MaxInlineData, c.max_inline_data, l.inline_of(init.qp_type)),
        ];
        if let Some((what, offered, limit)) = caps.into_iter().find(|(_, offered, limit)| offered > limit) {
            return Err(Rule::CapAboveLimit { what, offered, limit, qp_type: init.qp_type });
        }
        let held = self.qp_count();
        if held >= l.max_qp.into() {
            let limit = l.max_qp.into();
            return Err(Rule::LimitReached { kind: ObjectKind::Qp, limit, held });
        }
        Ok(())
    }

    /// The QPs there are.
    #[must_use]
    pub fn qp_count(&self) -> u64 {
        u64::from(self.qps.len()) - self.free_slots.len() as u64
    }

    /// Connects a work queue with its CQ.
    fn report(&mut self, handle: u32) -> Option<Report> {
        let entry = self.cqs.get_mut(handle)?;
        entry.users += 1;
        Some(Report::new(entry.queue.clone(), handle))
    }

    /// Modifies a QP: checks, writes the context, lets the device load it.
    ///
    /// # Errors
    /// The first rule that is broken; then nothing has changed.
    pub fn modify_qp<W: World>(
        &mut self,
        world: &mut W,
        qpn: u32,
        mask: AttrMask,
        attr: &QpAttr,
        now: u64,
    ) -> Result<(), Refusal> {
        let Some(slot) = self.qpns.slot(qpn) else {
            let rule = Rule::BadHandle { kind: ObjectKind::Qp, handle: qpn };
            return Err(self.refuse(now, Call::ModifyQp, Some(qpn), rule));
        };
        let (from, checked) = {
            let Some(entry) = self.qps.get(slot) else {
                let rule = Rule::BadHandle { kind: ObjectKind::Qp, handle: qpn };
                return Err(self.refuse(now, Call::ModifyQp, Some(qpn), rule));
            };
            let current = entry.qp.attr();
            let qp_type = entry.qp.qp_type();
            let from = entry.qp.state();
            let checked = self.runs().and_then(|()| self.check_manners(qp_type, from, mask, attr));
            (from, checked.and_then(|()| self.with_facts(|f| check_modify(f, qp_type, &current, mask, attr))))
        };
        let to = if mask.contains(AttrMask::STATE) { attr.qp_state } else { from };
        if let Err(rule) = checked {
            let refusal = Refusal::on_qp(Call::ModifyQp, qpn, rule).moving(from, to);
            return Err(self.ledger.refuse(now, Some(slot), refusal));
        }
        self.ledger.keep(now, CommandOpcode::ModifyQp, qpn, 0, &modify_body(mask, attr, from, to));
        if let Some(before) = self.ledger.context(slot) {
            self.ledger.changes(slot, before);
        }
        self.begin_lag(slot, now);
        let active_mtu = self.port.active_mtu;
        let idle = self.run_qp(world, slot, now, |qp, env, sq| {
            // A datagram's limit is the port's MTU as it is now: a program cannot set it.
            if qp.qp_type() == QpType::Ud && to == QpState::Rtr {
                let attr = QpAttr { path_mtu: active_mtu, ..*attr };
                qp.modify(env, sq, mask | AttrMask::PATH_MTU, &attr);
            } else {
                qp.modify(env, sq, mask, attr);
            }
            if qp.state() == QpState::Reset {
                env.shared.lock_rq().reset();
            }
            qp.is_idle(sq)
        });
        if to == QpState::Reset {
            self.renew_reports(slot);
        }
        self.write_context(slot, true);
        let block = Block::new(self.ledger.memory.clone(), slot);
        let modifies = (block.get(Driver::Modifies) as u32).wrapping_add(1);
        block.store_pair(Driver::Qpn, qpn, to.value());
        block.store(Driver::ModifiedNs, now);
        block.store_pair(Driver::ModifiedBy, self.ledger.caller().thread, modifies);
        if let Some(entry) = self.qps.get(slot) {
            let given = entry.qp.attr();
            block.store_pair(Driver::SqPsn, given.sq_psn, given.rq_psn);
        }
        if !idle.is_some_and(|(idle, _)| idle) {
            self.make_ready(slot);
        }
        Ok(())
    }

    /// Queries a QP, checks that it is in the state that the caller expects, and modifies it, with nobody in between.
    ///
    /// The state is that of the device, also where its context is written back late.
    ///
    /// # Errors
    /// Another state ([`Rule::StateMismatch`]), and as [`Nic::modify_qp`]; then nothing has changed.
    pub fn safe_modify_qp<W: World>(
        &mut self,
        world: &mut W,
        qpn: u32,
        expected: QpState,
        (mask, attr): (AttrMask, &QpAttr),
        now: u64,
    ) -> Result<(), Refusal> {
        self.query_qp(qpn, AttrMask::STATE, now)?;
        let entry = self.qpns.slot(qpn).and_then(|slot| self.qps.get(slot));
        let actual = entry.map_or(expected, |entry| entry.qp.state());
        if actual != expected {
            let to = if mask.contains(AttrMask::STATE) { attr.qp_state } else { actual };
            let rule = Rule::StateMismatch { given: expected, actual };
            let refusal = Refusal::on_qp(Call::SafeModify, qpn, rule).moving(actual, to);
            return Err(self.ledger.refuse(now, self.qpns.slot(qpn), refusal));
        }
        self.modify_qp(world, qpn, mask, attr, now)
    }

    /// What this device refuses although others do not.
    fn check_manners(
        &self,
        qp_type: QpType,
        from: QpState,
        mask: AttrMask,
        attr: &QpAttr,
    ) -> Result<(), Rule> {
        let again = from == QpState::Reset && attr.qp_state == QpState::Reset;
        if self.limits.reset_to_reset || !mask.contains(AttrMask::STATE) || !again {
            return Ok(());
        }
        let at = Transition { qp_type, from, to: QpState::Reset };
        let others = reachable(qp_type, from).iter().filter(|state| *state != QpState::Reset);
        Err(Rule::NotListedTransition { at, reachable: others.fold(StateSet::default(), StateSet::with) })
    }

    /// After RESET the queues start afresh: what their old life left in the CQs goes.
    fn renew_reports(&mut self, slot: u32) {
        let Some(entry) = self.qps.get_mut(slot) else { return };
        entry.send.detach();
        entry.recv.detach_from(entry.shared.srq());
        let block = &entry.shared.block;
        for field in [Driver::SqPosted, Driver::SqReleased, Driver::RqPosted, Driver::RqReleased] {
            block.store(field, 0);
        }
        entry.counters = None;
    }

    /// Queries a QP: attributes as they are now, PSNs included.
    ///
    /// # Errors
    /// Bad number.
    pub fn query_qp(&mut self, qpn: u32, mask: AttrMask, now: u64) -> Result<QpAttr, Refusal> {
        let found = self.qpns.slot(qpn).and_then(|slot| self.qps.get(slot));
        let Some(entry) = found else {
            let rule = Rule::BadHandle { kind: ObjectKind::Qp, handle: qpn };
            return Err(self.refuse(now, Call::QueryQp, Some(qpn), rule));
        };
        if let Err(rule) = self.runs() {
            return Err(self.refuse(now, Call::QueryQp, Some(qpn), rule));
        }
        let early = entry.lag.as_deref().filter(|lag| now < lag.until_ns);
        if early.is_some() {
            let block = &entry.shared.block;
            let count = block.get(Driver::EarlyQueries) as u32;
            block.store_pair(Driver::EarlyQueries, count.wrapping_add(1), 0);
        }
        let attr = early.map_or_else(|| attributes(entry), |lag| lag.attr);
        let state = attr.qp_state;
        let (sq_used, rq_used) = entry.shared.used();
        let body = QueryQp {
            attr_mask: mask.bits().into(),
            state: state.value() as u8,
            rq_psn: attr.rq_psn.into(),
            sq_psn: attr.sq_psn.into(),
            sq_used: sq_used.into(),
            rq_used: rq_used.into(),
            last_error: entry.qp.first_cause().map_or(0, |c| c.status.value()).into(),
            ..QueryQp::default()
        };
        entry.shared.block.store(Driver::QueriedNs, now);
        self.ledger.keep(now, CommandOpcode::QueryQp, qpn, 0, &body);
        Ok(attr)
    }

    /// Destroys a QP: its completions leave the CQs, its context goes back to the pool, its number rests.
    ///
    /// # Errors
    /// Bad number.
    pub fn destroy_qp(&mut self, qpn: u32, now: u64) -> Result<(), Refusal> {
        let taken = self.qpns.slot(qpn).and_then(|slot| Some((slot, self.qps.take(slot)?)));
        let Some((slot, mut entry)) = taken else {
            let rule = Rule::BadHandle { kind: ObjectKind::Qp, handle: qpn };
            return Err(self.refuse(now, Call::DestroyQp, Some(qpn), rule));
        };
        let body = destroy_body(&entry);
        entry.shared.set_destroyed();
        entry.send.detach();
        entry.recv.detach_from(entry.shared.srq());
        for report in [&entry.send, &entry.recv] {
            if let Some(cq) = self.cqs.get_mut(report.handle) {
                cq.users = cq.users.saturating_sub(1);
            }
        }
        if let Some(srq) = entry.shared.srq() {
            while let Some(receive) = entry.qp.take_held_receive() {
                srq.put_back(&receive);
            }
            if let Some(users) = self.srqs.get_mut(srq.handle) {
                users.qps = users.qps.saturating_sub(1);
            }
        }
        if let Some(pd) = self.pds.get_mut(entry.qp.pd()) {
            pd.qps = pd.qps.saturating_sub(1);
        }
        self.close_windows_of(qpn);
        self.qpns.release(qpn, now);
        self.free_slots.push_back(slot);
        let before = self.ledger.context(slot);
        if let Some(words) = self.ledger.memory.qpc(slot as usize) {
            Image::default().store(words, 0);
        }
        entry.shared.block.clear();
        self.ledger.keep(now, CommandOpcode::DestroyQp, qpn, entry.qp.pd(), &body);
        if let Some(before) = before {
            self.ledger.changes(slot, before);
        }
        Ok(())
    }
}

/// Runs `f` on a QP with the device around it, then does what its outcome asks for.
impl Nic {
    pub(crate) fn with_qp<W: World, T>(
        &mut self,
        world: &mut W,
        slot: u32,
        now: u64,
        f: impl FnOnce(&mut Qp, &mut Env<'_, W>, &mut glassnic_transport::SendQueue) -> T,
    ) -> Option<T> {
        let (out, moved) = self.run_qp(world, slot, now, f)?;
        if moved {
            self.write_context(slot, true);
        }
        Some(out)
    }

    /// As [`Nic::with_qp`], for callers that write the context themselves; says whether the state has moved,
    /// or the path.
    fn run_qp<W: World, T>(
        &mut self,
        world: &mut W,
        slot: u32,
        now: u64,
        f: impl FnOnce(&mut Qp, &mut Env<'_, W>, &mut glassnic_transport::SendQueue) -> T,
    ) -> Option<(T, bool)> {
        let entry = self.qps.get_mut(slot)?;
        let shared = entry.shared.clone();
        let before = (entry.qp.state(), entry.qp.path_mig_state());
        let mut sq = shared.lock_sq();
        entry.send.attach_sends(&mut sq, &shared.block);
        let mut env = Env {
            world,
            mrs: &mut self.mrs,
            memory: &self.ledger.memory,
            recorder: &self.ledger.recorder,
            port: &self.port,
            notifier: &*self.notifier,
            shared: &shared,
            send_report: &mut entry.send,
            recv_report: &mut entry.recv,
            counters: &mut entry.counters,
            now,
            turned_down: Cell::new(None),
            overrun: false,
            moderated: &mut self.moderated,
            silent: self.taken_down,
        };
        let out = f(&mut entry.qp, &mut env, &mut sq);
        if env.overrun && entry.qp.state() != QpState::Err {
            entry.qp.cq_overran(&mut env);
        }
        if let Some(access) = env.turned_down.take() {
            env.counters.get_or_insert_default().turned_down = Some(access);
            env.recorder.turned_down(now, shared.qpn, &access);
        }
        drop(sq);
        let after = (entry.qp.state(), entry.qp.path_mig_state());
        if after.0 != before.0 {
            shared.set_state(after.0);
        }
        let deadline = entry.qp.deadline();
        if let Some(at) = deadline
            && at < entry.armed
        {
            entry.armed = at;
            self.deadlines.push(std::cmp::Reverse((at, slot)));
        }
        Some((out, after != before))
    }
}

fn modify_body(mask: AttrMask, attr: &QpAttr, from: QpState, to: QpState) -> ModifyQp {
    let dest = if mask.contains(AttrMask::QKEY) { attr.qkey } else { attr.dest_qp_num };
    ModifyQp {
        attr_mask: mask.bits().into(),
        from_state: from.value() as u8,
        to_state: to.value() as u8,
        path_mtu: attr.path_mtu.value() as u8,
        timeout: attr.timeout,
        dest_qpn_or_qkey: dest.into(),
        rq_psn: attr.rq_psn.into(),
        sq_psn: attr.sq_psn.into(),
        dgid: attr.ah.dgid,
        access: attr.access.bits() as u8,
        max_rd_atomic: attr.max_rd_atomic,
        max_dest_rd_atomic: attr.max_dest_rd_atomic,
        min_rnr_timer: attr.min_rnr_timer,
        retry_cnt: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
        sgid_index: attr.ah.sgid_index,
        port_num: attr.port_num,
    }
}

/// What the context says at the end, as it is gone afterwards.
fn destroy_body(entry: &QpEntry) -> DestroyQp {
    let (sq_psn, rq_psn) = entry.qp.next_psns();
    let cause = entry.qp.first_cause();
    let sq = entry.shared.lock_sq();
    let driver = |field| entry.shared.block.get(field);
    let few = |field| u16::try_from(driver(field)).unwrap_or(u16::MAX);
    DestroyQp {
        state: entry.qp.state().value() as u8,
        sq_tail: sq.tail().into(),
        sq_head: sq.head().into(),
        sq_psn: sq_psn.value().into(),
        rq_psn: rq_psn.value().into(),
        msn: entry.qp.msn().into(),
        rq_tail: entry.shared.lock_rq().tail().into(),
        first_status: (cause.map_or(0, |c| c.status.value()) as u16).into(),
        first_check: (cause.map_or(0, |c| c.check.value()) as u16).into(),
        overlaps: few(Driver::Overlaps).into(),
        early_queries: few(Driver::EarlyQueries).into(),
        overlap_by: (driver(Driver::OverlapBy) as u32).into(),
        overlap_with: (driver(Driver::OverlapWith) as u32).into(),
        ..DestroyQp::default()
    }
}
