//! A fabric from one seed: virtual time, loss, duplication, reordering and delay.
//!
//! [`Pair`] is two queue pairs of the transport engine and a bad network between them. Time is a number that
//! jumps from one event to the next; all chance comes from the seed in [`PairConfig`], so a run that fails,
//! fails again.
//!
//! [`fabric::Fabric`] is whole NICs, with their commands and tables, on a good network.
//!
//! The devices around the queue pairs ([`World`]) judge while they serve: memory that no region grants is never
//! written, or the run panics.
#![forbid(unsafe_code)]

mod endpoint;
pub mod fabric;
mod memory;
mod network;
pub mod ops;
mod pair;
mod rng;
mod world;

pub use endpoint::{Endpoint, signalled};
pub use memory::{Copied, HOST_OFFSET, Memory, Region};
pub use network::{Cargo, Fate, Faults, Network, Packet, Side};
pub use pair::{Pair, PairConfig, Sighting, Tamper, alternate_gid, alternate_path_to, gid, path_to, qpn};
pub use rng::Rng;
pub use world::World;
