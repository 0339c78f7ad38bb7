//! Calls that GlassNIC does not implement: each form of saying so.
//!
//! With `GLASSNIC_EXPLAIN=1` in the environment the name of the call goes to standard error, once for each call that is made.

use crate::answer::{Errno, explains, lang, say};
use core::ffi::{c_int, c_void};
use core::ptr;
use glassnic_explain::both;

fn refuse(name: &str) -> Errno {
    if explains() {
        say(&both!(
            lang(),
            "{name} is not implemented; the program gets EOPNOTSUPP",
            "没有实现 {name}；程序得到 EOPNOTSUPP"
        ));
    }
    Errno::EOPNOTSUPP.set();
    Errno::EOPNOTSUPP
}

/// A call that returns an error number.
pub(crate) fn code(name: &str) -> c_int {
    refuse(name).0
}

/// A call that returns -1 and sets `errno`.
pub(crate) fn minus_one(name: &str) -> c_int {
    refuse(name);
    -1
}

/// A call that returns a pointer.
pub(crate) fn null(name: &str) -> *mut c_void {
    refuse(name);
    ptr::null_mut()
}

/// A call that returns a number of which 0 means none.
pub(crate) fn zero(name: &str) -> u64 {
    refuse(name);
    0
}

/// A call that returns nothing and may be ignored, such as a provider that registers itself.
pub(crate) fn quiet(_name: &str) {}
