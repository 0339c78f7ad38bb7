//! What a QP needs of the device around it.

use glassnic_events::{AsyncEventType, Check, Event};
use glassnic_wire::opcode::Opcode;
use glassnic_wire::{Headers, Qpn, Service};

use crate::attr::{AccessFlags, AddressVector};
use crate::wqe::{BindWindow, Completion, ReceiveWqe};

/// A piece of memory that the device may touch, by address in its owner's address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Span {
    /// Host virtual address.
    pub addr: u64,
    /// Bytes.
    pub len: u32,
}

/// The payload of an outgoing descriptor.
#[derive(Clone, Copy, Debug)]
pub enum TxPayload<'a> {
    /// Bytes that belong to the descriptor itself (inline data).
    Bytes(&'a [u8]),
    /// Memory of this process, checked against its keys; it stays put until the peer has acknowledged.
    Spans(&'a [Span]),
}

impl TxPayload<'_> {
    /// Bytes in all.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(b) => b.len(),
            Self::Spans(s) => s.iter().map(|s| s.len as usize).sum(),
        }
    }

    /// No payload.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An outgoing packet descriptor: header fields and a reference to the payload.
#[derive(Clone, Copy, Debug)]
pub struct Tx<'a> {
    /// Where to.
    pub path: &'a AddressVector,
    /// The headers of the first packet. `pad` is set from the whole payload.
    pub headers: Headers,
    /// Consecutive packets of one message that this stands for; 1 unless [`Device::burst`] allowed more.
    pub npsn: u32,
    /// What it carries.
    pub payload: TxPayload<'a>,
}

/// The payload of an incoming descriptor.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// Bytes in hand.
    Bytes(&'a [u8]),
    /// Memory of the process `source`, which only [`Device::store`] can read.
    Spans {
        /// Whose memory; the device knows.
        source: u32,
        /// Where.
        spans: &'a [Span],
    },
}

impl Payload<'_> {
    /// Bytes in all.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(b) => b.len(),
            Self::Spans { spans, .. } => spans.iter().map(|s| s.len as usize).sum(),
        }
    }

    /// No payload.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An incoming packet, or several of one message.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// The sender's GID.
    pub src_gid: [u8; 16],
    /// The GID it was sent to.
    pub dst_gid: [u8; 16],
    /// Traffic class, flow label and hop limit, for the GRH of a UD receive.
    pub traffic_class: u8,
    /// See `traffic_class`.
    pub hop_limit: u8,
    /// Headers of the first packet.
    pub headers: Headers,
    /// How many packets it stands for.
    pub npsn: u32,
    /// What it carries.
    pub payload: Payload<'a>,
}

impl Incoming<'_> {
    /// The opcode.
    #[must_use]
    pub fn opcode(&self) -> Opcode {
        self.headers.bth.opcode
    }
}

/// The right that a remote request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteAccess {
    /// RDMA WRITE.
    Write,
    /// RDMA READ.
    Read,
    /// Atomics.
    Atomic,
    /// ATOMIC WRITE: the right of a WRITE, on a multiple of eight.
    Word,
}

/// Why a key does not open a piece of memory. The order is that of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFault {
    /// No memory region has this key.
    NoSuchKey,
    /// The key was invalidated or its region deregistered.
    Invalidated,
    /// The region belongs to another protection domain.
    OtherPd,
    /// The region does not grant the right.
    NoRight,
    /// The range leaves the region.
    OutOfBounds,
    /// The window is bound to another queue pair.
    OtherQp,
    /// The window is not bound.
    Unbound,
    /// The key is not one that may be invalidated in this way.
    NotInvalidatable,
    /// The address is not a multiple of eight (atomics).
    Misaligned,
    /// The memory cannot be reached (unmapped).
    Unmapped,
}

impl KeyFault {
    /// The failed check, where the key was a local one.
    #[must_use]
    pub fn local_check(self) -> Check {
        match self {
            Self::NoSuchKey | Self::Invalidated => Check::LkeyUnknown,
            Self::OtherPd => Check::LkeyPd,
            Self::NoRight | Self::Misaligned | Self::NotInvalidatable => Check::LkeyAccess,
            Self::OtherQp => Check::MwOtherQp,
            Self::Unbound => Check::MwUnbound,
            Self::OutOfBounds => Check::LkeyBounds,
            Self::Unmapped => Check::MemoryGone,
        }
    }

    /// The failed check, where the key was a remote one.
    #[must_use]
    pub fn remote_check(self) -> Check {
        match self {
            Self::NoSuchKey => Check::RkeyUnknown,
            Self::Invalidated => Check::RkeyInvalidated,
            Self::OtherPd => Check::RkeyPd,
            Self::NoRight => Check::RkeyAccess,
            Self::OutOfBounds => Check::RkeyBounds,
            Self::OtherQp => Check::MwOtherQp,
            Self::Unbound => Check::MwUnbound,
            Self::NotInvalidatable => Check::InvalidateRefused,
            Self::Misaligned => Check::AtomicUnaligned,
            Self::Unmapped => Check::MemoryGone,
        }
    }
}

