//! GIDs and IP addresses: RoCEv2 puts an IPv4 address into a GID as the IPv4-mapped IPv6 address (annex A17).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of a GID, and of a GRH's address fields.
pub const GID_LEN: usize = 16;

/// The GID of an address: `::ffff:a.b.c.d` for IPv4, the address itself for IPv6.
pub fn gid_from_ip(ip: IpAddr) -> [u8; GID_LEN] {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The address of a GID: IPv4 where the GID is IPv4-mapped, else IPv6.
pub fn ip_from_gid(gid: [u8; GID_LEN]) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from(gid)).to_canonical()
}

/// The link-local GID that Linux gives an interface by its MAC: `fe80::` and the modified EUI-64 (RFC 4291, appendix A).
pub fn link_local_gid(mac: [u8; 6]) -> [u8; GID_LEN] {
    let [m0, m1, m2, m3, m4, m5] = mac;
    [0xfe, 0x80, 0, 0, 0, 0, 0, 0, m0 ^ 2, m1, m2, 0xff, 0xfe, m3, m4, m5]
}

/// Bytes of a global routing header, which precedes the payload of every UD receive.
pub const GRH_LEN: usize = 40;

/// What a UD receive finds in the first 40 bytes of its buffer for a RoCEv2 packet.
///
/// IPv6: the IPv6 header. IPv4: 20 zero bytes, then the IPv4 header (annex A17.4.5.1); a reader tells them apart by
/// the version nibbles at offsets 0 and 20.
/// `payload_len` is UDP header to ICRC. IPv4 fields that a socket does not see are written as those of
/// [`crate::frame::Ipv4::roce`].
pub fn grh(src: IpAddr, dst: IpAddr, tclass: u8, hop_limit: u8, payload_len: u16) -> [u8; GRH_LEN] {
    let mut grh = [0; GRH_LEN];
    if let (IpAddr::V4(src), IpAddr::V4(dst)) = (src.to_canonical(), dst.to_canonical()) {
        let mut ip = crate::frame::Ipv4::roce(src, dst, payload_len, 0);
        ip.tos = tclass;
        ip.ttl = hop_limit;
        ip.checksum = ip.computed_checksum();
        if let Some(half) = grh.last_chunk_mut() {
            *half = ip.to_bytes();
        }
    } else {
        let mut ip = crate::frame::Ipv6::roce(to_v6(src), to_v6(dst), payload_len);
        ip.tclass = tclass;
        ip.hop_limit = hop_limit;
        grh = ip.to_bytes();
    }
    grh
}

/// The address as IPv6, mapped where it is IPv4.
pub fn to_v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// Both addresses as IPv4, where both are (plain or IPv4-mapped): the packets between them are IPv4.
pub fn both_v4(src: IpAddr, dst: IpAddr) -> Option<(Ipv4Addr, Ipv4Addr)> {
    match (src.to_canonical(), dst.to_canonical()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Some((src, dst)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gid_and_address_are_two_forms_of_one() {
        for ip in ["10.99.0.2", "0.0.0.0", "255.255.255.255", "fd99::2", "fe80::1", "::1"] {
            let ip: IpAddr = ip.parse().unwrap();
            assert_eq!(ip_from_gid(gid_from_ip(ip)), ip);
        }
        assert_eq!(
            gid_from_ip("10.99.0.2".parse().unwrap()),
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 99, 0, 2]
        );
    }

    #[test]
    fn link_local_flips_the_universal_bit() {
        let gid = link_local_gid([0x52, 0x54, 0x00, 0x12, 0x34, 0x56]);
        assert_eq!(ip_from_gid(gid), "fe80::5054:ff:fe12:3456".parse::<IpAddr>().unwrap());
    }

    #[test]
    fn grh_holds_the_ip_header() {
        let v4 = grh("10.0.0.1".parse().unwrap(), "::ffff:10.0.0.2".parse().unwrap(), 0x20, 9, 100);
        assert_eq!(v4[..20], [0; 20]);
        assert_eq!((v4[20], v4[21], v4[28], v4[29]), (0x45, 0x20, 9, 17));
        assert_eq!(v4[32..], [10, 0, 0, 1, 10, 0, 0, 2]);
        let v6 = grh("fd99::1".parse().unwrap(), "fd99::2".parse().unwrap(), 0x20, 9, 100);
        assert_eq!(v6[..8], [0x62, 0, 0, 0, 0, 100, 17, 9]);
        assert_eq!(v6[8..24], gid_from_ip("fd99::1".parse().unwrap()));
    }
}
