//! Files that programs read through the library: `ibv_get_sysfs_path`, `ibv_read_sysfs_file`.

use crate::answer::{Errno, number};
use crate::layout::ibv_device;
use core::ffi::{CStr, c_char, c_int};
use std::ffi::{CString, OsStr};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

/// Where sysfs is: `SYSFS_PATH` when the process was not given rights by set-user-ID, else `/sys`.
pub(crate) extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    static PATH: OnceLock<CString> = OnceLock::new();
    PATH.get_or_init(sysfs_path).as_ptr()
}

fn sysfs_path() -> CString {
    // SAFETY: reads a value that the kernel put into the auxiliary vector.
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    let wanted = if secure { None } else { std::env::var_os("SYSFS_PATH") };
    let mut path = wanted.map_or_else(|| b"/sys".to_vec(), |path| path.as_bytes().to_vec());
    while path.len() > 1 && path.last() == Some(&b'/') {
        path.pop();
    }
    CString::new(path).unwrap_or_else(|_| c"/sys".to_owned())
}

/// Reads a small file of a directory into `buf` and ends it with a NUL in place of its newline; its length, or -1.
///
/// # Safety
/// `dir` and `file` are null or strings, `buf` is null or has `size` writable bytes.
pub(crate) unsafe extern "C" fn ibv_read_sysfs_file(
    dir: *const c_char,
    file: *const c_char,
    buf: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: as promised by the caller.
    number(unsafe { read_file(dir, file, buf, size) })
}

/// As [`ibv_read_sysfs_file`], with the arguments in another order: a private function of newer libraries.
///
/// # Safety
/// `device` is null or an `ibv_device`; the rest as for [`ibv_read_sysfs_file`].
pub(crate) unsafe extern "C" fn ibv_read_ibdev_sysfs_file(
    buf: *mut c_char,
    size: usize,
    device: *const ibv_device,
    file: *const c_char,
) -> c_int {
    if device.is_null() {
        return number(Err(Errno::EINVAL));
    }
    // SAFETY: `device` is not null, and the rest is as promised by the caller.
    number(unsafe { read_file((&raw const (*device).ibdev_path).cast(), file, buf, size) })
}

/// # Safety
/// As for [`ibv_read_sysfs_file`].
unsafe fn read_file(
    dir: *const c_char,
    file: *const c_char,
    buf: *mut c_char,
    size: usize,
) -> Result<c_int, Errno> {
    if dir.is_null() || file.is_null() || buf.is_null() || size == 0 {
        return Err(Errno::EINVAL);
    }
    // SAFETY: neither is null; both are strings.
    let (dir, file) = unsafe { (CStr::from_ptr(dir), CStr::from_ptr(file)) };
    let path = Path::new(OsStr::from_bytes(dir.to_bytes())).join(OsStr::from_bytes(file.to_bytes()));
    let text = contents(&path, size)?;
    // SAFETY: `contents` returns fewer than `size` bytes, and `buf` has `size`.
    unsafe {
        text.as_ptr().copy_to_nonoverlapping(buf.cast(), text.len());
        buf.add(text.len()).write(0);
    }
    c_int::try_from(text.len()).map_err(|_| Errno(libc::EOVERFLOW))
}

/// The file without a final newline; an error if that and a NUL do not fit into `size` bytes.
fn contents(path: &Path, size: usize) -> Result<Vec<u8>, Errno> {
    let errno = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(libc::EIO));
    let mut text = Vec::new();
    std::fs::File::open(path).map_err(errno)?.take(size as u64).read_to_end(&mut text).map_err(errno)?;
    if text.last() == Some(&b'\n') {
        text.pop();
    }
    if text.len() < size { Ok(text) } else { Err(Errno(libc::EOVERFLOW)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(dir: &CStr, file: &CStr, size: usize) -> (c_int, Vec<u8>) {
        let mut buf = vec![0xaa_u8; size];
        // SAFETY: strings, and a buffer of `size` bytes.
        let length =
            unsafe { ibv_read_sysfs_file(dir.as_ptr(), file.as_ptr(), buf.as_mut_ptr().cast(), size) };
        (length, buf)
    }

    #[test]
    fn a_line_loses_its_newline_and_gains_a_nul() {
        let (length, buf) = read(c"/proc/sys/kernel", c"ostype", 16);
        assert_eq!((length, &buf[..6]), (5, &b"Linux\0"[..]));
    }

    #[test]
    fn what_does_not_fit_or_does_not_exist_is_minus_one() {
        assert_eq!(read(c"/proc/sys/kernel", c"ostype", 5).0, -1);
        assert_eq!(read(c"/proc/sys/kernel", c"no-such-file", 16).0, -1);
        // SAFETY: null pointers are allowed.
        let nothing =
            unsafe { ibv_read_sysfs_file(core::ptr::null(), core::ptr::null(), core::ptr::null_mut(), 0) };
        assert_eq!(nothing, -1);
    }
}
