//! Faults that other software devices had, where no other test asserts their absence (`docs/faults.md`).

use std::collections::BTreeMap;

use glassnic_events::{AttrMask, QpState, QpType, WcStatus};
use glassnic_sim::fabric::{ALL, Fabric, post_send};
use glassnic_sim::ops::{DATA_OPS, EVERY_OP, SLOT, TRIP, consumes_receive};
use glassnic_sim::{Faults, Pair, PairConfig, Side};
use glassnic_transport::attr::{Mtu, QpAttr};
use glassnic_transport::{SendFlags, SendRequest, WrOpcode};

/// Whatever is under way, and at whatever moment the queue pair is moved to ERR: each request has one completion, and each
/// receive.
#[test]
fn a_move_to_err_at_any_moment_leaves_one_completion_a_request() {
    for op in EVERY_OP {
        for moment in 0..40 {
            let faults = if moment % 2 == 0 { Faults::NONE } else { Faults::BAD };
            let mut pair =
                Pair::new(PairConfig { faults, seed: moment, mtu: Mtu::M256, ..PairConfig::default() });
            for i in 0..16 {
                pair.post_recv(Side::A, 100 + i, (20 + i) * SLOT, 2000);
                pair.post_recv(Side::B, i, (20 + i) * SLOT, 2000);
                pair.post_slot(Side::A, op, i, 1000, SendFlags::SIGNALED);
            }
            pair.run_until(moment * TRIP / 4);
            let mut counts = BTreeMap::new();
            let mut count = |ends: Vec<(u64, WcStatus)>| {
                for (id, _) in ends {
                    *counts.entry(id).or_insert(0) += 1;
                }
            };
            // Some are polled before, the rest after.
            count(pair.a.sends());
            pair.a.move_to(QpState::Err);
            count(pair.a.sends());
            count(pair.a.receives());
            pair.run();
            count(pair.a.sends());
            count(pair.a.receives());
            let once: BTreeMap<u64, i32> = (0..16).chain(100..116).map(|id| (id, 1)).collect();
            assert_eq!(counts, once, "{op:?} at {moment}");
        }
    }
}

/// Two wrong keys in the queue at once: the second request is not lost behind the first.
#[test]
fn two_writes_with_wrong_keys_are_an_error_and_a_flush() {
    let mut pair = Pair::new(PairConfig::default());
    for id in 0..2 {
        let mut request = pair.request(Side::A, WrOpcode::RdmaWrite, id, 0);
        request.rkey ^= 0x5500;
        let sge = pair.a.sge(0, 8);
        pair.a.post(&request, &[sge]).expect("room");
    }
    pair.run();
    assert_eq!(pair.a.sends(), [(0, WcStatus::RemAccessErr), (1, WcStatus::WrFlushErr)]);
    assert!(pair.a.poll_send().is_none());
}

/// AckReq asks for what UC and UD never give; MigReq is a matter of connections.
#[test]
fn only_reliable_connections_ask_for_acknowledgements() {
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
        for op in DATA_OPS {
            let allowed = match qp_type {
                QpType::Rc => true,
                QpType::Uc => !matches!(op, WrOpcode::RdmaRead | WrOpcode::SendWithInv),
                _ => matches!(op, WrOpcode::Send | WrOpcode::SendWithImm),
            };
            if !allowed {
                continue;
            }
            let mut pair = Pair::new(PairConfig { qp_type, ..PairConfig::default() });
            pair.watch();
            let len = if qp_type == QpType::Ud { 900 } else { 3000 };
            for i in 0..4 {
                if consumes_receive(op) {
                    pair.post_recv(Side::B, i, (20 + i) * SLOT, 4000);
                }
                pair.post_slot(Side::A, op, i, len, SendFlags::SIGNALED | SendFlags::SOLICITED);
            }
            pair.run();
            // Only connections migrate, and these have from the beginning.
            let migrated = pair.sent_by(Side::A).all(|s| s.headers.bth.mig_req == (qp_type != QpType::Ud));
            assert!(migrated, "{qp_type:?} {op:?}");
            let asked = pair.sent_by(Side::A).filter(|s| s.headers.bth.ack_req).count();
            assert_eq!(asked > 0, qp_type == QpType::Rc, "{qp_type:?} {op:?}: {asked} packets ask");
            if qp_type != QpType::Rc {
                assert_eq!(pair.sent_by(Side::B).count(), 0, "{qp_type:?} {op:?} is answered");
            }
        }
    }
}

