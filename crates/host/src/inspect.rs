//! Looking into the NICs of other processes: their segments in the node directory, over a mapping that cannot write.
//!
//! What is read is another process's memory, which may change or be nonsense at any time: every answer is a copy, made
//! once, and each reader says how it knows that the copy is whole. A segment stays readable through its [`NicView`]
//! after its process is gone and its file removed.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use glassnic_link::directory::{self, DirectoryError};
use glassnic_nic::context::{ContextMemory, Header, Words};
use glassnic_nic::qpc::{Field, Image};
use glassnic_nic::recorder::Recorder;
use glassnic_wire::command::CommandRecord;
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};

pub use crate::sys::monotonic_ns;

/// The environment variable that names a folder for files of packets, for processes that are to be captured from the
/// beginning.
pub const CAPTURE_VARIABLE: &str = crate::tap::VARIABLE;
/// Bytes that a process writes of its packets at most.
pub const CAPTURE_MAX: u64 = crate::tap::FILE_MAX;

/// How often a context that is being written is read again before it is left out.
const TRIES: u32 = 1000;

/// The node directory of this user and network namespace, seen by somebody who has no entry in it.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    fd: OwnedFd,
}

impl Folder {
    /// Opens it, and makes it if no process has yet.
    ///
    /// # Errors
    /// [`DirectoryError::Folder`].
    pub fn open() -> Result<Self, DirectoryError> {
        let (path, fd) = directory::open_folder()?;
        Ok(Self { path, fd })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names of the segments, in no order.
    ///
    /// # Errors
    /// System calls.
    pub fn segments(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd)? {
            if let Ok(name) = entry?.file_name().to_str()
                && name.starts_with("nic-")
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Maps a segment. `None` while it is being made, or if it is not one of this version.
    ///
    /// # Errors
    /// System calls; it may have gone since it was listed.
    pub fn nic(&self, name: &str) -> io::Result<Option<NicView>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        // An empty file is one whose maker has not come to its length yet.
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_size == 0 {
            return Ok(None);
        }
        let map = MmapOptions::new().map_raw_read_only(&File::from(fd))?;
        let memory = ContextMemory::open(Arc::new(View(map)));
        Ok(memory.filter(|m| m.get(Header::Pid) != 0).map(|memory| NicView { memory }))
    }

    /// Asks the process of a segment to write its packets into the file of [`Self::tap`], until this time of
    /// [`monotonic_ns`]; 0 ends it. The file's only reader is whoever asked.
    ///
    /// # Errors
    /// System calls.
    pub fn ask_packets(&self, name: &str, until_ns: u64) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::empty())?;
        // Into the file, not through a mapping: a page of ours that could be written would be one that we could break.
        rustix::io::pwrite(&fd, &until_ns.to_le_bytes(), Header::CaptureUntilNs as u64 * 8)?;
        Ok(())
    }

    /// The file of packets of a process, as far as it has been written: a pcapng file in `folder`, or in this one.
    #[must_use]
    pub fn tap(&self, folder: Option<&Path>, pid: u32) -> PathBuf {
        folder.unwrap_or(&self.path).join(crate::tap::file_name(pid))
    }

    /// Removes a segment; views of it stay.
    ///
    /// # Errors
    /// System calls.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }
}

struct View(MmapRaw);

impl Words for View {
    fn words(&self) -> &[AtomicU64] {
        crate::sys::atomics(self.0.as_mut_ptr(), self.0.len())
    }
}

/// A NIC, seen from outside.
#[derive(Debug)]
pub struct NicView {
    // Never handed out: it could be asked to write, which the mapping does not survive.
    memory: ContextMemory,
}

impl NicView {
    /// The process that opened it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.memory.get(Header::Pid) as u32
    }

    /// The device's name, as far as 16 bytes hold it.
    #[must_use]
    pub fn device(&self) -> String {
        self.memory.name()
    }

    /// When it was opened, on the clock of [`monotonic_ns`].
    #[must_use]
    pub fn opened_ns(&self) -> u64 {
        self.memory.get(Header::OpenedNs)
    }

    /// False once it has been closed. A process that dies leaves it open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.memory.get(Header::Open) == 1
    }

    /// Records of the flight recorder from number `from` on (counted from 1), oldest first; those that were overwritten
    /// are missing, which their numbers show.
    #[must_use]
    pub fn records(&self, from: u64) -> Vec<CommandRecord> {
        Recorder::new(self.memory.clone()).read(from)
    }

    /// The contexts of the QPs that there are. One that did not stand still for long is left out.
    pub fn contexts(&self) -> impl Iterator<Item = Image> {
        // Up to the highest used, as reading a page of the file that was never written would allocate it.
        let slots = self.memory.get(Header::QpHigh).min(self.memory.layout().qp_slots as u64) as usize;
        let images = (0..slots).filter_map(|slot| Image::load(self.memory.qpc(slot)?, TRIES));
        images.filter(|image| image.get(Field::Qpn) != 0)
    }
}
