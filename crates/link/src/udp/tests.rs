use super::*;
use crate::directory::{Node, QPNS_PER_BLOCK};
use crate::testing::{Actor, Folder, ip, role, say};
use glassnic_wire::icrc::{self, Flow, IpId};
use glassnic_wire::opcode::Opcode;
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// Options with a port that nobody uses now.
fn options(gso: bool) -> SocketOptions {
    let probe = UdpSocket::bind((V4, 0)).unwrap();
    SocketOptions { port: probe.local_addr().unwrap().port(), gso }
}

fn path(addr: IpAddr, options: SocketOptions) -> Path {
    // The source port is wrong on purpose: the socket's counts.
    let flow = Flow { src: addr, dst: addr, sport: 7, dport: options.port };
    Path { flow, tos: 0x20, hop_limit: 61, scope_id: 0, peer_takes_gso: false }
}

/// Fill a packet with its number, and a destination QP number.
fn write(buffer: &mut [u8], number: usize, qpn: u32, len: usize) -> usize {
    buffer[..len].fill(number as u8);
    buffer[5..8].copy_from_slice(&qpn.to_be_bytes()[1..]);
    len
}

/// A packet as it came: number, UDP payload length, place in its send.
type Seen = (u8, usize, u16);

/// Receive until `want` packets came, each with the right addresses, marks and ICRC.
fn receive(sockets: &Sockets, path: &Path, want: usize) -> Vec<Seen> {
    let flow = Flow { sport: sockets.options().port, ..path.flow };
    let family = if flow.is_v4() { Family::V4 } else { Family::V6 };
    let (mut rx, mut seen) = (RxBatch::new(), Vec::new());
    let until = Instant::now() + Duration::from_secs(10);
    while seen.len() < want && Instant::now() < until {
        rx.receive(sockets, family).unwrap();
        for datagram in rx.datagrams() {
            assert_eq!(datagram.src, SocketAddr::new(flow.src, flow.sport));
            assert_eq!(datagram.dst, flow.dst);
            assert_ne!(datagram.ifindex, 0);
            assert_eq!((datagram.tos, datagram.ttl), (path.tos, path.hop_limit));
            icrc::check(&flow, datagram.bytes, IpId::Known(datagram.segment)).unwrap();
            seen.push((datagram.bytes[0], datagram.bytes.len(), datagram.segment));
        }
    }
    seen
}

#[test]
fn one_packet_crosses_in_each_family() {
    let options = options(true);
    let sockets = Sockets::bind(options).unwrap();
    let mut tx = TxBatch::new(options, Vec::new());
    for addr in [V4, V6] {
        let path = path(addr, options);
        tx.push(&path, |buffer| write(buffer, 9, 77, 16));
        assert_eq!(tx.len(), 1);
        assert_eq!(tx.flush(&sockets), FlushReport { sent: 1, ..FlushReport::default() });
        assert_eq!(receive(&sockets, &path, 1), [(9, 20, 0)]);
    }
    tx.push(&path(V4, options), |_| 0);
    assert!(tx.is_empty());
}

#[test]
fn segmented_sends_number_their_packets() {
    // Ends the run by being shorter, cannot join by being longer, begins anew, goes on.
    let lens = [1040, 1040, 1040, 300, 1040, 1056, 1056, 4160, 4160, 28];
    let places = [0, 1, 2, 3, 0, 0, 1, 0, 1, 2];
    for addr in [V4, V6] {
        let options = options(true);
        let sockets = Sockets::bind(options).unwrap();
        let mut tx = TxBatch::new(options, Vec::new());
        let path = path(addr, options);
        for (number, len) in lens.into_iter().enumerate() {
            tx.push(&path, |buffer| write(buffer, number, 77, len));
        }
        assert_eq!(tx.flush(&sockets).sent, lens.len());
        let want: Vec<Seen> =
            (0..).zip(lens).zip(places).map(|((n, len), place)| (n, len + 4, place)).collect();
        assert_eq!(receive(&sockets, &path, lens.len()), want);
    }
}

