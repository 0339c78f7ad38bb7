//! Copies that touch memory which may not be there, or is none.
//!
//! A host address with [`GUARD`] is of a region that pages on demand: its program may unmap it at any time, and the kernel copies,
//! which fails where we would fault. One with [`NOTHING`] is of a null region: it reads as zeros and keeps nothing.

use glassnic_link::cma::{self, Span};
use glassnic_nic::mr::{GUARD, NOTHING};

/// Zeros to copy from.
static ZEROS: [u8; 4096] = [0; 4096];

/// Most bytes of one call to the kernel.
const PIECE: usize = 1 << 30;

fn is_nothing(addr: u64) -> bool {
    addr & NOTHING != 0
}

/// Copies to `to`, which is zeroed where there is nothing, or nothing any more.
#[cold]
pub(super) fn load(from: u64, to: &mut [u8]) {
    if is_nothing(from) || !guarded(from & !GUARD, to.as_mut_ptr().expose_provenance() as u64, to.len()) {
        to.fill(0);
    }
}

/// True if all of it could be written.
#[cold]
pub(super) fn store(to: u64, from: &[u8]) -> bool {
    is_nothing(to) || guarded(from.as_ptr().expose_provenance() as u64, to & !GUARD, from.len())
}

/// True if all of it could be copied.
#[cold]
pub(super) fn copy(from: u64, to: u64, len: usize) -> bool {
    if is_nothing(to) {
        return true;
    }
    if is_nothing(from) {
        return zero(to & !GUARD, len);
    }
    guarded(from & !GUARD, to & !GUARD, len)
}

/// As [`super::pull`] from one span; true if all of it could be copied.
#[cold]
pub(crate) fn pull(pid: u32, from: Span, to: u64) -> bool {
    if is_nothing(to) {
        return true;
    }
    let len = from.len as usize;
    if is_nothing(from.addr) {
        return zero(to & !GUARD, len);
    }
    let local = [Span { addr: to & !GUARD, len: from.len }];
    super::pull(pid, &[Span { addr: from.addr & !GUARD, len: from.len }], &local).is_ok_and(|n| n == len)
}

fn zero(to: u64, len: usize) -> bool {
    let zeros = ZEROS.as_ptr().expose_provenance() as u64;
    (0..len).step_by(ZEROS.len()).all(|at| guarded(zeros, to + at as u64, ZEROS.len().min(len - at)))
}

/// A copy by the kernel within this process. Where the kernel may not (a seccomp filter), both ends are faulted in first.
fn guarded(from: u64, to: u64, len: usize) -> bool {
    (0..len).step_by(PIECE).all(|at| {
        let span = |start: u64| [Span { addr: start + at as u64, len: PIECE.min(len - at) as u32 }];
        let (from, to) = (span(from), span(to));
        let n = from[0].len as usize;
        // SAFETY: see `super`; the kernel checks both ends.
        match unsafe { cma::pull(std::process::id(), &from, &to) } {
            Ok(copied) => copied == n,
            Err(e) if matches!(e.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) => {
                let there = super::populate(from[0].addr, n as u64, false).is_ok()
                    && super::populate(to[0].addr, n as u64, true).is_ok();
                if there {
                    super::copy(from[0].addr, to[0].addr, n);
                }
                there
            }
            Err(_) => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;

    fn at(bytes: &[u8]) -> u64 {
        bytes.as_ptr().expose_provenance() as u64
    }

    /// Nothing is mapped there.
    const HOLE: u64 = 1 << 46;

    #[test]
    fn a_hole_is_an_error_and_no_crash() {
        let mut here = vec![7u8; 10_000];
        let own = at(&here);
        assert!(!sys::copy(HOLE | GUARD, own, 10_000));
        assert!(!sys::copy(own, HOLE | GUARD, 10_000));
        assert!(!sys::store(HOLE | GUARD, &here));
        assert_eq!(sys::atomic(HOLE | GUARD, |old| Some(old + 1)), None);
        sys::load(HOLE | GUARD, &mut here);
        assert!(here.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn guarded_memory_that_is_there_is_copied() {
        let from: Vec<u8> = (0..10_000).map(|n| n as u8).collect();
        let to = vec![0u8; 10_000];
        assert!(sys::copy(at(&from) | GUARD, at(&to) | GUARD, 10_000));
        assert_eq!(from, to);
        let mut word = [5u64];
        let addr = word.as_mut_ptr().expose_provenance() as u64;
        assert_eq!(sys::atomic(addr | GUARD, |old| Some(old + 1)), Some(5));
        assert_eq!(word, [6]);
    }

    #[test]
    fn nothing_reads_as_zeros_and_keeps_nothing() {
        let mut here = vec![7u8; 10_000];
        assert!(sys::store(NOTHING, &here));
        assert!(sys::copy(at(&here), NOTHING | 5, 10_000));
        assert!(sys::copy(NOTHING, NOTHING, 10_000));
        assert!(here.iter().all(|byte| *byte == 7));
        assert!(sys::copy(NOTHING | 99, at(&here), 9_999));
        assert!(here[..9_999].iter().all(|byte| *byte == 0) && here[9_999] == 7);
        sys::load(NOTHING, &mut here);
        assert_eq!(here[9_999], 0);
    }
}
