//! System calls and mappings that no safe crate offers.
//!
//! # Safety
//!
//! All `unsafe` of this crate is here. What the modules give out is safe to use, with the exception of
//! [`cma`], whose caller names memory by number. Pages that other processes can write are reached only through
//! atomics and through `glassnic-ring`.

pub(crate) mod cma;
pub(crate) mod mapping;
pub(crate) mod netif;
pub(crate) mod socket;
