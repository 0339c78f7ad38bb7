//! The attributes of a queue pair, as `ibv_modify_qp(3)` sets and `ibv_query_qp(3)` reports them.
//!
//! One plain structure for what a program offers and for what a queue pair holds. Numbers that C leaves open
//! (`path_mtu`, states, flags) are types here, so that a value that exists is a value that can be used; the C
//! boundary turns numbers into them with `TryFrom` and refuses the rest.

use glassnic_events::{QpState, Unknown};

/// All attributes of `struct ibv_qp_attr`. The default is that of a queue pair in RESET.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpAttr {
    /// State to move to; in a query, the state it is in.
    pub qp_state: QpState,
    /// State that the program believes the queue pair to be in.
    pub cur_qp_state: QpState,
    /// Greatest payload of one packet.
    pub path_mtu: Mtu,
    /// State of path migration.
    pub path_mig_state: MigState,
    /// Queue key that incoming datagrams must carry.
    pub qkey: u32,
    /// Sequence number expected next from the peer, 24 bits.
    pub rq_psn: u32,
    /// Sequence number to send next, 24 bits.
    pub sq_psn: u32,
    /// The peer's queue pair number, 24 bits.
    pub dest_qp_num: u32,
    /// What the peer may do to our memory by this queue pair.
    pub access: AccessFlags,
    /// Sizes of the queues.
    pub cap: QpCap,
    /// The way to the peer.
    pub ah: AddressVector,
    /// The alternate way.
    pub alt_ah: AddressVector,
    /// Index of the partition key.
    pub pkey_index: u16,
    /// Index of the alternate partition key.
    pub alt_pkey_index: u16,
    /// Tell the program when SQD has drained.
    pub en_sqd_async_notify: bool,
    /// The send queue is still draining (query only).
    pub sq_draining: bool,
    /// Reads and atomics that we may have outstanding.
    pub max_rd_atomic: u8,
    /// Reads and atomics that the peer may have outstanding.
    pub max_dest_rd_atomic: u8,
    /// Code of the time a peer shall wait when no receive is posted: IBA table 47, 0 to 31.
    pub min_rnr_timer: u8,
    /// The port, from 1.
    pub port_num: u8,
    /// Code of the acknowledgement timeout: 4.096 µs · 2^timeout; 0 waits for ever.
    pub timeout: u8,
    /// Times to send again when no acknowledgement comes, 0 to 7.
    pub retry_cnt: u8,
    /// Times to send again when the peer is not ready, 0 to 6; 7 means without end.
    pub rnr_retry: u8,
    /// Port of the alternate path.
    pub alt_port_num: u8,
    /// Timeout of the alternate path.
    pub alt_timeout: u8,
    /// Pacing of raw packets, in kbit/s; 0 means unlimited.
    pub rate_limit: u32,
}

/// Sizes of a queue pair's queues: `struct ibv_qp_cap`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpCap {
    /// Requests that the send queue holds.
    pub max_send_wr: u32,
    /// Requests that the receive queue holds.
    pub max_recv_wr: u32,
    /// Scatter/gather entries of a send.
    pub max_send_sge: u32,
    /// Scatter/gather entries of a receive.
    pub max_recv_sge: u32,
    /// Bytes that can be sent inline.
    pub max_inline_data: u32,
}

/// The way to a peer: `struct ibv_ah_attr` with its global route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressVector {
    /// There is a global route: the GIDs mean something. Always so on RoCE.
    pub is_global: bool,
    /// Our GID, by index into the port's table.
    pub sgid_index: u8,
    /// The peer's GID, in network order.
    pub dgid: [u8; 16],
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit; 0 leaves the choice to the link.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Local identifier of the peer; means nothing on RoCE.
    pub dlid: u16,
    /// Service level.
    pub sl: u8,
    /// Low bits of our local identifier; means nothing on RoCE.
    pub src_path_bits: u8,
    /// Greatest rate, as `enum ibv_rate`.
    pub static_rate: u8,
    /// The port, from 1.
    pub port_num: u8,
}

