//! Any sequence of `ibv_modify_qp(3)`: what is refused changes nothing at all, what is accepted changes what it names.

use super::*;
use glassnic_events::AttrMask;
use glassnic_nic::qpc::Image;
use glassnic_transport::attr::{MigState, QpCap};
use glassnic_transport::state::arrow;
use glassnic_transport::{SendFlags, UdDest};
use glassnic_wire::Qpn;

/// Which attributes a call names.
#[derive(Clone, Debug)]
enum Mask {
    /// What a move to this state needs, of what it allows these, and all but these bits of it.
    Fit { to: QpState, optional: u32, toggled: u32 },
    /// Any bits, and any state.
    Any(u32, QpState),
}

#[derive(Clone, Debug)]
enum Step {
    Modify(Mask, Box<QpAttr>),
    Send,
    Receive,
    Run(u32),
}

fn mask() -> impl Strategy<Value = Mask> {
    let to = || prop::sample::select(QpState::ALL);
    // A way up is walked rarely by chance alone.
    let up =
        prop_oneof![3 => prop::sample::select(&[QpState::Init, QpState::Rtr, QpState::Rts][..]), 1 => to()];
    let toggled = prop_oneof![5 => Just(0), 1 => (0u32..27).prop_map(|bit| 1 << bit)];
    prop_oneof![
        6 => (up, any::<u32>(), toggled).prop_map(|(to, optional, toggled)| Mask::Fit { to, optional, toggled }),
        1 => (any::<u32>(), to()).prop_map(|(bits, to)| Mask::Any(bits, to)),
    ]
}

/// Mostly a value of the first kind, seldom one of the second.
fn mostly<T: std::fmt::Debug>(
    good: impl Strategy<Value = T> + 'static,
    any: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = T> {
    prop_oneof![30 => good, 1 => any]
}

fn path() -> impl Strategy<Value = AddressVector> {
    let front =
        (mostly(Just(true), any::<bool>()), mostly(0u8..2, any::<u8>()), mostly(Just(1), any::<u8>()));
    let gid = mostly(any::<[u8; 16]>(), Just([0; 16]));
    (front, gid, any::<u32>(), any::<[u8; 5]>()).prop_map(
        |(
            (is_global, sgid_index, port_num),
            dgid,
            flow_label,
            [hop_limit, traffic_class, sl, bits, rate],
        )| {
            AddressVector {
                is_global,
                sgid_index,
                dgid,
                flow_label,
                hop_limit,
                traffic_class,
                dlid: u16::from(bits),
                sl,
                src_path_bits: bits,
                static_rate: rate,
                port_num,
            }
        },
    )
}

fn attr() -> impl Strategy<Value = QpAttr> {
    let states = prop::sample::select(QpState::ALL);
    let small = |max: u8| mostly(0..=max, any::<u8>());
    let mtu = mostly(prop::sample::select(&Mtu::ALL[..3]), prop::sample::select(&Mtu::ALL[..]));
    let mig = prop::sample::select(&[MigState::Migrated, MigState::Rearm, MigState::Armed][..]);
    let qpn = mostly(0u32..1 << 24, any::<u32>());
    let access = mostly((0u32..16).prop_map(|bits| bits | 1 << 20), any::<u32>());
    let codes = (small(31), small(7), small(7), small(31), small(31), small(128), small(128));
    let ports = (mostly(Just(1), any::<u8>()), mostly(Just(1), any::<u8>()));
    let pkeys = (mostly(Just(0), any::<u16>()), mostly(Just(0), any::<u16>()));
    ((states, mtu, mig, access, qpn), (path(), path()), codes, (ports, pkeys), any::<([u32; 5], bool)>())
        .prop_map(
            |(
                (cur, path_mtu, path_mig_state, access, dest_qp_num),
                (ah, alt_ah),
                codes,
                (ports, pkeys),
                rest,
            )| {
                let (timeout, retry_cnt, rnr_retry, min_rnr_timer, alt_timeout, reads, serves) = codes;
                let ([qkey, rq_psn, sq_psn, size, rate_limit], flag) = rest;
                QpAttr {
                    qp_state: QpState::Reset,
                    cur_qp_state: cur,
                    path_mtu,
                    path_mig_state,
                    qkey,
                    rq_psn,
                    sq_psn,
                    dest_qp_num,
                    access: AccessFlags::from_bits_retain(access),
                    cap: QpCap { max_send_wr: size, ..QpCap::default() },
                    ah,
                    alt_ah,
                    pkey_index: pkeys.0,
                    alt_pkey_index: pkeys.1,
                    en_sqd_async_notify: flag,
                    sq_draining: flag,
                    max_rd_atomic: reads,
                    max_dest_rd_atomic: serves,
                    min_rnr_timer,
                    port_num: ports.0,
                    timeout,
                    retry_cnt,
                    rnr_retry,
                    alt_port_num: ports.1,
                    alt_timeout,
                    rate_limit,
                }
            },
        )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (mask(), attr()).prop_map(|(mask, attr)| Step::Modify(mask, Box::new(attr))),
        1 => Just(Step::Send),
        1 => Just(Step::Receive),
        1 => (0u32..100_000_000).prop_map(Step::Run),
    ]
}

