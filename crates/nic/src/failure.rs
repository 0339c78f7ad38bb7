//! Why a QP failed, for the program that sees only a completion status.

use glassnic_events::{Failure, Gid, PathAttrs};
use glassnic_transport::timing;

use crate::device::{Nic, QpEntry};

impl Nic {
    /// The first cause of a QP's error with what surrounds it.
    #[must_use]
    pub fn failure(&self, qpn: u32) -> Option<Failure> {
        let entry = self.qpns.slot(qpn).and_then(|slot| self.qps.get(slot))?;
        Some(Failure {
            qpn,
            state: entry.qp.state(),
            cause: *entry.qp.first_cause()?,
            path: path(entry),
            access: entry.counters.as_ref().and_then(|counters| counters.turned_down),
            peer: None,
        })
    }

    /// The same, once in a life of the QP from RESET on.
    pub fn take_failure(&mut self, qpn: u32) -> Option<Failure> {
        let failure = self.failure(qpn)?;
        let slot = self.qpns.slot(qpn)?;
        let counters = &mut self.qps.get_mut(slot)?.counters;
        (!std::mem::replace(&mut counters.get_or_insert_default().told, true)).then_some(failure)
    }
}

/// Where a connected QP sends to; `None` before RTR.
fn path(entry: &QpEntry) -> Option<PathAttrs> {
    let attr = entry.qp.attr();
    if !entry.qp.qp_type().is_connected() || attr.ah.dgid == [0; 16] {
        return None;
    }
    Some(PathAttrs {
        dgid: Gid(attr.ah.dgid),
        sgid_index: attr.ah.sgid_index,
        path_mtu: attr.path_mtu.bytes(),
        dest_qp_num: attr.dest_qp_num,
        timeout: attr.timeout,
        ack_timeout_ns: timing::ack_timeout_ns(attr.timeout),
        retry_cnt: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
    })
}
