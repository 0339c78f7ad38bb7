//! Pure functions give the same answers as those of the installed `libibverbs`.
//!
//! The values of newer libraries that the installed one does not know are in the unit tests of each function.

mod common;

use core::ffi::{CStr, c_char, c_int, c_void};
use std::ffi::CString;
use std::path::Path;

struct Library(*mut c_void);

impl Library {
    fn open(path: &Path) -> Option<Self> {
        let name = CString::new(path.to_str()?).ok()?;
        // SAFETY: a string; the libraries' constructors do nothing that a test could trip over.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        (!handle.is_null()).then_some(Self(handle))
    }

    fn address(&self, name: &str) -> *mut c_void {
        let symbol = CString::new(name).expect("a name without NUL");
        // SAFETY: an open library and a string.
        let address = unsafe { libc::dlsym(self.0, symbol.as_ptr()) };
        assert!(!address.is_null(), "{name} is missing");
        address
    }

    fn number(&self, name: &str, value: c_int) -> c_int {
        // SAFETY: only called for functions of this type.
        let function: unsafe extern "C" fn(c_int) -> c_int =
            unsafe { core::mem::transmute(self.address(name)) };
        // SAFETY: any number is allowed.
        unsafe { function(value) }
    }

    fn word(&self, name: &str, value: c_int) -> String {
        // SAFETY: only called for functions of this type.
        let function: unsafe extern "C" fn(c_int) -> *const c_char =
            unsafe { core::mem::transmute(self.address(name)) };
        // SAFETY: any number is allowed, and a static string comes back.
        unsafe { CStr::from_ptr(function(value)) }.to_string_lossy().into_owned()
    }

    /// Fills a struct of 512 bytes from another by one of the `ibv_copy_*` functions.
    fn copied(&self, name: &str, before: u8, source: &[u8; 512]) -> [u64; 64] {
        type Copy = unsafe extern "C" fn(*mut c_void, *const c_void);
        // SAFETY: only called for functions of this type.
        let function: Copy = unsafe { core::mem::transmute(self.address(name)) };
        let mut answer = [u64::from_ne_bytes([before; 8]); 64];
        let mut aligned = [0_u64; 64];
        for (word, bytes) in aligned.iter_mut().zip(source.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        }
        // SAFETY: both are larger than any of the structs, and aligned.
        unsafe { function(answer.as_mut_ptr().cast(), aligned.as_ptr().cast()) };
        answer
    }
}

fn libraries() -> Option<(Library, Library)> {
    let ours = Library::open(&common::library("libibverbs.so")).expect("our own library");
    Some((ours, Library::open(&common::original("libibverbs.so.1")?)?))
}

#[test]
fn names_of_values() {
    let Some((ours, original)) = libraries() else { return };
    for function in ["ibv_wc_status_str", "ibv_event_type_str", "ibv_node_type_str", "ibv_port_state_str"] {
        for value in -2..40 {
            assert_eq!(ours.word(function, value), original.word(function, value), "{function}({value})");
        }
    }
}

#[test]
fn rates() {
    let Some((ours, original)) = libraries() else { return };
    for value in -2..40 {
        for function in ["ibv_rate_to_mult", "ibv_rate_to_mbps"] {
            assert_eq!(ours.number(function, value), original.number(function, value), "{function}({value})");
        }
    }
    for value in -2..600 {
        assert_eq!(
            ours.number("mult_to_ibv_rate", value),
            original.number("mult_to_ibv_rate", value),
            "{value}"
        );
    }
    for value in -2..1_300_000 {
        assert_eq!(
            ours.number("mbps_to_ibv_rate", value),
            original.number("mbps_to_ibv_rate", value),
            "{value}"
        );
    }
}

#[test]
fn translations_of_the_kernels_structs() {
    let Some((ours, original)) = libraries() else { return };
    let mut source = [0_u8; 512];
    for (index, byte) in source.iter_mut().enumerate() {
        *byte = (index as u8).wrapping_mul(37).wrapping_add(11);
    }
    for (function, size) in [
        ("ibv_copy_ah_attr_from_kern", 32),
        ("ibv_copy_qp_attr_from_kern", 144),
        ("ibv_copy_path_rec_from_kern", 72),
        ("ibv_copy_path_rec_to_kern", 64),
    ] {
        // Padding between fields is nobody's: compare what both always set, under two different backgrounds.
        let fixed = |library: &Library| {
            let (low, high) = (library.copied(function, 0, &source), library.copied(function, 0xff, &source));
            low.into_iter().zip(high).map(|(low, high)| (low & high, !(low ^ high))).collect::<Vec<_>>()
        };
        for (index, (ours, original)) in
            fixed(&ours).into_iter().zip(fixed(&original)).enumerate().take(size / 8)
        {
            let both = ours.1 & original.1;
            assert_eq!(ours.0 & both, original.0 & both, "{function}, byte {}", index * 8);
            assert_eq!(original.1 & !ours.1, 0, "{function} leaves something unset near byte {}", index * 8);
        }
    }
}
