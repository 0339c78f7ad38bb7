//! Cross-memory attach: one copy between two processes of one user, without the other's help.
//!
//! # Safety
//!
//! Both functions take addresses as numbers. The kernel checks that they are mapped, not that they are meant:
//! hence they are `unsafe`.

use std::io;

/// A piece of a process's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First byte, a virtual address of the process.
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
}

/// Spans handed to the kernel at a time; below IOV_MAX (1024), and small enough for the stack.
const SPANS: usize = 64;

#[derive(Clone, Copy)]
enum Direction {
    Pull,
    Push,
}

/// Copy from the memory of process `pid` into our own; returns the bytes copied, which is the shorter of the
/// two lists unless an address is bad. See process_vm_readv(2).
///
/// # Errors
/// EPERM (another user, not dumpable, Yama), ESRCH (gone), EFAULT (nothing could be copied).
///
/// # Safety
/// The `local` spans are memory that the caller may write, with no Rust reference to it.
pub unsafe fn pull(pid: u32, remote: &[Span], local: &[Span]) -> io::Result<usize> {
    // SAFETY: the caller's contract.
    unsafe { transfer(Direction::Pull, pid, remote, local) }
}

/// Copy from our own memory into that of process `pid`; as [`pull`], with process_vm_writev(2).
///
/// # Errors
/// As [`pull`].
///
/// # Safety
/// The `local` spans are readable, and the `remote` ones are memory that their process expects to change.
pub unsafe fn push(pid: u32, remote: &[Span], local: &[Span]) -> io::Result<usize> {
    // SAFETY: the caller's contract.
    unsafe { transfer(Direction::Push, pid, remote, local) }
}

/// Let processes of this user attach to our memory where Yama restricts it to ancestors (ptrace_scope 1).
/// Where there is no Yama the call fails, and needs not be made.
///
/// # Errors
/// EINVAL without Yama.
pub fn allow_peers() -> io::Result<()> {
    // SAFETY: takes numbers only.
    match unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Why single copy does not work in this process.
#[derive(Debug, thiserror::Error)]
pub enum Obstacle {
    /// The system call itself is refused, as seccomp filters of containers do.
    #[error(
        "process_vm_readv is not allowed here ({0}), so long messages cannot pass between \
         processes; allow it in the seccomp filter (Docker: --cap-add=SYS_PTRACE), or set GLASSNIC_LINK=udp"
    )]
    Refused(io::Error),
    /// Yama keeps all processes without a capability, or all at all, from each other's memory.
    #[error(
        "kernel.yama.ptrace_scope={0} keeps processes from each other's memory, so long messages cannot pass \
         between them; set it to 1 or 0 (sysctl), or set GLASSNIC_LINK=udp"
    )]
    Yama(u8),
}

/// What keeps this process from [`pull`] and [`push`], if anything does. What a peer forbids of itself is not seen here.
pub fn obstacle() -> Option<Obstacle> {
    let (from, mut to) = ([1_u8], [0_u8]);
    let remote = [Span { addr: from.as_ptr().expose_provenance() as u64, len: 1 }];
    let local = [Span { addr: to.as_mut_ptr().expose_provenance() as u64, len: 1 }];
    // SAFETY: both are bytes of this function, to which nothing else refers meanwhile.
    if let Err(error) = unsafe { pull(std::process::id(), &remote, &local) } {
        return Some(Obstacle::Refused(error));
    }
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok()?.trim().parse().ok()?;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    is_yama_in_the_way(scope, has_ptrace(&status)).then_some(Obstacle::Yama(scope))
}

/// Yama's documentation: 0 and 1 can be met by [`allow_peers`], 2 asks for CAP_SYS_PTRACE, 3 allows nobody.
fn is_yama_in_the_way(scope: u8, has_ptrace: bool) -> bool {
    scope > 2 || scope == 2 && !has_ptrace
}

/// Whether the effective capabilities in `/proc/self/status` have CAP_SYS_PTRACE (19).
fn has_ptrace(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> 19 & 1 == 1)
}

/// A place in a list of spans.
struct Walk<'a> {
    spans: &'a [Span],
    /// Bytes of the first span that are done.
    done: usize,
}

impl Walk<'_> {
    fn fill(&self, out: &mut [libc::iovec; SPANS]) -> usize {
        let mut done = self.done;
        let mut count = 0;
        for (span, slot) in self.spans.iter().zip(out) {
            let base = std::ptr::with_exposed_provenance_mut(span.addr as usize + done);
            *slot = libc::iovec { iov_base: base, iov_len: span.len as usize - done };
            done = 0;
            count += 1;
        }
        count
    }

    fn advance(&mut self, bytes: usize) {
        self.done += bytes;
        while let Some((first, rest)) = self.spans.split_first() {
            if self.done < first.len as usize {
                break;
            }
            self.done -= first.len as usize;
            self.spans = rest;
        }
    }
}

