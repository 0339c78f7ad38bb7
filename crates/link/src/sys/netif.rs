//! Interfaces and their addresses, by getifaddrs(3) and the MTU ioctl: no sysfs, no privileges.
//!
//! # Safety
//!
//! The list that getifaddrs returns is read while it is alive, and each address by its family and no further.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};

/// What one entry of the list says.
pub(crate) enum Fact {
    /// The link itself: index and hardware address.
    Link { index: u32, mac: Option<[u8; 6]> },
    /// One address, with the scope id of a link-local one.
    Addr { addr: IpAddr, scope_id: u32 },
    /// An address of a family that does not concern us.
    Other,
}

/// One entry: interface name, IFF_ flags, fact.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) flags: u32,
    pub(crate) fact: Fact,
}

/// All interfaces and addresses of the calling thread's network namespace.
pub(crate) fn entries() -> io::Result<Vec<Entry>> {
    let mut head = std::ptr::null_mut();
    // SAFETY: stores a list in `head`, or fails.
    if unsafe { libc::getifaddrs(&raw mut head) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = head;
    // SAFETY: the list is valid until freed below, and its names are C strings.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        // SAFETY: as above.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
        let fact = if entry.ifa_addr.is_null() {
            // So getifaddrs lists a link without hardware address: a TUN interface, a tunnel.
            // SAFETY: as above.
            Fact::Link { index: unsafe { libc::if_nametoindex(entry.ifa_name) }, mac: None }
        } else {
            // SAFETY: as above; a socket address of its family's size.
            unsafe { fact(entry.ifa_addr) }
        };
        found.push(Entry { name, flags: entry.ifa_flags, fact });
    }
    // SAFETY: freed once; nothing refers to it any more.
    unsafe { libc::freeifaddrs(head) };
    Ok(found)
}

/// # Safety
/// `addr` points to a socket address as large as its family says.
unsafe fn fact(addr: *const libc::sockaddr) -> Fact {
    // SAFETY: the caller's contract.
    match i32::from(unsafe { (*addr).sa_family }) {
        libc::AF_INET => {
            // SAFETY: an AF_INET address is a sockaddr_in.
            let addr = unsafe { addr.cast::<libc::sockaddr_in>().read_unaligned() };
            let addr = Ipv4Addr::from(u32::from_be(addr.sin_addr.s_addr));
            Fact::Addr { addr: addr.into(), scope_id: 0 }
        }
        libc::AF_INET6 => {
            // SAFETY: an AF_INET6 address is a sockaddr_in6.
            let addr = unsafe { addr.cast::<libc::sockaddr_in6>().read_unaligned() };
            let scope_id = addr.sin6_scope_id;
            Fact::Addr { addr: Ipv6Addr::from(addr.sin6_addr.s6_addr).into(), scope_id }
        }
        libc::AF_PACKET => {
            // SAFETY: an AF_PACKET address is a sockaddr_ll.
            let addr = unsafe { addr.cast::<libc::sockaddr_ll>().read_unaligned() };
            let [a, b, c, d, e, f, ..] = addr.sll_addr;
            let mac = (addr.sll_halen == 6).then_some([a, b, c, d, e, f]);
            Fact::Link { index: u32::try_from(addr.sll_ifindex).unwrap_or(0), mac }
        }
        _ => Fact::Other,
    }
}

/// A socket to ask about interfaces.
pub(crate) fn query_socket() -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    let socket = |family| rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    Ok(socket(AddressFamily::INET).or_else(|_| socket(AddressFamily::INET6))?)
}

/// MTU of an interface in bytes (netdevice(7), SIOCGIFMTU).
pub(crate) fn mtu(socket: &OwnedFd, name: &str) -> io::Result<u32> {
    let bytes = name.as_bytes();
    if bytes.len() >= libc::IFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    // SAFETY: the request is an ifreq with a terminated name, as the ioctl wants.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the ioctl succeeded and filled this member.
    Ok(u32::try_from(unsafe { request.ifr_ifru.ifru_mtu }).unwrap_or(0))
}
