//! Where do packets go?
//!
//! | destination | link | module |
//! |---|---|---|
//! | another process of this user and host | descriptors through a shared-memory ring, bulk data by single copy | [`shm`], [`cma`] |
//! | anywhere else | RoCEv2 datagrams to port 4791 | [`udp`] |
//!
//! [`directory`] tells which process owns a QP number, [`iface`] which addresses (and so GIDs) this host has.
//! This crate moves bytes and knows who is there; it has no threads and makes no protocol decision.

pub mod directory;
pub mod iface;
pub mod process;
pub mod shm;
mod sys;
#[cfg(test)]
mod testing;
pub mod udp;

/// Single copy between the memories of two processes of one user.
pub mod cma {
    pub use crate::sys::cma::{Obstacle, Span, allow_peers, obstacle, pull, push};
}
