//! Work queue elements and completions, in the terms of `ibv_post_send(3)` and `ibv_poll_cq(3)`.

use arrayvec::ArrayVec;
use bitflags::bitflags;
use glassnic_events::{WcOpcode, WcStatus, WrOpcode};
use glassnic_wire::psn::{Psn, Qpn};

use crate::attr::{AccessFlags, AddressVector};

/// Most scatter/gather elements a work request may have on any QP of this device.
pub const MAX_SGE: usize = 32;

/// Longest message, in bytes (IBA: `max_msg_sz`).
pub const MAX_MESSAGE: u64 = 1 << 31;

/// What the engine asks of an opcode.
pub(crate) trait Operation: Copy {
    /// True for the requests that have an answer of their own and count against `max_rd_atomic`: READs, atomics, FLUSH and
    /// ATOMIC WRITE.
    fn is_read_or_atomic(&self) -> bool;
    /// True for those of them whose answer lands in our memory.
    fn fetches(&self) -> bool;
    /// True for the two atomic operations.
    fn is_atomic(&self) -> bool;
    /// True for the operations on our own keys, which take no PSN and send no packet.
    fn is_local(&self) -> bool;
    /// The opcode its completion reports.
    fn wc_opcode(self) -> WcOpcode;
}

impl Operation for WrOpcode {
    fn is_read_or_atomic(&self) -> bool {
        self.fetches() || matches!(self, Self::Flush | Self::AtomicWrite)
    }

    fn fetches(&self) -> bool {
        matches!(self, Self::RdmaRead) || self.is_atomic()
    }

    fn is_atomic(&self) -> bool {
        matches!(self, Self::AtomicCmpAndSwp | Self::AtomicFetchAndAdd)
    }

    fn is_local(&self) -> bool {
        matches!(self, Self::LocalInv | Self::BindMw)
    }

    fn wc_opcode(self) -> WcOpcode {
        match self {
            Self::RdmaWrite | Self::RdmaWriteWithImm => WcOpcode::RdmaWrite,
            Self::RdmaRead => WcOpcode::RdmaRead,
            Self::AtomicCmpAndSwp => WcOpcode::CompSwap,
            Self::AtomicFetchAndAdd => WcOpcode::FetchAdd,
            Self::LocalInv => WcOpcode::LocalInv,
            Self::BindMw => WcOpcode::BindMw,
            Self::Flush => WcOpcode::Flush,
            Self::AtomicWrite => WcOpcode::AtomicWrite,
            _ => WcOpcode::Send,
        }
    }
}

bitflags! {
    /// `ibv_send_flags`, with the values of `verbs.h`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct SendFlags: u32 {
        /// Wait for all earlier reads and atomics.
        const FENCE = 1 << 0;
        /// Complete with a CQE although the QP does not signal all.
        const SIGNALED = 1 << 1;
        /// Raise a solicited event at the receiver.
        const SOLICITED = 1 << 2;
        /// The payload was copied into the work request.
        const INLINE = 1 << 3;
    }
}

bitflags! {
    /// `ibv_wc_flags`, with the values of `verbs.h`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct WcFlags: u32 {
        /// The first 40 bytes of the receive hold a GRH.
        const GRH = 1 << 0;
        /// `imm` holds immediate data.
        const WITH_IMM = 1 << 1;
        /// `imm` holds the key that was invalidated.
        const WITH_INV = 1 << 3;
    }
}

/// A scatter/gather element (`ibv_sge`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Sge {
    /// Start, in the address space of the memory region.
    pub addr: u64,
    /// Length in bytes.
    pub length: u32,
    /// Local key of the memory region.
    pub lkey: u32,
}

/// Where a UD work request goes.
#[derive(Clone, Copy, Debug, Default)]
pub struct UdDest {
    /// The address handle's vector.
    pub av: AddressVector,
    /// Destination QP number.
    pub qpn: Qpn,
    /// Q_Key; with the top bit set, the QP's own is sent instead (IBA C10-15).
    pub qkey: u32,
}

/// A send work request as it is posted.
#[derive(Clone, Copy, Debug)]
pub struct SendRequest {
    /// Given back in the completion.
    pub wr_id: u64,
    /// The operation.
    pub opcode: WrOpcode,
    /// Flags.
    pub flags: SendFlags,
    /// Immediate data (the 32-bit value whose big-endian form goes on the wire), or the key to invalidate.
    pub imm: u32,
    /// Remote address (WRITE, READ, atomics).
    pub remote_addr: u64,
    /// Remote key.
    pub rkey: u32,
    /// The value compared (COMPARE AND SWAP) or added (FETCH AND ADD).
    pub compare_add: u64,
    /// The value stored by COMPARE AND SWAP.
    pub swap: u64,
    /// Destination of a UD send.
    pub ud: UdDest,
}

impl Default for SendRequest {
    fn default() -> Self {
        Self {
            wr_id: 0,
            opcode: WrOpcode::Send,
            flags: SendFlags::empty(),
            imm: 0,
            remote_addr: 0,
            rkey: 0,
            compare_add: 0,
            swap: 0,
            ud: UdDest::default(),
        }
    }
}

