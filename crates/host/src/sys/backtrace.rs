//! Where in the program a verb was called: a few return addresses, cheap to take, put into words once for each place.

use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

use arrayvec::ArrayVec;

/// Frames that are taken, and with `GLASSNIC_BACKTRACE=1`.
const FRAMES: usize = 3;
const FRAMES_FULL: usize = 16;
/// Frames of this library, which lie above those of the program.
const OURS_MAX: usize = 24;

/// Return addresses of the program, innermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trace(ArrayVec<usize, FRAMES_FULL>);

impl Trace {
    /// The place that called this library.
    #[inline(never)]
    pub(crate) fn here() -> Self {
        let most = if is_full() { FRAMES_FULL } else { FRAMES };
        let mut taken = ArrayVec::new();
        let mut ours = 0;
        ::backtrace::trace(|frame| {
            let ip = frame.ip() as usize;
            if ours < OURS_MAX && is_ours(ip) {
                ours += 1;
                return true;
            }
            if ip != 0 {
                taken.push(ip);
            }
            taken.len() < most
        });
        Self(taken)
    }

    /// A number for the place: the same for the same return addresses.
    pub(crate) fn hash(&self) -> u64 {
        // FNV-1a.
        let bytes = self.0.iter().flat_map(|ip| ip.to_ne_bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
    }

    /// The frames in words, one a line: `function+0x12 (library)` where the dynamic symbols tell, with
    /// `GLASSNIC_BACKTRACE=1` file and line where the debugging information does.
    pub(crate) fn describe(&self) -> String {
        let lines: Vec<String> = self.0.iter().map(|ip| line(*ip)).collect();
        lines.join("\n")
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

    #[inline(never)]
    fn one_place() -> Trace {
        Trace::here()
    }

    #[test]
    fn the_same_place_has_the_same_number_and_words() {
        let places: Vec<Trace> = (0..3).map(|_| one_place()).collect();
        assert!(places.windows(2).all(|p| p[0].hash() == p[1].hash()));
        assert_ne!(Trace::here().hash(), places[0].hash());
        let words = places[0].describe();
        assert_eq!(words.lines().count(), FRAMES, "{words}");
    }
}
