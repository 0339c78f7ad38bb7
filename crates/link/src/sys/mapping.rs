//! A shared file mapping in which only atomics and rings live.
//!
//! # Safety
//!
//! Accessors assert range and alignment, so that offsets may come from anywhere. A file that somebody truncates
//! under us would raise SIGBUS: the files are 0600 in a 0700 folder of our own user, who can kill us anyway.

use glassnic_ring::Sleeper;
use glassnic_ring::spsc::{BadArea, Consumer, Producer};
use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The mapping; cloning shares it.
#[derive(Clone)]
pub(crate) struct Mapping(Arc<MmapRaw>);

/// A ring end together with the mapping that keeps its memory.
pub(crate) struct Mapped<T> {
    end: T,
    _mapping: Mapping,
}

impl<T> std::ops::Deref for Mapped<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.end
    }
}

impl<T> std::ops::DerefMut for Mapped<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.end
    }
}

impl Mapping {
    /// Map the first `len` bytes, shared. The file must be that long.
    pub(crate) fn new(file: &File, len: usize) -> io::Result<Self> {
        if file.metadata()?.len() < len as u64 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "file shorter than its layout"));
        }
        Ok(Self(Arc::new(MmapOptions::new().len(len).map_raw(file)?)))
    }

    fn at(&self, offset: usize, len: usize, align: usize) -> NonNull<u8> {
        assert!(offset.is_multiple_of(align) && offset <= self.0.len() && len <= self.0.len() - offset);
        // SAFETY: in range by the assertion, and a mapping is never at address zero.
        unsafe { NonNull::new_unchecked(self.0.as_mut_ptr().add(offset)) }
    }

    pub(crate) fn u32(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: mapped as long as `self` lives, aligned (pages are), and never used as anything but atomics.
        unsafe { self.at(offset, 4, 4).cast().as_ref() }
    }

    pub(crate) fn u64(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: as `u32`.
        unsafe { self.at(offset, 8, 8).cast().as_ref() }
    }

    pub(crate) fn sleeper(&self, offset: usize) -> &Sleeper {
        // SAFETY: as `u32`; a sleeper is one atomic, and every bit pattern of it is valid.
        unsafe { self.at(offset, size_of::<Sleeper>(), align_of::<Sleeper>()).cast().as_ref() }
    }

    /// The writing end of the ring at an offset. The protocol around it must make sure that there is one.
    pub(crate) fn producer(&self, offset: usize, len: usize) -> Result<Mapped<Producer>, BadArea> {
        // SAFETY: the range is mapped as long as `Mapped` lives; it is touched through ring ends only. A second
        // producer in another process is a broken peer, which the ring's contract covers.
        let end = unsafe { Producer::attach(self.at(offset, len, 64), len)? };
        Ok(Mapped { end, _mapping: self.clone() })
    }

    /// The reading end; as [`Self::producer`].
    pub(crate) fn consumer(&self, offset: usize, len: usize) -> Result<Mapped<Consumer>, BadArea> {
        // SAFETY: as `producer`.
        let end = unsafe { Consumer::attach(self.at(offset, len, 64), len)? };
        Ok(Mapped { end, _mapping: self.clone() })
    }

    /// Zero a range word by word, for file systems that cannot punch holes.
    pub(crate) fn zero(&self, offset: usize, len: usize) {
        for at in (offset..offset + len).step_by(8) {
            self.u64(at).store(0, std::sync::atomic::Ordering::Relaxed);
        }
    }
}
