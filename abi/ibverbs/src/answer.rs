//! How an answer reaches C: an error number returned, an error number in `errno`, a pointer or null.

use core::ffi::c_int;
use core::ptr;
use glassnic_explain::{Lang, explain_failure_in, explain_in};
use glassnic_verbs::Context;
use glassnic_verbs::events::{self, Call, Check, Refusal, Rule};
use std::sync::OnceLock;

/// An error number of `errno.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

impl Errno {
    pub(crate) const EINVAL: Self = Self(libc::EINVAL);
    pub(crate) const EOPNOTSUPP: Self = Self(libc::EOPNOTSUPP);
    pub(crate) const ENOMEM: Self = Self(libc::ENOMEM);

    /// Puts the number into the calling thread's `errno`.
    pub(crate) fn set(self) {
        // SAFETY: glibc returns the address of this thread's errno, valid for the life of the thread.
        unsafe { *libc::__errno_location() = self.0 }
    }
}

/// Whether `GLASSNIC_EXPLAIN` asks for explanations on standard error. Read once: it belongs to the process.
pub(crate) fn explains() -> bool {
    static EXPLAINS: OnceLock<bool> = OnceLock::new();
    *EXPLAINS.get_or_init(|| std::env::var_os("GLASSNIC_EXPLAIN").is_some_and(|value| value == "1"))
}

/// The language of explanations: `GLASSNIC_LANG`, else that of the locale. Read once, as above.
pub(crate) fn lang() -> Lang {
    static LANG: OnceLock<Lang> = OnceLock::new();
    *LANG.get_or_init(|| {
        let value = |name| std::env::var(name).ok();
        let locale = ["LC_ALL", "LC_MESSAGES", "LANG"].map(value);
        Lang::choose(value("GLASSNIC_LANG").as_deref(), locale.iter().map(Option::as_deref))
    })
}

/// The error number of a refusal, which is told on standard error if the environment asks for it.
#[cold]
pub(crate) fn refused(refusal: &Refusal) -> Errno {
    let errno = events::errno(&refusal.rule);
    if explains() {
        eprintln!("glassnic: {} [{errno}]", explain_in(lang(), refusal));
    }
    Errno(errno.0)
}

/// Tells, once for each QP, why it failed, if the environment asks for it. A completion with an error was taken: what its
/// status says is seldom the cause.
#[cold]
pub(crate) fn failed(context: &Context, qpn: u32) {
    if !explains() {
        return;
    }
    // A program that moves a QP to ERR itself knows why.
    if let Some(failure) = context.take_failure(qpn).filter(|f| f.cause.check != Check::ModifiedToErr) {
        eprintln!("glassnic: {}", explain_failure_in(lang(), &failure));
    }
}

/// As [`refused`], for a rule that a call broke and that is not about a queue pair.
#[cold]
pub(crate) fn broken(call: Call, rule: Rule) -> Errno {
    refused(&Refusal::new(call, rule))
}

/// The error number of a system call that failed.
pub(crate) fn system(error: &std::io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(libc::EIO))
}

/// Most calls: 0, or the error number (which is in `errno` too).
pub(crate) fn code(result: Result<(), Errno>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(errno) => {
            errno.set();
            errno.0
        }
    }
}

/// Calls that return an object: its address, or null with `errno` set.
pub(crate) fn pointer<T>(result: Result<*mut T, Errno>) -> *mut T {
    result.unwrap_or_else(|errno| {
        errno.set();
        ptr::null_mut()
    })
}

/// Calls that return a count or an index: the number, or -1 with `errno` set.
pub(crate) fn number(result: Result<c_int, Errno>) -> c_int {
    result.unwrap_or_else(|errno| {
        errno.set();
        -1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errno() -> c_int {
        std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
    }

    #[test]
    fn each_form_tells_the_error_in_its_own_way() {
        assert_eq!(code(Err(Errno::EINVAL)), libc::EINVAL);
        assert_eq!(errno(), libc::EINVAL);
        assert!(pointer::<u8>(Err(Errno::EOPNOTSUPP)).is_null());
        assert_eq!(errno(), libc::EOPNOTSUPP);
        assert_eq!(number(Err(Errno(libc::ENODEV))), -1);
        assert_eq!(errno(), libc::ENODEV);
        assert_eq!(number(Ok(7)), 7);
        assert_eq!(code(Ok(())), 0);
        assert_eq!(errno(), libc::ENODEV, "success leaves errno alone");
    }
}
