//! UCX looks for a file before it opens a device: without a character device `/dev/infiniband/<dev_name>` it skips it.
//!
//! There is no such file here, and nobody without root could make one. So, where UCX's library for verbs is loaded, its own
//! calls of `stat` and `access` are led to functions of ours, which answer for the files of our devices and pass on all others.
//! No other library's calls are touched. `GLASSNIC_UCX=0` leaves UCX alone.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::transmute;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

/// How the file of UCX's library begins, in all its versions.
const LIBRARY: &[u8] = b"libuct_ib.so";

/// Where UCX looks for the file of a device.
const FOLDER: &[u8] = b"/dev/infiniband/";

/// A character device that everybody may read and write, as a user with leave to use a NIC may its file.
const STAND_IN: &CStr = c"/dev/null";

/// What leads to us, if UCX imports it. Before glibc 2.33 `stat` was `__xstat` to the linker.
const LED: [(&CStr, usize); 3] = [(c"stat", 0), (c"__xstat", 1), (c"access", 2)];

/// The functions of [`LED`].
fn ours(which: usize) -> usize {
    match which {
        0 => stat as *const () as usize,
        1 => xstat as *const () as usize,
        _ => access as *const () as usize,
    }
}

/// Leads the calls of UCX's library to us if it is loaded. It may come and go: this is asked at each list of devices.
pub(crate) fn lead() {
    if std::env::var_os("GLASSNIC_UCX").is_some_and(|value| value == "0") {
        return;
    }
    // SAFETY: the function takes what dl_iterate_phdr(3) gives it, and does not unwind: nothing in it panics.
    unsafe { libc::dl_iterate_phdr(Some(each_library), ptr::null_mut()) };
}

/// # Safety
/// `info` is what dl_iterate_phdr(3) passes: a library that stays loaded meanwhile.
unsafe extern "C" fn each_library(info: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
    // SAFETY: as promised by the caller.
    let info = unsafe { &*info };
    if info.dlpi_name.is_null() {
        return 0;
    }
    // SAFETY: not null, so a string.
    let path = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes();
    if path.rsplit(|byte| *byte == b'/').next().is_some_and(|file| file.starts_with(LIBRARY)) {
        // SAFETY: a library that is loaded.
        unsafe { lead_library(info) };
    }
    0
}

/// What the dynamic section says of the library's imports (ELF gABI, chapter 5).
#[derive(Default)]
struct Dynamic {
    symbols: usize,
    strings: usize,
    /// Tables of relocations with addends: address and bytes. Functions that are called, and all others.
    tables: [(usize, usize); 2],
}

/// # Safety
/// `info` describes a library that stays loaded.
unsafe fn lead_library(info: &libc::dl_phdr_info) {
    let base = info.dlpi_addr as usize;
    // SAFETY: the array of program headers of the library.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let segment = |kind| headers.iter().find(|header| header.p_type == kind);
    let Some(dynamic) = segment(libc::PT_DYNAMIC) else { return };
    // SAFETY: the library's dynamic section, as the loader has it in memory.
    let dynamic = unsafe { read_dynamic(base + dynamic.p_vaddr as usize) };
    let sealed = segment(libc::PT_GNU_RELRO)
        .map_or(0..0, |relro| base + relro.p_vaddr as usize..base + (relro.p_vaddr + relro.p_memsz) as usize);
    if dynamic.symbols == 0 || dynamic.strings == 0 {
        return;
    }
    for (table, bytes) in dynamic.tables {
        for index in 0..bytes / size_of::<Elf64Rela>() {
            // SAFETY: within the table.
            let entry = unsafe { &*(table as *const Elf64Rela).add(index) };
            // SAFETY: the table's entries name symbols of the library.
            if let Some(which) = unsafe { imported(entry, &dynamic) } {
                // SAFETY: the entry's place is where the library keeps the address of the function.
                unsafe { lead_slot(base + entry.place as usize, ours(which), &sealed) };
            }
        }
    }
}

