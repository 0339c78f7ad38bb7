//! The list of devices: `ibv_get_device_list(3)` and the getters of a device.

use crate::answer::{Errno, explains, lang, pointer, say};
use crate::layout::describe::CStruct;
use crate::layout::*;
use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use glassnic_verbs::{Device, Words};
use std::sync::OnceLock;

/// A device as C sees it, with ours behind it. Never freed: programs hold on to devices after they free the list.
#[repr(C)]
struct Listed {
    /// What C reads, and what libraries of other providers compare (`ops`).
    public: verbs_device,
    device: Device,
}

// SAFETY: nothing in it changes after it is made; its raw pointers are to statics or null.
unsafe impl Sync for Listed {}
// SAFETY: as above.
unsafe impl Send for Listed {}

/// Other providers tell their devices by the address of their table.
struct Provider(verbs_device_ops);

// SAFETY: never changes.
unsafe impl Sync for Provider {}

static PROVIDER: Provider =
    Provider(verbs_device_ops { name: c"glassnic".as_ptr(), ..verbs_device_ops::ZERO });

/// The devices, found at the first call.
fn devices() -> &'static [Listed] {
    static DEVICES: OnceLock<Vec<Listed>> = OnceLock::new();
    DEVICES.get_or_init(|| {
        let found = glassnic_verbs::devices();
        if explains() {
            for problem in glassnic_verbs::problems() {
                say(&problem.in_words(lang()));
            }
        }
        found.into_iter().map(listed).collect()
    })
}

fn listed(device: Device) -> Listed {
    let index = device.index();
    let device_in_c = ibv_device {
        node_type: IBV_NODE_CA,
        transport_type: IBV_TRANSPORT_IB,
        name: text(device.name()),
        dev_name: text(&dev_name(index)),
        dev_path: text(&format!("/sys/class/infiniband_verbs/{}", dev_name(index))),
        ibdev_path: text(&format!("/sys/class/infiniband/{}", device.name())),
        ..ibv_device::ZERO
    };
    let public =
        verbs_device { device: device_in_c, ops: &raw const PROVIDER.0, refcount: 1, ..verbs_device::ZERO };
    Listed { public, device }
}

/// What the kernel would call the file of a device.
fn dev_name(index: u32) -> String {
    format!("uverbs{index}")
}

/// Whether this is the name of the file of a device of ours.
pub(crate) fn is_dev_name(name: &[u8]) -> bool {
    devices().iter().any(|listed| dev_name(listed.device.index()).as_bytes() == name)
}

/// As much of a text as fits with a final NUL.
pub(crate) fn text<const N: usize>(text: &str) -> [c_char; N] {
    let mut field = [0; N];
    for (to, from) in field.iter_mut().take(N.saturating_sub(1)).zip(text.bytes()) {
        *to = c_char::from_ne_bytes([from]);
    }
    field
}

/// The device behind a pointer from C.
pub(crate) fn find(device: *const ibv_device) -> Option<&'static Device> {
    let same = |listed: &&Listed| (&raw const listed.public.device).addr() == device.addr();
    devices().iter().find(same).map(|listed| &listed.device)
}

/// A null-terminated array of the devices.
///
/// # Safety
/// `num_devices` is null or writable.
pub(crate) unsafe extern "C" fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *mut ibv_device {
    // Whoever asks for devices looks at their files next.
    crate::ucx::lead();
    let devices: Vec<*mut ibv_device> =
        devices().iter().map(|listed| (&raw const listed.public.device).cast_mut()).collect();
    // SAFETY: as promised by the caller.
    if let Some(count) = unsafe { num_devices.as_mut() } {
        *count = c_int::try_from(devices.len()).unwrap_or(c_int::MAX);
    }
    pointer(array(&devices))
}

/// Memory for the array is C's, as its length is known to nobody when it is freed.
fn array(devices: &[*mut ibv_device]) -> Result<*mut *mut ibv_device, Errno> {
    // SAFETY: an allocation of a non-zero size.
    let list: *mut *mut ibv_device =
        unsafe { libc::calloc(devices.len() + 1, size_of::<*mut ibv_device>()) }.cast();
    if list.is_null() {
        return Err(Errno::ENOMEM);
    }
    // SAFETY: the array has room for one more than `devices`, and the last one is null already.
    unsafe { devices.as_ptr().copy_to_nonoverlapping(list, devices.len()) };
    Ok(list)
}

/// Frees the array. Devices stay: programs may hold on to those that they opened.
///
/// # Safety
/// `list` is null or an array of [`ibv_get_device_list`] that was not freed yet.
pub(crate) unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    // SAFETY: as promised by the caller; the array came from `calloc`.
    unsafe { libc::free(list.cast::<c_void>()) }
}

/// The name of a device, or null for no device.
///
/// # Safety
/// `device` is null or a device of the list.
pub(crate) unsafe extern "C" fn ibv_get_device_name(device: *const ibv_device) -> *const c_char {
    if device.is_null() {
        return ptr::null();
    }
    // SAFETY: not null, so a device.
    unsafe { (&raw const (*device).name).cast() }
}

/// The index of a device, or -1 for no device of ours.
pub(crate) extern "C" fn ibv_get_device_index(device: *const ibv_device) -> c_int {
    find(device).and_then(|device| device.index().try_into().ok()).unwrap_or(-1)
}

/// The node GUID, network byte order; 0 for no device.
pub(crate) extern "C" fn ibv_get_device_guid(device: *const ibv_device) -> u64 {
    find(device).map_or(0, |device| device.guid().to_be())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_so_that_a_nul_ends_it() {
        assert_eq!(text::<4>("ab"), [b'a' as c_char, b'b' as c_char, 0, 0]);
        assert_eq!(text::<4>("abcd"), [b'a' as c_char, b'b' as c_char, b'c' as c_char, 0]);
    }

    #[test]
    fn what_is_not_listed_is_no_device() {
        assert!(find(ptr::null()).is_none());
        assert_eq!(ibv_get_device_index(ptr::without_provenance(8)), -1);
        assert_eq!(ibv_get_device_guid(ptr::null()), 0);
    }
}
