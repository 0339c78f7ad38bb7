//! A NIC's segment: a file of the node directory that this process maps, and an inspector too.

use std::fs::File;
use std::io;
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
    file: Option<(std::os::fd::OwnedFd, String)>,
    pid: u32,
}

static COUNT: AtomicU32 = AtomicU32::new(0);

impl Segment {
    /// Zeroed memory of `len` bytes; nameless where there is no directory.
    ///
    /// # Errors
    /// System calls.
    pub(crate) fn create(node: Option<&Node>, len: usize) -> io::Result<Self> {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let (fd, file) = match node {
            Some(node) => {
                let me = node.me();
                let name = format!("nic-{}-{}-{number}", me.slot, me.generation);
                let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                let _ = rustix::fs::unlinkat(node.folder(), &name, AtFlags::empty());
                let fd = rustix::fs::openat(node.folder(), &name, flags, Mode::RUSR | Mode::WUSR)?;
                (fd, Some((node.folder().try_clone_to_owned()?, name)))
            }
            None => (rustix::fs::memfd_create("glassnic", MemfdFlags::CLOEXEC)?, None),
        };
        let fd = File::from(fd);
        fd.set_len(len as u64)?;
        Ok(Self { map: MmapRaw::map_raw(&fd)?, file, pid: std::process::id() })
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
        let Some((folder, name)) = self.file.take() else { return };
        if std::process::id() == self.pid && !is_kept(std::env::var(KEEP_VARIABLE).ok().as_deref()) {
            let _ = rustix::fs::unlinkat(folder, &name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_kept_for_good_or_as_long_as_somebody_reads_it() {
        let me = std::process::id().to_string();
        assert_eq!([Some("1"), Some(&*me)].map(is_kept), [true; 2]);
        // No process has a pid that high (proc(5), `pid_max`).
        assert_eq!([None, Some(""), Some("0"), Some("yes"), Some("4194305")].map(is_kept), [false; 5]);
    }
}