/// An atomic operation on eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// Adds, and returns what was there.
    FetchAdd(u64),
    /// Stores (ATOMIC WRITE).
    Write(u64),
    /// Stores `swap` where `compare` is found; returns what was there.
    CmpSwap {
        /// Expected value.
        compare: u64,
        /// New value.
        swap: u64,
    },
}

impl AtomicOp {
    /// What it leaves where it finds `before`.
    #[must_use]
    pub fn apply(self, before: u64) -> u64 {
        match self {
            Self::FetchAdd(n) => before.wrapping_add(n),
            Self::Write(n) => n,
            Self::CmpSwap { compare, swap } if before == compare => swap,
            Self::CmpSwap { .. } => before,
        }
    }
}

/// What [`Device::take_receive`] found.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a receive is taken by value so that the queue's lock is held for a moment only; boxing it would allocate on the data path"
)]
pub enum Recv {
    /// A receive.
    Wqe(ReceiveWqe),
    /// Nothing is posted.
    Empty,
}

/// The device around a QP: keys and memory, receive queue, completion queues, the wire, the log.
///
/// Every method is called with the QP's own identity where rights depend on it.
pub trait Device {
    /// Checks a local key and gives the host address of `addr`.
    ///
    /// # Errors
    /// The first check that failed.
    fn local(&self, pd: u32, lkey: u32, addr: u64, len: u64, write: bool) -> Result<u64, KeyFault>;

    /// Checks a remote key and gives the host address of `addr`.
    ///
    /// # Errors
    /// The first check that failed.
    fn remote(
        &self,
        pd: u32,
        qpn: Qpn,
        rkey: u32,
        addr: u64,
        len: u64,
        access: RemoteAccess,
    ) -> Result<u64, KeyFault>;

    /// Invalidates a remote key on behalf of SEND with invalidate.
    ///
    /// # Errors
    /// If the key is not one that a peer may invalidate.
    fn invalidate(&mut self, pd: u32, qpn: Qpn, rkey: u32) -> Result<(), KeyFault>;

    /// Binds a memory window, or unbinds it.
    ///
    /// # Errors
    /// The first check that failed.
    fn bind(&mut self, pd: u32, qpn: Qpn, bind: &BindWindow) -> Result<(), Check>;

    /// Invalidates a key of our own (`IBV_WR_LOCAL_INV`).
    ///
    /// # Errors
    /// The first check that failed.
    fn invalidate_own(&mut self, pd: u32, qpn: Qpn, key: u32) -> Result<(), Check>;

    /// Copies `len` bytes of `payload`, from `offset`, to checked host address `to`.
    ///
    /// # Errors
    /// [`KeyFault::Unmapped`] if either side cannot be reached.
    fn store(&mut self, to: u64, payload: &Payload<'_>, offset: usize, len: usize) -> Result<(), KeyFault>;

    /// Makes what was written to a peer-named range, or to all of its region, visible to every reader.
    ///
    /// # Errors
    /// The first check that failed.
    fn flush(
        &mut self,
        pd: u32,
        qpn: Qpn,
        rkey: u32,
        range: Option<(u64, u64)>,
        rights: AccessFlags,
    ) -> Result<(), KeyFault>;

    /// Runs an atomic operation on checked, aligned host address `at`; returns the value before it.
    ///
    /// # Errors
    /// [`KeyFault::Unmapped`].
    fn atomic(&mut self, at: u64, op: AtomicOp) -> Result<u64, KeyFault>;

    /// Takes the oldest posted receive of the QP's receive queue, be it its own or shared.
    fn take_receive(&mut self) -> Recv;

    /// Gives a receive back to the shared queue that it was taken from: nothing has become of it, and the next message of
    /// whichever QP takes it.
    fn put_back(&mut self, receive: ReceiveWqe);

    /// Puts a completion on the send completion queue.
    fn complete_send(&mut self, c: Completion);

    /// Puts a completion on the receive completion queue.
    fn complete_recv(&mut self, c: Completion);

    /// How many packets of one message one descriptor to this path may stand for, at a path MTU of `mtu` bytes. An
    /// unreliable service completes when [`Device::transmit`] returns, so that the payload must have been copied by then; an
    /// acknowledged one leaves it where it lies until the peer has it.
    fn burst(&self, path: &AddressVector, dest: Qpn, service: Service, mtu: u32) -> u32;

    /// True if the link takes another descriptor of this many payload bytes now.
    fn room(&mut self, path: &AddressVector, dest: Qpn, service: Service, bytes: usize) -> bool;

    /// Sends. A descriptor that is lost on the way is an ordinary loss.
    fn transmit(&mut self, tx: &Tx<'_>);

    /// Logs.
    fn event(&mut self, e: Event);

    /// Raises an asynchronous event of this QP (`ibv_get_async_event(3)`).
    fn raise(&mut self, e: AsyncEventType);
}
