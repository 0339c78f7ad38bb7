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
    assert_eq!(table.get(1).unwrap().place, GidPlace::Ordered);
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
    assert_eq!(table.get(3).unwrap().place, GidPlace::Later);
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

#[test]
fn each_fault_of_a_device_list_has_its_name() {
    let long = "x".repeat(64);
    let cases = [
        ("", SelectError::Empty),
        (" , ", SelectError::Empty),
        ("glass0", SelectError::Syntax("glass0".into())),
        ("glass0=", SelectError::Syntax("glass0=".into())),
        ("a=b=c", SelectError::Syntax("a=b=c".into())),
        ("a=an-interface-name", SelectError::Syntax("a=an-interface-name".into())),
        ("=lo", SelectError::Name(String::new())),
        ("../x=lo", SelectError::Name("../x".into())),
        ("a=lo,b=lo,a=eth0", SelectError::Duplicate("a".into())),
    ];
    for (text, error) in cases {
        assert_eq!(parse_devices(text), Err(error), "{text:?}");
    }
    assert_eq!(parse_devices(&format!("{long}=lo")), Err(SelectError::Name(long)));
    let specs = parse_devices(" glass0 = eth0 ,glass1=lo,").unwrap();
    let pairs: Vec<_> = specs.iter().map(|spec| (spec.device.as_str(), spec.interface.as_str())).collect();
    assert_eq!(pairs, [("glass0", "eth0"), ("glass1", "lo")]);
}

#[test]
fn the_default_device_is_the_best_that_there_is() {
    let lo = Interface { name: "lo".into(), index: 1, loopback: true, ..interface(&["127.0.0.1"]) };
    let eth = interface(&["192.0.2.7"]);
    let down = |from: &Interface| Interface { up: false, running: false, ..from.clone() };
    let chosen = |interfaces: &[Interface], route| {
        select::default_device_with(interfaces, route).map(|spec| {
            assert_eq!(spec.device, "glass0");
            (spec.interface, spec.choice)
        })
    };
    let is = |name: &str, choice| Some((name.to_owned(), choice));
    let both = [lo.clone(), eth.clone()];
    assert_eq!(chosen(&both, Some("eth9")), is("eth9", Choice::DefaultRoute));
    assert_eq!(chosen(&both, None), is("lo", Choice::Loopback));
    assert_eq!(chosen(&[lo.clone(), down(&eth)], Some("eth9")), is("lo", Choice::Loopback));
    let bare = Interface { addrs: Vec::new(), ..eth.clone() };
    assert_eq!(chosen(&[lo.clone(), bare], Some("eth9")), is("lo", Choice::Loopback), "no address, no GID");
    assert_eq!(chosen(&[down(&lo), eth.clone()], None), is("eth9", Choice::FirstUsable));
    assert_eq!(chosen(&[down(&eth), down(&lo)], None), is("lo", Choice::NothingUsable));
    assert_eq!(chosen(&[down(&eth)], None), is("eth9", Choice::NothingUsable));
    assert_eq!(chosen(&[], Some("eth9")), None);
}

#[test]
fn default_routes_are_read_as_the_kernel_writes_them() {
    let v4 = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
        wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n\
        eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
        dead0\t00000000\t00000000\t0201\t0\t0\t0\t00000000\t0\t0\t0\n\
        down0\t00000000\t00000000\t0002\t0\t0\t1\t00000000\t0\t0\t0\n\
        eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
        broken\n";
    assert_eq!(default_route_v4(v4).as_deref(), Some("eth0"));
    assert_eq!(default_route_v4(""), None);
    let zero = "0".repeat(32);
    let v6 = format!(
        "{zero} 00 {zero} 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003 eth1\n\
         {zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200 lo\n\
         fe800000000000000000000000000000 40 {zero} 00 {zero} 00000100 00000001 00000000 00000001 eth0\n"
    );
    assert_eq!(default_route_v6(&v6).as_deref(), Some("eth1"));
    assert_eq!(default_route_v6(v6.lines().nth(1).unwrap()), None, "the kernel's 'unreachable'");
}

#[test]
fn path_mtus_at_their_edges() {
    for size in [512, 1024, 2048, 4096] {
        assert_eq!(active_mtu(size + HEADER_RESERVE), size);
        assert_eq!(active_mtu(size + HEADER_RESERVE - 1), if size == 512 { 256 } else { size / 2 });
    }
    assert_eq!(active_mtu(0), 256);
    assert_eq!(active_mtu(u32::MAX), 4096);
}