/// Connections come and go for as long as somebody likes: no table, number or key runs out.
#[test]
fn ten_thousand_connections_one_after_the_other() {
    let mut fabric = Fabric::new(2, 64 << 10, Mtu::M1024);
    let grants = [0, 1].map(|i: usize| {
        let pd = fabric.hosts[i].pd;
        fabric.hosts[i].register(pd, 0, 64 << 10, ALL)
    });
    for round in 0..10_000u64 {
        let qps = fabric.couple(QpType::Rc);
        let request = SendRequest {
            wr_id: round,
            opcode: WrOpcode::RdmaWrite,
            rkey: grants[1].rkey,
            remote_addr: grants[1].addr,
            ..SendRequest::default()
        };
        let done = fabric.outcome(&qps[0], &request, grants[0].sge(0, 8));
        assert_eq!((done.wr_id, done.status), (round, WcStatus::Success));
        for (host, qp) in fabric.hosts.iter_mut().zip(&qps) {
            host.nic.destroy_qp(qp.qpn, fabric.now).expect("destroyed");
        }
    }
}

/// What a queue pair leaves in its CQ does not outlive its reset: the next life would take it for its own.
#[test]
fn a_reset_takes_the_completions_along() {
    let mut fabric = Fabric::new(2, 4096, Mtu::M1024);
    let [qp, _] = fabric.couple(QpType::Rc);
    qp.post_recv(5, std::iter::empty()).expect("room");
    let reset = |state| QpAttr { qp_state: state, ..QpAttr::default() };
    for state in [QpState::Err, QpState::Reset] {
        fabric.hosts[0].modify(qp.qpn, AttrMask::STATE, &reset(state), 0).expect("from any state");
        fabric.run();
        assert_eq!(fabric.hosts[0].cq.waiting(), u32::from(state == QpState::Err), "{state:?}");
    }
    assert_eq!(fabric.hosts[0].poll().len(), 0);
}

/// A queue pair is destroyed while its retransmission timer runs, and its answers are on the way.
#[test]
fn a_timer_does_not_outlive_its_queue_pair() {
    let mut fabric = Fabric::new(2, 64 << 10, Mtu::M1024);
    let grants = [0, 1].map(|i: usize| {
        let pd = fabric.hosts[i].pd;
        fabric.hosts[i].register(pd, 0, 64 << 10, ALL)
    });
    for lost in [false, true] {
        let qps = fabric.couple(QpType::Rc);
        let request = SendRequest {
            opcode: WrOpcode::RdmaRead,
            rkey: grants[1].rkey,
            remote_addr: grants[1].addr,
            ..SendRequest::default()
        };
        post_send(&qps[0], &request, &[grants[0].sge(0, 9000)]).expect("room");
        fabric.pump();
        if lost {
            fabric.lose_all_but(0);
        }
        assert!(fabric.hosts[0].nic.deadline().is_some(), "its timer runs");
        fabric.hosts[0].nic.destroy_qp(qps[0].qpn, fabric.now).expect("destroyed");
        fabric.run();
        assert_eq!(fabric.hosts[0].nic.deadline(), None);
        assert!(fabric.hosts[0].poll().is_empty());
        assert!(fabric.hosts[0].bytes(0, 9000).iter().all(|byte| *byte == 0), "nothing lands any more");
    }
}
