//! A connection that changes to its alternate path: armed by both ends, because the path fails, or because a program says so.

use glassnic_events::{AsyncEventType, AttrMask, QpState, QpType, WcStatus};
use glassnic_nic::qpc::{Field as Qpc, Image};
use glassnic_sim::fabric::{ALL, Fabric};
use glassnic_sim::{Fate, Pair, PairConfig, Side};
use glassnic_sim::{alternate_gid, alternate_path_to, gid};
use glassnic_transport::attr::{AddressVector, MigState, Mtu, QpAttr};
use glassnic_transport::{SendRequest, WrOpcode};

/// A modify from RTS to RTS.
fn modify(pair: &mut Pair, side: Side, mask: AttrMask, attr: &QpAttr) {
    let attr = QpAttr { qp_state: QpState::Rts, ..*attr };
    pair.end(side).modify(AttrMask::STATE | mask, &attr);
}

fn rearm(pair: &mut Pair, side: Side) {
    let attr = QpAttr {
        path_mig_state: MigState::Rearm,
        alt_ah: alternate_path_to(side.other()),
        alt_port_num: 1,
        alt_timeout: 7,
        ..QpAttr::default()
    };
    modify(pair, side, AttrMask::ALT_PATH | AttrMask::PATH_MIG_STATE, &attr);
}

fn write(pair: &mut Pair, wr_id: u64) -> Vec<(u64, WcStatus)> {
    pair.post(Side::A, WrOpcode::RdmaWrite, wr_id, 0, 8);
    pair.run();
    pair.a.sends()
}

fn states(pair: &Pair) -> [MigState; 2] {
    [pair.a.qp.attr().path_mig_state, pair.b.qp.attr().path_mig_state]
}

/// Both ends armed.
fn armed() -> Pair {
    let mut pair = Pair::new(PairConfig::default());
    rearm(&mut pair, Side::A);
    rearm(&mut pair, Side::B);
    assert_eq!(write(&mut pair, 1), [(1, WcStatus::Success)]);
    assert_eq!(states(&pair), [MigState::Armed; 2]);
    pair.watch();
    pair
}

fn migrated(pair: &Pair) {
    assert_eq!(states(pair), [MigState::Migrated; 2]);
    for (end, side) in [(&pair.a, Side::A), (&pair.b, Side::B)] {
        assert_eq!(end.qp.attr().ah, alternate_path_to(side.other()), "{side:?}");
        assert_eq!(end.qp.attr().timeout, 7, "{side:?}");
        assert_eq!(end.world.asyncs, [AsyncEventType::PathMig], "{side:?}");
    }
}

#[test]
fn migration_is_armed_once_both_ends_want_it() {
    let mut pair = Pair::new(PairConfig::default());
    pair.watch();
    write(&mut pair, 1);
    assert!(
        pair.trace.iter().all(|s| s.headers.bth.mig_req),
        "as IBA 17.2.8 has it: set while nothing is armed"
    );
    rearm(&mut pair, Side::A);
    write(&mut pair, 2);
    assert_eq!(states(&pair), [MigState::Rearm, MigState::Migrated], "the other end has not said so");
    rearm(&mut pair, Side::B);
    pair.trace.clear();
    write(&mut pair, 3);
    assert_eq!(states(&pair), [MigState::Armed; 2]);
    assert!(pair.trace.iter().all(|s| !s.headers.bth.mig_req));
}

#[test]
fn a_path_that_fails_is_left_for_the_alternate_one() {
    let mut pair = armed();
    pair.tamper(|s| if s.dgid == gid(Side::B) || s.dgid == gid(Side::A) { Fate::Lost } else { Fate::Chance });
    assert_eq!(write(&mut pair, 2), [(2, WcStatus::Success)]);
    migrated(&pair);
    let tries = pair.sent_by(Side::A).filter(|s| s.dgid == gid(Side::B)).count();
    assert_eq!(tries, 8, "retry_cnt times again before");
    assert_eq!(write(&mut pair, 3), [(3, WcStatus::Success)]);
    pair.tamper(|_| Fate::Lost);
    assert_eq!(write(&mut pair, 4), [(4, WcStatus::RetryExcErr)], "there is no third path");
}

