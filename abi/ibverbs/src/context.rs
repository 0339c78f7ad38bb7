//! Open devices: `ibv_open_device(3)`, `ibv_close_device(3)`.

use crate::answer::{Errno, broken, explains, lang, left, number, pointer, say, system};
use crate::device;
use crate::layout::*;
use crate::operations;
use crate::store::{Held, Object, Store, given, taken};
use core::ffi::c_int;
use core::mem::offset_of;
use glassnic_explain::End;
use glassnic_verbs::events::{Call, Field, ObjectKind, Rule};
use glassnic_verbs::{Context, Words};
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An open device.
pub(crate) struct Opened {
    pub(crate) context: Context,
    /// A descriptor for programs that hand the context to others; there is no kernel device behind it.
    _command: OwnedFd,
    subjects: Mutex<Subjects>,
}

/// What asynchronous events may be about: the pointers that C knows, by number.
#[derive(Default)]
pub(crate) struct Subjects {
    pub(crate) qps: Numbers,
    pub(crate) cqs: HashMap<u32, usize>,
    pub(crate) srqs: HashMap<u32, usize>,
}

/// Addresses by QP number. Numbers come in blocks and one after the other, so a table costs each QP a word, where a map would
/// cost it four.
#[derive(Default)]
pub(crate) struct Numbers(HashMap<u32, Box<[usize; PAGE]>>);

/// Numbers of a page of [`Numbers`].
const PAGE: usize = 256;

impl Numbers {
    fn place(number: u32) -> (u32, usize) {
        (number / PAGE as u32, number as usize % PAGE)
    }

    pub(crate) fn get(&self, number: u32) -> Option<usize> {
        let (page, at) = Self::place(number);
        self.0.get(&page).map(|page| page[at]).filter(|address| *address != 0)
    }

    pub(crate) fn insert(&mut self, number: u32, address: usize) {
        let (page, at) = Self::place(number);
        self.0.entry(page).or_insert_with(|| Box::new([0; PAGE]))[at] = address;
    }

    pub(crate) fn remove(&mut self, number: u32) {
        let (page, at) = Self::place(number);
        if let Some(page) = self.0.get_mut(&page) {
            page[at] = 0;
        }
    }
}

impl Opened {
    pub(crate) fn subjects(&self) -> MutexGuard<'_, Subjects> {
        self.subjects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Object for Opened {
    type Public = verbs_context;
    type Seen = ibv_context;
    const SEEN_AT: usize = offset_of!(verbs_context, context);
    const TAG: u64 = 0x676c_6173_7363_7478;
    const KIND: ObjectKind = ObjectKind::Context;
    const FIELD: Field = Field::Context;

    fn store() -> &'static Store<Self> {
        static STORE: Store<Opened> = Store::new();
        &STORE
    }
}

/// Opens a device; null with `errno` otherwise.
pub(crate) extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    pointer(open(device))
}

/// Another name of [`ibv_open_device`], for drivers that open with private data. Ours needs none.
pub(crate) extern "C" fn verbs_open_device(
    device: *mut ibv_device,
    _private: *mut core::ffi::c_void,
) -> *mut ibv_context {
    pointer(open(device))
}

fn open(device: *mut ibv_device) -> Result<*mut ibv_context, Errno> {
    let call = Call::OpenDevice;
    let Some(found) = device::find(device) else {
        let rule = if device.is_null() {
            Rule::NullPointer { what: Field::Device }
        } else {
            Rule::BadHandle { kind: ObjectKind::Device, handle: 0 }
        };
        return Err(broken(call, rule));
    };
    let context = found.open().map_err(|error| {
        if explains() {
            say(&format!("{call}: {}: {}", found.name(), error.in_words(lang())));
        }
        system(&error)
    })?;
    let command = command_descriptor()?;
    let mut public = operations::CONTEXT;
    public.context.device = device;
    public.context.cmd_fd = command.as_raw_fd();
    public.context.async_fd = context.events().as_fd().as_raw_fd();
    public.context.num_comp_vectors = COMP_VECTORS;
    let opened = Opened { context, _command: command, subjects: Mutex::default() };
    Ok(Opened::store().insert(public, opened))
}

/// Completion vectors of a device.
pub(crate) const COMP_VECTORS: c_int = 1;

fn command_descriptor() -> Result<OwnedFd, Errno> {
    // SAFETY: makes a descriptor that nobody else has.
    match unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) } {
        -1 => Err(system(&std::io::Error::last_os_error())),
        // SAFETY: a descriptor that was just made and belongs to nobody else.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

/// Closes a device; 0, or -1 with `errno` set. What the program has left on it is of no use any more.
pub(crate) extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    number(close(context).map(|()| 0))
}

fn close(context: *mut ibv_context) -> Result<(), Errno> {
    let opened = taken::<Opened>(Call::CloseDevice, context)?;
    left(&opened.context, End::Close);
    opened.context.close();
    Ok(())
}

/// Tells what a program leaves that ends by exit(3) or a return from main. Run by the loader when it has run what the program
/// itself has registered, destructors of C++ too; not when the program ends in another way, whose status is not ours to touch.
extern "C" fn at_end() {
    for opened in Opened::store().all() {
        left(&opened.context, End::Exit);
    }
}

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_END: extern "C" fn() = at_end;

/// The open device behind an argument.
pub(crate) fn opened(call: Call, context: *mut ibv_context) -> Result<Held<Opened>, Errno> {
    given::<Opened>(call, context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_its_address_until_it_is_removed() {
        let mut numbers = Numbers::default();
        for number in [0, 255, 256, 0xff_ffff] {
            assert_eq!(numbers.get(number), None);
            numbers.insert(number, number as usize + 8);
        }
        for number in [0, 255, 256, 0xff_ffff] {
            assert_eq!(numbers.get(number), Some(number as usize + 8));
            numbers.remove(number);
            assert_eq!(numbers.get(number), None);
        }
        numbers.remove(77_777);
    }
}
