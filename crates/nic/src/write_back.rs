//! What a QP's context says: written back by the command interface, which writes all of it, and by the engine.

use crate::device::{Nic, QpEntry};
use crate::driver::Field as Driver;
use crate::env::Counters;
use crate::qpc::{Field as Qpc, Image};

impl Nic {
    /// Writes a QP's context back: all of it, or the lines that the engine changes.
    pub(crate) fn write_context(&self, slot: u32, all: bool) {
        if self.lags(slot) {
            return;
        }
        let Some(entry) = self.qps.get(slot) else { return };
        let Some(words) = self.ledger.memory.qpc(slot as usize) else { return };
        let mut image = Image::default();
        if all {
            fill_identity(&mut image, entry);
            fill_path(&mut image, entry);
        }
        fill_queues(&mut image, entry);
        image.store(words, if all { 0 } else { 2 });
    }
}

fn fill_identity(image: &mut Image, entry: &QpEntry) {
    let attr = entry.qp.attr();
    image.set(Qpc::Qpn, entry.shared.qpn.into());
    image.set(Qpc::QpType, entry.shared.qp_type.value().into());
    image.set(Qpc::State, entry.qp.state().value().into());
    image.set(Qpc::SqSigAll, entry.qp.sq_sig_all().into());
    image.set(Qpc::SqDraining, entry.qp.sq_draining().into());
    image.set(Qpc::Pd, entry.qp.pd().into());
    image.set(Qpc::SendCq, entry.send.handle.into());
    image.set(Qpc::RecvCq, entry.recv.handle.into());
    image.set(Qpc::Srq, entry.shared.srq().map_or(0, |srq| srq.handle.into()));
    image.set(Qpc::Access, attr.access.bits().into());
    image.set(Qpc::Qkey, attr.qkey.into());
    image.set(Qpc::CreatedNs, entry.shared.block.get(Driver::CreatedNs));
    if let Some(cause) = entry.qp.first_cause() {
        image.set(Qpc::FirstStatus, cause.status.value().into());
        image.set(Qpc::FirstCheck, cause.check.value().into());
        image.set(Qpc::FirstPsn, cause.psn.unwrap_or(0).into());
        image.set(Qpc::FirstWrId, cause.wr_id.unwrap_or(0));
    }
}

fn fill_path(image: &mut Image, entry: &QpEntry) {
    let attr = entry.qp.attr();
    image.set_dgid(attr.ah.dgid);
    image.set(Qpc::DestQpn, attr.dest_qp_num.into());
    image.set(Qpc::SgidIndex, attr.ah.sgid_index.into());
    image.set(Qpc::HopLimit, attr.ah.hop_limit.into());
    image.set(Qpc::TrafficClass, attr.ah.traffic_class.into());
    image.set(Qpc::Sl, attr.ah.sl.into());
    image.set(Qpc::FlowLabel, attr.ah.flow_label.into());
    image.set(Qpc::PathMtu, attr.path_mtu.value().into());
    image.set(Qpc::PortNum, attr.port_num.into());
    image.set(Qpc::PkeyIndex, attr.pkey_index.into());
    image.set(Qpc::Timeout, attr.timeout.into());
    image.set(Qpc::RetryCnt, attr.retry_cnt.into());
    image.set(Qpc::RnrRetry, attr.rnr_retry.into());
    image.set(Qpc::MinRnrTimer, attr.min_rnr_timer.into());
    image.set(Qpc::MaxRdAtomic, attr.max_rd_atomic.into());
    image.set(Qpc::MaxDestRdAtomic, attr.max_dest_rd_atomic.into());
    image.set(Qpc::MaxSendSge, entry.shared.cap.max_send_sge.into());
    image.set(Qpc::MaxRecvSge, entry.shared.cap.max_recv_sge.into());
    image.set(Qpc::PathMigState, attr.path_mig_state as u64);
    image.set(Qpc::AltSgidIndex, attr.alt_ah.sgid_index.into());
    image.set_gid(Qpc::AltDgid, attr.alt_ah.dgid);
    image.set(Qpc::MaxInline, entry.shared.cap.max_inline_data.into());
}

fn fill_queues(image: &mut Image, entry: &QpEntry) {
    let (sq_psn, rq_psn) = entry.qp.next_psns();
    let (retry, rnr) = entry.qp.retries_left();
    image.set(Qpc::NextPsn, sq_psn.value().into());
    image.set(Qpc::Unacknowledged, entry.qp.unacknowledged().value().into());
    image.set(Qpc::RetryLeft, retry.into());
    image.set(Qpc::RnrLeft, rnr.into());
    let none = Counters::default();
    let c = entry.counters.as_deref().unwrap_or(&none);
    image.set(Qpc::RnrReceived, c.rnr_received.into());
    image.set(Qpc::Timeouts, c.timeouts.into());
    image.set(Qpc::Retransmits, c.retransmits.into());
    image.set(Qpc::NaksReceived, c.naks_received.into());
    // Once the peer has taken that message, it is ready.
    let waits = c.rnr_psn == entry.qp.unacknowledged().value();
    image.set(Qpc::RnrSinceNs, if waits { c.rnr_since } else { 0 });
    image.set(Qpc::RnrSent, c.rnr_sent.into());
    image.set(Qpc::NaksSent, c.naks_sent.into());
    image.set(Qpc::Dropped, c.dropped.into());
    image.set(Qpc::LastDrop, c.last_drop.into());
    image.set(Qpc::EmptySinceNs, c.empty_since.unwrap_or(0));
    image.set(Qpc::ExpectedPsn, rq_psn.value().into());
    image.set(Qpc::Msn, entry.qp.msn().into());
    {
        let sq = entry.shared.lock_sq();
        image.set(Qpc::SqHead, sq.head().into());
        image.set(Qpc::SqTail, sq.tail().into());
        image.set(Qpc::SqUsed, sq.used().into());
        image.set(Qpc::SqDepth, sq.depth().into());
        image.set(Qpc::SqUnsignalled, sq.unreleased().into());
    }
    let rq = entry.shared.lock_rq();
    image.set(Qpc::RqPosted, rq.posted().into());
    image.set(Qpc::RqUsed, rq.used().into());
    image.set(Qpc::RqDepth, rq.depth().into());
    image.set(Qpc::RqTail, rq.tail().into());
}
