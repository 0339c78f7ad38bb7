//! The network between two endpoints.

use std::collections::BTreeMap;

use glassnic_transport::Span;
use glassnic_wire::Headers;

use crate::rng::Rng;

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The first.
    A,
    /// The second.
    B,
}

impl Side {
    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// Payload on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cargo {
    /// The bytes, copied when they were sent.
    Bytes(Vec<u8>),
    /// Addresses in the sender's memory, read when they arrive.
    Spans(Vec<Span>),
}

/// A descriptor on its way.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Who sent it.
    pub from: Side,
    /// GID it is sent to.
    pub dgid: [u8; 16],
    /// Headers of its first packet.
    pub headers: Headers,
    /// Packets that it stands for.
    pub npsn: u32,
    /// What it carries.
    pub cargo: Cargo,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// What the network's chances say.
    Chance,
    /// It is lost.
    Lost,
    /// It arrives this many nanoseconds after it was sent, once.
    After(u64),
    /// It arrives twice, these many nanoseconds after it was sent.
    Twice(u64, u64),
}

/// How bad the network is. Chances are per mille.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Lost.
    pub loss: u32,
    /// Delivered twice; the second time up to `late_ns` later.
    pub duplicate: u32,
    /// Delivered up to `late_ns` later than in its turn.
    pub reorder: u32,
    /// Delay of a packet that nothing happens to, in nanoseconds.
    pub delay_ns: u64,
    /// Greatest extra delay of a packet that is duplicated or reordered.
    pub late_ns: u64,
}

impl Faults {
    /// Nothing is lost, and everything takes a microsecond.
    pub const NONE: Self = Self { loss: 0, duplicate: 0, reorder: 0, delay_ns: 1_000, late_ns: 0 };
    /// 5 % loss, 2 % duplication, 5 % reordering.
    pub const BAD: Self = Self { loss: 50, duplicate: 20, reorder: 50, delay_ns: 1_000, late_ns: 5_000 };
}

/// Packets in flight, by time of arrival.
#[derive(Debug)]
pub struct Network {
    /// How bad it is; may be changed while it runs.
    pub faults: Faults,
    rng: Rng,
    in_flight: BTreeMap<(u64, u64), Packet>,
    sequence: u64,
}

impl Network {
    /// An empty one.
    #[must_use]
    pub fn new(faults: Faults, seed: u64) -> Self {
        Self { faults, rng: Rng::new(seed), in_flight: BTreeMap::new(), sequence: 0 }
    }

    /// Takes a packet.
    pub fn send(&mut self, now: u64, packet: Packet, fate: Fate) {
        let f = self.faults;
        match fate {
            Fate::Lost => {}
            Fate::After(ns) => self.put(now + ns, packet),
            Fate::Twice(first, second) => {
                self.put(now + first, packet.clone());
                self.put(now + second, packet);
            }
            Fate::Chance => {
                if self.rng.chance(f.duplicate) {
                    let late = self.rng.below(f.late_ns);
                    self.put(now + f.delay_ns + late, packet.clone());
                }
                if self.rng.chance(f.loss) {
                    return;
                }
                let late = if self.rng.chance(f.reorder) { self.rng.below(f.late_ns) } else { 0 };
                self.put(now + f.delay_ns + late, packet);
            }
        }
    }

    /// When the next packet arrives.
    #[must_use]
    pub fn next_arrival(&self) -> Option<u64> {
        self.in_flight.keys().next().map(|k| k.0)
    }

    /// The next packet that has arrived by `now`.
    pub fn receive(&mut self, now: u64) -> Option<Packet> {
        if self.next_arrival()? > now {
            return None;
        }
        self.in_flight.pop_first().map(|(_, p)| p)
    }

    fn put(&mut self, at: u64, packet: Packet) {
        self.sequence += 1;
        self.in_flight.insert((at, self.sequence), packet);
    }
}
