//! The requester: turns send work requests into packets, and keeps what is needed to send them again.

mod complete;
mod retry;
mod segment;

pub(crate) use complete::event_nak;
pub(crate) use segment::gather;

use std::num::NonZeroU64;

use glassnic_events::{Check, WcStatus};
use glassnic_wire::Psn;

/// Most packets that may be unacknowledged. PSNs are compared in a space of 2^24, of which a half may be in use
/// (IBA 9.7.2); memory of receivers on UDP asks for much less, see [`WINDOW_PACKETS`].
pub(crate) const PSN_LIMIT: u32 = 1 << 22;

/// Packets in flight at most where each is a datagram of its own: their receiver's socket buffer has to hold
/// them while its owner sleeps.
pub(crate) const WINDOW_PACKETS: u32 = 256;

/// How often an acknowledgement is asked for within a message of many datagrams.
pub(crate) const ACK_EVERY: u32 = WINDOW_PACKETS / 4;

/// What stopped the send queue: it is reported when all earlier requests are finished, so that completions
/// keep the order of posting (IBA C9-99).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop {
    pub wqe: u32,
    pub status: WcStatus,
    pub check: Check,
}

/// The next packet to send: `psn` within element `wqe`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    pub wqe: u32,
    pub psn: Psn,
}

/// A time on the clock of `now`, or none, in eight bytes. The clock's zero, at which no timer can end, is told as the next.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moment(Option<NonZeroU64>);

impl Moment {
    pub(crate) const NEVER: Self = Self(None);

    pub(crate) fn at(time: u64) -> Self {
        Self(NonZeroU64::new(time.max(1)))
    }

    pub(crate) fn get(self) -> Option<u64> {
        self.0.map(NonZeroU64::get)
    }
}

/// State of the requester.
#[derive(Debug, Default)]
pub(crate) struct Requester {
    /// The PSN that the next new element gets.
    pub next_psn: Psn,
    /// The oldest PSN that is not acknowledged.
    pub una: Psn,
    /// One after the newest PSN that was ever sent.
    pub sent_end: Psn,
    /// One after the newest element that has its PSNs: it has begun, a packet of it was sent.
    pub assigned: u32,
    pub cursor: Cursor,
    /// READs and atomics sent and not answered, before the cursor.
    pub reads_out: u32,
    pub retry_left: u8,
    pub rnr_left: u8,
    /// Waiting, after an RNR NAK, until then.
    pub rnr_until: Moment,
    /// The transport timer, while something is unacknowledged.
    pub timer: Moment,
    /// A gap made us go back; until something new is acknowledged, further signs of the same gap are ignored.
    pub recovering: bool,
    /// Packets sent since an acknowledgement was last asked for.
    pub since_ack: u32,
    pub stop: Option<Stop>,
    pub posted_once: bool,
    pub sent_packet: bool,
    /// The SQ was found drained in SQD, and that was told.
    pub drained: bool,
}

impl Requester {
    pub(crate) fn deadline(&self) -> Option<u64> {
        match (self.timer.get(), self.rnr_until.get()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Nothing more is sent and no timer runs.
    pub(crate) fn stop(&mut self) {
        self.timer = Moment::NEVER;
        self.rnr_until = Moment::NEVER;
    }
}
