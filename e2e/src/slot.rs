//! One test at a time: each runs two programs that poll, which is all that two cores bear.

use std::fs::{File, OpenOptions};

use rustix::fs::{FlockOperation, flock};

/// Holds the machine until it is dropped; the kernel lets go of it if the process dies.
#[derive(Debug)]
pub struct Slot {
    _lock: File,
}

/// Waits until no other test, of this process or of another, holds the machine.
///
/// # Panics
/// When the lock file cannot be made.
#[must_use]
pub fn take() -> Slot {
    let uid = rustix::process::getuid().as_raw();
    let path = std::env::temp_dir().join(format!("glassnic-e2e-{uid}.lock"));
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let lock = file.unwrap_or_else(|error| panic!("cannot open {}: {error}", path.display()));
    flock(&lock, FlockOperation::LockExclusive).unwrap_or_else(|error| panic!("flock: {error}"));
    Slot { _lock: lock }
}
