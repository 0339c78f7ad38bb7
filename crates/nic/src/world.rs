//! What the device needs of the world, and what it tells it.

use glassnic_events::AsyncEventType;
use glassnic_transport::attr::AddressVector;
use glassnic_transport::{AtomicOp, KeyFault, Payload, Tx};
use glassnic_wire::{Qpn, Service};

/// Links and memory of the process: what is not pure.
pub trait World {
    /// How many packets of one message one descriptor to this path may stand for, at a path MTU of `mtu` bytes. An
    /// unreliable service completes when [`World::transmit`] returns, so that the payload must have been copied by then; an
    /// acknowledged one leaves it where it lies until the peer has it.
    fn burst(&self, path: &AddressVector, dest: Qpn, service: Service, mtu: u32) -> u32;

    /// True if the link takes another descriptor of this many payload bytes now.
    fn room(&mut self, path: &AddressVector, dest: Qpn, service: Service, bytes: usize) -> bool;

    /// Sends from a GID of ours.
    fn transmit(&mut self, src_gid: [u8; 16], tx: &Tx<'_>);

    /// Copies `len` bytes of `payload`, from `offset`, to checked host address `to`. Addresses, here and in what is sent, may have
    /// [`crate::mr::GUARD`] or [`crate::mr::NOTHING`] in them.
    ///
    /// # Errors
    /// [`KeyFault::Unmapped`] if either side cannot be reached.
    fn store(&mut self, to: u64, payload: &Payload<'_>, offset: usize, len: usize) -> Result<(), KeyFault>;

    /// Whether memory that pages on demand is there now, and can be written if it shall be; it is paged in.
    fn is_there(&self, addr: u64, len: u64, write: bool) -> bool {
        let _ = (addr, len, write);
        true
    }

    /// Runs an atomic operation on checked, aligned host address `at`.
    ///
    /// # Errors
    /// [`KeyFault::Unmapped`].
    fn atomic(&mut self, at: u64, op: AtomicOp) -> Result<u64, KeyFault>;
}

/// What an asynchronous event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A QP, by number.
    Qp(u32),
    /// A CQ, by handle.
    Cq(u32),
    /// A shared receive queue, by handle.
    Srq(u32),
    /// A port.
    Port(u8),
    /// The device.
    Device,
}

/// Who is told of events. Called with the engine held: it must not call back.
pub trait Notifier: Send + Sync + std::fmt::Debug {
    /// A CQ was armed and has a completion.
    fn completion(&self, cq: u32);
    /// An asynchronous event.
    fn asynchronous(&self, event: AsyncEventType, subject: Subject);
}