bitflags::bitflags! {
    /// What may be done to memory. Bits of `enum ibv_access_flags`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct AccessFlags: u32 {
        /// We may write to it: receives, reads and atomics may land there.
        const LOCAL_WRITE = 1 << 0;
        /// The peer may write to it.
        const REMOTE_WRITE = 1 << 1;
        /// The peer may read from it.
        const REMOTE_READ = 1 << 2;
        /// The peer may do atomics on it.
        const REMOTE_ATOMIC = 1 << 3;
        /// Memory windows may be bound to it.
        const MW_BIND = 1 << 4;
        /// Addresses in requests count from its start.
        const ZERO_BASED = 1 << 5;
        /// Page it in on demand.
        const ON_DEMAND = 1 << 6;
        /// It lies in huge pages.
        const HUGETLB = 1 << 7;
        /// The peer may flush it so that it is visible to all.
        const FLUSH_GLOBAL = 1 << 8;
        /// The peer may flush it so that it outlives power loss.
        const FLUSH_PERSISTENT = 1 << 9;
        /// Writes may pass each other.
        const RELAXED_ORDERING = 1 << 20;
    }
}

impl AccessFlags {
    /// Flags that a device may ignore if it does not know them (`IBV_ACCESS_OPTIONAL_RANGE`).
    pub const OPTIONAL_RANGE: u32 = 0x3ff0_0000;
    /// Flags by which a peer may flush the memory.
    pub const FLUSH: Self = Self::FLUSH_GLOBAL.union(Self::FLUSH_PERSISTENT);
    /// Flags by which a peer may change the memory; they need [`AccessFlags::LOCAL_WRITE`] too.
    pub const REMOTE_CHANGES: Self = Self::REMOTE_WRITE.union(Self::REMOTE_ATOMIC);
}

/// Greatest payload of one packet. Numbers of `enum ibv_mtu`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Mtu {
    /// 256 bytes.
    #[default]
    M256 = 1,
    /// 512 bytes.
    M512 = 2,
    /// 1024 bytes.
    M1024 = 3,
    /// 2048 bytes.
    M2048 = 4,
    /// 4096 bytes.
    M4096 = 5,
}

impl Mtu {
    /// Every value, rising.
    pub const ALL: [Self; 5] = [Self::M256, Self::M512, Self::M1024, Self::M2048, Self::M4096];

    /// Its number in `enum ibv_mtu`.
    pub const fn value(self) -> u32 {
        self as u32
    }

    /// The payload in bytes.
    pub const fn bytes(self) -> u32 {
        128 << self as u32
    }

    /// The greatest value whose payload is at most `bytes`; `None` below 256.
    pub fn at_most(bytes: u32) -> Option<Self> {
        Self::ALL.into_iter().rev().find(|mtu| mtu.bytes() <= bytes)
    }
}

impl TryFrom<u32> for Mtu {
    type Error = Unknown;

    fn try_from(value: u32) -> Result<Self, Unknown> {
        Self::ALL.into_iter().find(|mtu| mtu.value() == value).ok_or(Unknown { kind: "Mtu", value })
    }
}

/// State of path migration. Numbers of `enum ibv_mig_state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MigState {
    /// On the path in use; where a queue pair begins.
    #[default]
    Migrated = 0,
    /// The alternate path is being loaded.
    Rearm = 1,
    /// Ready to change to the alternate path.
    Armed = 2,
}

impl TryFrom<u32> for MigState {
    type Error = Unknown;

    fn try_from(value: u32) -> Result<Self, Unknown> {
        match value {
            0 => Ok(Self::Migrated),
            1 => Ok(Self::Rearm),
            2 => Ok(Self::Armed),
            _ => Err(Unknown { kind: "MigState", value }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mtu_numbers_are_those_of_verbs() {
        let pairs = Mtu::ALL.map(|mtu| (mtu.value(), mtu.bytes()));
        assert_eq!(pairs, [(1, 256), (2, 512), (3, 1024), (4, 2048), (5, 4096)]);
        for mtu in Mtu::ALL {
            assert_eq!(Mtu::try_from(mtu.value()), Ok(mtu));
        }
        assert_eq!(Mtu::try_from(0), Err(Unknown { kind: "Mtu", value: 0 }));
        assert_eq!(Mtu::try_from(6), Err(Unknown { kind: "Mtu", value: 6 }));
    }

    #[test]
    fn an_mtu_fits_under_a_number_of_bytes() {
        assert_eq!(Mtu::at_most(255), None);
        assert_eq!(Mtu::at_most(256), Some(Mtu::M256));
        assert_eq!(Mtu::at_most(1500 - 76), Some(Mtu::M1024));
        assert_eq!(Mtu::at_most(u32::MAX), Some(Mtu::M4096));
    }

    #[test]
    fn migration_states_are_those_of_verbs() {
        for (value, state) in [(0, MigState::Migrated), (1, MigState::Rearm), (2, MigState::Armed)] {
            assert_eq!(MigState::try_from(value), Ok(state));
            assert_eq!(state as u32, value);
        }
        assert!(MigState::try_from(3).is_err());
    }
}
