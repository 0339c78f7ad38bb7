//! The node directory: which processes of this user and network namespace are here, and whose is a QP number.
//!
//! A folder (mode 0700) with a file `node-1` that all map. Readers follow it without a lock; changes are made under
//! `flock` on a description opened for the purpose, which the kernel drops when its holder dies. Every change is ordered
//! such that dying in the middle leaves something that [`Node::reclaim_dead`] understands.
//!
//! ```text
//! 0      header: magic u64, boot id hash u64, epoch u64
//! 4096   256 process slots of 64 bytes: state word (generation << 32 | live), pid, bind order, start time,
//!        pid namespace, start of the stack, user namespace
//! 20480  4096 QPN blocks of 8 bytes: generation << 32 | slot + 1, or 0
//! ```

mod folder;
mod table;
#[cfg(test)]
mod tests;

use crate::process::{self, Identity};
use crate::sys::mapping::Mapping;
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use table::Table;

pub use table::{BLOCK_COUNT, PROCESS_COUNT, QPNS_PER_BLOCK};

/// Name of the mapped file; the number is the version of its layout.
const NODE_FILE: &str = "node-1";
/// How long a change waits for the lock. Holders need microseconds; more means that one is stopped.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// Why a folder cannot hold the directory.
#[derive(Debug, thiserror::Error)]
pub enum FolderFault {
    /// mkdir(2).
    #[error("cannot be created: {0}")]
    NotMade(io::Error),
    /// open(2).
    #[error("cannot be opened: {0}")]
    NotOpened(io::Error),
    /// The user whose it is.
    #[error("belongs to user {0}")]
    OfAnother(u32),
    /// Its mode.
    #[error("is open to others (mode {0:o}, expected 700)")]
    OpenToOthers(u32),
    /// There is no folder to be tried.
    #[error("no candidate")]
    NoCandidate,
}

/// Why the directory could not be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// All 4096 blocks of QP numbers are taken.
    #[error("all blocks of QP numbers of this host are taken")]
    BlocksExhausted,
    /// A child process after fork(2) must join anew.
    #[error("this directory entry belongs to the parent process")]
    Forked,
    /// No candidate folder can be used; the first reason is given.
    #[error("no usable directory folder: {path}: {reason}")]
    Folder {
        /// The folder that was tried first.
        path: PathBuf,
        /// What is wrong with it.
        reason: FolderFault,
    },
    /// A system call failed.
    #[error("node directory: {0}")]
    Io(#[from] io::Error),
    /// Another process holds the lock for longer than any change takes (it may be stopped).
    #[error("the node directory has been locked by another process for 5 seconds")]
    Locked,
    /// All 256 process slots are taken by living processes.
    #[error("256 processes of this user run on this host already")]
    ProcessesExhausted,
}

impl From<rustix::io::Errno> for DirectoryError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// Opens the folder without entering the directory, for somebody who only looks.
///
/// # Errors
/// [`DirectoryError::Folder`].
pub fn open_folder() -> Result<(PathBuf, OwnedFd), DirectoryError> {
    folder::open()
}

/// A process in the directory. Slot and generation together are never given out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Process slot, below [`PROCESS_COUNT`].
    pub slot: u16,
    /// Which user of the slot, counted from 1.
    pub generation: u32,
    /// The process, in the pid namespace `pid_namespace`.
    pub process: Identity,
    /// Inode of the pid namespace.
    pub pid_namespace: u64,
    /// Inode of the user namespace.
    pub user_namespace: u64,
}

impl Owner {
    /// Whether `other` may be within reach of single copy. A process of another pid namespace has a number that means
    /// nothing here, and one of another user namespace is out of reach even for its own user (ptrace(2), "access mode
    /// checking": the caller would need CAP_SYS_PTRACE there).
    pub fn shares_memory_with(&self, other: &Self) -> bool {
        self.pid_namespace == other.pid_namespace && self.user_namespace == other.user_namespace
    }

    /// Whether the process runs. Reads `/proc`. One of another pid namespace cannot be judged: it counts as alive.
    pub fn is_alive(&self, pid_namespace: u64) -> bool {
        self.pid_namespace != pid_namespace || self.process.is_alive()
    }
}

/// Our own entry in the directory. Dropping it gives back the slot and its blocks; so does dying, as soon as somebody looks.
pub struct Node {
    folder: OwnedFd,
    path: PathBuf,
    table: Table,
    me: Owner,
}

