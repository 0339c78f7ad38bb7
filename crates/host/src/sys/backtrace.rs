//! Where in the program a verb was called: a few return addresses, cheap to take, put into words once for each place.

use std::cell::RefCell;
use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

use arrayvec::ArrayVec;

/// Frames that are taken, and with `GLASSNIC_BACKTRACE=1`.
const FRAMES: usize = 3;
const FRAMES_FULL: usize = 16;
/// Frames of this library, which lie above those of the program.
const OURS_MAX: usize = 24;

/// Frames of a stack that are remembered: ours and the program's.
const REMEMBERED_MAX: usize = OURS_MAX + FRAMES_FULL;
/// Stacks that a thread remembers.
const STACKS: usize = 4;

/// Return addresses of the program, innermost first, and a number for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    frames: ArrayVec<usize, FRAMES_FULL>,
    hash: u64,
}

/// A stack as it was unwound once: where each return address lies, and which it is.
#[derive(Clone, Debug)]
struct Stack {
    anchor: usize,
    returns: ArrayVec<(usize, usize), REMEMBERED_MAX>,
    trace: Trace,
}

thread_local! {
    /// The last stacks of this thread, newest first.
    static STACKS_SEEN: RefCell<Vec<Stack>> = const { RefCell::new(Vec::new()) };
}

impl Trace {
    /// The place that called this library.
    ///
    /// Unwinding takes a microsecond or two, more than the verb. A program mostly calls from few places in a loop: then the
    /// stack has the same height, and the same return addresses lie in the same words of it, which is quickly seen.
    #[inline(never)]
    pub(crate) fn here() -> Self {
        let here = 0u8;
        let anchor = std::hint::black_box(&raw const here).addr();
        let known = STACKS_SEEN.try_with(|seen| {
            let mut seen = seen.try_borrow_mut().ok()?;
            let at = seen.iter().position(|stack| stack.anchor == anchor && stack.is_current())?;
            seen[..=at].rotate_right(1);
            Some(seen[0].trace.clone())
        });
        known.ok().flatten().unwrap_or_else(|| unwound(anchor))
    }

    /// A number for the place: the same for the same return addresses.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// The frames in words, one a line: `function+0x12 (library)` where the dynamic symbols tell, with
    /// `GLASSNIC_BACKTRACE=1` file and line where the debugging information does.
    pub(crate) fn describe(&self) -> String {
        let lines: Vec<String> = self.frames.iter().map(|ip| line(*ip)).collect();
        lines.join("\n")
    }
}

