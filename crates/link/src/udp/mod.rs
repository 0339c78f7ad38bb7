//! RoCEv2 datagrams on ordinary UDP sockets.
//!
//! One socket per address family, never connected: with `IP_MTU_DISCOVER=DO` Linux then writes IPv4 identification 0
//! and DF, which the ICRC covers and a UDP socket cannot set. Segmentation offload (UDP_SEGMENT) numbers the packets of a
//! send 0, 1, 2 …, so that [`TxBatch`] computes each ICRC with the packet's place in its send.
//!
//! Processes share port 4791 by SO_REUSEPORT; [`attach_steering`] makes the kernel give most packets to the owner
//! of their QP number. That is an optimisation: whoever gets a packet that is not its own passes it on.

mod control;
mod pacer;
mod rx;
mod steering;
#[cfg(test)]
mod tests;
mod tx;

pub use pacer::{Pacer, RATE};
pub use rx::{Datagram, MESSAGES_MAX, RxBatch};
pub use steering::attach_steering;
pub use tx::{FlushReport, PACKET_LEN_MAX, Path, TooBig, TxBatch};

use crate::directory::DirectoryError;
use crate::sys::socket::set_int;
use glassnic_wire::frame::ROCE_PORT;
use glassnic_wire::opcode::{Kind, Opcode, OpcodeInfo};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Wished size of the socket buffers in bytes; what net.core.rmem_max allows is taken.
const BUFFER_LEN: i32 = 4 << 20;

/// Why the sockets could not be had. The device then still works within its process and host.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The node directory refused (see [`crate::directory::Node::bind_in_order`]).
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// A system call failed.
    #[error("UDP socket: {0}")]
    Io(#[from] io::Error),
    /// Somebody who does not share it holds the port.
    #[error(
        "UDP port {port} is held by another user's process or by the kernel (rdma_rxe): other hosts are out of reach; \
         end that process (ss -lunp names it) or unload rdma_rxe"
    )]
    PortTaken {
        /// The port.
        port: u16,
    },
}

/// What can be chosen about the sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketOptions {
    /// UDP port.
    pub port: u16,
    /// Use segmentation offload towards receivers that take it.
    pub gso: bool,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self { port: ROCE_PORT, gso: true }
    }
}

impl SocketOptions {
    /// The defaults, without segmentation offload if `GLASSNIC_GSO=0`.
    pub fn from_env() -> Self {
        Self { gso: std::env::var_os("GLASSNIC_GSO").is_none_or(|value| value != "0"), ..Self::default() }
    }
}

/// An address family, and so one of the sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The sockets of a process.
#[derive(Debug)]
pub struct Sockets {
    v4: Option<OwnedFd>,
    v6: Option<OwnedFd>,
    options: SocketOptions,
}

impl Sockets {
    /// Bind both families to the port on all addresses. A family that the host does not have is left out.
    ///
    /// # Errors
    /// [`BindError::PortTaken`], system calls.
    pub fn bind(options: SocketOptions) -> Result<Self, BindError> {
        let v4 = or_absent(open(Family::V4, options))?;
        let v6 = or_absent(open(Family::V6, options))?;
        if v4.is_none() && v6.is_none() {
            return Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT).into());
        }
        Ok(Self { v4, v6, options })
    }

    /// The socket of a family, for polling.
    pub fn fd(&self, family: Family) -> Option<BorrowedFd<'_>> {
        match family {
            Family::V4 => self.v4.as_ref(),
            Family::V6 => self.v6.as_ref(),
        }
        .map(AsFd::as_fd)
    }

    /// The sockets that there are.
    pub fn fds(&self) -> impl Iterator<Item = (Family, BorrowedFd<'_>)> {
        [Family::V4, Family::V6].into_iter().filter_map(|family| Some((family, self.fd(family)?)))
    }

    /// Bytes that the smallest receive buffer holds, as SO_RCVBUF tells them (socket(7): twice what was asked for).
    pub fn receive_buffer(&self) -> usize {
        let sizes = self.fds().map(|(_, fd)| rustix::net::sockopt::socket_recv_buffer_size(fd).unwrap_or(0));
        sizes.min().unwrap_or(0)
    }

    /// The options that they were bound with.
    pub fn options(&self) -> SocketOptions {
        self.options
    }
}

/// A host without a family is not an error.
fn or_absent(socket: Result<OwnedFd, BindError>) -> Result<Option<OwnedFd>, BindError> {
    match socket {
        Ok(socket) => Ok(Some(socket)),
        // EADDRNOTAVAIL: IPv6 is compiled in and switched off.
        Err(BindError::Io(error))
            if matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// TOS or traffic class of what says nothing else: most paths have it, and a packet need not say it then.
const TOS: i32 = 0;
/// TTL or hop limit of what says nothing else.
const HOP_LIMIT: i32 = 64;

fn open(family: Family, options: SocketOptions) -> Result<OwnedFd, BindError> {
    let (domain, any): (_, SocketAddr) = match family {
        Family::V4 => (AddressFamily::INET, (Ipv4Addr::UNSPECIFIED, options.port).into()),
        Family::V6 => (AddressFamily::INET6, (Ipv6Addr::UNSPECIFIED, options.port).into()),
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(domain, SocketType::DGRAM, flags, None).map_err(io::Error::from)?;
    let fd = socket.as_fd();
    let required: &[(i32, i32, i32)] = match family {
        Family::V4 => &[
            (libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
            (libc::IPPROTO_IP, libc::IP_RECVTTL, 1),
            (libc::IPPROTO_IP, libc::IP_RECVTOS, 1),
            (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO),
            (libc::IPPROTO_IP, libc::IP_TOS, TOS),
            (libc::IPPROTO_IP, libc::IP_TTL, HOP_LIMIT),
        ],
        Family::V6 => &[
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1),
            (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1),
            (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1),
            (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1),
            (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IP_PMTUDISC_DO),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, TOS),
            (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, HOP_LIMIT),
        ],
    };
    let shared = (libc::SOL_SOCKET, libc::SO_REUSEPORT, 1);
    for (level, option, value) in required.iter().copied().chain([shared]) {
        set_int(fd, level, option, value)?;
    }
    // Best effort: they change speed, not meaning.
    let wished = [
        (libc::SOL_SOCKET, libc::SO_RCVBUF, BUFFER_LEN),
        (libc::SOL_SOCKET, libc::SO_SNDBUF, BUFFER_LEN),
        (libc::SOL_UDP, libc::UDP_GRO, 1),
    ];
    for (level, option, value) in wished {
        let _ = set_int(fd, level, option, value);
    }
    match rustix::net::bind(&socket, &any) {
        Ok(()) => Ok(socket),
        Err(rustix::io::Errno::ADDRINUSE) => Err(BindError::PortTaken { port: options.port }),
        Err(errno) => Err(BindError::Io(errno.into())),
    }
}

/// What the BTH of a packet says that it is.
fn opcode_of(packet: &[u8]) -> Option<&'static OpcodeInfo> {
    packet.first().and_then(|opcode| Opcode(*opcode).info())
}

fn is_ack(packet: &[u8]) -> bool {
    opcode_of(packet).is_some_and(|info| info.kind == Kind::Ack)
}

fn is_request(packet: &[u8]) -> bool {
    opcode_of(packet).is_some_and(|info| info.is_request)
}
