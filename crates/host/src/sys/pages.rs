//! Memory of our own that programs reach by address: device memory.

use std::io;
use std::ptr;

/// Zeroed pages, which begin at a multiple of 4096 and go when this is dropped.
#[derive(Debug)]
pub struct Pages {
    start: *mut libc::c_void,
    len: usize,
}

// SAFETY: memory that belongs to nobody's thread; what is in it is bytes.
unsafe impl Send for Pages {}
// SAFETY: as above; it is copied to and from only.
unsafe impl Sync for Pages {}

impl Pages {
    /// Pages for `len` bytes, of which there is at least one.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn map(len: usize) -> io::Result<Self> {
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, where the kernel likes.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, rights, flags, -1, 0) };
        if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self { start, len }) }
    }

    /// Address of the first byte.
    #[must_use]
    pub fn addr(&self) -> u64 {
        self.start.expose_provenance() as u64
    }

    /// The host address of `len` bytes from `offset` on, if they lie inside.
    #[must_use]
    pub fn at(&self, offset: u64, len: u64) -> Option<u64> {
        let end = offset.checked_add(len)?;
        (end <= self.len as u64).then(|| self.addr() + offset)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: our own mapping; no region is on it any more, and nobody else has its address.
        unsafe { libc::munmap(self.start, self.len) };
    }
}