/// What a request to bind a memory window asks for (`IBV_WR_BIND_MW`, `ibv_bind_mw(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindWindow {
    /// Handle of the window.
    pub window: u32,
    /// The rkey that it gets: the window's, with any low eight bits.
    pub rkey: u32,
    /// Handle of the region; 0 for none.
    pub region: u32,
    /// First address, as the region's owner knows it.
    pub addr: u64,
    /// Length in bytes; 0 unbinds a window of type 1.
    pub length: u64,
    /// Rights.
    pub access: AccessFlags,
}

impl SendRequest {
    /// A request to bind a window. It has no payload and no remote side, whose fields hold what it asks for.
    #[must_use]
    pub fn bind(wr_id: u64, flags: SendFlags, bind: &BindWindow) -> Self {
        Self {
            wr_id,
            flags,
            opcode: WrOpcode::BindMw,
            imm: bind.window,
            rkey: bind.rkey,
            remote_addr: bind.addr,
            compare_add: bind.length,
            swap: u64::from(bind.region) << 32 | u64::from(bind.access.bits()),
            ..Self::default()
        }
    }

    /// A request to flush `len` bytes of the peer's memory, or all of its region (`ibv_wr_flush`). `rights` are those of
    /// [`AccessFlags::FLUSH`].
    #[must_use]
    pub fn flush(rkey: u32, remote_addr: u64, len: u32, rights: AccessFlags, whole_region: bool) -> Self {
        let placement = rights.intersection(AccessFlags::FLUSH).bits() / AccessFlags::FLUSH_GLOBAL.bits();
        Self {
            opcode: WrOpcode::Flush,
            rkey,
            remote_addr,
            compare_add: len.into(),
            swap: u64::from(placement | u32::from(whole_region) << 4),
            ..Self::default()
        }
    }

    /// What a request made by [`SendRequest::bind`] asks for.
    #[must_use]
    pub fn bind_window(&self) -> BindWindow {
        BindWindow {
            window: self.imm,
            rkey: self.rkey,
            region: (self.swap >> 32) as u32,
            addr: self.remote_addr,
            length: self.compare_add,
            access: AccessFlags::from_bits_truncate(self.swap as u32),
        }
    }
}

/// A send work queue element: the request, and what the device noted on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendWqe {
    /// What was posted.
    pub req: SendRequest,
    /// Total payload in bytes.
    pub length: u32,
    /// Elements used of this slot's scatter/gather list.
    pub num_sge: u8,
    /// First PSN, once assigned.
    pub(crate) first_psn: Psn,
    /// PSNs it takes, once assigned.
    pub(crate) npsn: u32,
    /// READ: the next response expected.
    pub(crate) response_psn: Psn,
    /// READ and atomics: all of the answer has arrived. Operations on our own keys: carried out.
    pub(crate) done: bool,
}

/// The shared receive queue that a receive was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FromSrq {
    /// Its handle.
    pub handle: u32,
    /// Its protection domain, which the keys of its receives belong to (IBA 10.2.9.1).
    pub pd: u32,
}

/// A receive taken from a receive queue.
#[derive(Clone, Debug, Default)]
pub struct ReceiveWqe {
    /// Given back in the completion.
    pub wr_id: u64,
    /// The shared queue that it is of; `None` for one of the QP's own.
    pub srq: Option<FromSrq>,
    /// Where the message goes.
    pub sges: ArrayVec<Sge, MAX_SGE>,
}

impl ReceiveWqe {
    /// Bytes it can hold.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.sges.iter().map(|s| u64::from(s.length)).sum()
    }
}

/// A completion queue entry, before the device adds what it knows.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// Of the work request.
    pub wr_id: u64,
    /// How it ended.
    pub status: WcStatus,
    /// What it was. Valid only on success, as on hardware.
    pub opcode: WcOpcode,
    /// Bytes received, or read.
    pub byte_len: u32,
    /// Immediate data or invalidated key.
    pub imm: u32,
    /// Flags.
    pub flags: WcFlags,
    /// The local QP.
    pub qpn: Qpn,
    /// UD: the sender's QP.
    pub src_qp: Qpn,
    /// Slots of its work queue that become free when this is polled.
    pub releases: u32,
    /// The peer set the solicited bit.
    pub solicited: bool,
    /// UD: what kind of packet it was ([`packet_type`]); `ibv_wc.sl`.
    pub sl: u8,
    /// The number of the [`Check`](glassnic_events::Check) that failed (`ibv_wc.vendor_err`); 0 without a failure.
    pub vendor_err: u32,
}

/// What a UD receive says of its packet besides the GRH: which IP it had, below UDP (annex A17.4.5.1). Ethernet has no use
/// for the service level, so hardware puts it there; the values are those of ConnectX, which UCX asks for.
pub(crate) fn packet_type(src_gid: [u8; 16]) -> u8 {
    /// RoCEv2: there is a UDP header.
    const UDP: u8 = 8;
    UDP | if glassnic_wire::ip::ip_from_gid(src_gid).is_ipv4() { 2 } else { 1 }
}

impl Default for Completion {
    fn default() -> Self {
        Self {
            wr_id: 0,
            status: WcStatus::Success,
            opcode: WcOpcode::Send,
            byte_len: 0,
            imm: 0,
            flags: WcFlags::empty(),
            qpn: Qpn::default(),
            src_qp: Qpn::default(),
            releases: 0,
            solicited: false,
            sl: 0,
            vendor_err: 0,
        }
    }
}
