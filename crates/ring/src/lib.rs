//! How do two processes share a queue?
//!
//! * [`spsc`]: a ring of records in shared memory, one producer and one consumer, each in its own process.
//! * [`sleeper`]: the flag that lets a producer know that its consumer sleeps and must be woken.
//!
//! This is the only lock-free code of GlassNIC. Both halves are written against the atomics of `sync`, which
//! are loom's under `--cfg loom`: `RUSTFLAGS="--cfg loom" cargo test -p glassnic-ring --release` explores
//! every interleaving of the scenarios in `spsc/loom_tests.rs` and `sleeper.rs`.
//!
//! # Safety
//!
//! Memory that another process can write is *hostile*: it may change at any time. Therefore no reference to
//! plain bytes of a ring ever exists; cursors and record headers are atomics, payload is copied once through
//! raw pointers, and every length and index read from the page is range-checked against limits that the page
//! cannot change. What a broken peer can do is garble its own records or end its own ring with
//! [`spsc::Corrupt`].

mod memory;
pub mod sleeper;
pub mod spsc;
mod sync;

pub use sleeper::Sleeper;
pub use spsc::{Consumer, Corrupt, Producer, PushError};
