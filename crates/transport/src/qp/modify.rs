//! Modify: what a change of state does to the machine.

use glassnic_events::{AttrMask, Cause, Check, Event, FirstCause, QpState, WcStatus};
use glassnic_wire::Psn;

use super::Qp;
use crate::attr::{MigState, QpAttr};
use crate::device::Device;
use crate::held::Held;
use crate::queue::SendQueue;
use crate::requester::Requester;
use crate::responder::Responder;
use crate::state;

impl Qp {
    /// Applies a modify that [`state::check_transition`] and [`state::check_attrs`] have accepted.
    pub fn modify<D: Device>(&mut self, dev: &mut D, sq: &mut SendQueue, mask: AttrMask, attr: &QpAttr) {
        let from = self.state();
        let to = if mask.contains(AttrMask::STATE) { attr.qp_state } else { from };
        if to == QpState::Reset {
            self.reset(dev, sq);
        } else {
            let mut held = self.attr();
            let migrates = mask.contains(AttrMask::PATH_MIG_STATE)
                && held.path_mig_state == MigState::Armed
                && attr.path_mig_state == MigState::Migrated;
            state::apply(mask, attr, &mut held);
            self.keep(&held);
            self.load(mask);
            if migrates {
                self.migrate(dev);
            }
            if mask.contains(AttrMask::PATH_MIG_STATE)
                && let Some(few) = &mut self.few
            {
                few.refused_migration = false;
            }
        }
        if to == QpState::Err && from != QpState::Err {
            self.req.stop();
            self.resp.enter_error();
            self.resp.drop_answers();
            self.resp.flush = true;
            if self.first_cause().is_none() {
                self.few.get_or_insert_default().first_cause = Some(FirstCause {
                    wr_id: None,
                    psn: None,
                    status: WcStatus::WrFlushErr,
                    check: Check::ModifiedToErr,
                });
            }
        }
        if to == QpState::Sqd && from != QpState::Sqd {
            self.req.drained = false;
            // Asked for with each move, as mlx4 takes it: an earlier move's wish is no wish of this one.
            self.attr.en_sqd_async_notify &= mask.contains(AttrMask::EN_SQD_ASYNC_NOTIFY);
        }
        if to == QpState::Rts && from == QpState::Sqe {
            self.forget_first_cause();
        }
        self.enter(to);
        if from != to {
            dev.event(Event::StateMoved {
                qpn: self.config.qpn.value(),
                from,
                to,
                cause: Cause::Modify,
                wr_id: None,
            });
        }
    }

    /// The device loads from the context what `mask` says has changed.
    fn load(&mut self, mask: AttrMask) {
        if mask.contains(AttrMask::SQ_PSN) {
            self.req.next_psn = Psn::new(self.attr.sq_psn);
            self.req.una = self.req.next_psn;
            self.req.sent_end = self.req.next_psn;
            self.req.cursor.psn = self.req.next_psn;
        }
        if mask.contains(AttrMask::RQ_PSN) {
            self.resp.expected = Psn::new(self.attr.rq_psn);
        }
        if mask.contains(AttrMask::RETRY_CNT) {
            self.req.retry_left = self.attr.retry_cnt;
        }
        if mask.contains(AttrMask::RNR_RETRY) {
            self.req.rnr_left = self.attr.rnr_retry;
        }
        if mask.contains(AttrMask::MAX_DEST_RD_ATOMIC) {
            self.resp.set_depth(self.attr.max_dest_rd_atomic);
            if self.resp.saw_packet {
                self.resp.reserve();
            }
        }
    }

    fn reset<D: Device>(&mut self, dev: &mut D, sq: &mut SendQueue) {
        if self.config.srq
            && let Some(receive) = self.take_held_receive()
        {
            dev.put_back(receive);
        }
        self.attr = Held::default();
        self.req = Requester::default();
        self.resp = Responder::default();
        self.few = None;
        sq.reset();
    }
}