#[test]
fn a_full_table_reuses_holes_only() {
    let addr = |number: u16| format!("fd00::{number:x}").parse().unwrap();
    let mut many = interface(&[]);
    many.addrs = (1..=1100).map(addr).collect();
    let mut table = GidTable::from_interface(&many);
    assert_eq!(table.len(), 1024);
    assert_eq!(table.iter().count(), 1024);
    // One of the first goes, and one that had no place takes it.
    many.addrs.remove(4);
    assert!(table.update(&many));
    assert_eq!(table.get(4).unwrap().addr, addr(1025));
    assert_eq!(table.get(5).unwrap().addr, addr(6));
}

#[test]
fn gids_and_addresses_are_the_same_thing() {
    for text in ["192.0.2.7", "fe80::1", "fd00::7", "::1"] {
        let addr = text.parse().unwrap();
        assert_eq!(address_of(gid_of(addr)), addr);
    }
    assert_eq!(gid_of([127, 0, 0, 1].into()), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 127, 0, 0, 1]);
}

/// Not a test by itself: a namespace in which addresses come and go.
#[test]
fn actor() {
    use crate::testing::{ip, role, say};
    if role().as_deref() != Some("addresses") {
        return;
    }
    let find = |name: &str| interfaces().unwrap().into_iter().find(|interface| interface.name == name);
    let lo = find("lo").unwrap();
    assert!(lo.loopback && !lo.up && !lo.is_usable() && lo.addrs.is_empty());
    assert_eq!(default_device(&interfaces().unwrap()).unwrap().interface, "lo", "although it is down");
    let watch = AddressWatch::new().unwrap();
    assert!(!watch.drain());
    ip("link set lo up");
    assert!(watch.drain() && !watch.drain());
    let table = GidTable::from_interface(&find("lo").unwrap());
    assert_eq!(listed(&table), [(0, "127.0.0.1".into()), (1, "::1".into())]);
    ip("link add veth0 mtu 4500 type veth peer name veth1");
    ip("addr add 192.0.2.7/24 dev veth0 label veth0:7");
    ip("addr add fd00::7/64 dev veth0 nodad");
    ip("link set veth0 up");
    ip("link set veth1 up");
    assert!(watch.drain());
    // The kernel tells of the carrier a little after both ends are up.
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(10);
    let veth = loop {
        let veth = find("veth0").unwrap();
        if veth.is_usable() || std::time::Instant::now() > patience {
            break veth;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    let _ = watch.drain();
    assert!(veth.is_usable() && !veth.loopback && veth.mac.is_some());
    assert_eq!((veth.mtu, veth.active_mtu()), (4500, 4096));
    let mut table = GidTable::from_interface(&veth);
    let of = |table: &GidTable, kind| table.iter().filter(|entry| entry.kind == kind).count();
    assert_eq!((of(&table, GidKind::Ipv4Mapped), of(&table, GidKind::Global)), (1, 1));
    let index = table.find(gid_of([192, 0, 2, 7].into())).unwrap().index;
    ip("addr add 192.0.2.8/24 dev veth0");
    ip("addr del fd00::7/64 dev veth0");
    assert!(watch.drain());
    assert!(table.update(&find("veth0").unwrap()));
    assert_eq!(table.find(gid_of([192, 0, 2, 7].into())).unwrap().index, index);
    assert!(table.find(gid_of([192, 0, 2, 8].into())).unwrap().index > index);
    assert!(local_addresses().unwrap().contains(&IpAddr::from([192, 0, 2, 8])));
    assert_eq!(default_route_interface(), None);
    ip("route add default via 192.0.2.1");
    assert_eq!(default_route_interface().as_deref(), Some("veth0"));
    assert_eq!(default_device(&interfaces().unwrap()).unwrap().interface, "veth0");
    // A link without a hardware address is one as well.
    if std::path::Path::new("/dev/net/tun").exists() {
        ip("tuntap add name tun0 mode tun");
        ip("addr add 198.51.100.7/24 dev tun0");
        let tun = find("tun0").expect("listed");
        assert_eq!((tun.mac, tun.addrs.as_slice()), (None, [IpAddr::from([198, 51, 100, 7])].as_slice()));
        assert!(tun.index > veth.index);
    }
    say("done");
}

#[test]
fn addresses_are_followed() {
    let mut child = crate::testing::Actor::start_in_namespace("iface::tests::actor", "addresses");
    assert_eq!(child.hear(), "done");
}
