//! The sending end of one ring in another process's inbox.

use super::inbox::{allocate, open_bell};
use super::*;
use crate::directory::{INBOX, Node, WAKE, file_name};
use crate::sys::mapping::Mapped;
use glassnic_ring::spsc::{Producer, PushError};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Why there is no ring to a process. UDP remains.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// It has left the directory or died.
    #[error("process {pid} is gone")]
    Gone {
        /// Its pid.
        pid: u32,
    },
    /// A system call failed; ENOSPC where there is no memory for a ring.
    #[error("shared-memory link: {0}")]
    Io(#[from] io::Error),
    /// All 64 rings of its inbox are claimed.
    #[error("process {pid} has {RING_COUNT} senders already")]
    RingsExhausted {
        /// Its pid.
        pid: u32,
    },
    /// It has no inbox, or one of another version.
    #[error("process {pid} has no inbox that we understand")]
    Unreachable {
        /// Its pid.
        pid: u32,
    },
}

/// Why a record was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// No room now. If it stays so, ask [`Peer::is_alive`].
    #[error("the ring is full")]
    Full,
    /// The receiver has closed its inbox or given the ring up.
    #[error("the receiver is gone")]
    Gone,
    /// More than [`RECORD_LEN_MAX`] bytes.
    #[error("the record is too long")]
    TooLong,
}

/// A way to send records to one process. Used by one thread at a time, and not beyond fork(2).
pub struct Peer {
    node: Arc<Node>,
    target: Owner,
    pub(super) layout: Layout,
    bell: OwnedFd,
    pub(super) ring: usize,
    producer: Mapped<Producer>,
}

impl Peer {
    /// Claim a ring in the inbox of `target`.
    ///
    /// # Errors
    /// See [`ConnectError`]; each of them leaves nothing behind.
    pub fn connect(node: &Arc<Node>, target: Owner) -> Result<Self, ConnectError> {
        let pid = target.process.pid;
        if !node.is_alive(target) {
            return Err(ConnectError::Gone { pid });
        }
        let name = file_name(INBOX, target.slot, target.generation);
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = match rustix::fs::openat(node.folder(), &name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) => return Err(ConnectError::Unreachable { pid }),
            Err(errno) => return Err(ConnectError::Io(errno.into())),
        };
        let layout = match Mapping::new(&file, FILE_LEN) {
            Ok(mapping) => Layout(mapping),
            // It is being made, or of another version.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(ConnectError::Unreachable { pid });
            }
            Err(error) => return Err(error.into()),
        };
        if layout.0.u64(MAGIC_AT).load(Acquire) != MAGIC {
            return Err(ConnectError::Unreachable { pid });
        }
        let bell =
            open_bell(node, &file_name(WAKE, target.slot, target.generation)).map_err(io::Error::from)?;
        let me = sender_word(node.me());
        let claim = |ring: &usize| layout.sender(*ring).compare_exchange(0, me, AcqRel, Relaxed).is_ok();
        let ring = (0..RING_COUNT).find(claim).ok_or(ConnectError::RingsExhausted { pid })?;
        let producer = allocate(&file, ring_at(ring), RING_LEN)
            .and_then(|()| layout.0.producer(ring_at(ring), RING_LEN).map_err(io::Error::other));
        let producer = match producer {
            Ok(producer) => producer,
            Err(error) => {
                // Not open yet, so that the owner has not looked at it: ours to give back.
                layout.sender(ring).store(0, Release);
                return Err(error.into());
            }
        };
        layout.stage(ring).store(STAGE_OPEN, Release);
        layout.used().fetch_or(1 << ring, Release);
        Ok(Self { node: node.clone(), target, layout, bell, ring, producer })
    }

    /// The receiver.
    pub fn target(&self) -> Owner {
        self.target
    }

    /// Send one record, the concatenation of `parts`. Call [`Peer::wake_if_asleep`] after the last of a batch.
    ///
    /// # Errors
    /// See [`SendError`]. After [`SendError::Gone`] there is nothing but to drop the peer.
    pub fn try_push(&mut self, parts: &[&[u8]]) -> Result<(), SendError> {
        if parts.iter().map(|part| part.len()).sum::<usize>() > RECORD_LEN_MAX {
            return Err(SendError::TooLong);
        }
        let open = self.layout.stage(self.ring).load(Relaxed) == STAGE_OPEN;
        if !open || self.layout.closed().load(Relaxed) != 0 {
            return Err(SendError::Gone);
        }
        self.producer.try_push(parts).map_err(|error| match error {
            PushError::Full => SendError::Full,
            PushError::TooLong { .. } => SendError::TooLong,
            PushError::Corrupt(_) => SendError::Gone,
        })
    }

    /// Ring the receiver's bell if it sleeps. Returns whether it did.
    pub fn wake_if_asleep(&self) -> bool {
        self.layout.sleeper().notify(|| {
            // A full FIFO is a bell that rings already; no other failure could be helped here.
            let _ = rustix::io::write(&self.bell, &[1]);
        })
    }

    /// Whether the receiver still runs and reads; reads `/proc`.
    pub fn is_alive(&self) -> bool {
        self.layout.closed().load(Acquire) == 0
            && self.layout.stage(self.ring).load(Acquire) == STAGE_OPEN
            && self.node.is_alive(self.target)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // A forked child shares the ring, and must leave the parent's claim alone.
        if std::process::id() != self.node.me().process.pid {
            return;
        }
        // A broken ring becomes closing too: the owner then frees it.
        self.layout.stage(self.ring).store(STAGE_CLOSING, Release);
        self.layout.used().fetch_or(1 << self.ring, Release);
        self.wake_if_asleep();
    }
}
