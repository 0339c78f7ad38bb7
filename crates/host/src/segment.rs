//! A NIC's segment: a file of the node directory that this process maps, and an inspector too.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use glassnic_link::directory::Node;
use glassnic_link::process::Identity;
use glassnic_nic::context::Words;
use memmap2::MmapRaw;
use rustix::fs::{AtFlags, MemfdFlags, Mode, OFlags};

use crate::open::KEEP_VARIABLE;

/// Mapped memory with the life of its file: a clean end removes it, unless [`KEEP_VARIABLE`] asks to keep it; a crash
/// leaves it to be looked at.
#[derive(Debug)]
pub(crate) struct Segment {
    map: MmapRaw,
    place: Option<Arc<Place>>,
    pid: u32,
}

/// A segment's name in the directory.
#[derive(Debug)]
struct Place {
    folder: OwnedFd,
    name: String,
}

/// The file of a segment, which has no name as long as it is being made: a process that is killed meanwhile leaves nothing,
/// and nobody sees half of a segment.
#[derive(Debug)]
pub(crate) struct Unpublished(Option<(File, Arc<Place>)>);

static COUNT: AtomicU32 = AtomicU32::new(0);

impl Segment {
    /// Zeroed memory of `len` bytes; nameless for good where there is no directory.
    ///
    /// # Errors
    /// System calls.
    pub(crate) fn create(node: Option<&Node>, len: usize) -> io::Result<(Self, Unpublished)> {
        let place = node.map(Place::next).transpose()?.map(Arc::new);
        let (fd, is_named) = match &place {
            Some(place) => place.make()?,
            None => (rustix::fs::memfd_create("glassnic", MemfdFlags::CLOEXEC)?, true),
        };
        let file = File::from(fd);
        file.set_len(len as u64)?;
        let segment = Self { map: MmapRaw::map_raw(&file)?, place, pid: std::process::id() };
        let unpublished = segment.place.clone().filter(|_| !is_named).map(|place| (file, place));
        Ok((segment, Unpublished(unpublished)))
    }
}

impl Place {
    fn next(node: &Node) -> io::Result<Self> {
        let (number, me) = (COUNT.fetch_add(1, Ordering::Relaxed), node.me());
        let name = format!("nic-{}-{}-{number}", me.slot, me.generation);
        Ok(Self { folder: node.folder().try_clone_to_owned()?, name })
    }

    /// A new file, and whether it has the name already: that is so on file systems which know no file without one.
    fn make(&self) -> io::Result<(OwnedFd, bool)> {
        let (flags, mode) = (OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
        // Left by one of our slot and generation in another life of the folder.
        let _ = rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty());
        if let Ok(fd) = rustix::fs::openat(&self.folder, ".", flags | OFlags::TMPFILE, mode) {
            return Ok((fd, false));
        }
        let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        Ok((rustix::fs::openat(&self.folder, &self.name, flags, mode)?, true))
    }
}

impl Unpublished {
    /// Gives the segment its name, now that it is whole (open(2), `O_TMPFILE`).
    ///
    /// # Errors
    /// System calls; also where there is no `/proc`. The NIC works then, and nobody sees it from outside.
    pub(crate) fn publish(self) -> io::Result<()> {
        let Some((file, place)) = self.0 else { return Ok(()) };
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok(rustix::fs::linkat(rustix::fs::CWD, path, &place.folder, &place.name, AtFlags::SYMLINK_FOLLOW)?)
    }
}

/// Segments of processes that are gone which are kept.
const KEPT: usize = 8;

/// Removes the segments of processes that are gone, but for the newest, which somebody may want to look at.
pub(crate) fn prune(node: &Node) {
    let Ok(entries) = std::fs::read_dir(node.path()) else { return };
    let mut dead: Vec<_> = entries
        .flatten()
        .filter(|e| e.file_name().to_str().and_then(owner).is_some_and(|(s, g)| node.process(s, g).is_none()))
        .filter_map(|e| Some((e.metadata().ok()?.modified().ok()?, e.path())))
        .collect();
    dead.sort();
    let excess = dead.len().saturating_sub(KEPT);
    for (_, path) in dead.into_iter().take(excess) {
        let _ = std::fs::remove_file(path);
    }
}

/// Slot and generation from a segment's name.
fn owner(name: &str) -> Option<(u16, u32)> {
    let mut parts = name.strip_prefix("nic-")?.split('-');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// What [`KEEP_VARIABLE`] says.
fn is_kept(value: Option<&str>) -> bool {
    match value.and_then(|value| value.parse().ok()) {
        Some(1) => true,
        Some(pid) => Identity { pid, start_time: 0, start_stack: 0 }.is_alive(),
        None => false,
    }
}

impl Words for Segment {
    fn words(&self) -> &[AtomicU64] {
        crate::sys::atomics(self.map.as_mut_ptr(), self.map.len())
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        let Some(place) = self.place.take() else { return };
        if std::process::id() == self.pid && !is_kept(std::env::var(KEEP_VARIABLE).ok().as_deref()) {
            let _ = rustix::fs::unlinkat(&place.folder, &place.name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program may be killed at any time, and what nobody knows to be a NIC would lie about for good.
    #[test]
    fn a_segment_that_is_being_made_is_seen_by_nobody_and_left_by_nobody() {
        let folder = std::env::temp_dir().join(format!("glassnic-segment-{}", std::process::id()));
        let node = Node::join_in(&folder).unwrap();
        let names = || {
            let entries =
                std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
            entries.filter(|name| owner(name).is_some()).collect::<Vec<_>>()
        };
        let (segment, unpublished) = Segment::create(Some(&node), 4096).unwrap();
        let name = segment.place.as_ref().unwrap().name.clone();
        assert_eq!(names(), [""; 0]);
        segment.words()[0].store(7, Ordering::Relaxed);
        unpublished.publish().unwrap();
        assert_eq!(names(), [&*name]);
        assert_eq!(std::fs::read(folder.join(&name)).unwrap()[..8], 7u64.to_le_bytes(), "the same memory");
        drop(segment);
        assert_eq!(names(), [""; 0]);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_segment_is_kept_for_good_or_as_long_as_somebody_reads_it() {
        let me = std::process::id().to_string();
        assert_eq!([Some("1"), Some(&*me)].map(is_kept), [true; 2]);
        // No process has a pid that high (proc(5), `pid_max`).
        assert_eq!([None, Some(""), Some("0"), Some("yes"), Some("4194305")].map(is_kept), [false; 5]);
    }
}
