//! What is on the cable: tshark and GlassNIC's own `wire` must agree about every packet.

use glassnic_e2e::capture::{self, Capture};
use glassnic_e2e::pair::{Case, Way};
use glassnic_e2e::place::{Cable, Family};
use glassnic_e2e::slot;

/// A case and the BTH opcodes that it must put on the wire, at a path MTU of 1024 (IBA 9.2.1, table 38).
struct OnTheWire {
    case: Case,
    opcodes: &'static [u8],
}

const fn on_the_wire(
    program: &'static str,
    options: &'static [&'static str],
    opcodes: &'static [u8],
) -> OnTheWire {
    OnTheWire { case: Case { program, options }, opcodes }
}

const CASES: &[OnTheWire] = &[
    // SEND first, middle, last; ACK.
    on_the_wire("ibv_rc_pingpong", &["-n", "20", "-s", "4096"], &[0x00, 0x01, 0x02, 0x11]),
    // SEND only; a length that needs padding.
    on_the_wire("ibv_rc_pingpong", &["-n", "20", "-s", "77"], &[0x04, 0x11]),
    on_the_wire("ibv_uc_pingpong", &["-n", "20", "-s", "2502"], &[0x20, 0x21, 0x22]),
    // UD SEND only.
    on_the_wire("ibv_ud_pingpong", &["-n", "20", "-s", "503"], &[0x64]),
    // WRITE first, middle, last; ACK.
    on_the_wire("ib_write_bw", &["-n", "20", "-s", "3001"], &[0x06, 0x07, 0x08, 0x11]),
    on_the_wire("ib_write_lat", &["-n", "20", "-s", "64"], &[0x0a, 0x11]),
    on_the_wire("ib_write_bw", &["-c", "UC", "-n", "20", "-s", "3001"], &[0x26, 0x27, 0x28]),
    // READ request; READ response first, middle, last.
    on_the_wire("ib_read_bw", &["-n", "20", "-s", "5003"], &[0x0c, 0x0d, 0x0e, 0x0f]),
    // READ response only.
    on_the_wire("ib_read_lat", &["-n", "20", "-s", "8"], &[0x0c, 0x10]),
    // FETCH_AND_ADD and COMPARE_AND_SWAP; ATOMIC ACK.
    on_the_wire("ib_atomic_lat", &["-n", "20"], &[0x14, 0x12]),
    on_the_wire("ib_atomic_lat", &["-n", "20", "-A", "CMP_AND_SWAP"], &[0x13, 0x12]),
];

fn every_packet_is_right(family: Family) {
    let _slot = slot::take();
    let cable = Cable::lay();
    for (number, OnTheWire { case, opcodes }) in CASES.iter().enumerate() {
        let capture = Capture::start(&cable.ends[0], &format!("wire-{family:?}-{number}"));
        Way::cable(&cable, family).run(case);
        let file = capture.stop();
        let ours = capture::judge_with_wire(&file).unwrap_or_else(|why| panic!("{case:?}: {why}"));
        let theirs = capture::judge_with_tshark(&file).unwrap_or_else(|why| panic!("{case:?}: {why}"));
        assert_eq!(ours, theirs, "{case:?}: wire and tshark see different packets");
        let counts = capture::by_opcode(&ours);
        assert!(opcodes.iter().all(|opcode| counts.contains_key(opcode)), "{case:?}: {counts:x?}");
        // Retransmits aside, a program has no reason for any other opcode.
        assert!(counts.keys().all(|opcode| opcodes.contains(opcode)), "{case:?}: {counts:x?}");
    }
}

#[test]
fn every_packet_over_ipv4_is_rocev2_with_a_right_icrc() {
    every_packet_is_right(Family::V4);
}

#[test]
fn every_packet_over_ipv6_is_rocev2_with_a_right_icrc() {
    every_packet_is_right(Family::V6);
}