/// The mask and the attributes of a call in this state.
fn call(qp_type: QpType, from: QpState, mask: &Mask, attr: &QpAttr) -> (AttrMask, QpAttr) {
    let (bits, to) = match *mask {
        Mask::Any(bits, to) => (bits, to),
        Mask::Fit { to, optional, toggled } => {
            let fit = arrow(qp_type, from, to)
                .map_or(0, |a| a.required.bits() | a.optional.bits() & optional | AttrMask::STATE.bits());
            (fit ^ toggled, to)
        }
    };
    let lies = attr.qkey.is_multiple_of(8);
    let cur = if lies { attr.cur_qp_state } else { from };
    (AttrMask::from_bits_retain(bits), QpAttr { qp_state: to, cur_qp_state: cur, ..*attr })
}

/// What the rules say to a call, written down once more: is it accepted?
fn accepted(qp_type: QpType, now: &QpAttr, mask: AttrMask, new: &QpAttr) -> bool {
    use AttrMask as M;
    let from = now.qp_state;
    let to = if mask.contains(M::STATE) { new.qp_state } else { from };
    let Some(arrow) = arrow(qp_type, from, to) else { return false };
    let named = mask.contains(arrow.required) && (mask - arrow.allowed()).is_empty();
    let busy = from == QpState::Sqd && now.sq_draining;
    let stuck = busy && (to == QpState::Rts || to == QpState::Sqd && mask.intersects(!M::STATE));
    let port = if mask.contains(M::PORT) { new.port_num } else { now.port_num };
    let route =
        |ah: &AddressVector| ah.is_global && ah.sgid_index < 2 && ah.dgid != [0; 16] && ah.port_num == 1;
    let same_port = to != QpState::Rtr && !mask.contains(M::PORT) || new.ah.port_num == port;
    let alternate = route(&new.alt_ah) && new.alt_port_num == 1 && new.alt_pkey_index == 0;
    let loaded = mask.contains(M::ALT_PATH) || now.alt_port_num != 0;
    let migrates = match new.path_mig_state {
        MigState::Migrated => true,
        MigState::Rearm => loaded,
        MigState::Armed => false,
    };
    let known = AccessFlags::all().bits() | 0x3ff0_0000;
    let rules = [
        (M::CUR_STATE, new.cur_qp_state == from),
        (M::PORT, new.port_num == 1),
        (M::PKEY_INDEX, new.pkey_index == 0 && port == 1),
        (M::ACCESS_FLAGS, new.access.bits() & !known == 0),
        (M::AV, route(&new.ah) && same_port),
        (M::ALT_PATH, alternate && new.alt_timeout < 32),
        (M::PATH_MIG_STATE, migrates),
        (M::PATH_MTU, new.path_mtu <= Mtu::M1024),
        (M::DEST_QPN, new.dest_qp_num < 1 << 24),
        (M::TIMEOUT, new.timeout < 32),
        (M::RETRY_CNT, new.retry_cnt < 8),
        (M::RNR_RETRY, new.rnr_retry < 8),
        (M::MIN_RNR_TIMER, new.min_rnr_timer < 32),
        (M::MAX_QP_RD_ATOMIC, new.max_rd_atomic <= 128),
        (M::MAX_DEST_RD_ATOMIC, new.max_dest_rd_atomic <= 128),
    ];
    named && !stuck && rules.iter().all(|(bit, right)| *right || !mask.contains(*bit))
}

