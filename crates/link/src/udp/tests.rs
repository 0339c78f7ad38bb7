//! Tests.

use super::*;
use glassnic_wire::icrc::{self, Flow, IpId};
use std::net::{IpAddr, Ipv4Addr};

#[test]
fn a_burst_crosses_loopback_with_good_icrcs() {
    let options = SocketOptions { port: 14791, ..SocketOptions::default() };
    let sockets = Sockets::bind(options).unwrap();
    let lo = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let flow = Flow { src: lo, dst: lo, sport: 14791, dport: 14791 };
    let path = Path { flow, tos: 0, hop_limit: 64, scope_id: 0, peer_takes_gso: false };
    let mut tx = TxBatch::new(options, vec![lo]);
    for n in 0..6u8 {
        tx.push(&path, |buffer| {
            buffer[..256].fill(n);
            256
        });
    }
    tx.flush(&sockets);
    assert!(tx.is_empty());
    let (mut rx, mut got) = (RxBatch::new(), Vec::new());
    let until = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while got.len() < 6 && std::time::Instant::now() < until {
        rx.receive(&sockets, Family::V4).unwrap();
        for d in rx.datagrams() {
            assert_eq!(d.dst, lo);
            icrc::check(&flow, d.bytes, IpId::Known(d.segment)).expect("the ICRC of what was sent");
            got.push((d.bytes.len(), d.bytes[0]));
        }
    }
    assert_eq!(got, (0..6).map(|n| (260, n)).collect::<Vec<_>>());
}
