//! What the device can do at most, and its manners: a *profile*. What `ibv_query_device(3)` advertises is enforced.
//!
//! The default is a generous device. Others look like devices that people have, so that a program which leans on the
//! generosity of one is caught before it meets another. A profile is a flat table of these fields by name.

use glassnic_events::QpType;
use serde::{Deserialize, Serialize};

/// Limits and manners of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// QPs.
    pub max_qp: u32,
    /// Work requests on a queue.
    pub max_qp_wr: u32,
    /// Scatter/gather elements of a work request.
    pub max_sge: u32,
    /// Bytes that can be posted inline by RC and UC.
    pub max_inline: u32,
    /// Bytes that can be posted inline by UD.
    pub max_inline_ud: u32,
    /// CQs.
    pub max_cq: u32,
    /// Completions of a CQ.
    pub max_cqe: u32,
    /// Memory regions.
    pub max_mr: u32,
    /// Bytes of a memory region.
    pub max_mr_size: u64,
    /// Memory windows; with 0 the device has none.
    pub max_mw: u32,
    /// Memory windows of type 2 are 2A, checked by their queue pair alone; else 2B, by the protection domain too.
    pub mw_type_2a: bool,
    /// Bytes of device memory, in all; with 0 the device has none.
    pub max_dm_size: u64,
    /// Regions may page on demand.
    pub on_demand: bool,
    /// Protection domains.
    pub max_pd: u32,
    /// Address handles.
    pub max_ah: u32,
    /// Shared receive queues.
    pub max_srq: u32,
    /// Receives of a shared receive queue.
    pub max_srq_wr: u32,
    /// Scatter/gather elements of its receives.
    pub max_srq_sge: u32,
    /// Reads and atomics that a QP serves at once.
    pub max_qp_rd_atom: u8,
    /// Reads and atomics that a QP has outstanding at most.
    pub max_qp_init_rd_atom: u8,
    /// Bytes of the largest path MTU, whatever the interface carries.
    pub max_mtu: u32,
    /// It has reliable connections.
    pub rc: bool,
    /// It has unreliable connections.
    pub uc: bool,
    /// It has unreliable datagrams.
    pub ud: bool,
    /// It has atomics.
    pub atomics: bool,
    /// A QP's inline size is rounded up to a multiple of this; with 0 it is what was asked for, and 0 stays 0.
    pub inline_step: u32,
    /// A QP in RESET may be moved to RESET.
    pub reset_to_reset: bool,
    /// How long after a modify the device writes the context back, in nanoseconds: a query before that sees the old one.
    pub write_back_ns: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_qp: 131_072,
            max_qp_wr: 32_768,
            max_sge: glassnic_transport::wqe::MAX_SGE as u32,
            max_inline: 1024,
            max_inline_ud: 1024,
            max_cq: 65_536,
            max_cqe: 4_194_303,
            max_mr: 524_287,
            max_mr_size: 1 << 47,
            max_mw: 262_143,
            mw_type_2a: false,
            // As mlx5 has it.
            max_dm_size: 256 << 10,
            on_demand: true,
            max_pd: 32_768,
            max_ah: 65_536,
            max_srq: 65_536,
            max_srq_wr: 32_768,
            max_srq_sge: glassnic_transport::wqe::MAX_SGE as u32,
            // As many as Linux's soft-RoCE: programs (perftest) ask for as many as their peer's device serves.
            max_qp_rd_atom: 128,
            max_qp_init_rd_atom: 128,
            max_mtu: 4096,
            rc: true,
            uc: true,
            ud: true,
            atomics: true,
            inline_step: 0,
            reset_to_reset: true,
            write_back_ns: 0,
        }
    }
}

/// A field of a profile that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}={offered} is not possible; use {min} to {max}")]
pub struct BadLimit {
    /// Its name.
    pub field: &'static str,
    /// Its value.
    pub offered: u64,
    /// Least value.
    pub min: u64,
    /// Greatest value, which is the default's: a profile takes away, it cannot add.
    pub max: u64,
}

/// Longest write-back delay: beyond a minute nobody waits.
const WRITE_BACK_MAX_NS: u64 = 60_000_000_000;

