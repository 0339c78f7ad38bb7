//! `rdma_event_str(3)`.

use core::ffi::{CStr, c_char, c_uint};

/// The names of `enum rdma_cm_event_type`, from 0 on.
const EVENTS: [&CStr; 18] = [
    c"RDMA_CM_EVENT_ADDR_RESOLVED",
    c"RDMA_CM_EVENT_ADDR_ERROR",
    c"RDMA_CM_EVENT_ROUTE_RESOLVED",
    c"RDMA_CM_EVENT_ROUTE_ERROR",
    c"RDMA_CM_EVENT_CONNECT_REQUEST",
    c"RDMA_CM_EVENT_CONNECT_RESPONSE",
    c"RDMA_CM_EVENT_CONNECT_ERROR",
    c"RDMA_CM_EVENT_UNREACHABLE",
    c"RDMA_CM_EVENT_REJECTED",
    c"RDMA_CM_EVENT_ESTABLISHED",
    c"RDMA_CM_EVENT_DISCONNECTED",
    c"RDMA_CM_EVENT_DEVICE_REMOVAL",
    c"RDMA_CM_EVENT_MULTICAST_JOIN",
    c"RDMA_CM_EVENT_MULTICAST_ERROR",
    c"RDMA_CM_EVENT_ADDR_CHANGE",
    c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
    c"RDMA_CM_EVENT_ADDRINFO_RESOLVED",
    c"RDMA_CM_EVENT_ADDRINFO_ERROR",
];

pub(crate) extern "C" fn rdma_event_str(event: c_uint) -> *const c_char {
    let name = usize::try_from(event).ok().and_then(|index| EVENTS.get(index));
    name.copied().unwrap_or(c"UNKNOWN EVENT").as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_their_names_and_other_numbers_have_none() {
        // SAFETY: static strings.
        let name = |event| unsafe { CStr::from_ptr(rdma_event_str(event)) }.to_str().ok();
        assert_eq!(name(9), Some("RDMA_CM_EVENT_ESTABLISHED"));
        assert_eq!(name(15), Some("RDMA_CM_EVENT_TIMEWAIT_EXIT"));
        assert_eq!(name(18), Some("UNKNOWN EVENT"));
        assert_eq!(name(u32::MAX), Some("UNKNOWN EVENT"));
    }
}
