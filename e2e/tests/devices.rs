//! What stock programs see of the device before anything is sent.

use std::net::Ipv6Addr;

use glassnic_e2e::device::Device;
use glassnic_e2e::pair::{Case, Gid, Way};
use glassnic_e2e::place::{CABLE_INTERFACE, Cable, Place};
use glassnic_e2e::process::Program;
use glassnic_e2e::slot;

#[test]
fn ibv_devices_lists_one_device_and_nothing_on_standard_error() {
    let _slot = slot::take();
    let finished = Program::new(["ibv_devices"]).run();
    assert!(finished.succeeded(), "{finished}");
    let names: Vec<&str> =
        finished.stdout.lines().skip(2).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["glass0"], "{finished}");
    assert_eq!(finished.stderr, "", "ld.so and the library have nothing to complain about");
}

#[test]
fn ibv_devinfo_shows_an_active_port_of_ethernet() {
    let _slot = slot::take();
    let device = Device::query(&Place::Here, &[]);
    assert_eq!(device.text.matches("hca_id:").count(), 1, "{}", device.text);
    for (label, value) in
        [("state:", "PORT_ACTIVE (4)"), ("link_layer:", "Ethernet"), ("transport:", "InfiniBand (0)")]
    {
        let found = device
            .text
            .lines()
            .any(|line| line.trim().strip_prefix(label).is_some_and(|rest| rest.trim() == value));
        assert!(found, "no {label} {value} in\n{}", device.text);
    }
}

#[test]
fn gids_are_the_interfaces_addresses_link_local_first() {
    let _slot = slot::take();
    let cable = Cable::lay();
    for end in &cable.ends {
        let device = Device::query(&end.place, &[]);
        let gids: Vec<Ipv6Addr> = device.gids.iter().map(|(_, gid)| *gid).collect();
        let indices: Vec<u32> = device.gids.iter().map(|(index, _)| *index).collect();
        assert_eq!(gids.len(), 3, "{}", device.text);
        assert!(gids[0].is_unicast_link_local(), "{}", device.text);
        assert_eq!(gids[1..], [end.ipv4.to_ipv6_mapped(), end.ipv6]);
        assert_eq!(indices, [0, 1, 2]);
        assert_eq!(device.active_mtu, 1024, "{CABLE_INTERFACE} has the Ethernet MTU of 1500 bytes");
    }
}

#[test]
fn gids_follow_the_addresses_of_the_interface() {
    let _slot = slot::take();
    let cable = Cable::lay();
    let place = &cable.ends[0].place;
    let added = ["ip", "addr", "add", "10.78.0.9/24", "dev", CABLE_INTERFACE];
    let finished = Program::plain(added).at(place).run();
    assert!(finished.succeeded(), "{finished}");
    let gids = Device::query(place, &[]).gids;
    assert!(gids.iter().any(|(_, gid)| *gid == "::ffff:10.78.0.9".parse::<Ipv6Addr>().unwrap()), "{gids:?}");
}

#[test]
fn a_larger_mtu_of_the_interface_gives_a_larger_path_mtu() {
    let _slot = slot::take();
    let cable = Cable::lay();
    let place = &cable.ends[0].place;
    for (interface_mtu, active_mtu) in [(9000, 4096), (4096 + 100, 4096), (4000, 2048), (1280, 1024)] {
        let words = format!("ip link set {CABLE_INTERFACE} mtu {interface_mtu}");
        let finished = Program::plain(words.split(' ')).at(place).run();
        assert!(finished.succeeded(), "{finished}");
        assert_eq!(Device::query(place, &[]).active_mtu, active_mtu, "at interface MTU {interface_mtu}");
    }
}

#[test]
fn every_gid_of_this_host_carries_traffic() {
    let _slot = slot::take();
    let gids = Device::query(&Place::Here, &[]).gids;
    assert!(gids.len() > 1, "{gids:?}");
    for program in ["ibv_rc_pingpong", "ibv_uc_pingpong"] {
        for (index, _) in &gids {
            Way::one_host(Gid::Index(*index)).run(&Case { program, options: &[] });
        }
    }
    for (index, _) in &gids {
        let case = Case { program: "ibv_ud_pingpong", options: &["-s", "1000"] };
        Way::one_host(Gid::Index(*index)).run(&case);
    }
}

#[test]
fn without_a_gid_index_the_move_to_rtr_is_refused_with_its_reason() {
    let _slot = slot::take();
    for program in ["ibv_rc_pingpong", "ibv_uc_pingpong"] {
        let outcome = Way::one_host(Gid::Unset).start(&Case { program, options: &[] }).wait();
        for side in [&outcome.client, &outcome.server] {
            assert_eq!(side.code(), Some(1), "{side}");
        }
        // The server moves first, and the client ends with it.
        let server = &outcome.server;
        assert!(server.stderr.contains("Failed to modify QP to RTR"), "{server}");
        // The reason names the field that is wrong.
        assert!(server.stderr.contains("is_global"), "{server}");
    }
}