/// The attributes, each with the bit that names it, as they are once they are taken.
fn fields(a: &QpAttr) -> Vec<(AttrMask, String)> {
    use AttrMask as M;
    let narrow = |ah: AddressVector| AddressVector { flow_label: ah.flow_label & 0xf_ffff, ..ah };
    let alternate = (narrow(a.alt_ah), a.alt_port_num, a.alt_pkey_index, a.alt_timeout);
    vec![
        (M::EN_SQD_ASYNC_NOTIFY, format!("{:?}", a.en_sqd_async_notify)),
        (M::ACCESS_FLAGS, format!("{:?}", a.access)),
        (M::PKEY_INDEX, format!("{:?}", a.pkey_index)),
        (M::QKEY, format!("{:?}", a.qkey)),
        (M::AV, format!("{:?}", narrow(a.ah))),
        (M::PATH_MTU, format!("{:?}", a.path_mtu)),
        (M::TIMEOUT, format!("{:?}", a.timeout)),
        (M::RETRY_CNT, format!("{:?}", a.retry_cnt)),
        (M::RNR_RETRY, format!("{:?}", a.rnr_retry)),
        (M::RQ_PSN, format!("{:?}", a.rq_psn & 0xff_ffff)),
        (M::SQ_PSN, format!("{:?}", a.sq_psn & 0xff_ffff)),
        (M::MAX_QP_RD_ATOMIC, format!("{:?}", a.max_rd_atomic)),
        (M::MAX_DEST_RD_ATOMIC, format!("{:?}", a.max_dest_rd_atomic)),
        (M::MIN_RNR_TIMER, format!("{:?}", a.min_rnr_timer)),
        (M::ALT_PATH, format!("{alternate:?}")),
        (M::PATH_MIG_STATE, format!("{:?}", a.path_mig_state)),
        (M::DEST_QPN, format!("{:?}", a.dest_qp_num)),
    ]
}

fn query(stage: &mut Stage, qp: &QpShared) -> QpAttr {
    stage.fabric.hosts[1].nic.query_qp(qp.qpn, AttrMask::empty(), 0).expect("it is there")
}

/// The context of the victim, which has the second slot.
fn context(stage: &Stage, qp: &QpShared) -> Image {
    let words = stage.fabric.hosts[1].nic.memory().qpc(1).expect("a slot");
    let image = Image::load(words, 1).expect("nobody writes");
    assert_eq!(image.get(glassnic_nic::qpc::Field::Qpn), qp.qpn.into());
    image
}

fn modify(stage: &mut Stage, qp: &QpShared, mask: &Mask, attr: &QpAttr) {
    let before = query(stage, qp);
    let image = context(stage, qp);
    let used = qp.used();
    let (mask, new) = call(qp.qp_type, before.qp_state, mask, attr);
    let right = accepted(qp.qp_type, &before, mask, &new);
    let now = stage.fabric.now;
    let got = stage.fabric.hosts[1].modify(qp.qpn, mask, &new, now);
    assert_eq!(got.is_ok(), right, "{got:?}: {mask:?} of {new:?} in {}", before.qp_state);
    let after = query(stage, qp);
    if !right {
        assert_eq!(after, before, "a refused call changed something");
        assert_eq!(context(stage, qp), image, "a refused call changed the context");
        assert_eq!((qp.state(), qp.used()), (before.qp_state, used));
        return;
    }
    let to = if mask.contains(AttrMask::STATE) { new.qp_state } else { before.qp_state };
    assert_eq!((after.qp_state, after.cur_qp_state, qp.state()), (to, to, to));
    assert_eq!(after.cap, before.cap);
    if to == QpState::Reset {
        assert_eq!(after, QpAttr { cap: before.cap, ..QpAttr::default() }, "RESET forgets everything");
        assert_eq!(qp.used(), (0, 0));
        return;
    }
    assert_eq!(qp.used(), used);
    let mtu_of_port = qp.qp_type == QpType::Ud && to == QpState::Rtr;
    for (((bit, old), (_, offered)), (_, held)) in
        fields(&before).into_iter().zip(fields(&new)).zip(fields(&after))
    {
        if bit == AttrMask::PATH_MTU && mtu_of_port {
            continue;
        }
        let expected = if mask.contains(bit) { offered } else { old };
        assert_eq!(held, expected, "{bit:?} after {mask:?}");
    }
    let ports = [(AttrMask::PORT, new.port_num), (AttrMask::AV, new.ah.port_num)];
    let port = ports.iter().find(|(bit, _)| mask.contains(*bit)).map_or(before.port_num, |(_, port)| *port);
    assert_eq!(after.port_num, port);
}

