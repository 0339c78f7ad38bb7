//! A failure with what surrounds it: the first cause alone says which check failed, not with which values.

use crate::event::{Check, FirstCause};
use crate::qp::QpState;
use crate::rule::Gid;

/// A queue pair's first cause, with what its device knows around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The queue pair.
    pub qpn: u32,
    /// The state it is in now.
    pub state: QpState,
    /// What came first.
    pub cause: FirstCause,
    /// Where it was connected to, if it was.
    pub path: Option<PathAttrs>,
    /// The access that failed the check, if it was one to memory.
    pub access: Option<KeyAccess>,
    /// The other end as it is now, where it is a queue pair on this host.
    pub peer: Option<PeerState>,
}

/// The other end of a queue pair, as it is when this one has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerState {
    /// Its process.
    pub pid: u32,
    /// Its state; `None` if there is no such queue pair.
    pub state: Option<QpState>,
    /// The queue pair that it is connected to; 0 before RTR.
    pub dest_qp_num: u32,
    /// The PSN that it expects next.
    pub expected_psn: u32,
    /// Receives that it has ever posted since RESET.
    pub receives_posted: u32,
    /// For how long messages have found no receive, in nanoseconds; `None` while they do.
    pub empty_ns: Option<u64>,
}

/// The attributes of RTR and RTS that decide whether a peer is reached, and when it is given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathAttrs {
    /// `ah_attr.grh.dgid`.
    pub dgid: Gid,
    /// `ah_attr.grh.sgid_index`.
    pub sgid_index: u8,
    /// `path_mtu` in bytes.
    pub path_mtu: u32,
    /// `dest_qp_num`.
    pub dest_qp_num: u32,
    /// `timeout`, as coded.
    pub timeout: u8,
    /// The same in nanoseconds; `None` waits without end.
    pub ack_timeout_ns: Option<u64>,
    /// `retry_cnt`.
    pub retry_cnt: u8,
    /// `rnr_retry`.
    pub rnr_retry: u8,
}

impl PathAttrs {
    /// How long a silent peer goes unnoticed: the first try and `retry_cnt` more, in nanoseconds; `None` for ever.
    pub const fn detection_ns(&self) -> Option<u64> {
        match self.ack_timeout_ns {
            Some(timeout) => Some(timeout.saturating_mul(1 + self.retry_cnt as u64)),
            None => None,
        }
    }
}

/// An access to memory that a check turned down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyAccess {
    /// The check.
    pub check: Check,
    /// The key, local or remote.
    pub key: u32,
    /// First address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
    /// The protection domain of the queue pair.
    pub pd: u32,
    /// The region that the key names.
    pub region: Option<Region>,
}

/// A memory region, as a failed access meets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First address, as peers and work requests count.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// Its rights: bits of `enum ibv_access_flags`.
    pub access: u32,
    /// Its protection domain.
    pub pd: u32,
    /// The key is one of this region, but an lkey where an rkey is needed, or the reverse.
    pub other_key: bool,
}
