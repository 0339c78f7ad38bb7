//! Batches, pipelines, and modifies from several threads at once.

use glassnic_verbs::attr::{AccessFlags, AddressVector, Mtu, QpAttr, QpCap};
use glassnic_verbs::events::{AttrMask, Call, ObjectKind, QpState, QpType, Rule};
use glassnic_verbs::{Context, Cq, Modify, Pd, Qp, QpInit, devices};

struct Bed {
    context: Context,
    pd: Pd,
    cq: Cq,
}

impl Bed {
    fn new() -> Option<Self> {
        let context = devices().first()?.open().ok()?;
        let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(64, None).unwrap());
        Some(Self { context, pd, cq })
    }

    fn init(&self, qp_type: QpType) -> QpInit<'_> {
        let cap =
            QpCap { max_send_wr: 8, max_recv_wr: 8, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 0 };
        QpInit { qp_type, send_cq: &self.cq, recv_cq: &self.cq, srq: None, cap, sq_sig_all: true }
    }

    /// The three moves of a QP that is connected with itself.
    fn moves(&self, qpn: u32, psn: u32) -> [(AttrMask, QpAttr); 3] {
        let port = self.context.port();
        let index = port.gids.iter().position(Option::is_some).expect("a GID");
        let init = QpAttr {
            qp_state: QpState::Init,
            port_num: 1,
            access: AccessFlags::REMOTE_WRITE,
            ..QpAttr::default()
        };
        let ah = AddressVector {
            is_global: true,
            sgid_index: index as u8,
            dgid: port.gids[index].unwrap(),
            hop_limit: 64,
            port_num: 1,
            ..AddressVector::default()
        };
        let rtr = QpAttr {
            qp_state: QpState::Rtr,
            path_mtu: Mtu::M1024,
            dest_qp_num: qpn,
            rq_psn: psn,
            max_dest_rd_atomic: 1,
            min_rnr_timer: 12,
            ah,
            ..QpAttr::default()
        };
        let rts = QpAttr {
            qp_state: QpState::Rts,
            sq_psn: psn,
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            max_rd_atomic: 1,
            ..QpAttr::default()
        };
        use AttrMask as M;
        let to_init = M::STATE | M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS;
        let path = M::AV | M::PATH_MTU | M::DEST_QPN;
        let to_rtr = M::STATE | path | M::RQ_PSN | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER;
        let to_rts = M::STATE | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::SQ_PSN | M::MAX_QP_RD_ATOMIC;
        [(to_init, init), (to_rtr, rtr), (to_rts, rts)]
    }
}

#[test]
fn a_batch_has_an_outcome_for_each_and_one_refusal_undoes_nothing() {
    let Some(bed) = Bed::new() else { return };
    let mut inits = vec![bed.init(QpType::Rc); 5000];
    inits[3].cap.max_send_sge = 1000;
    let made = bed.pd.create_qps(&inits);
    assert_eq!(made.len(), 5000);
    assert!(matches!(made[3].as_ref().unwrap_err().rule, Rule::CapAboveLimit { offered: 1000, .. }));
    let qps: Vec<Qp> = made.into_iter().filter_map(Result::ok).collect();
    assert_eq!(qps.len(), 4999);
    let mut numbers: Vec<u32> = qps.iter().map(Qp::qpn).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 4999, "each has its own number");

    for step in 0..3 {
        let mut batch: Vec<Modify<'_>> = Vec::new();
        for (n, qp) in qps.iter().take(64).enumerate() {
            // The eighth skips INIT.
            let (mask, attr) = bed.moves(qp.qpn(), 7)[if n == 8 && step == 0 { 1 } else { step }];
            batch.push(Modify { qp, mask, attr });
        }
        let outcomes = bed.context.modify_qps(&batch);
        for (n, outcome) in outcomes.iter().enumerate() {
            assert_eq!(outcome.is_ok(), n != 8, "{step}: {n}: {outcome:?}");
        }
    }
    let states: Vec<QpState> =
        qps.iter().take(65).map(|qp| qp.query(AttrMask::STATE).unwrap().qp_state).collect();
    assert_eq!(
        (states[0], states[8], states[63], states[64]),
        (QpState::Rts, QpState::Reset, QpState::Rts, QpState::Reset)
    );

    let other = Bed::new().unwrap();
    let (mask, attr) = bed.moves(0, 0)[0];
    let outcome = other.context.modify_qps(&[Modify { qp: &qps[64], mask, attr }]);
    assert!(matches!(outcome[0].as_ref().unwrap_err().rule, Rule::OtherContext { kind: ObjectKind::Qp, .. }));
    assert_eq!(other.context.modify_qps(&[]), []);
    bed.context.close();
    assert!(bed.context.modify_qps(&[Modify { qp: &qps[64], mask, attr }])[0].is_err());
}

