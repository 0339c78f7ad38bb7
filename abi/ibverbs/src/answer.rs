//! How an answer reaches C: an error number returned, an error number in `errno`, a pointer or null.

use core::ffi::c_int;
use core::ptr;
use glassnic_explain::{End, Explanation, Lang, explain_failure_in, explain_in, explain_leftover_in, json};
use glassnic_verbs::Context;
use glassnic_verbs::events::{self, Call, Check, Failure, Leftover, Refusal, Rule};
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

/// What `GLASSNIC_EXPLAIN` asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Telling {
    Nothing,
    /// `1`: lines for people.
    Text,
    /// `json`: a JSON object a line.
    Json,
}

/// Read once: it belongs to the process.
fn telling() -> Telling {
    static TELLING: OnceLock<Telling> = OnceLock::new();
    *TELLING.get_or_init(|| match std::env::var_os("GLASSNIC_EXPLAIN") {
        Some(value) if value == "1" => Telling::Text,
        Some(value) if value == "json" => Telling::Json,
        _ => Telling::Nothing,
    })
}

/// Whether `GLASSNIC_EXPLAIN` asks for explanations on standard error.
pub(crate) fn explains() -> bool {
    telling() != Telling::Nothing
}

/// Writes an explanation to standard error, in one write so that those of several threads stay whole.
fn tell(text: impl FnOnce() -> String, json: impl FnOnce() -> String) {
    let line = match telling() {
        Telling::Nothing => return,
        Telling::Text => format!("glassnic: {}\n", text()),
        Telling::Json => format!("{}\n", json()),
    };
    write(&line);
}

/// Writes a line to standard error, in one write as well.
pub(crate) fn say(line: &str) {
    write(&format!("glassnic: {line}\n"));
}

/// Not through `std::io::stderr`, whose lock its holder may not take twice: a program may end from the handler of a signal
/// that comes while we write, and is told then what it leaves.
fn write(line: &str) {
    let mut rest = line.as_bytes();
    while !rest.is_empty() {
        // SAFETY: the kernel reads as many bytes as there are.
        let written = unsafe { libc::write(libc::STDERR_FILENO, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(_) if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
            // A program without standard error is told nothing.
            Err(_) => return,
        }
    }
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
    refused_with(refusal, |_| ())
}

/// As [`refused`], of an object that a device was to make: where a limit is reached, with who holds what there is.
#[cold]
pub(crate) fn not_made(context: &Context, refusal: &Refusal) -> Errno {
    refused_with(refusal, |said| {
        let Rule::LimitReached { kind, .. } = refusal.rule else { return };
        for holder in context.holders(kind).iter().take(HOLDERS) {
            if let Leftover::Objects { count, site, .. } = *holder
                && let Some(place) = context.site(site)
            {
                said.add_holder(count, &place);
            }
        }
    })
}

/// Places that are named where a limit is reached.
const HOLDERS: usize = 3;

/// As [`refused`], with what the caller adds.
pub(crate) fn refused_with(refusal: &Refusal, add: impl FnOnce(&mut Explanation)) -> Errno {
    let errno = events::errno(&refusal.rule);
    if explains() {
        let mut said = explain_in(lang(), refusal);
        add(&mut said);
        tell(|| format!("{said} [{errno}]"), || json::refusal(refusal, &said));
    }
    Errno(errno.0)
}

/// Tells, once for each QP, why it failed, if the environment asks for it. A completion with an error was taken: what its
/// status says is seldom the cause. The other end is told as well, where it is of this process: it may have no completion.
#[cold]
pub(crate) fn failed(context: &Context, qpn: u32) {
    if !explains() {
        return;
    }
    let Some(failure) = context.take_failure(qpn) else { return };
    tell_failure(&failure);
    if let Some(peer) = context.take_failure_of_peer(&failure) {
        tell_failure(&peer);
    }
}

/// Tells which QPs failed because their CQ overran: there is no completion that could.
#[cold]
pub(crate) fn overran(context: &Context) {
    if explains() {
        context.take_overrun().iter().for_each(tell_failure);
    }
}

fn tell_failure(failure: &Failure) {
    // A program that moves a QP to ERR itself knows why.
    if failure.cause.check != Check::ModifiedToErr {
        let said = explain_failure_in(lang(), failure);
        tell(|| said.to_string(), || json::failure(failure, &said));
    }
}

/// Tells what is left on a device.
pub(crate) fn left(context: &Context, end: End) {
    if !explains() {
        return;
    }
    let (left, failures) = context.leftovers();
    failures.iter().for_each(tell_failure);
    for left in &left {
        let site = match left {
            Leftover::Objects { site, .. } => context.site(*site),
            _ => None,
        };
        let said = explain_leftover_in(lang(), end, left, site.as_deref());
        tell(|| said.to_string(), || json::leftover(left, &said));
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
