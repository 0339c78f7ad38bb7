//! Tests.

use super::*;

fn interface(addrs: &[&str]) -> Interface {
    Interface {
        name: "eth9".into(),
        index: 9,
        up: true,
        running: true,
        loopback: false,
        mtu: 1500,
        mac: Some([2, 0, 0, 0, 0, 9]),
        addrs: addrs.iter().map(|a| a.parse().unwrap()).collect(),
    }
}

fn listed(table: &GidTable) -> Vec<(u16, String)> {
    table.iter().map(|e| (e.index, e.addr.to_string())).collect()
}

#[test]
fn gids_are_link_local_then_ipv4_then_global() {
    let table = GidTable::from_interface(&interface(&["192.0.2.7", "fd00::7", "fe80::7"]));
    let want = [(0, "fe80::7"), (1, "192.0.2.7"), (2, "fd00::7")];
    assert_eq!(listed(&table), want.map(|(i, a)| (i, a.to_string())));
    assert_eq!(table.get(1).unwrap().gid[10..], [0xff, 0xff, 192, 0, 2, 7]);
}

#[test]
fn an_index_keeps_its_meaning_when_addresses_come_and_go() {
    let mut table = GidTable::from_interface(&interface(&["192.0.2.7", "fd00::7", "fe80::7"]));
    assert!(table.update(&interface(&["fd00::7", "fe80::7", "192.0.2.8"])));
    assert!(table.get(1).is_none(), "the index of an address that is gone stays empty");
    assert_eq!(
        listed(&table),
        [(0, "fe80::7"), (2, "fd00::7"), (3, "192.0.2.8")].map(|(i, a)| (i, a.to_string()))
    );
    assert!(table.update(&interface(&["fd00::7", "fe80::7", "192.0.2.8", "192.0.2.7"])));
    assert_eq!(table.get(1).unwrap().addr.to_string(), "192.0.2.7");
    assert!(!table.update(&interface(&["192.0.2.7", "fd00::7", "192.0.2.8", "fe80::7"])), "nothing new");
}

#[test]
fn the_path_mtu_leaves_room_for_the_headers() {
    let pairs = [(1400, 1024), (1500, 1024), (4500, 4096), (9000, 4096), (65536, 4096)];
    for (mtu, want) in pairs {
        assert_eq!(active_mtu(mtu), want, "MTU {mtu}");
    }
}

#[test]
fn loopback_is_found_with_its_address() {
    let all = interfaces().unwrap();
    let lo = all.iter().find(|i| i.loopback).expect("a loopback interface");
    assert!(lo.addrs.contains(&"127.0.0.1".parse().unwrap()));
    assert!(!AddressWatch::new().unwrap().drain(), "no news yet");
}

#[test]
fn a_list_of_devices_is_read_or_refused_with_the_reason() {
    let specs = parse_devices("glass0=eth0,glass1=lo").unwrap();
    assert_eq!(specs.len(), 2);
    for bad in ["glass0", "=lo", "glass0=", "glass0=lo,glass0=eth0"] {
        assert!(parse_devices(bad).is_err(), "{bad:?}");
    }
}
