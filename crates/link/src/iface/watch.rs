//! News of addresses and links from the kernel (rtnetlink(7)), for any user.

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR (linux/rtnetlink.h).
const GROUPS: u32 = 0x1 | 0x10 | 0x100;

/// Netlink protocol 0 (linux/netlink.h), which is what "no protocol" says.
const NETLINK_ROUTE: Option<rustix::net::Protocol> = None;

/// A subscription: pollable, readable when something changed.
#[derive(Debug)]
pub struct AddressWatch {
    socket: OwnedFd,
}

impl AddressWatch {
    /// Subscribe in the calling thread's network namespace.
    ///
    /// # Errors
    /// System calls.
    pub fn new() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, NETLINK_ROUTE)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
        Ok(Self { socket })
    }

    /// Take all news. True if there was any (or too much to be kept): read the interfaces again. What changed is not parsed,
    /// as a new look at the whole is the only answer that cannot go wrong.
    pub fn drain(&self) -> bool {
        let mut changed = false;
        let mut buffer = [0_u8; 4096];
        loop {
            match rustix::net::recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
                Ok(_) => changed = true,
                // The kernel dropped messages, so there were some.
                Err(rustix::io::Errno::NOBUFS) => changed = true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return changed,
            }
        }
    }
}

impl AsFd for AddressWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
