//! The process's memory by number, and the clock.
//!
//! # Safety
//!
//! Addresses reach this module only after `nic` has checked them against a region that the program registered, so
//! that the program has promised the device the right to use them (`ibv_reg_mr(3)`); a program that unmaps memory
//! which is still registered breaks that promise, and is the one to fault. Regions that page on demand make no such promise: see
//! [`special`].

pub(crate) mod backtrace;
pub mod pages;
pub(crate) mod special;

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use glassnic_nic::mr::{GUARD, NOTHING};

/// The number of the calling thread, as /proc has it.
#[must_use]
pub fn thread_id() -> u32 {
    thread_local! {
        static ID: Cell<u32> = const { Cell::new(0) };
    }
    // Threads that are being torn down have no such variable any more.
    let known = ID.try_with(Cell::get).unwrap_or(0);
    if known != 0 {
        return known;
    }
    let id = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let _ = ID.try_with(|cell| cell.set(id));
    id
}

/// Nanoseconds of CLOCK_MONOTONIC.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a timespec that the call may write.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut ts) };
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}

/// Gives this process a mount namespace of its own, and a user namespace too where asked.
///
/// # Errors
/// unshare(2); EINVAL for a user namespace in a process of several threads.
pub(crate) fn unshare(user: bool) -> io::Result<()> {
    let flags = libc::CLONE_NEWNS | if user { libc::CLONE_NEWUSER } else { 0 };
    // SAFETY: takes a number; memory and descriptors stay as they are.
    match unsafe { libc::unshare(flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The address is not that of ordinary memory: see [`special`].
pub(crate) fn is_special(addr: u64) -> bool {
    addr & (GUARD | NOTHING) != 0
}

/// Copies from checked memory of ours into `to`.
pub(crate) fn load(from: u64, to: &mut [u8]) {
    if is_special(from) {
        return special::load(from, to);
    }
    // SAFETY: see the module; `to` is a Rust buffer, which no registered region that the peer may name is meant to
    // overlap, and `copy` allows it if it does.
    unsafe { std::ptr::copy(from as *const u8, to.as_mut_ptr(), to.len()) };
}

/// Copies `from` into checked memory of ours. False if that memory pages on demand and is not there.
pub(crate) fn store(to: u64, from: &[u8]) -> bool {
    if is_special(to) {
        return special::store(to, from);
    }
    // SAFETY: see the module and `load`.
    unsafe { std::ptr::copy(from.as_ptr(), to as *mut u8, from.len()) };
    true
}

/// Copies between two checked pieces of our memory, which may overlap. False as in [`store`].
pub(crate) fn copy(from: u64, to: u64, len: usize) -> bool {
    if is_special(from | to) {
        return special::copy(from, to, len);
    }
    // SAFETY: see the module.
    unsafe { std::ptr::copy(from as *const u8, to as *mut u8, len) };
    true
}

/// An atomic operation on checked, aligned memory of ours: atomic with respect to the program's own too. `None` where that memory
/// pages on demand and is not there.
pub(crate) fn atomic(at: u64, op: impl Fn(u64) -> Option<u64>) -> Option<u64> {
    // Faulted in first. A program that unmaps it in this moment has a data race of its own.
    if is_special(at) && (at & NOTHING != 0 || populate(at & !GUARD, 8, true).is_err()) {
        return None;
    }
    let at = at & !GUARD;
    // SAFETY: see the module; `nic` has checked that the address is a multiple of eight.
    let cell = unsafe { AtomicU64::from_ptr(at as *mut u64) };
    match cell.fetch_update(Ordering::AcqRel, Ordering::Acquire, op) {
        Ok(old) | Err(old) => Some(old),
    }
}

/// Copies `from` into memory of ours that a region may be on.
pub fn copy_in(to: u64, from: &[u8]) {
    store(to, from);
}

/// Copies from memory of ours that a region may be on.
pub fn copy_out(from: u64, to: &mut [u8]) {
    load(from, to);
}

/// Copies from another process into checked memory of ours.
///
/// # Errors
/// See [`glassnic_link::cma::pull`].
pub(crate) fn pull(
    pid: u32,
    remote: &[glassnic_link::cma::Span],
    local: &[glassnic_link::cma::Span],
) -> io::Result<usize> {
    // SAFETY: see the module.
    unsafe { glassnic_link::cma::pull(pid, remote, local) }
}

/// Faults a range in, as registration pins it on hardware; so an unmapped or read-only range is found out now.
///
/// # Errors
/// EFAULT or ENOMEM from madvise(2); EACCES for a range that the program may not access in this way. Kernels before 5.14
/// cannot populate: there the process's map is asked.
pub fn populate(addr: u64, len: u64, write: bool) -> io::Result<()> {
    const PAGE: u64 = 4096;
    if len == 0 {
        return Ok(());
    }
    let start = addr & !(PAGE - 1);
    let len = (addr - start).saturating_add(len);
    let advice = if write { libc::MADV_POPULATE_WRITE } else { libc::MADV_POPULATE_READ };
    let advise = |len: u64| {
        // SAFETY: populating changes no content; the kernel checks the range.
        match unsafe { libc::madvise(start as *mut libc::c_void, len as usize, advice) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    match advise(len) {
        // The advice is unknown, or the range is not to be accessed so: a range of no bytes tells which.
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
            if advise(0).is_ok() {
                return Err(io::Error::from_raw_os_error(libc::EACCES));
            }
            let maps = std::fs::read_to_string("/proc/self/maps")?;
            let end = start.saturating_add(len);
            if covers(&maps, start, end, write) {
                Ok(())
            } else {
                Err(io::Error::from_raw_os_error(libc::EFAULT))
            }
        }
        result => result,
    }
}

/// Does a process's map (proc(5), `/proc/pid/maps`) show all of `start .. end` as accessible?
fn covers(maps: &str, start: u64, end: u64, write: bool) -> bool {
    let mut at = start;
    for line in maps.lines() {
        let mut words = line.split(' ');
        let range = words.next().and_then(|r| r.split_once('-'));
        let Some((from, to)) = range else { continue };
        let bounds = (u64::from_str_radix(from, 16), u64::from_str_radix(to, 16));
        let (Ok(from), Ok(to)) = bounds else { continue };
        let rights = words.next().unwrap_or_default().as_bytes();
        let allowed = rights.first() == Some(&b'r') && (!write || rights.get(1) == Some(&b'w'));
        if (from..to).contains(&at) && allowed {
            at = to;
        }
        if at >= end {
            return true;
        }
    }
    false
}

/// A mapping as words.
pub(crate) fn atomics<'a>(start: *mut u8, len: usize) -> &'a [AtomicU64] {
    // SAFETY: called with a live mapping of `len` bytes whose owner lends it for its own lifetime; mappings are
    // page-aligned, all bit patterns are valid, and atomics may be written by others at any time. Of a mapping that is
    // read-only the caller makes no more than loads, which are plain loads on this architecture.
    unsafe { std::slice::from_raw_parts(start.cast::<AtomicU64>().cast_const(), len / 8) }
}

/// True in a child of fork(2) once [`watch_forks`] was called in its parent.
static FORKED: AtomicBool = AtomicBool::new(false);

/// See [`watch_forks`]; a load, so that the data path can ask.
pub(crate) fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Lets every child that is forked from now on know that it is one.
pub(crate) fn watch_forks() {
    extern "C" fn in_child() {
        FORKED.store(true, Ordering::Relaxed);
    }
    // SAFETY: the handler stores to an atomic, which is all that may be done between fork(2) and exec(3). Without room for
    // it, children are not told apart, as without this call.
    let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

/// Runs `leave` when the program ends by exit(3) or a return from main, or unloads this library. False if the C library
/// cannot remember it.
pub(crate) fn at_exit(leave: extern "C" fn()) -> bool {
    // SAFETY: the function takes and returns nothing, and stays loaded until the C library has run it.
    unsafe { libc::atexit(leave) == 0 }
}

/// Keeps all signals from the calling thread.
pub(crate) fn block_signals() {
    // SAFETY: the set is initialised by sigfillset before it is read.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigfillset(&mut set);
        libc::pthread_sigmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str =
        "1000-3000 rw-p 00000000 00:00 0 \n3000-4000 r--p 00000000 00:00 0 \n6000-7000 rw-p 0 00:00 0";

    #[test]
    fn a_map_tells_what_may_be_accessed() {
        assert!(covers(MAPS, 0x1000, 0x3000, true));
        assert!(covers(MAPS, 0x2fff, 0x4000, false));
        assert!(!covers(MAPS, 0x2fff, 0x3001, true), "the second page is read-only");
        assert!(!covers(MAPS, 0x3000, 0x6800, false), "there is a hole");
        assert!(!covers(MAPS, 0x6000, 0x7001, true), "the map ends");
    }

    #[test]
    fn read_only_memory_is_there_and_cannot_be_written() {
        static READ_ONLY: [u8; 4096] = [7; 4096];
        let addr = READ_ONLY.as_ptr() as u64;
        assert!(populate(addr, 4096, false).is_ok());
        assert!(populate(addr, 4096, true).is_err());
        assert!(populate(1 << 46, 4096, false).is_err(), "nothing is mapped there");
    }
}