/// `Elf64_Dyn`.
#[repr(C)]
struct Elf64Dyn {
    tag: i64,
    value: u64,
}

/// `Elf64_Rela`.
#[repr(C)]
struct Elf64Rela {
    place: u64,
    /// Symbol in the upper half, kind in the lower.
    info: u64,
    addend: i64,
}

/// # Safety
/// `address` is a dynamic section that ends with `DT_NULL`, whose addresses the loader has made absolute.
unsafe fn read_dynamic(address: usize) -> Dynamic {
    let mut found = Dynamic::default();
    let mut entry = address as *const Elf64Dyn;
    loop {
        // SAFETY: at or before the final entry.
        let Elf64Dyn { tag, value } = unsafe { entry.read() };
        let value = value as usize;
        match tag {
            0 => return found,               // DT_NULL
            5 => found.strings = value,      // DT_STRTAB
            6 => found.symbols = value,      // DT_SYMTAB
            2 => found.tables[0].1 = value,  // DT_PLTRELSZ
            23 => found.tables[0].0 = value, // DT_JMPREL
            7 => found.tables[1].0 = value,  // DT_RELA
            8 => found.tables[1].1 = value,  // DT_RELASZ
            _ => {}
        }
        // SAFETY: this was not the final entry.
        entry = unsafe { entry.add(1) };
    }
}

/// Which of [`LED`] an entry imports.
///
/// # Safety
/// The entry and the tables are of one library.
unsafe fn imported(entry: &Elf64Rela, dynamic: &Dynamic) -> Option<usize> {
    /// `R_X86_64_GLOB_DAT` and `R_X86_64_JUMP_SLOT`: the place holds the address of a symbol, and nothing else.
    const ADDRESS_OF_SYMBOL: [u32; 2] = [6, 7];
    /// `sizeof(Elf64_Sym)`, whose first field is the name's place in the string table.
    const SYMBOL_LEN: usize = 24;
    if !ADDRESS_OF_SYMBOL.contains(&(entry.info as u32)) {
        return None;
    }
    let symbol = dynamic.symbols + (entry.info >> 32) as usize * SYMBOL_LEN;
    // SAFETY: a symbol of the library and its name.
    let name =
        unsafe { CStr::from_ptr((dynamic.strings + *(symbol as *const u32) as usize) as *const c_char) };
    LED.iter().find(|(led, _)| *led == name).map(|(_, which)| *which)
}