impl Node {
    /// Enter the directory of this user and network namespace: `$GLASSNIC_DIR`, else
    /// `/dev/shm/glassnic-<uid>-<netns>`, else below `$XDG_RUNTIME_DIR`, else below `/tmp`.
    ///
    /// # Errors
    /// [`DirectoryError::Folder`] where no folder is ours alone, [`DirectoryError::ProcessesExhausted`], system calls.
    pub fn join() -> Result<Self, DirectoryError> {
        let (path, folder) = folder::open()?;
        Self::join_opened(path, folder)
    }

    /// Enter the directory in a given folder, which is created if need be.
    ///
    /// # Errors
    /// As [`Node::join`].
    pub fn join_in(path: &Path) -> Result<Self, DirectoryError> {
        let folder = folder::open_one(path)
            .map_err(|reason| DirectoryError::Folder { path: path.to_owned(), reason })?;
        Self::join_opened(path.to_owned(), folder)
    }

    fn join_opened(path: PathBuf, folder: OwnedFd) -> Result<Self, DirectoryError> {
        let mut me = Owner {
            slot: 0,
            generation: 0,
            process: Identity::mine(),
            pid_namespace: process::namespace("pid"),
            user_namespace: process::namespace("user"),
        };
        let lock = Lock::take(&folder, OFlags::CREATE)?;
        let table = Table::open(&lock.0)?;
        reclaim(&folder, &table, me.pid_namespace);
        remove_strays(&folder, &table);
        table.enter(&mut me).ok_or(DirectoryError::ProcessesExhausted)?;
        drop(lock);
        Ok(Self { folder, path, table, me })
    }

    /// Ourselves.
    pub fn me(&self) -> Owner {
        self.me
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open folder, for files beside ours.
    pub fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Changes with every claim, release, join and leave: a cheap way to know that something did.
    pub fn epoch(&self) -> u64 {
        self.table.epoch()
    }

    /// Take a block of [`QPNS_PER_BLOCK`] QP numbers; its first QPN is `block << 12`. `seed` should be random: it
    /// decides which, so that QP numbers cannot be guessed. Block 0, with QP0 and QP1, is never given out.
    ///
    /// # Errors
    /// [`DirectoryError::BlocksExhausted`], [`DirectoryError::Forked`], the lock.
    pub fn claim_block(&self, seed: u64) -> Result<u16, DirectoryError> {
        let _lock = self.lock()?;
        if let Some(block) = self.table.claim_block(self.me, seed) {
            return Ok(block);
        }
        reclaim(&self.folder, &self.table, self.me.pid_namespace);
        self.table.claim_block(self.me, seed).ok_or(DirectoryError::BlocksExhausted)
    }

    /// Give a block back. One that is not ours stays as it is.
    ///
    /// # Errors
    /// [`DirectoryError::Forked`], the lock.
    pub fn release_block(&self, block: u16) -> Result<(), DirectoryError> {
        let _lock = self.lock()?;
        self.table.release_block(self.me, block);
        Ok(())
    }

    /// Whose QP number this is; `None` for nobody's. A few loads: fit for every packet. The owner may have died since.
    pub fn owner_of(&self, qpn: u32) -> Option<Owner> {
        self.table.owner_of(qpn)
    }

    /// The process in a slot, if it still is this generation of it.
    pub fn process(&self, slot: u16, generation: u32) -> Option<Owner> {
        self.table.process(slot).filter(|owner| owner.generation == generation)
    }

    /// All processes that have joined, by slot.
    pub fn processes(&self) -> impl Iterator<Item = Owner> + '_ {
        (0..PROCESS_COUNT).filter_map(|slot| self.table.process(slot))
    }

    /// Whether a process still is in the directory and runs; reads `/proc`.
    pub fn is_alive(&self, owner: Owner) -> bool {
        self.process(owner.slot, owner.generation) == Some(owner) && owner.is_alive(self.me.pid_namespace)
    }

    /// Remove the dead: their slots, blocks, inboxes. Returns how many there were.
    ///
    /// # Errors
    /// [`DirectoryError::Forked`], the lock.
    pub fn reclaim_dead(&self) -> Result<usize, DirectoryError> {
        let _lock = self.lock()?;
        Ok(reclaim(&self.folder, &self.table, self.me.pid_namespace))
    }