#[test]
fn a_full_batch_of_the_longest_packets_is_split_at_the_datagram_limit() {
    let options = options(true);
    let sockets = Sockets::bind(options).unwrap();
    let mut tx = TxBatch::new(options, Vec::new());
    let path = path(V4, options);
    let mut count = 0;
    while tx.room() {
        tx.push(&path, |buffer| write(buffer, count, 77, PACKET_LEN_MAX));
        count += 1;
    }
    assert!(count >= 64);
    // Alternately, so that the socket's buffer need not hold all of it.
    let receiver = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(&sockets, &path, count));
        let report = tx.flush(&sockets);
        assert_eq!((report.sent, report.dropped, report.pending), (count, 0, 0));
        receiver.join().unwrap()
    });
    let per_send = 65507 / (PACKET_LEN_MAX + 4);
    for (number, seen) in receiver.iter().enumerate() {
        assert_eq!(*seen, (number as u8, PACKET_LEN_MAX + 4, (number % per_send) as u16));
    }
    assert!(tx.room() && tx.is_empty());
}

#[test]
fn a_longer_request_shares_the_send_of_an_acknowledgement_which_is_behind_it_and_taken_first() {
    let (ack, send) = (Opcode::RC_ACKNOWLEDGE.0, Opcode::RC_SEND_ONLY.0);
    let response = Opcode::RC_RDMA_READ_RESPONSE_ONLY.0;
    // What was pushed: opcode, QP number, length; and what is taken, in order: opcode, place in its send.
    type Pushed<'a> = &'a [(u8, u32, usize)];
    type Seen<'a> = &'a [(u8, u16)];
    let cases: [(Pushed<'_>, Seen<'_>); 9] = [
        (&[(ack, 77, 16), (send, 77, 20)], &[(ack, 1), (send, 0)]),
        (&[(ack, 77, 16), (send, 77, 1040)], &[(ack, 1), (send, 0)]),
        (&[(send, 77, 20), (send, 77, 20), (ack, 77, 16)], &[(ack, 2), (send, 0), (send, 1)]),
        // The send has ended: what follows is another.
        (&[(ack, 77, 16), (send, 77, 20), (send, 77, 20)], &[(ack, 1), (send, 0), (send, 0)]),
        (&[(ack, 77, 16), (send, 77, 16)], &[(ack, 0), (send, 1)]),
        (&[(ack, 77, 16), (ack, 77, 16), (send, 77, 20)], &[(ack, 0), (ack, 1), (send, 0)]),
        // Requests keep their order, and so do answers: an acknowledgement ahead of data that was read would say that it is lost.
        (&[(response, 77, 40), (ack, 77, 16)], &[(response, 0), (ack, 1)]),
        (&[(send, 77, 20), (send, 77, 40)], &[(send, 0), (send, 0)]),
        // Another process may have the other number.
        (&[(ack, 77, 16), (send, 77 << 12, 20)], &[(ack, 0), (send, 0)]),
    ];
    for addr in [V4, V6] {
        let options = options(true);
        let sockets = Sockets::bind(options).unwrap();
        let path = path(addr, options);
        let mut tx = TxBatch::new(options, Vec::new());
        for (pushed, want) in cases {
            for &(opcode, qpn, len) in pushed {
                tx.push(&path, |buffer| write(buffer, opcode.into(), qpn, len));
            }
            assert_eq!(tx.flush(&sockets).sent, pushed.len());
            let seen = receive(&sockets, &path, pushed.len());
            let seen: Vec<_> = seen.into_iter().map(|(opcode, _, place)| (opcode, place)).collect();
            assert_eq!(seen, want, "{pushed:?}");
        }
    }
}