/// Unwinds the stack above `anchor`, and remembers it.
#[cold]
fn unwound(anchor: usize) -> Trace {
    let most = if is_full() { FRAMES_FULL } else { FRAMES };
    let mut frames = ArrayVec::new();
    let mut returns = ArrayVec::new();
    let mut ours = 0;
    let mut whole = true;
    ::backtrace::trace(|frame| {
        let ip = frame.ip() as usize;
        // Right below where the caller's frame begins lies the address to return to. What unwinds lies below the anchor.
        let at = (frame.sp() as usize).wrapping_sub(size_of::<usize>());
        if at <= anchor {
            return true;
        }
        whole &= returns.try_push((at, ip)).is_ok();
        if ours < OURS_MAX && is_ours(ip) {
            ours += 1;
            return true;
        }
        if ip != 0 {
            frames.push(ip);
        }
        frames.len() < most
    });
    // FNV-1a.
    let bytes = frames.iter().flat_map(|ip: &usize| ip.to_ne_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    let trace = Trace { frames, hash };
    let stack = Stack { anchor, returns, trace: trace.clone() };
    // Elsewhere than on x86-64 return addresses may lie in other places: then nothing is remembered.
    if whole && !stack.returns.is_empty() && stack.is_current() {
        let _ = STACKS_SEEN.try_with(|seen| {
            if let Ok(mut seen) = seen.try_borrow_mut() {
                seen.truncate(STACKS - 1);
                seen.insert(0, stack);
            }
        });
    }
    trace
}

impl Stack {
    /// True if the calling thread's stack, which is as high as this one was, has the same return addresses. From below: as long
    /// as they are the same, so are the functions that they return to, and the sizes of their frames; the next one then lies
    /// where it lay.
    fn is_current(&self) -> bool {
        self.returns.iter().all(|(at, ip)| {
            // SAFETY: a word of the calling thread's stack above the anchor: of a frame that the words before it have shown
            // to be there.
            let word = unsafe { std::ptr::with_exposed_provenance::<usize>(*at).read_volatile() };
            word == *ip
        })
    }
}

fn is_full() -> bool {
    static FULL: OnceLock<bool> = OnceLock::new();
    *FULL.get_or_init(|| std::env::var_os("GLASSNIC_BACKTRACE").is_some_and(|v| v == "1"))
}

fn line(ip: usize) -> String {
    // A return address is that of the next instruction, which may be of the next line or function.
    let call = ip.saturating_sub(1);
    if is_full()
        && let Some(found) = resolved(call)
    {
        return found;
    }
    let Some(symbol) = Symbol::of(call) else { return format!("{ip:#x}") };
    let module = symbol.module.rsplit('/').next().unwrap_or_default();
    match symbol.name {
        Some((name, at)) => format!("{name}+{:#x} ({module}+{:#x})", ip - at, ip - symbol.base),
        None => format!("{module}+{:#x}", ip - symbol.base),
    }
}

/// Function, file and line by the debugging information.
fn resolved(ip: usize) -> Option<String> {
    let mut found = None;
    ::backtrace::resolve(ip as *mut c_void, |symbol| {
        if let (Some(name), None) = (symbol.name(), &found) {
            let file = symbol.filename().map(|f| f.display().to_string());
            found = Some(match (file, symbol.lineno()) {
                (Some(file), Some(line)) => format!("{name} at {file}:{line}"),
                _ => name.to_string(),
            });
        }
    });
    found
}

/// What the dynamic linker knows of an address.
struct Symbol {
    module: String,
    base: usize,
    name: Option<(String, usize)>,
}

impl Symbol {
    fn of(address: usize) -> Option<Self> {
        let info = dladdr(address)?;
        let text = |p: *const libc::c_char| {
            // SAFETY: dladdr(3) gives null or a string that lives as long as its module, which the program is
            // returning into.
            (!p.is_null()).then(|| unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned())
        };
        Some(Self {
            module: text(info.dli_fname)?,
            base: info.dli_fbase as usize,
            name: text(info.dli_sname).map(|name| (name, info.dli_saddr as usize)),
        })
    }
}

fn dladdr(address: usize) -> Option<libc::Dl_info> {
    // SAFETY: all zero is a value of this struct of pointers.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked about; `info` may be written.
    let found = unsafe { libc::dladdr(address as *const c_void, &mut info) };
    (found != 0).then_some(info)
}

/// Whether an address lies in this shared library. A program that has us linked in is all program.
fn is_ours(ip: usize) -> bool {
    static OURS: OnceLock<Option<(usize, usize)>> = OnceLock::new();
    OURS.get_or_init(text_of_this_library).is_some_and(|(start, end)| (start..end).contains(&ip))
}

fn text_of_this_library() -> Option<(usize, usize)> {
    struct Search {
        inside: usize,
        found: Option<(usize, usize)>,
    }
    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _size: usize, data: *mut c_void) -> libc::c_int {
        // SAFETY: dl_iterate_phdr(3) hands over a valid record and the pointer that we gave it.
        let (info, search) = unsafe { (&*info, &mut *data.cast::<Search>()) };
        // The program itself has an empty name.
        // SAFETY: a string, says the man page.
        if info.dlpi_name.is_null() || unsafe { *info.dlpi_name } == 0 {
            return 0;
        }
        // SAFETY: the record's own count of headers.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        for h in headers.iter().filter(|h| h.p_type == libc::PT_LOAD) {
            let start = info.dlpi_addr as usize + h.p_vaddr as usize;
            let range = (start, start + h.p_memsz as usize);
            if h.p_flags & libc::PF_X != 0 && (range.0..range.1).contains(&search.inside) {
                search.found = Some(range);
            }
        }
        search.found.is_some().into()
    }
    let mut search = Search { inside: text_of_this_library as fn() -> _ as usize, found: None };
    // SAFETY: `look` gets the pointer to `search`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two callers of one function, from frames of the same height.
    #[test]
    fn a_remembered_stack_is_not_taken_for_another() {
        let mut traces = Vec::new();
        for n in 0..std::hint::black_box(64) {
            traces.push(if n % 3 == 0 { one_place() } else { other_place() });
        }
        for (n, trace) in traces.iter().enumerate() {
            assert_eq!(trace.hash() == traces[0].hash(), n % 3 == 0, "{n}");
        }
    }

    // What follows the call keeps it from being a jump, and the two functions from being one.
    #[inline(never)]
    fn other_place() -> Trace {
        let trace = Trace::here();
        assert!(!trace.frames.is_empty());
        trace
    }

    #[inline(never)]
    fn one_place() -> Trace {
        let trace = Trace::here();
        assert!(trace.hash() != 0);
        trace
    }

    #[test]
    fn the_same_place_has_the_same_number_and_words() {
        let mut places = Vec::new();
        // One call in one place, which a compiler that knew the number would make three of.
        for _ in 0..std::hint::black_box(3) {
            places.push(one_place());
        }
        assert!(places.windows(2).all(|p| p[0].hash() == p[1].hash()));
        assert_ne!(Trace::here().hash(), places[0].hash());
        let known = STACKS_SEEN.with_borrow(|seen| seen.iter().any(|s| s.trace == places[0]));
        assert!(known || !cfg!(target_arch = "x86_64"), "the stack was not remembered");
        let words = places[0].describe();
        assert_eq!(words.lines().count(), FRAMES, "{words}");
    }
}
