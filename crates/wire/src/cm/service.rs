//! Services with IP addresses and ports: the service ids and the private data of the RDMA IP CM service (IBA annex A11).

use core::fmt;
use core::net::{IpAddr, SocketAddr};

use crate::ip;

/// Bytes that the header takes of a REQ's private data.
pub const IP_HEADER_LEN: usize = 36;

/// A space of port numbers, as `enum rdma_port_space` numbers them (`rdma_create_id(3)`).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(u16)]
pub enum PortSpace {
    /// Connections (RC, UC).
    Tcp = 0x0106,
    /// Datagrams.
    Udp = 0x0111,
    /// InfiniBand services.
    Ib = 0x013f,
}

impl PortSpace {
    /// The space of a number.
    #[must_use]
    pub const fn new(value: u16) -> Option<Self> {
        match value {
            0x0106 => Some(Self::Tcp),
            0x0111 => Some(Self::Udp),
            0x013f => Some(Self::Ib),
            _ => None,
        }
    }
}

/// Writes `TCP`.
impl fmt::Display for PortSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Ib => "IB",
        })
    }
}

/// The number of a service.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ServiceId(pub u64);

impl ServiceId {
    /// That of a port.
    #[must_use]
    pub const fn new(space: PortSpace, port: u16) -> Self {
        Self((space as u64) << 16 | port as u64)
    }

    /// Its port, if it is one.
    #[must_use]
    pub const fn port(self) -> Option<(PortSpace, u16)> {
        if self.0 >> 32 != 0 {
            return None;
        }
        match PortSpace::new((self.0 >> 16) as u16) {
            Some(space) => Some((space, self.0 as u16)),
            None => None,
        }
    }
}

/// What the private data of a REQ or SIDR_REQ begins with: who asks whom.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct IpHeader {
    /// Address and port of who asks.
    pub src: SocketAddr,
    /// Address of who is asked; its port is the service's.
    pub dst: IpAddr,
}

impl IpHeader {
    /// Reads it. `None` if it is of another version, or its addresses are not of one family.
    #[must_use]
    pub fn parse(private: &[u8]) -> Option<Self> {
        let header = private.first_chunk::<IP_HEADER_LEN>()?;
        let port = u16::from_be_bytes([header[2], header[3]]);
        let (src, dst) = (header[4..].first_chunk::<16>()?, header[20..].first_chunk::<16>()?);
        let v4 = |bytes: &[u8; 16]| IpAddr::from([bytes[12], bytes[13], bytes[14], bytes[15]]);
        let (src, dst) = match (header[0], header[1] >> 4) {
            (0, 4) => (v4(src), v4(dst)),
            (0, 6) => (IpAddr::from(*src), IpAddr::from(*dst)),
            _ => return None,
        };
        Some(Self { src: SocketAddr::new(src, port), dst })
    }

    /// Writes it.
    #[must_use]
    pub fn emit(&self) -> [u8; IP_HEADER_LEN] {
        let mut out = [0; IP_HEADER_LEN];
        out[1] = if self.src.is_ipv4() { 4 << 4 } else { 6 << 4 };
        out[2..4].copy_from_slice(&self.src.port().to_be_bytes());
        for (at, address) in [(4, self.src.ip()), (20, self.dst)] {
            match address {
                IpAddr::V4(address) => out[at + 12..at + 16].copy_from_slice(&address.octets()),
                IpAddr::V6(address) => out[at..at + 16].copy_from_slice(&address.octets()),
            }
        }
        out
    }

    /// GID of the one who is asked.
    #[must_use]
    pub fn dst_gid(&self) -> [u8; 16] {
        ip::gid_from_ip(self.dst)
    }
}