fn undergo(qp_type: QpType, steps: &[Step]) {
    let mut stage = Stage::new();
    let qp = stage.fabric.hosts[1].create(qp_type);
    let landing = stage.regions[1].landing;
    for step in steps {
        match step {
            Step::Modify(mask, attr) => modify(&mut stage, &qp, mask, attr),
            Step::Receive => {
                let _ = qp.post_recv(1, [landing.sge(0, 100)].into_iter());
                qp.ring();
            }
            Step::Send => {
                let av = attributes(&stage.fabric, 0).ah;
                let ud = UdDest { av, qpn: Qpn::new(PEER), qkey: QKEY };
                let flags = SendFlags::SOLICITED;
                let req = SendRequest { flags, ud, ..SendRequest::default() };
                let _ = post_send(&qp, &req, &[landing.sge(0, 100)]);
            }
            Step::Run(ns) => {
                let before = qp.state();
                stage.fabric.run_until(stage.fabric.now + u64::from(*ns));
                // Nobody answers: RC gives up. Nothing else happens by itself.
                let gave_up = qp_type == QpType::Rc && matches!(before, QpState::Rts | QpState::Sqd);
                let after = qp.state();
                assert!(after == before || gave_up && after == QpState::Err, "{before} became {after}");
            }
        }
    }
    lives_again(&mut stage, &qp);
    stage.bystanders_still_work();
}

/// Whatever it went through: after RESET it is as good as new.
fn lives_again(stage: &mut Stage, qp: &Arc<QpShared>) {
    let reset = QpAttr { qp_state: QpState::Reset, ..QpAttr::default() };
    stage.fabric.hosts[1].modify(qp.qpn, AttrMask::STATE, &reset, 0).expect("RESET from everywhere");
    stage.fabric.run_until(stage.fabric.now + 1_000_000_000);
    stage.fabric.hosts[1].poll();
    let peer = stage.fabric.hosts[0].create(qp.qp_type);
    let attr = QpAttr { rq_psn: SQ_PSN, timeout: 14, access: REMOTE, ..attributes(&stage.fabric, 1) };
    stage.fabric.hosts[0].raise_to(&peer, QpState::Rts, &QpAttr { dest_qp_num: qp.qpn, ..attr });
    let back = attributes(&stage.fabric, 0).ah;
    let own = QpAttr { dest_qp_num: peer.qpn, ah: back, ..attr };
    stage.fabric.hosts[1].raise_to(qp, QpState::Rts, &own);
    for (host, from, to, av) in [(0, &peer, qp, attr.ah), (1, qp, &peer, back)] {
        let (far, near) = (stage.regions[1 - host].landing, stage.regions[host].landing);
        to.post_recv(7, [far.sge(0, 1000)].into_iter()).expect("posted");
        let ud = UdDest { av, qpn: Qpn::new(to.qpn), qkey: QKEY };
        post_send(from, &SendRequest { wr_id: 8, ud, ..SendRequest::default() }, &[near.sge(2048, 900)])
            .expect("posted");
        stage.fabric.run_until(stage.fabric.now + 1_000_000_000);
        let sent = stage.completions(host, from.qpn);
        let received = stage.completions(1 - host, to.qpn);
        let done = |list: &[Completion]| list.iter().map(|c| (c.wr_id, c.status)).collect::<Vec<_>>();
        assert_eq!(done(&sent), [(8, WcStatus::Success)]);
        assert_eq!(done(&received), [(7, WcStatus::Success)]);
    }
}

proptest! {
    #![proptest_config(config(400, 4))]

    #[test]
    fn an_rc_queue_pair_undergoes_any_modify(steps in prop::collection::vec(step(), 1..60)) {
        undergo(QpType::Rc, &steps);
    }

    #[test]
    fn a_uc_queue_pair_undergoes_any_modify(steps in prop::collection::vec(step(), 1..60)) {
        undergo(QpType::Uc, &steps);
    }

    #[test]
    fn a_ud_queue_pair_undergoes_any_modify(steps in prop::collection::vec(step(), 1..60)) {
        undergo(QpType::Ud, &steps);
    }
}
