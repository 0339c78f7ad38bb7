//! Calls that are not implemented: each form of saying so.
//!
//! With `GLASSNIC_EXPLAIN=1` in the environment the name of the call goes to standard error.

use core::ffi::{c_int, c_void};

fn refuse(name: &str) {
    if std::env::var_os("GLASSNIC_EXPLAIN").is_some_and(|value| value == "1") {
        let line = format!("glassnic: {name} is not implemented; the program gets EOPNOTSUPP\n");
        // Not through `std::io::stderr`, whose lock its holder may not take twice: a signal's handler may come here too.
        // A program without standard error is told nothing.
        // SAFETY: the kernel reads as many bytes as there are.
        let _ = unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
    }
    // SAFETY: glibc returns the address of this thread's errno, valid for the life of the thread.
    unsafe { *libc::__errno_location() = libc::EOPNOTSUPP }
}

/// A call that returns an int.
pub(crate) fn minus_one(name: &str) -> c_int {
    refuse(name);
    -1
}

/// A call that returns a length or a file offset.
pub(crate) fn minus_one_wide(name: &str) -> isize {
    refuse(name);
    -1
}

/// A call that returns a pointer.
pub(crate) fn null(name: &str) -> *mut c_void {
    refuse(name);
    core::ptr::null_mut()
}

/// A call that returns a number of which 0 means none.
pub(crate) fn zero(name: &str) -> u64 {
    refuse(name);
    0
}

/// A call that returns nothing.
pub(crate) fn quiet(_name: &str) {}
