//! What `ibv_devinfo -v`, a stock program, sees of the device.

use std::net::Ipv6Addr;

use crate::place::{Family, Place};
use crate::process::Program;

/// The first device of a place.
#[derive(Debug)]
pub struct Device {
    /// All that `ibv_devinfo -v` printed.
    pub text: String,
    /// GIDs by index.
    pub gids: Vec<(u32, Ipv6Addr)>,
    /// Path MTU of the port in bytes (`active_mtu`).
    pub active_mtu: u32,
}

impl Device {
    /// Asks `ibv_devinfo -v`.
    ///
    /// # Panics
    /// When it fails, or does not print what is asked of it.
    pub fn query(place: &Place, environment: &[(&str, &str)]) -> Self {
        let mut program = Program::new(["ibv_devinfo", "-v"]).at(place);
        for (name, value) in environment {
            program = program.env(name, value);
        }
        let finished = program.run();
        assert!(finished.succeeded(), "{finished}");
        let active_mtu = field(&finished.stdout, "active_mtu:").and_then(|text| text.parse().ok());
        let active_mtu = active_mtu.unwrap_or_else(|| panic!("no active_mtu:\n{finished}"));
        Self { gids: gids(&finished.stdout), active_mtu, text: finished.stdout }
    }

    /// The index of a GID of an address family that reaches beyond the link.
    ///
    /// # Panics
    /// When the device has none.
    pub fn gid_index(&self, family: Family) -> u32 {
        let fits = |gid: &Ipv6Addr| match family {
            Family::V4 => gid.to_ipv4_mapped().is_some(),
            Family::V6 => gid.to_ipv4_mapped().is_none() && !gid.is_unicast_link_local(),
        };
        let found = self.gids.iter().find(|(_, gid)| fits(gid));
        found.unwrap_or_else(|| panic!("no {family:?} GID in\n{}", self.text)).0
    }
}

/// The first word after a label.
fn field<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.trim().strip_prefix(label)?.split_whitespace().next())
}

/// Lines such as `GID[  1]: ::ffff:192.0.2.2, RoCE v2`, with any white space.
fn gids(text: &str) -> Vec<(u32, Ipv6Addr)> {
    let parse = |line: &str| {
        let (index, rest) = line.trim().strip_prefix("GID[")?.split_once("]:")?;
        let address = rest.split(',').next()?.trim();
        Some((index.trim().parse().ok()?, address.parse().ok()?))
    };
    text.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gids_are_read_in_both_notations() {
        let text = "\t\t\tactive_mtu:\t\t1024 (3)\n\
            \t\t\tGID[  0]:\t\tfe80::fc:ff:fe00:1, RoCE v2\n\
            \t\t\tGID[  1]:\t\t::ffff:192.0.2.2, RoCE v2\n\
            \t\t\tGID[ 12]:\t\tfd00:0000:0000:0000:0000:0000:0000:0002\n";
        let device = Device { gids: gids(text), active_mtu: 0, text: text.into() };
        assert_eq!(device.gids.len(), 3);
        assert_eq!(device.gid_index(Family::V4), 1);
        assert_eq!(device.gid_index(Family::V6), 12);
        assert_eq!(field(text, "active_mtu:"), Some("1024"));
    }
}
