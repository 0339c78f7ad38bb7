//! Interfaces that go down, lose addresses, or are not like others.

use std::time::{Duration, Instant};

use glassnic_e2e::pair::{Case, Gid, Way};
use glassnic_e2e::place::{CABLE_INTERFACE, Cable, Family, Place};
use glassnic_e2e::process::Program;
use glassnic_e2e::{product, slot};
use rustix::process::Signal;

fn does(place: &Place, words: &str) {
    let finished = Program::plain(words.split(' ')).at(place).run();
    assert!(finished.succeeded(), "{finished}");
}

/// The background thread looks at the interface a few times a second.
fn moment() {
    std::thread::sleep(Duration::from_millis(700));
}

#[test]
fn what_becomes_of_the_interface_is_told_to_a_program_that_listens() {
    let _slot = slot::take();
    let cable = Cable::lay();
    let place = &cable.ends[0].place;
    let told = product::scratch().join("asyncwatch");
    let line = format!("exec stdbuf -oL ibv_asyncwatch -d glass0 > {}", told.display());
    let watch = Program::new(["sh", "-c", &line]).at(place).start();
    let until = |what: &str| {
        let began = Instant::now();
        loop {
            let told = std::fs::read_to_string(&told).unwrap_or_default();
            if told.contains(what) {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "{what} is not in:\n{told}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    until("async event FD");
    does(place, &format!("ip addr del {}/24 dev {CABLE_INTERFACE}", cable.ends[0].ipv4));
    until("IBV_EVENT_GID_CHANGE");
    does(place, &format!("ip link set {CABLE_INTERFACE} down"));
    until("IBV_EVENT_PORT_ERR");
    // The kernel tells of a carrier up to a second late.
    does(place, &format!("ip link set {CABLE_INTERFACE} up"));
    until("IBV_EVENT_PORT_ACTIVE");
    watch.signal(Signal::INT);
    watch.wait();
}

/// Hosts whose kernel was told to do without IPv6: no link-local GID, and all else as ever.
#[test]
fn a_host_without_ipv6_has_a_device() {
    let _slot = slot::take();
    let cable = Cable::lay();
    for end in &cable.ends {
        does(&end.place, "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1");
    }
    for program in ["ibv_rc_pingpong", "ibv_ud_pingpong"] {
        Way::cable(&cable, Family::V4).run(&Case { program, options: &["-s", "1000"] });
    }
    let gids = glassnic_e2e::device::Device::query(&cable.ends[0].place, &[]).gids;
    assert_eq!(gids, [(0, cable.ends[0].ipv4.to_ipv6_mapped())]);
}

/// A TUN interface has no hardware address, and a carrier for as long as a process holds it.
#[test]
fn a_device_stands_on_an_interface_without_a_hardware_address() {
    let _slot = slot::take();
    let cable = Cable::lay();
    let Place::Namespace { name, .. } = &cable.ends[0].place else { unreachable!("a cable has namespaces") };
    let place = Place::Namespace { name: name.clone(), interface: "tun0".into() };
    does(&place, "ip tuntap add name tun0 mode tun");
    does(&place, "ip addr add 10.88.0.1/24 dev tun0");
    does(&place, "ip link set tun0 up");
    let holder = glassnic_e2e::c_program::compile("tunnel").display().to_string();
    let holder = Program::plain([holder, "tun0".into()]).at(&place).start();
    moment();
    let way = Way {
        server: &place,
        client: &place,
        address: [127, 0, 0, 1].into(),
        gid: Gid::Of(Family::V4),
        environment: &[],
        user: None,
    };
    let outcome = way.start(&Case { program: "ibv_rc_pingpong", options: &["-c"] }).wait();
    holder.signal(Signal::TERM);
    holder.wait();
    outcome.assert_both_succeed();
}
