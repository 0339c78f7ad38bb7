//! The little of the provider interface (`driver.h`) that answers with something.

use core::ffi::{c_uint, c_void};

/// How many attributes an ioctl of a provider ends up with: no linked buffers here, so as many as it says.
pub(crate) extern "C" fn __ioctl_final_num_attrs(num_attrs: c_uint, _link: *mut c_void) -> c_uint {
    num_attrs
}
