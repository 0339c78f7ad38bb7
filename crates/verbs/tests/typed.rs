//! The typestate queue pair: the moves that compile, and what the device makes of them.

use glassnic_verbs::attr::{AccessFlags, AddressVector, Mtu, QpAttr, QpCap};
use glassnic_verbs::events::{QpState, QpType, Rule};
use glassnic_verbs::typed::{Qp, Reset};
use glassnic_verbs::{Context, Cq, Pd, QpInit};

fn open() -> (Context, Pd, Cq) {
    let context = glassnic_verbs::devices().pop().expect("a device").open().unwrap();
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(16, None).unwrap());
    (context, pd, cq)
}

fn create(pd: &Pd, cq: &Cq, qp_type: QpType) -> Qp<Reset> {
    let cap = QpCap { max_send_wr: 4, max_recv_wr: 4, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 0 };
    Qp::create(pd, &QpInit { qp_type, send_cq: cq, recv_cq: cq, srq: None, cap, sq_sig_all: true }).unwrap()
}

/// Attributes for every move, with itself as the peer.
fn attr(context: &Context, qp: &Qp<Reset>) -> QpAttr {
    let port = context.port();
    let dgid = port.gid(0).expect("a GID");
    QpAttr {
        port_num: 1,
        access: AccessFlags::REMOTE_WRITE,
        ah: AddressVector { is_global: true, dgid, port_num: 1, hop_limit: 64, ..AddressVector::default() },
        path_mtu: Mtu::M256,
        dest_qp_num: qp.qpn(),
        max_dest_rd_atomic: 1,
        max_rd_atomic: 1,
        min_rnr_timer: 12,
        timeout: 14,
        retry_cnt: 7,
        rnr_retry: 7,
        qkey: 0x1111_1111,
        ..QpAttr::default()
    }
}

#[test]
fn the_path_of_every_service_is_the_same_four_words() {
    let (context, pd, cq) = open();
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let qp = create(&pd, &cq, qp_type);
        let attr = attr(&context, &qp);
        let qp = qp.to_init(&attr).unwrap().to_rtr(&attr).unwrap().to_rts(&attr).unwrap();
        assert_eq!(qp.state(), QpState::Rts, "{qp_type:?}");
        let qp = qp.to_sqd(&attr).unwrap().to_rts(&attr).unwrap();
        drop(qp.sender().unwrap());
        let qp = qp.to_err().unwrap();
        assert_eq!(qp.state(), QpState::Err);
        assert_eq!(qp.to_reset().unwrap().state(), QpState::Reset);
    }
}

#[test]
fn a_refused_move_gives_the_queue_pair_back_as_it_was() {
    let (context, pd, cq) = open();
    let qp = create(&pd, &cq, QpType::Rc);
    let attr = attr(&context, &qp);
    let no_grh = QpAttr { ah: AddressVector { is_global: false, ..attr.ah }, ..attr };
    let refused = qp.to_init(&attr).unwrap().to_rtr(&no_grh).unwrap_err();
    assert!(refused.to_string().contains("is_global"), "{refused}");
    assert_eq!(refused.qp.state(), QpState::Init);
    assert_eq!(refused.qp.to_rtr(&attr).unwrap().state(), QpState::Rtr);
}

#[test]
fn a_queue_pair_that_failed_meanwhile_is_refused_by_the_device() {
    let (context, pd, cq) = open();
    let qp = create(&pd, &cq, QpType::Rc);
    let attr = attr(&context, &qp);
    let qp = qp.to_init(&attr).unwrap();
    // As a failure would, behind the type's back.
    let to_err = QpAttr { qp_state: QpState::Err, ..QpAttr::default() };
    qp.as_dynamic().modify(glassnic_verbs::events::AttrMask::STATE, &to_err).unwrap();
    let refused = qp.to_rtr(&attr).unwrap_err();
    assert!(matches!(refused.refusal.rule, Rule::NotListedTransition { .. }), "{refused}");
    assert_eq!(refused.qp.state(), QpState::Err);
}