#[test]
fn a_program_may_ask_for_the_alternate_path() {
    let mut pair = armed();
    let attr = QpAttr { path_mig_state: MigState::Migrated, ..QpAttr::default() };
    modify(&mut pair, Side::A, AttrMask::PATH_MIG_STATE, &attr);
    assert_eq!(write(&mut pair, 2), [(2, WcStatus::Success)]);
    migrated(&pair);
    assert!(pair.trace.iter().all(|s| s.headers.bth.mig_req));
    assert!(pair.sent_by(Side::A).all(|s| s.dgid == alternate_gid(Side::B)));
    assert!(pair.sent_by(Side::B).all(|s| s.dgid == alternate_gid(Side::A)));
}

#[test]
fn a_path_that_nobody_armed_is_not_taken() {
    let mut pair = Pair::new(PairConfig::default());
    rearm(&mut pair, Side::A);
    pair.tamper(|_| Fate::Lost);
    assert_eq!(write(&mut pair, 1), [(1, WcStatus::RetryExcErr)]);
    assert_eq!(pair.a.world.asyncs, []);
}

#[test]
fn a_migration_by_a_path_that_was_not_loaded_is_refused_and_told_once() {
    let mut pair = armed();
    let elsewhere = QpAttr { alt_ah: pair.b.qp.attr().ah, alt_port_num: 1, ..QpAttr::default() };
    modify(&mut pair, Side::B, AttrMask::ALT_PATH, &elsewhere);
    let attr = QpAttr { path_mig_state: MigState::Migrated, ..QpAttr::default() };
    modify(&mut pair, Side::A, AttrMask::PATH_MIG_STATE, &attr);
    assert_eq!(write(&mut pair, 2), [(2, WcStatus::RetryExcErr)]);
    assert_eq!(pair.b.world.asyncs, [AsyncEventType::PathMigErr]);
    assert_eq!(pair.b.qp.attr().path_mig_state, MigState::Armed);
}

/// Whoever looks at the context sees the path that is in use, whether a program or a packet has changed it.
#[test]
fn the_context_shows_both_paths_and_follows_a_migration() {
    let mut fabric = Fabric::new(2, 64 << 10, Mtu::M1024);
    let qps = fabric.couple(QpType::Rc);
    let pds = [fabric.hosts[0].pd, fabric.hosts[1].pd];
    let grants = [0, 1].map(|i: usize| fabric.hosts[i].register(pds[i], 0, 4096, ALL));
    let request = SendRequest {
        opcode: WrOpcode::RdmaWrite,
        rkey: grants[1].rkey,
        remote_addr: grants[1].addr,
        ..SendRequest::default()
    };
    let seen = |fabric: &Fabric, i: usize| {
        let image = Image::load(fabric.hosts[i].nic.memory().qpc(0).unwrap(), 3).unwrap();
        (image.get(Qpc::PathMigState), image.dgid(), image.get(Qpc::AltSgidIndex), image.gid(Qpc::AltDgid))
    };
    let gids = [fabric.hosts[0].gids, fabric.hosts[1].gids];
    assert_eq!(seen(&fabric, 1), (0, gids[0][0], 0, [0; 16]));
    for i in 0..2 {
        let alt_ah = AddressVector {
            is_global: true,
            sgid_index: 1,
            dgid: gids[1 - i][1],
            hop_limit: 64,
            port_num: 1,
            ..AddressVector::default()
        };
        let attr = QpAttr {
            alt_ah,
            alt_port_num: 1,
            alt_timeout: 14,
            path_mig_state: MigState::Rearm,
            ..QpAttr::default()
        };
        let mask = AttrMask::ALT_PATH | AttrMask::PATH_MIG_STATE;
        fabric.hosts[i].modify(qps[i].qpn, mask, &attr, 0).expect("loaded");
        assert_eq!(seen(&fabric, i), (1, gids[1 - i][0], 1, gids[1 - i][1]));
    }
    assert_eq!(fabric.outcome(&qps[0], &request, grants[0].sge(0, 8)).status, WcStatus::Success);
    assert_eq!([seen(&fabric, 0).0, seen(&fabric, 1).0], [2, 2], "armed by what the packets said");
    let migrated = QpAttr { path_mig_state: MigState::Migrated, ..QpAttr::default() };
    fabric.hosts[0].modify(qps[0].qpn, AttrMask::PATH_MIG_STATE, &migrated, 0).expect("armed");
    assert_eq!(fabric.outcome(&qps[0], &request, grants[0].sge(0, 8)).status, WcStatus::Success);
    for i in 0..2 {
        let (state, dgid, ..) = seen(&fabric, i);
        assert_eq!((state, dgid), (0, gids[1 - i][1]), "host {i}");
    }
}