/// # Safety
/// `slot` is a word of a loaded library that holds the address of a function.
unsafe fn lead_slot(slot: usize, function: usize, sealed: &core::ops::Range<usize>) {
    let place = slot as *const AtomicUsize;
    // SAFETY: an aligned word that lives as long as the library. Other threads read it as they call: one store changes it.
    if unsafe { (*place).load(Ordering::Relaxed) } == function {
        return;
    }
    let is_sealed = sealed.contains(&slot);
    // SAFETY: takes no arguments that could be bad.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let start = (slot & !(page - 1)) as *mut c_void;
    // The loader has made this page read-only once it had filled it in.
    // SAFETY: the page holds data of the library; that it can be written for a moment takes nothing from anybody.
    if is_sealed && unsafe { libc::mprotect(start, page, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
        return;
    }
    // SAFETY: as above, and writable.
    unsafe { (*place).store(function, Ordering::Relaxed) };
    if is_sealed {
        // SAFETY: the page as it was. A failure would leave it writable, which harms nothing.
        unsafe { libc::mprotect(start, page, libc::PROT_READ) };
    }
}

/// The file that answers for `path`: the stand-in for that of a device of ours that does not exist, else `path` itself.
///
/// # Safety
/// `path` is null or a string.
unsafe fn stand_in(path: *const c_char) -> *const c_char {
    if path.is_null() {
        return path;
    }
    // SAFETY: not null, so a string.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    let is_ours = bytes.strip_prefix(FOLDER).is_some_and(crate::device::is_dev_name);
    if is_ours { STAND_IN.as_ptr() } else { path }
}

/// stat(2) of UCX.
///
/// # Safety
/// As the function of C.
unsafe extern "C" fn stat(path: *const c_char, buf: *mut libc::stat) -> c_int {
    // SAFETY: as promised by the caller.
    unsafe { libc::stat(stand_in(path), buf) }
}

/// The same before glibc 2.33.
///
/// # Safety
/// As the function of C.
unsafe extern "C" fn xstat(version: c_int, path: *const c_char, buf: *mut libc::stat) -> c_int {
    type Xstat = unsafe extern "C" fn(c_int, *const c_char, *mut libc::stat) -> c_int;
    // SAFETY: looks a name up; glibc keeps it for old programs.
    let original = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__xstat".as_ptr()) };
    if original.is_null() {
        // SAFETY: as promised by the caller; the struct has one layout only on this machine.
        return unsafe { stat(path, buf) };
    }
    // SAFETY: the function of that name has this type.
    let original = unsafe { transmute::<*mut c_void, Xstat>(original) };
    // SAFETY: as promised by the caller.
    unsafe { original(version, stand_in(path), buf) }
}

/// access(2) of UCX.
///
/// # Safety
/// As the function of C.
unsafe extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: as promised by the caller.
    unsafe { libc::access(stand_in(path), mode) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn led_to(path: &CStr) -> &CStr {
        // SAFETY: a string, and what comes back is it or a static.
        unsafe { CStr::from_ptr(stand_in(path.as_ptr())) }
    }

    #[test]
    fn only_files_of_our_devices_are_answered_for() {
        assert_eq!(led_to(c"/dev/infiniband/uverbs0"), STAND_IN);
        for other in [
            c"/dev/infiniband/uverbs",
            c"/dev/infiniband/umad0",
            c"/dev/infiniband/uverbs99",
            c"/etc/passwd",
            c"",
        ] {
            assert_eq!(led_to(other), other);
        }
        // SAFETY: null is allowed.
        assert!(unsafe { stand_in(ptr::null()) }.is_null());
    }

    #[test]
    fn a_sealed_word_is_changed_and_sealed_again() {
        // SAFETY: a new page of memory.
        let page = unsafe {
            libc::mmap(ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        assert_ne!(page, libc::MAP_FAILED);
        let slot = page as usize + 64;
        // SAFETY: a word of the page.
        unsafe { lead_slot(slot, 7, &(page as usize..page as usize + 4096)) };
        // SAFETY: as above.
        assert_eq!(unsafe { *(slot as *const usize) }, 7);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.starts_with(&format!("{:x}-", page as usize))).unwrap();
        assert!(line.contains(" r--p "), "{line}");
        // SAFETY: nothing refers to the page any more.
        unsafe { libc::munmap(page, 4096) };
    }

    #[test]
    fn the_imports_of_a_library_are_found() {
        // This program imports from libc itself: its own tables are read as UCX's would be.
        unsafe extern "C" fn count(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
            // SAFETY: what dl_iterate_phdr passes, and the counter of the test.
            let (info, found) = unsafe { (&*info, &mut *found.cast::<usize>()) };
            // SAFETY: the program headers.
            let headers =
                unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
            let dynamic = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC).unwrap();
            // SAFETY: the dynamic section of the first library, which is the program.
            let dynamic = unsafe { read_dynamic(info.dlpi_addr as usize + dynamic.p_vaddr as usize) };
            *found = dynamic.tables.iter().map(|(_, bytes)| bytes / size_of::<Elf64Rela>()).sum();
            1
        }
        let mut found = 0_usize;
        // SAFETY: `count` takes what it is given.
        unsafe { libc::dl_iterate_phdr(Some(count), (&raw mut found).cast()) };
        assert!(found > 0);
    }
}
