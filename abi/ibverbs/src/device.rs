//! The list of devices: `ibv_get_device_list(3)` and the getters of a device.

use crate::answer::{Errno, pointer};
use crate::layout::ibv_device;
use core::ffi::{c_char, c_int, c_void};
use core::ptr;

/// A null-terminated array of the devices.
///
/// # Safety
/// `num_devices` is null or writable.
pub(crate) unsafe extern "C" fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *mut ibv_device {
    let devices: [*mut ibv_device; 0] = [];
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
        return Err(Errno(libc::ENOMEM));
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

/// The kernel's index of a device: -1, as the kernel has none for it.
pub(crate) extern "C" fn ibv_get_device_index(_device: *const ibv_device) -> c_int {
    -1
}

/// The node GUID, network byte order; 0 for no device.
pub(crate) extern "C" fn ibv_get_device_guid(_device: *const ibv_device) -> u64 {
    0
}