/// # Safety
/// As [`pull`] and [`push`].
unsafe fn transfer(direction: Direction, pid: u32, remote: &[Span], local: &[Span]) -> io::Result<usize> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let (mut there, mut here) = ([empty; SPANS], [empty; SPANS]);
    let (mut remote, mut local) = (Walk { spans: remote, done: 0 }, Walk { spans: local, done: 0 });
    // Skip leading empty spans, so that zero from the kernel means no progress.
    remote.advance(0);
    local.advance(0);
    let mut total = 0;
    while !remote.spans.is_empty() && !local.spans.is_empty() {
        let (remotes, locals) = (remote.fill(&mut there) as u64, local.fill(&mut here) as u64);
        // SAFETY: both arrays outlive the call and the counts are theirs; the memory is the caller's to name.
        let moved = unsafe {
            match direction {
                Direction::Pull => {
                    libc::process_vm_readv(pid, here.as_ptr(), locals, there.as_ptr(), remotes, 0)
                }
                Direction::Push => {
                    libc::process_vm_writev(pid, here.as_ptr(), locals, there.as_ptr(), remotes, 0)
                }
            }
        };
        let moved = match usize::try_from(moved) {
            Ok(0) => break,
            Ok(moved) => moved,
            // A bad page in the middle: what was copied before it counts.
            Err(_) if total > 0 => break,
            Err(_) => return Err(io::Error::last_os_error()),
        };
        total += moved;
        remote.advance(moved);
        local.advance(moved);
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(bytes: &[u8]) -> Span {
        Span { addr: bytes.as_ptr().expose_provenance() as u64, len: bytes.len() as u32 }
    }

    fn span_mut(bytes: &mut [u8]) -> Span {
        Span { addr: bytes.as_mut_ptr().expose_provenance() as u64, len: bytes.len() as u32 }
    }

    #[test]
    fn moves_between_lists_of_different_shape() {
        let source: Vec<u8> = (0..100_000_u32).map(|i| i as u8).collect();
        let mut target = vec![0; source.len()];
        let remote: Vec<_> = source.chunks(999).map(span).collect();
        let local: Vec<_> = target.chunks_mut(314).map(span_mut).collect();
        // SAFETY: the spans are the two vectors, of which nobody holds a reference during the call.
        let pulled = unsafe { pull(std::process::id(), &remote, &local) };
        assert_eq!(pulled.unwrap(), source.len());
        assert_eq!(source, target);
        let (read, written) = ([span(&source[..7])], [span_mut(&mut target[5..])]);
        // SAFETY: as above.
        let pushed = unsafe { push(std::process::id(), &written, &read) };
        assert_eq!(pushed.unwrap(), 7);
        assert_eq!(target[5..12], source[..7]);
    }

    #[test]
    fn a_bad_page_ends_the_copy_and_no_process_is_an_error() {
        let source = [1_u8; 64];
        let mut target = [0_u8; 128];
        let remote = [span(&source), Span { addr: 4096, len: 64 }];
        let local = [span_mut(&mut target)];
        // SAFETY: the local span is ours.
        unsafe {
            assert_eq!(pull(std::process::id(), &remote, &local).unwrap(), 64);
            let bad = pull(std::process::id(), &remote[1..], &local).unwrap_err();
            assert_eq!(bad.raw_os_error(), Some(libc::EFAULT));
            let gone = pull(u32::MAX, &remote, &local).unwrap_err();
            assert_eq!(gone.raw_os_error(), Some(libc::ESRCH));
            assert_eq!(pull(std::process::id(), &[], &local).unwrap(), 0);
        }
    }

    #[test]
    fn yama_is_in_the_way_of_those_without_the_capability() {
        let status = |mask: &str| has_ptrace(&format!("Name:\tx\nCapEff:\t{mask}\nCapBnd:\t0\n"));
        assert!(status("000001ffffffffff") && status("0000000000080000"));
        assert!(!status("0000000000040000") && !has_ptrace(""));
        let cases = [(0, false), (1, false), (2, true), (3, true)];
        for (scope, in_the_way) in cases {
            assert_eq!(is_yama_in_the_way(scope, false), in_the_way, "{scope}");
        }
        assert!(!is_yama_in_the_way(2, true) && is_yama_in_the_way(3, true));
    }

    /// Not a test by itself: a process with a buffer for others to read and write.
    #[test]
    fn actor() {
        use std::sync::atomic::{AtomicU8, Ordering};
        if crate::testing::role().is_none() {
            return;
        }
        // Where there is no Yama it needs no leave.
        let _ = allow_peers();
        // Atomics, as the other process writes them unseen by the compiler.
        let buffer: Vec<AtomicU8> = (0..10_000_u32).map(|i| AtomicU8::new(i as u8)).collect();
        crate::testing::say(buffer.as_ptr().expose_provenance());
        while buffer[9_999].load(Ordering::Relaxed) != 0xAA {
            std::thread::yield_now();
        }
        crate::testing::say(buffer.iter().filter(|byte| byte.load(Ordering::Relaxed) == 0xAA).count());
    }

    #[test]
    fn reaches_into_another_process_and_fails_when_it_is_gone() {
        let mut child = crate::testing::Actor::start("sys::cma::tests::actor", "buffer");
        let remote = [Span { addr: child.hear().parse().unwrap(), len: 10_000 }];
        let mut bytes = vec![0; 10_000];
        let local = [span_mut(&mut bytes)];
        // SAFETY: the local span is ours, and the remote one the child's, which waits for it to change.
        unsafe {
            assert_eq!(pull(child.pid(), &remote, &local).unwrap(), 10_000);
        }
        assert!(bytes.iter().enumerate().all(|(i, byte)| *byte == i as u8));
        bytes.fill(0xAA);
        let local = [span_mut(&mut bytes)];
        // SAFETY: as above.
        unsafe {
            assert_eq!(push(child.pid(), &remote, &local).unwrap(), 10_000);
            assert_eq!(child.hear(), "10000");
            child.kill();
            let gone = pull(child.pid(), &remote, &local).unwrap_err();
            assert_eq!(gone.raw_os_error(), Some(libc::ESRCH));
        }
    }
}
