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

use glassnic_events::AsyncEventType;
use glassnic_link::directory::{self, DirectoryError};
use glassnic_link::process::Identity;
use glassnic_nic::context::{ContextMemory, EXITED, Header, Layout, Words};
use glassnic_nic::driver;
use glassnic_nic::object::{self, Kind};
use glassnic_nic::qpc::{Field, Image};
use glassnic_nic::recorder::Recorder;
use glassnic_nic::{REQUEST_REFUSED, request};
use glassnic_wire::command::CommandRecord;
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};

pub use crate::open::{KEEP_VARIABLE, RUN_VARIABLE};
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
        self.write_word(name, Header::CaptureUntilNs, until_ns)
    }

    /// Asks the process of a segment to let an event happen, which it does within a second: see [`NicView::event_asked`].
    /// `subject` is the number of the QP or the handle of the CQ that it is about, 0 where it is about none.
    ///
    /// # Errors
    /// System calls.
    pub fn ask_event(&self, name: &str, event: AsyncEventType, subject: u32) -> io::Result<()> {
        self.write_word(name, Header::EventAsked, request(event, subject))
    }

    /// Takes that back.
    ///
    /// # Errors
    /// System calls.
    pub fn forget_event(&self, name: &str) -> io::Result<()> {
        self.write_word(name, Header::EventAsked, 0)
    }

    fn write_word(&self, name: &str, at: Header, word: u64) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::empty())?;
        // Into the file, not through a mapping: a page of ours that could be written would be one that we could break.
        rustix::io::pwrite(&fd, &word.to_le_bytes(), at as u64 * 8)?;
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

/// What became of a request for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nothing is asked for: the event has happened.
    Nothing,
    /// The process has not noticed yet.
    Waits,
    /// The event is about an object that is not there, or cannot happen here.
    Refused,
}

/// A NIC, seen from outside.
#[derive(Debug)]
pub struct NicView {
    // Never handed out: it could be asked to write, which the mapping does not survive.
    memory: ContextMemory,
}

/// A QP as its NIC's segment shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpView {
    /// What the device knows.
    pub context: Image,
    /// What its driver knows. Of the same QP, though perhaps of a moment before or after.
    pub driver: driver::Image,
}

impl NicView {
    /// A NIC in this process's own memory, as simulations have it.
    #[must_use]
    pub fn in_memory(memory: ContextMemory) -> Self {
        Self { memory }
    }

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
        self.memory.get(Header::Open) != 0
    }

    /// Whether its process has come to its end by exit(3), and had not closed it.
    #[must_use]
    pub fn has_exited(&self) -> bool {
        self.memory.get(Header::Open) == EXITED
    }

    /// The number that [`RUN_VARIABLE`] gave its program; 0 for none.
    #[must_use]
    pub fn run(&self) -> u64 {
        self.memory.get(Header::Run)
    }

    /// The GID at an index of its port's table; zero where there is none.
    #[must_use]
    pub fn gid(&self, index: u8) -> [u8; 16] {
        self.memory.gid(index)
    }

    /// How many of each it has room for. An object's table has an entry more than there may be objects.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.memory.layout()
    }

    /// Asynchronous events that wait for somebody to take them, those ever raised, and since when the oldest waits.
    #[must_use]
    pub fn asynchronous(&self) -> (u32, u32, u64) {
        let events = self.memory.get(Header::AsyncEvents);
        (events as u32, (events >> 32) as u32, self.memory.get(Header::AsyncSinceNs))
    }

    /// What became of the last request for an event.
    #[must_use]
    pub fn event_asked(&self) -> Asked {
        match self.memory.get(Header::EventAsked) {
            0 => Asked::Nothing,
            REQUEST_REFUSED => Asked::Refused,
            _ => Asked::Waits,
        }
    }

    /// A forked child that used what its parent opened, and how often; zero where none did.
    #[must_use]
    pub fn forked_use(&self) -> (u32, u32) {
        let word = self.memory.get(Header::ForkedUse);
        (word as u32, (word >> 32) as u32)
    }

    /// How long after a modify its device writes the context back, in nanoseconds.
    #[must_use]
    pub fn write_back_ns(&self) -> u64 {
        self.memory.get(Header::WriteBackNs)
    }

    /// The name of the process's program.
    #[must_use]
    pub fn command(&self) -> String {
        self.memory.command()
    }

    /// Whether the process that opened it still runs: the same, not another one that got its pid later.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        // Where the stack begins is not in the header, and 0 stands for unknown.
        let start_time = self.memory.get(Header::StartTime);
        Identity { pid: self.pid(), start_time, start_stack: 0 }.is_alive()
    }

    /// The frames above the verb that made an object, innermost first, one a line. `None` where nobody knows.
    #[must_use]
    pub fn site(&self, site: u32) -> Option<String> {
        self.memory.site_text(site)
    }

    /// The objects of a kind. One that did not stand still for long is left out.
    pub fn objects(&self, kind: Kind) -> impl Iterator<Item = object::Image> {
        let read = move |index| object::Image::load(&self.memory, kind, index);
        (0..self.memory.high(kind)).filter_map(move |index| steady(|| read(index)))
    }

    /// The QPs that there are, as the device and as the driver know them. One that did not stand still for long is left out.
    pub fn qps(&self) -> impl Iterator<Item = QpView> {
        (0..self.qp_high()).filter_map(|slot| self.qp(slot))
    }

    /// Both sides of the QP in a slot. The driver's block has no sequence number of its own: it is whole when two copies
    /// are the same, and the context's, when it has the same QP before and after.
    fn qp(&self, slot: usize) -> Option<QpView> {
        let words = self.memory.qpc(slot)?;
        for _ in 0..TRIES {
            let before = Image::load(words, TRIES)?.get(Field::Qpn);
            if before == 0 {
                return None;
            }
            let driver = steady(|| Some(driver::Image::load(&self.memory, slot)))?;
            let context = Image::load(words, TRIES)?;
            // A QP that is being made or unmade has one of the two.
            let same = driver.get(driver::Field::Qpn) == before || driver.get(driver::Field::Qpn) == 0;
            if context.get(Field::Qpn) == before && same {
                return Some(QpView { context, driver });
            }
        }
        None
    }

    fn qp_high(&self) -> usize {
        // Up to the highest used, as reading a page of the file that was never written would allocate it.
        self.memory.get(Header::QpHigh).min(self.memory.layout().qp_slots as u64) as usize
    }

    /// Records of the flight recorder from number `from` on (counted from 1), oldest first; those that were overwritten
    /// are missing, which their numbers show.
    #[must_use]
    pub fn records(&self, from: u64) -> Vec<CommandRecord> {
        Recorder::new(self.memory.clone()).read(from)
    }

    /// The contexts of the QPs that there are. One that did not stand still for long is left out.
    pub fn contexts(&self) -> impl Iterator<Item = Image> {
        let images = (0..self.qp_high()).filter_map(|slot| Image::load(self.memory.qpc(slot)?, TRIES));
        images.filter(|image| image.get(Field::Qpn) != 0)
    }
}

