//! Which interfaces and addresses this host has, and which devices and GIDs that makes.

mod gid;
mod select;
#[cfg(test)]
mod tests;
mod watch;

pub use gid::{GidEntry, GidKind, GidPlace, GidTable};
pub use select::{Choice, DeviceSpec, SelectError, default_device, parse_devices};
pub use watch::AddressWatch;

use crate::sys::netif::{self, Fact};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network interface as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Name, as in `ip link`.
    pub name: String,
    /// Index; the scope id of its link-local addresses.
    pub index: u32,
    /// Administratively up (IFF_UP).
    pub up: bool,
    /// Has a carrier (IFF_RUNNING).
    pub running: bool,
    /// IFF_LOOPBACK.
    pub loopback: bool,
    /// MTU in bytes.
    pub mtu: u32,
    /// Hardware address, where it has one of six bytes.
    pub mac: Option<[u8; 6]>,
    /// Its addresses, in the kernel's order.
    pub addrs: Vec<IpAddr>,
}

impl Interface {
    /// The largest RoCE path MTU of the interface; see [`active_mtu`].
    pub fn active_mtu(&self) -> u32 {
        active_mtu(self.mtu)
    }

    /// Whether packets can pass: up, with a carrier.
    pub fn is_usable(&self) -> bool {
        self.up && self.running
    }
}

/// All interfaces of this network namespace, by index.
///
/// # Errors
/// getifaddrs(3). An interface whose MTU cannot be asked (it just went) is left out.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let entries = netif::entries()?;
    let socket = netif::query_socket()?;
    let mut found: Vec<Interface> = Vec::new();
    for entry in &entries {
        let Fact::Link { index, mac } = entry.fact else { continue };
        let Ok(mtu) = netif::mtu(&socket, &entry.name) else { continue };
        let has = |flag: libc::c_int| entry.flags & flag as u32 != 0;
        found.push(Interface {
            name: entry.name.clone(),
            index,
            up: has(libc::IFF_UP),
            running: has(libc::IFF_RUNNING),
            loopback: has(libc::IFF_LOOPBACK),
            mtu,
            mac,
            addrs: Vec::new(),
        });
    }
    for entry in entries {
        let Fact::Addr { addr, scope_id } = entry.fact else { continue };
        // A label such as eth0:1 belongs to eth0; a link-local address says by its scope where it belongs.
        let name = entry.name.split_once(':').map_or(entry.name.as_str(), |(device, _)| device);
        let owner = found.iter_mut().find(|i| i.name == entry.name || i.name == name || i.index == scope_id);
        if let Some(interface) = owner {
            interface.addrs.push(addr);
        }
    }
    found.sort_by_key(|interface| interface.index);
    Ok(found)
}

/// All addresses of this host, sorted; what is sent to them stays here. All of 127/8 belongs to it besides.
///
/// # Errors
/// getifaddrs(3).
pub fn local_addresses() -> io::Result<Vec<IpAddr>> {
    let mut addrs: Vec<IpAddr> = interfaces()?.into_iter().flat_map(|interface| interface.addrs).collect();
    addrs.sort_unstable();
    addrs.dedup();
    Ok(addrs)
}

/// Space for headers that Linux rxe subtracts from the interface MTU before it looks for the largest path MTU:
/// IPv6, UDP, BTH, the longest extended headers, ICRC, and room.
pub const HEADER_RESERVE: u32 = 80;

/// The largest InfiniBand path MTU (256, 512, 1024, 2048, 4096 bytes) that fits an interface MTU, as rxe chooses it.
pub fn active_mtu(mtu: u32) -> u32 {
    let room = mtu.saturating_sub(HEADER_RESERVE);
    [4096, 2048, 1024, 512].into_iter().find(|size| *size <= room).unwrap_or(256)
}

/// The interface of the default route: IPv4 first, lowest metric, else IPv6. Works for any user.
pub fn default_route_interface() -> Option<String> {
    let read = |file| {
        let of = |who| std::fs::read_to_string(format!("/proc/{who}/net/{file}"));
        of("thread-self").or_else(|_| of("self")).unwrap_or_default()
    };
    default_route_v4(&read("route")).or_else(|| default_route_v6(&read("ipv6_route")))
}

/// RTF_UP without RTF_REJECT (linux/route.h).
fn is_usable_route(flags: u32) -> bool {
    const RTF_UP: u32 = 0x0001;
    const RTF_REJECT: u32 = 0x0200;
    flags & RTF_UP != 0 && flags & RTF_REJECT == 0
}

/// `/proc/net/route`: Iface Destination Gateway Flags RefCnt Use Metric Mask …, numbers in hexadecimal but the metric.
fn default_route_v4(text: &str) -> Option<String> {
    let routes = text.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let &[name, destination, _, flags, _, _, metric, mask, ..] = fields.as_slice() else { return None };
        let everything =
            u32::from_str_radix(destination, 16) == Ok(0) && u32::from_str_radix(mask, 16) == Ok(0);
        let usable = is_usable_route(u32::from_str_radix(flags, 16).ok()?);
        (everything && usable).then_some((metric.parse::<u32>().ok()?, name))
    });
    routes.min_by_key(|(metric, _)| *metric).map(|(_, name)| name.to_owned())
}

/// `/proc/net/ipv6_route`: destination, its prefix length, source, its prefix length, next hop, metric, references,
/// use, flags, interface; all in hexadecimal.
fn default_route_v6(text: &str) -> Option<String> {
    let routes = text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let &[destination, prefix, _, _, _, metric, _, _, flags, name] = fields.as_slice() else {
            return None;
        };
        let everything = destination.bytes().all(|digit| digit == b'0') && prefix == "00";
        let usable = is_usable_route(u32::from_str_radix(flags, 16).ok()?);
        (everything && usable).then_some((u32::from_str_radix(metric, 16).ok()?, name))
    });
    routes.min_by_key(|(metric, _)| *metric).map(|(_, name)| name.to_owned())
}

/// Whether an address is of use on the link only.
fn is_link_local(addr: Ipv6Addr) -> bool {
    addr.segments()[0] & 0xFFC0 == 0xFE80
}

/// The bytes of an address as a GID: IPv4 is mapped into `::ffff:0:0/96` (annex A17.4.5.2).
pub fn gid_of(addr: IpAddr) -> [u8; 16] {
    match addr {
        IpAddr::V4(addr) => addr.to_ipv6_mapped().octets(),
        IpAddr::V6(addr) => addr.octets(),
    }
}

/// The address that a GID stands for.
pub fn address_of(gid: [u8; 16]) -> IpAddr {
    let addr = Ipv6Addr::from(gid);
    addr.to_ipv4_mapped().map_or(IpAddr::V6(addr), |addr: Ipv4Addr| IpAddr::V4(addr))
}
