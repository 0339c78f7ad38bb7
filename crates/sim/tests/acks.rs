//! When an acknowledgement leaves: an application that is about to be handed a message may answer it in the same step.

use std::sync::Arc;

use glassnic_events::{QpState, QpType};
use glassnic_nic::QpShared;
use glassnic_sim::fabric::{Fabric, Flight, Grant, post_send};
use glassnic_transport::attr::{AccessFlags, AddressVector, Mtu, QpAttr};
use glassnic_transport::{SendRequest, WrOpcode};
use glassnic_wire::opcode::Opcode;

const MEMORY: usize = 64 << 10;

/// Two hosts with an RC queue pair each, connected, and a receive posted at the second if `ready`.
fn connected(ready: bool) -> (Fabric, [Arc<QpShared>; 2], [Grant; 2]) {
    let mut fabric = Fabric::new(2, MEMORY, Mtu::M1024);
    let gids = [fabric.hosts[0].gids[0], fabric.hosts[1].gids[0]];
    let [a, b] = [0, 1].map(|i: usize| fabric.hosts[i].create(QpType::Rc));
    let qps = [a, b];
    let grants = [0, 1].map(|i: usize| {
        let host = &mut fabric.hosts[i];
        let attr = QpAttr {
            port_num: 1,
            path_mtu: Mtu::M1024,
            dest_qp_num: qps[1 - i].qpn,
            ah: AddressVector {
                is_global: true,
                dgid: gids[1 - i],
                hop_limit: 64,
                port_num: 1,
                ..AddressVector::default()
            },
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            ..QpAttr::default()
        };
        host.raise_to(&qps[i], QpState::Rts, &attr);
        host.register(host.pd, 0, MEMORY as u64, AccessFlags::LOCAL_WRITE)
    });
    if ready {
        qps[1].post_recv(1, [grants[1].sge(0, 64)].into_iter()).unwrap();
    }
    (fabric, qps, grants)
}

/// The first host sends eight bytes, which reach the second.
fn send(fabric: &mut Fabric, qp: &QpShared, grant: &Grant) {
    let request = SendRequest { opcode: WrOpcode::Send, ..SendRequest::default() };
    post_send(qp, &request, &[grant.sge(1024, 8)]).unwrap();
    let host = &mut fabric.hosts[0];
    host.nic.progress(&mut host.ground, 0);
    let sent: Vec<Flight> = host.ground.outbox.drain(..).collect();
    assert_eq!(sent.len(), 1);
    fabric.deliver(&sent[0]);
}

/// What the second host's NIC sends in a step.
fn step(fabric: &mut Fabric, acks_wait: bool) -> Vec<Opcode> {
    let host = &mut fabric.hosts[1];
    match acks_wait {
        true => host.nic.progress_but_acks(&mut host.ground, 0),
        false => host.nic.progress(&mut host.ground, 0),
    };
    host.ground.outbox.drain(..).map(|f| f.headers.bth.opcode).collect()
}

#[test]
fn a_reply_and_the_acknowledgement_of_what_it_answers_leave_together() {
    let (mut fabric, qps, grants) = connected(true);
    send(&mut fabric, &qps[0], &grants[0]);
    assert_eq!(step(&mut fabric, true), []);
    assert_eq!(fabric.hosts[1].poll().len(), 1, "the message is there meanwhile");
    post_send(
        &qps[1],
        &SendRequest { opcode: WrOpcode::Send, ..SendRequest::default() },
        &[grants[1].sge(2048, 8)],
    )
    .unwrap();
    assert_eq!(step(&mut fabric, false), [Opcode::RC_ACKNOWLEDGE, Opcode::RC_SEND_ONLY]);
    assert_eq!(step(&mut fabric, false), []);
}

#[test]
fn an_acknowledgement_waits_for_one_step_and_no_more() {
    let (mut fabric, qps, grants) = connected(true);
    send(&mut fabric, &qps[0], &grants[0]);
    assert_eq!(step(&mut fabric, true), []);
    assert!(fabric.hosts[1].nic.has_work());
    assert_eq!(step(&mut fabric, true), [Opcode::RC_ACKNOWLEDGE]);
    assert!(!fabric.hosts[1].nic.has_work());
}

#[test]
fn bad_news_does_not_wait() {
    let (mut fabric, qps, grants) = connected(false);
    send(&mut fabric, &qps[0], &grants[0]);
    assert_eq!(step(&mut fabric, true), [Opcode::RC_ACKNOWLEDGE], "an RNR NAK");
}