impl Limits {
    /// Whether the device can be like this.
    ///
    /// # Errors
    /// The first field that is out of range.
    pub fn check(&self) -> Result<(), BadLimit> {
        let most = Self::default();
        let fields = [
            ("max_qp", self.max_qp.into(), 1, most.max_qp.into()),
            ("max_qp_wr", self.max_qp_wr.into(), 1, most.max_qp_wr.into()),
            ("max_sge", self.max_sge.into(), 1, most.max_sge.into()),
            ("max_inline", self.max_inline.into(), 0, most.max_inline.into()),
            ("max_inline_ud", self.max_inline_ud.into(), 0, most.max_inline_ud.into()),
            ("max_cq", self.max_cq.into(), 1, most.max_cq.into()),
            ("max_cqe", self.max_cqe.into(), 1, most.max_cqe.into()),
            ("max_mr", self.max_mr.into(), 1, most.max_mr.into()),
            ("max_mr_size", self.max_mr_size, 1, most.max_mr_size),
            ("max_mw", self.max_mw.into(), 0, most.max_mw.into()),
            ("max_dm_size", self.max_dm_size, 0, most.max_dm_size),
            ("max_pd", self.max_pd.into(), 1, most.max_pd.into()),
            ("max_ah", self.max_ah.into(), 1, most.max_ah.into()),
            ("max_srq", self.max_srq.into(), 0, most.max_srq.into()),
            ("max_srq_wr", self.max_srq_wr.into(), 0, most.max_srq_wr.into()),
            ("max_srq_sge", self.max_srq_sge.into(), 0, most.max_srq_sge.into()),
            ("max_qp_rd_atom", self.max_qp_rd_atom.into(), 0, most.max_qp_rd_atom.into()),
            ("max_qp_init_rd_atom", self.max_qp_init_rd_atom.into(), 0, most.max_qp_init_rd_atom.into()),
            ("max_mtu", self.max_mtu.into(), 256, most.max_mtu.into()),
            ("inline_step", self.inline_step.into(), 0, most.max_inline.into()),
            ("write_back_ns", self.write_back_ns, 0, WRITE_BACK_MAX_NS),
        ];
        match fields.into_iter().find(|(_, offered, min, max)| !(min..=max).contains(&offered)) {
            Some((field, offered, min, max)) => Err(BadLimit { field, offered, min, max }),
            None => Ok(()),
        }
    }

    /// Whether it has this service.
    #[must_use]
    pub fn serves(&self, qp_type: QpType) -> bool {
        match qp_type {
            QpType::Rc => self.rc,
            QpType::Uc => self.uc,
            QpType::Ud => self.ud,
            _ => false,
        }
    }

    /// Bytes that a QP of this type can post inline at most.
    #[must_use]
    pub fn inline_of(&self, qp_type: QpType) -> u32 {
        if qp_type == QpType::Ud { self.max_inline_ud } else { self.max_inline }
    }

    /// The inline size of a QP that asks for `asked`, which is within the limit.
    #[must_use]
    pub fn inline_granted(&self, qp_type: QpType, asked: u32) -> u32 {
        match self.inline_step {
            0 => asked,
            step => asked.max(1).next_multiple_of(step).min(self.inline_of(qp_type)).max(asked),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_takes_away_and_cannot_add() {
        assert_eq!(Limits::default().check(), Ok(()));
        let more = Limits { max_sge: 64, ..Limits::default() };
        assert_eq!(more.check().unwrap_err().to_string(), "max_sge=64 is not possible; use 1 to 32");
        assert!(Limits { max_mtu: 128, ..Limits::default() }.check().is_err());
    }

    #[test]
    fn an_inline_size_is_rounded_up_where_the_device_does_so() {
        let kept = Limits::default();
        assert_eq!((kept.inline_granted(QpType::Rc, 0), kept.inline_granted(QpType::Rc, 10)), (0, 10));
        let rounds = Limits { inline_step: 64, max_inline_ud: 100, ..Limits::default() };
        assert_eq!((rounds.inline_granted(QpType::Rc, 0), rounds.inline_granted(QpType::Rc, 65)), (64, 128));
        assert_eq!(rounds.inline_granted(QpType::Ud, 70), 100);
    }
}
