//! The engine: what makes QPs run.

use std::cmp::Reverse;

use glassnic_events::{DropReason, Event};
use glassnic_transport::{Incoming, Progress};

use crate::device::Nic;
use crate::world::World;

/// Descriptors that one QP may send before the next has its turn.
const TURN: u32 = 64;

impl Nic {
    /// Takes a packet. Answers leave with the next [`Nic::progress`].
    pub fn handle_packet<W: World>(&mut self, world: &mut W, now: u64, inc: &Incoming<'_>) {
        let qpn = inc.headers.bth.dest_qp.value();
        if self.taken_down {
            let (qpn, psn) = (Some(qpn), Some(inc.headers.bth.psn.value()));
            self.ledger.event(now, &Event::PacketDropped { qpn, psn, reason: DropReason::LinkError });
            return;
        }
        let Some(slot) = self.qpns.slot(qpn) else {
            let (qpn, psn) = (Some(qpn), Some(inc.headers.bth.psn.value()));
            self.ledger.event(now, &Event::PacketDropped { qpn, psn, reason: DropReason::UnknownQp });
            return;
        };
        self.with_qp(world, slot, now, |qp, env, sq| qp.handle_packet(env, sq, now, inc));
        self.make_ready(slot);
    }

    /// Does what is due: posted work, answers, timers. True if more could be done at once, or would be if the
    /// links had room.
    pub fn progress<W: World>(&mut self, world: &mut W, now: u64) -> bool {
        self.run(world, now, false)
    }

    /// Like [`Nic::progress`], but acknowledgements that may wait leave with the next call: for whoever is about to hand
    /// the application what came, and expects it back at once with an answer or to look again.
    pub fn progress_but_acks<W: World>(&mut self, world: &mut W, now: u64) -> bool {
        self.run(world, now, true)
    }

    fn run<W: World>(&mut self, world: &mut W, now: u64, acks_wait: bool) -> bool {
        self.expire(world, now);
        self.raise_held_events(now);
        let memory = self.ledger.memory.clone();
        memory.bells().take(|slot| self.make_ready(slot));
        for _ in 0..self.ready.len() {
            let Some(slot) = self.ready.pop_front() else { break };
            if let Some(entry) = self.qps.get_mut(slot) {
                entry.ready = false;
                entry.ack_waits = acks_wait && !entry.ack_waits && entry.qp.owes_only_ack();
                if entry.ack_waits {
                    self.make_ready(slot);
                    continue;
                }
            }
            let mut budget = TURN;
            let more = self.with_qp(world, slot, now, |qp, env, sq| qp.transmit(env, sq, now, &mut budget));
            self.write_context(slot, false);
            if more == Some(Progress::More) {
                self.make_ready(slot);
            }
        }
        !self.ready.is_empty() || self.ledger.memory.bells().is_ringing()
    }

    /// True if there is work that waits for nothing but a call of [`Nic::progress`].
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.ready.is_empty() || self.ledger.memory.bells().is_ringing()
    }

    /// When [`Nic::progress`] must be called at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        let heaps = [&self.deadlines, &self.moderated];
        heaps.into_iter().filter_map(|heap| heap.peek()).map(|Reverse((at, _))| *at).min()
    }

    pub(crate) fn make_ready(&mut self, slot: u32) {
        if let Some(entry) = self.qps.get_mut(slot)
            && !entry.ready
        {
            entry.ready = true;
            self.ready.push_back(slot);
        }
    }

    /// Runs the timers that are due. An entry of the heap is a reminder to look, no more: the QP's own deadline
    /// may have moved on since.
    fn expire<W: World>(&mut self, world: &mut W, now: u64) {
        while let Some(Reverse((at, slot))) = self.deadlines.peek().copied() {
            if at > now {
                return;
            }
            self.deadlines.pop();
            self.end_lag(slot, now);
            let Some(entry) = self.qps.get_mut(slot) else { continue };
            if entry.armed == at {
                entry.armed = u64::MAX;
            }
            if entry.qp.deadline().is_some_and(|d| d <= now) {
                self.with_qp(world, slot, now, |qp, env, sq| qp.handle_timeout(env, sq, now));
                self.make_ready(slot);
            } else {
                self.with_qp(world, slot, now, |_, _, _| ());
            }
        }
    }
}