/// Reads until two copies in a row are the same; `None` if there is nothing, or it never stood still.
fn steady<T: PartialEq>(read: impl Fn() -> Option<T>) -> Option<T> {
    let mut last = read()?;
    for _ in 0..TRIES {
        let again = read()?;
        if again == last {
            return Some(again);
        }
        last = again;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Two sides of a slot change between two QPs all the time: a copy never mixes them.
    #[test]
    fn a_copy_is_of_one_qp_however_fast_it_changes() {
        let memory = ContextMemory::private(Layout::bare(1, 0));
        memory.set(Header::QpHigh, 1);
        let writer = memory.clone();
        let seen = Arc::new(AtomicU64::new(0));
        let seen_by_writer = seen.clone();
        let thread = std::thread::spawn(move || {
            let mut image = Image::default();
            // Until the reader has had its turns, however late it came.
            let mut n = 1;
            for turn in 1_u64.. {
                n = turn % 0xffff + 1;
                let driver = writer.driver(0).unwrap();
                driver.iter().for_each(|word| word.store(0, Ordering::Release));
                image.set(Field::Qpn, n);
                image.set(Field::Msn, n);
                image.store(writer.qpc(0).unwrap(), 0);
                for word in driver {
                    word.store(n, Ordering::Release);
                }
                if turn >= 50_000 && seen_by_writer.load(Ordering::Relaxed) > 100 {
                    break;
                }
            }
            n
        });
        let view = NicView::in_memory(memory);
        while !thread.is_finished() {
            for qp in view.qps() {
                seen.fetch_add(1, Ordering::Relaxed);
                let qpn = qp.context.get(Field::Qpn);
                assert_eq!(qp.context.get(Field::Msn), qpn);
                let driver = qp.driver.get(driver::Field::Qpn);
                assert!(driver == qpn || driver == 0, "{driver} is not {qpn}");
            }
        }
        let n = thread.join().unwrap();
        let last: Vec<_> = view.qps().collect();
        assert_eq!(last[0].driver.get(driver::Field::Qpn), n);
    }

    #[test]
    fn what_never_stands_still_is_left_out() {
        let count = std::cell::Cell::new(0);
        let moving = || {
            count.set(count.get() + 1);
            Some(count.get())
        };
        assert_eq!(steady(moving), None);
        let torn_once = || {
            count.set(count.get() + 1);
            Some(count.get().min(3))
        };
        count.set(0);
        assert_eq!(steady(torn_once), Some(3));
        assert_eq!(steady(|| None::<u8>), None);
    }

    #[test]
    fn another_process_under_the_same_pid_is_not_taken_for_it() {
        let memory = ContextMemory::private(Layout::bare(0, 0));
        let me = Identity::mine();
        memory.set(Header::Pid, me.pid.into());
        memory.set(Header::StartTime, me.start_time);
        memory.set_command("name");
        let view = NicView::in_memory(memory.clone());
        assert!(view.is_alive());
        assert_eq!(view.command(), "name");
        memory.set(Header::StartTime, me.start_time + 1);
        assert!(!view.is_alive());
    }
}
