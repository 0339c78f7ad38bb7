//! `glassnic run --sysfs`: programs that look for a device in the file system.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use glassnic_e2e::device::Device;
use glassnic_e2e::pair::{Case, Gid, Way};
use glassnic_e2e::place::{CABLE_INTERFACE, Cable, Family, Place};
use glassnic_e2e::process::{Finished, Program};
use glassnic_e2e::{free_port, product, slot};
use rustix::process::Signal;

const USERS: [Option<&str>; 2] = [None, Some("nobody")];

fn shell(script: &str, user: Option<&'static str>) -> Finished {
    Program::new(["sh", "-c", script]).sysfs().as_user(user).run()
}

#[test]
fn the_files_say_what_verbs_say() {
    let _slot = slot::take();
    let device = Device::query(&Place::Here, &[]);
    for user in USERS {
        let ports = "/sys/class/infiniband/glass0/ports/1";
        let script = format!(
            "cat {ports}/state {ports}/link_layer {ports}/rate; cat /sys/class/infiniband/glass0/node_guid; \
             for i in $(seq 0 63); do echo gid $i $(cat {ports}/gids/$i) $(cat {ports}/gid_attrs/types/$i 2>/dev/null); done"
        );
        let finished = shell(&script, user);
        assert!(finished.succeeded(), "{finished}");
        let lines: Vec<&str> = finished.stdout.lines().collect();
        assert_eq!(lines[..3], ["4: ACTIVE", "Ethernet", "100 Gb/sec (4X EDR)"], "{finished}");
        let verbs = |label: &str| {
            device.text.lines().any(|line| line.trim().starts_with(label) && line.contains(lines[3]))
        };
        assert!(verbs("node_guid:"), "{finished}\n{}", device.text);
        for (label, value) in [("active_width:", "4X (2)"), ("active_speed:", "25.0 Gbps (32)")] {
            let said = |line: &str| line.trim().starts_with(label) && line.contains(value);
            assert!(device.text.lines().any(said), "{}", device.text);
        }
        let gids = lines.iter().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, index, gid, "RoCE", "v2"] = words[..] else { return None };
            Some((index.parse().unwrap(), gid.parse().unwrap()))
        });
        assert_eq!(gids.collect::<Vec<_>>(), device.gids, "{finished}");
    }
}

#[test]
fn all_else_is_as_it_was_and_nothing_is_seen_outside() {
    let _slot = slot::take();
    let outside = ["/sys/class/infiniband", "/dev/infiniband"].map(|path| Path::new(path).exists());
    let classes = |dir: &str| -> Vec<String> {
        let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with("infiniband")).collect();
        names.sort();
        names
    };
    for user in USERS {
        let finished = shell(
            "ls /sys/class; echo -; readlink -f /sys/class/net/lo; id -un; \
                              echo x > /dev/null; [ -c /dev/infiniband/uverbs0 ] && [ -r /dev/infiniband/uverbs0 ] && \
                              [ -w /dev/infiniband/uverbs0 ] && echo device; ls /sys/class/infiniband/glass0/device/net; \
                              head -c 4 /dev/urandom | wc -c; stat -f -c %i /dev/shm; ps -o args= -p $PPID | wc -l",
            user,
        );
        assert!(finished.succeeded(), "{finished}");
        let (inside, rest) = finished.stdout.split_once("-\n").unwrap();
        let mut inside: Vec<&str> = inside.lines().filter(|name| !name.starts_with("infiniband")).collect();
        inside.sort_unstable();
        assert_eq!(inside, classes("/sys/class"), "{finished}");
        let rest: Vec<&str> = rest.lines().collect();
        assert!(rest[0].starts_with("/sys/devices/"), "{finished}");
        assert_eq!(rest[1..3], [user.unwrap_or("root"), "device"], "{finished}");
        assert!(Path::new("/sys/class/net").join(rest[3]).exists(), "{finished}");
        assert_eq!(rest[4], "4", "{finished}");
    }
    let now = ["/sys/class/infiniband", "/dev/infiniband"].map(|path| Path::new(path).exists());
    assert_eq!(now, outside);
}

#[test]
fn the_files_follow_the_interface() {
    let _slot = slot::take();
    let cable = Cable::lay();
    let place = &cable.ends[0].place;
    let running = Program::new(["ibv_asyncwatch"]).sysfs().at(place).start();
    let files = format!("/proc/{}/root/sys/class/infiniband/glass0/ports/1", running.pid());
    let wait = |file: &str, expected: Option<&str>| {
        let began = Instant::now();
        let read = || fs::read_to_string(format!("{files}/{file}")).ok().map(|text| text.trim().to_owned());
        while read().as_deref() != expected {
            assert!(began.elapsed() < Duration::from_secs(10), "{file}: {:?}, expected {expected:?}", read());
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    wait("state", Some("4: ACTIVE"));
    wait("gid_attrs/ndevs/3", None);
    // It opens its device a moment after its view is there.
    std::thread::sleep(Duration::from_millis(500));
    let change = |words: &[&str]| {
        let finished = Program::plain(words.iter().copied()).at(place).run();
        assert!(finished.succeeded(), "{finished}");
    };
    change(&["ip", "addr", "add", "10.78.0.9/24", "dev", CABLE_INTERFACE]);
    wait("gids/3", Some("0000:0000:0000:0000:0000:ffff:0a4e:0009"));
    wait("gid_attrs/ndevs/3", Some(CABLE_INTERFACE));
    change(&["ip", "addr", "del", "10.78.0.9/24", "dev", CABLE_INTERFACE]);
    wait("gid_attrs/types/3", None);
    change(&["ip", "link", "set", CABLE_INTERFACE, "down"]);
    wait("state", Some("1: DOWN"));
    running.signal(Signal::KILL);
}

/// The memory of a process in another user namespace is out of reach: its messages must go another way.
#[test]
fn programs_of_different_views_talk() {
    let _slot = slot::take();
    for (server_sees, client_sees) in [(true, true), (true, false), (false, true)] {
        let case = Case { program: "ibv_rc_pingpong", options: &["-c", "-s", "65536", "-n", "200"] };
        let (port, way) = (free_port(), Way { user: Some("nobody"), ..Way::one_host(Gid::Of(Family::V4)) });
        let device = Device::query(&Place::Here, &[]);
        let program = |sees: bool| {
            let program =
                case.program(Some(device.gid_index(Family::V4)), device.active_mtu, port).as_user(way.user);
            if sees { program.sysfs() } else { program }
        };
        let mut server = program(server_sees).start();
        server.wait_listening(port).unwrap_or_else(|why| panic!("{why}"));
        let client = program(client_sees).args(["127.0.0.1"]).run();
        assert!(client.succeeded(), "server {server_sees}, client {client_sees}: {client}");
        let server = server.wait();
        assert!(server.succeeded(), "server {server_sees}, client {client_sees}: {server}");
    }
}

#[test]
fn a_user_without_namespaces_is_told_what_to_do() {
    let _slot = slot::take();
    let glassnic = product::glassnic();
    // A namespace in which there may be no further ones, and no capability to do without.
    let script = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all {} run --sysfs -- true",
        glassnic.display()
    );
    let finished = Program::plain(["unshare", "-Ur", "sh", "-c", &script]).as_user(Some("nobody")).run();
    assert_eq!(finished.code(), Some(2), "{finished}");
    assert_eq!(finished.stderr.lines().count(), 1, "{finished}");
    let remedy = "sysctl -w user.max_user_namespaces=10000, or run without --sysfs";
    assert!(finished.stderr.contains(remedy), "{finished}");
}