#[test]
fn without_offload_each_packet_is_its_own() {
    let options = options(false);
    let sockets = Sockets::bind(options).unwrap();
    let mut tx = TxBatch::new(options, vec![V4]);
    // Families in turn, more than fit one system call.
    let paths = [path(V4, options), path(V6, options)];
    for number in 0..50 {
        tx.push(&paths[number % 2], |buffer| write(buffer, number, 77, 500));
    }
    assert_eq!(tx.flush(&sockets).sent, 50);
    for (first, path) in paths.iter().enumerate() {
        let want: Vec<Seen> = (first..50).step_by(2).map(|number| (number as u8, 504, 0)).collect();
        assert_eq!(receive(&sockets, path, 25), want);
    }
}

#[test]
fn packets_join_only_where_the_receiver_reads_them_as_one_of_us() {
    let options = options(true);
    let far: IpAddr = [192, 0, 2, 1].into();
    let sends = |local: &[IpAddr], path: &Path, qpns: [u32; 2]| {
        let mut tx = TxBatch::new(options, local.to_vec());
        for qpn in qpns {
            tx.push(path, |buffer| write(buffer, 0, qpn, 100));
        }
        tx.send_count()
    };
    let (near, path) = (path(V4, options), path(far, options));
    assert_eq!(sends(&[], &near, [77, 78]), 1);
    assert_eq!(sends(&[], &near, [77, 77 + QPNS_PER_BLOCK]), 2, "another process may own the second");
    assert_eq!(sends(&[], &path, [77, 77]), 2);
    assert_eq!(sends(&[far, V6], &path, [77, 77]), 1);
    assert_eq!(sends(&[], &Path { peer_takes_gso: true, ..path }, [77, 77]), 1);
    let mapped = Flow { dst: Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(), ..near.flow };
    assert_eq!(sends(&[], &Path { flow: mapped, ..near }, [77, 77]), 1);
}

#[test]
fn refused_packets_are_counted_and_the_rest_goes_out() {
    let options = options(false);
    let sockets = Sockets::bind(options).unwrap();
    let mut tx = TxBatch::new(options, Vec::new());
    let good = path(V4, options);
    // A source address that is not ours.
    let bad = Path { flow: Flow { src: [192, 0, 2, 1].into(), ..good.flow }, ..good };
    for (number, path) in [good, bad, bad, good].iter().enumerate() {
        tx.push(path, |buffer| write(buffer, number, 77, 64));
    }
    let report = tx.flush(&sockets);
    assert_eq!((report.sent, report.dropped, report.pending), (2, 2, 0));
    assert!(report.errno.is_some() && report.too_big.is_none());
    assert_eq!(receive(&sockets, &good, 2), [(0, 68, 0), (3, 68, 0)]);
}

#[test]
fn a_port_that_is_held_is_told_apart() {
    let holder = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = holder.local_addr().unwrap().port();
    let refused = Sockets::bind(SocketOptions { port, gso: true });
    assert!(matches!(refused, Err(BindError::PortTaken { port: held }) if held == port), "{refused:?}");
}

#[test]
fn steering_follows_the_directory() {
    let folder = Folder::new();
    let options = options(true);
    let nodes: Vec<_> = (0..3).map(|_| Node::join_in(folder.path()).unwrap()).collect();
    let bind = |node: &Node| node.bind_in_order(|| Sockets::bind(options)).unwrap();
    let sockets: Vec<_> = nodes.iter().map(bind).collect();
    let blocks: Vec<_> = (0..9).map(|number| nodes[number % 3].claim_block(number as u64).unwrap()).collect();
    attach_steering(&sockets[1], &nodes[1].steering()).unwrap();
    let mut tx = TxBatch::new(options, Vec::new());
    for addr in [V4, V6] {
        let path = path(addr, options);
        for (number, block) in blocks.iter().enumerate() {
            // The lowest and the highest QP number of each block.
            let first = u32::from(*block) * QPNS_PER_BLOCK;
            for qpn in [first, first + QPNS_PER_BLOCK - 1] {
                tx.push(&path, |buffer| write(buffer, number % 3, qpn, 64));
            }
        }
        assert_eq!(tx.flush(&sockets[0]).sent, 18);
        for (member, sockets) in (0..).zip(&sockets) {
            let seen = receive(sockets, &path, 6);
            assert_eq!(seen.iter().map(|packet| packet.0).collect::<Vec<_>>(), [member; 6]);
        }
    }
}