#[test]
fn a_pipeline_is_executed_in_order_and_before_what_comes_later() {
    let Some(bed) = Bed::new() else { return };
    let pending: Vec<_> = (0..100).map(|_| bed.pd.create_qp_async(&bed.init(QpType::Rc))).collect();
    let qps: Vec<Qp> = pending.into_iter().map(|p| p.wait().unwrap()).collect();
    for qp in &qps {
        let handles = bed.moves(qp.qpn(), 9).map(|(mask, attr)| qp.modify_async(mask, &attr));
        // Not waited for: a query that comes later sees what was given before.
        assert_eq!(qp.query(AttrMask::STATE).unwrap().qp_state, QpState::Rts);
        for handle in handles {
            assert!(handle.poll());
            assert_eq!(handle.wait(), Ok(()));
        }
    }
    let refused =
        qps[0].modify_async(AttrMask::STATE, &QpAttr { qp_state: QpState::Init, ..QpAttr::default() });
    assert!(refused.wait().is_err());
    assert_eq!(qps[0].state(), QpState::Rts);

    // The background thread executes what nobody asks for.
    let lonely = bed.pd.create_qp_async(&bed.init(QpType::Ud));
    drop(bed.pd.create_qp_async(&bed.init(QpType::Ud)));
    let qp = lonely.wait().unwrap();
    let (mask, attr) = bed.moves(qp.qpn(), 1)[0];
    drop(qp.modify_async(mask & !AttrMask::ACCESS_FLAGS | AttrMask::QKEY, &attr));
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while qp.state() != QpState::Init {
        assert!(std::time::Instant::now() < until, "nobody executed it");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    drop((qp, qps));
    bed.cq.destroy().expect("what was created and dropped is gone");
}

#[test]
fn a_command_that_is_queued_when_the_device_closes_is_refused() {
    let Some(bed) = Bed::new() else { return };
    let qp = bed.pd.create_qp(&bed.init(QpType::Rc)).unwrap();
    bed.context.close();
    let (mask, attr) = bed.moves(qp.qpn(), 1)[0];
    assert!(qp.modify_async(mask, &attr).wait().is_err());
    assert!(bed.pd.create_qp_async(&bed.init(QpType::Rc)).wait().is_err());
}

#[test]
fn a_safe_modify_changes_nothing_in_another_state_than_expected() {
    let Some(bed) = Bed::new() else { return };
    let qp = bed.pd.create_qp(&bed.init(QpType::Rc)).unwrap();
    let [init, rtr, _] = bed.moves(qp.qpn(), 5);
    let wrong = qp.safe_modify(QpState::Init, rtr.0, &rtr.1).unwrap_err();
    assert_eq!(wrong.rule, Rule::StateMismatch { given: QpState::Init, actual: QpState::Reset });
    assert_eq!(wrong.call, Call::SafeModify);
    assert_eq!(qp.state(), QpState::Reset);
    qp.safe_modify(QpState::Reset, init.0, &init.1).unwrap();
    assert_eq!(
        qp.safe_modify(QpState::Reset, init.0, &init.1).unwrap_err().rule,
        Rule::StateMismatch { given: QpState::Reset, actual: QpState::Init }
    );
    qp.safe_modify(QpState::Init, rtr.0, &rtr.1).unwrap();
    assert_eq!(qp.state(), QpState::Rtr);
}

/// Threads move one QP round and round; each move writes one number into two attributes of different cache lines. Whoever
/// queries, or reads the context from outside, finds the two alike, and each round is made by exactly one thread.
#[test]
fn modifies_of_many_threads_never_tear_a_queue_pair() {
    const THREADS: u32 = 4;
    const ROUNDS: u32 = 400;
    let Some(bed) = Bed::new() else { return };
    let qp = bed.pd.create_qp(&bed.init(QpType::Rc)).unwrap();
    let reset = QpAttr { qp_state: QpState::Reset, ..QpAttr::default() };
    let moved = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (bed, qp, moved) = (&bed, &qp, &moved);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let psn = thread << 16 | round;
                    let [init, rtr, _] = bed.moves(psn, psn);
                    let steps = [
                        (QpState::Reset, init.0, init.1),
                        (QpState::Init, rtr.0, rtr.1),
                        (QpState::Rtr, AttrMask::STATE, reset),
                    ];
                    let (expected, mask, attr) = steps[round as usize % 3];
                    match qp.safe_modify(expected, mask, &attr) {
                        Ok(()) => _ = moved.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
                        Err(refusal) => {
                            assert!(matches!(refusal.rule, Rule::StateMismatch { .. }), "{refusal:?}")
                        }
                    }
                    let seen = qp.query(AttrMask::STATE).unwrap();
                    match seen.qp_state {
                        QpState::Rtr => assert_eq!(seen.rq_psn, seen.dest_qp_num, "torn: {seen:?}"),
                        _ => assert_eq!((seen.rq_psn, seen.dest_qp_num), (0, 0), "torn: {seen:?}"),
                    }
                    if round % 7 == 0 {
                        // Others come and go meanwhile, in batches and pipelines.
                        drop(bed.pd.create_qps(&[bed.init(QpType::Rc), bed.init(QpType::Ud)]));
                        drop(bed.pd.create_qp_async(&bed.init(QpType::Uc)));
                    }
                }
            });
        }
    });
    assert!(moved.into_inner() >= 3, "nobody moved it");
}
