//! A device that writes its contexts back late: what queries and inspectors see in the meantime.
//!
//! The device acts on a modify at once. Only its context memory lags, as on hardware that keeps contexts in a cache.

use std::cmp::Reverse;

use glassnic_transport::attr::QpAttr;

use crate::device::{Lag, Nic, QpEntry};

/// The attributes of a QP as they are now, PSNs included.
pub(crate) fn attributes(entry: &QpEntry) -> QpAttr {
    let (sq_psn, rq_psn) = entry.qp.next_psns();
    QpAttr { sq_psn: sq_psn.value(), rq_psn: rq_psn.value(), cap: entry.shared.cap, ..entry.qp.attr() }
}

impl Nic {
    /// A modify begins: until it is written back, what is there now is what is seen.
    pub(crate) fn begin_lag(&mut self, slot: u32, now: u64) {
        let delay = self.limits.write_back_ns;
        let Some(entry) = self.qps.get_mut(slot) else { return };
        if delay == 0 {
            return;
        }
        let until_ns = now.saturating_add(delay);
        let attr = match &entry.lag {
            Some(lag) if now < lag.until_ns => lag.attr,
            _ => attributes(entry),
        };
        entry.lag = Some(Box::new(Lag { until_ns, attr }));
        self.deadlines.push(Reverse((until_ns, slot)));
    }

    /// True while the context of a slot is not to be written.
    pub(crate) fn lags(&self, slot: u32) -> bool {
        self.qps.get(slot).is_some_and(|entry| entry.lag.is_some())
    }

    /// Writes back what is due.
    pub(crate) fn end_lag(&mut self, slot: u32, now: u64) {
        let Some(entry) = self.qps.get_mut(slot) else { return };
        if entry.lag.take_if(|lag| lag.until_ns <= now).is_some() {
            self.write_context(slot, true);
        }
    }
}