#[test]
fn more_rules_than_the_kernel_takes_are_cut() {
    let sockets = Sockets::bind(options(true)).unwrap();
    let rules: Vec<_> = (1..4096).map(|block| (block, 0)).collect();
    attach_steering(&sockets, &rules).unwrap();
    attach_steering(&sockets, &[]).unwrap();
}

/// Not a test by itself: what needs a network namespace of its own.
#[test]
fn actor() {
    let Some(role) = role() else { return };
    ip("link set lo up");
    match role.as_str() {
        "headers" => headers_on_the_wire(),
        "mtu" => packets_beyond_the_mtu(),
        other => panic!("no part {other}"),
    }
    say("done");
}

#[test]
fn sent_headers_are_those_that_the_icrc_covers() {
    let mut child = Actor::start_in_namespace("udp::tests::actor", "headers");
    assert_eq!(child.hear(), "done");
}

#[test]
fn packets_beyond_the_mtu_are_reported() {
    let mut child = Actor::start_in_namespace("udp::tests::actor", "mtu");
    assert_eq!(child.hear(), "done");
}

/// As a packet socket sees it: identification 0, DF, our TOS and TTL, and an ICRC over what was really sent.
fn headers_on_the_wire() {
    let everything =
        rustix::net::Protocol::from_raw(u32::from((libc::ETH_P_ALL as u16).to_be()).try_into().unwrap());
    let (family, kind) = (AddressFamily::PACKET, SocketType::RAW);
    let tap = rustix::net::socket_with(family, kind, SocketFlags::NONBLOCK, Some(everything)).unwrap();
    let options = SocketOptions { port: ROCE_PORT, gso: false };
    let sockets = Sockets::bind(options).unwrap();
    let mut tx = TxBatch::new(options, Vec::new());
    let path = path(V4, options);
    for round in 0..3 {
        for number in 0..4 {
            tx.push(&path, |buffer| write(buffer, round * 4 + number, 77, 64));
        }
        assert_eq!(tx.flush(&sockets).sent, 4);
    }
    let (mut frame, mut frames) = ([0; 2048], 0);
    while let Ok((_, len)) = rustix::net::recv(&tap, &mut frame[..], rustix::net::RecvFlags::empty()) {
        // Ethernet, then IPv4 without options, then UDP.
        let (ip, udp) = (&frame[14..34], &frame[34..42]);
        let (tos, id, flags, ttl) = (ip[1], [ip[4], ip[5]], [ip[6], ip[7]], ip[8]);
        assert_eq!((tos, id, flags, ttl), (path.tos, [0, 0], [0x40, 0], path.hop_limit));
        assert_eq!(udp[..4], [0x12, 0xB7, 0x12, 0xB7]);
        let flow = Flow { sport: ROCE_PORT, ..path.flow };
        icrc::check(&flow, &frame[42..len], IpId::Known(0)).unwrap();
        frames += 1;
    }
    // The loopback interface shows each going out and coming in.
    assert!(frames >= 12, "{frames} frames");
}

fn packets_beyond_the_mtu() {
    ip("link set lo mtu 1500");
    for gso in [false, true] {
        let options = options(gso);
        let sockets = Sockets::bind(options).unwrap();
        let mut tx = TxBatch::new(options, Vec::new());
        let path = path(V4, options);
        for number in 0..3 {
            tx.push(&path, |buffer| write(buffer, number, 77, 4112));
        }
        tx.push(&path, |buffer| write(buffer, 3, 77 + QPNS_PER_BLOCK, 1040));
        let report = tx.flush(&sockets);
        assert_eq!((report.sent, report.dropped), (1, 3), "{report:?}");
        assert_eq!(report.too_big, Some(TooBig { dst: V4, len: 4116 }), "{report:?}");
        assert_eq!(receive(&sockets, &path, 1), [(3, 1044, 0)]);
    }
}