    /// Bind sockets of a SO_REUSEPORT group in an order that all members know: `bind` runs under the directory's lock,
    /// and our place in the group is recorded when it succeeds. The place is a hint: a member that died without
    /// leaving shifts the others until it is reclaimed.
    ///
    /// # Errors
    /// Those of `bind`, [`DirectoryError::Forked`], the lock.
    pub fn bind_in_order<T, E: From<DirectoryError>>(
        &self,
        bind: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let _lock = self.lock()?;
        reclaim(&self.folder, &self.table, self.me.pid_namespace);
        let bound = bind()?;
        self.table.enter_bind_order(self.me);
        Ok(bound)
    }

    /// Leave the SO_REUSEPORT group; `close` closes the sockets, under the same lock.
    ///
    /// # Errors
    /// [`DirectoryError::Forked`], the lock; `close` has then not run.
    pub fn close_in_order(&self, close: impl FnOnce()) -> Result<(), DirectoryError> {
        let _lock = self.lock()?;
        close();
        self.table.leave_bind_order(self.me);
        Ok(())
    }

    /// Where packets for each claimed block should go: (block, place in the SO_REUSEPORT group), for
    /// [`crate::udp::attach_steering`].
    pub fn steering(&self) -> Vec<(u16, u32)> {
        self.table.steering()
    }

    fn lock(&self) -> Result<Lock, DirectoryError> {
        if std::process::id() != self.me.process.pid {
            return Err(DirectoryError::Forked);
        }
        Lock::take(&self.folder, OFlags::empty())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // A forked child is refused here, so that the parent keeps its entry.
        if let Ok(_lock) = self.lock() {
            leave(&self.folder, &self.table, self.me);
        }
    }
}

/// The lock for changes: a description of its own, so that threads exclude each other too.
struct Lock(File);

impl Lock {
    fn take(folder: &OwnedFd, create: OFlags) -> Result<Self, DirectoryError> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | create;
        let file = rustix::fs::openat(folder, NODE_FILE, flags, Mode::RUSR | Mode::WUSR)?;
        let deadline = Instant::now() + LOCK_PATIENCE;
        loop {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self(File::from(file))),
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_micros(100));
                }
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {
                    return Err(DirectoryError::Locked);
                }
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Explicitly: a fork meanwhile may have left a second descriptor of this description open.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

/// Name of a per-process file.
pub(crate) fn file_name(kind: &str, slot: u16, generation: u32) -> String {
    format!("{kind}-{slot}-{generation}")
}

/// The files that a process has here, by kind.
pub(crate) const INBOX: &str = "inbox";
pub(crate) const WAKE: &str = "wake";

fn remove_files(folder: &OwnedFd, slot: u16, generation: u32) {
    for kind in [INBOX, WAKE] {
        // Absent is fine: not every process opens an inbox.
        let _ = rustix::fs::unlinkat(folder, file_name(kind, slot, generation), rustix::fs::AtFlags::empty());
    }
}

/// Under the lock. Free first: whatever else is left, [`reclaim`] and [`remove_strays`] find without the slot.
fn leave(folder: &OwnedFd, table: &Table, owner: Owner) {
    table.leave_bind_order(owner);
    table.leave(owner);
    remove_files(folder, owner.slot, owner.generation);
}

/// Under the lock.
fn reclaim(folder: &OwnedFd, table: &Table, pid_namespace: u64) -> usize {
    let mut dead = 0;
    for owner in (0..PROCESS_COUNT).filter_map(|slot| table.process(slot)) {
        if !owner.is_alive(pid_namespace) {
            leave(folder, table, owner);
            dead += 1;
        }
    }
    table.release_orphaned_blocks();
    dead
}

/// Under the lock: files whose process is gone, left where somebody died while cleaning up.
fn remove_strays(folder: &OwnedFd, table: &Table) {
    let Ok(entries) = rustix::fs::Dir::read_from(folder) else { return };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().to_str() else { continue };
        let mut parts = name.split('-');
        let (kind, slot, generation) = (parts.next(), parts.next(), parts.next());
        let slot = slot.and_then(|text| text.parse().ok());
        let generation = generation.and_then(|text| text.parse::<u32>().ok());
        let (Some(INBOX | WAKE), Some(slot), Some(generation)) = (kind, slot, generation) else { continue };
        if table.process(slot).is_none_or(|owner| owner.generation != generation) {
            remove_files(folder, slot, generation);
        }
    }
}
