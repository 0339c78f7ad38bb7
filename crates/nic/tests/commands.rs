//! The commands: what they refuse, what they write into context memory and the recorder.

use std::sync::Arc;

use glassnic_events::{
    AsyncEventType, AttrMask, Errno, Limit, ObjectKind, QpState, QpType, Refusal, Rule, WrOpcode, errno,
};
use glassnic_nic::context::{ContextMemory, Layout};
use glassnic_nic::cq::Moderation;
use glassnic_nic::limits::Limits;
use glassnic_nic::mr::Mr;
use glassnic_nic::port::Port;
use glassnic_nic::qpc::{Field, Image};
use glassnic_nic::recorder::changes;
use glassnic_nic::{CreateError, Nic, Notifier, QpInit, Subject, World};
use glassnic_transport::attr::{AccessFlags, AddressVector, Mtu, QpAttr, QpCap};
use glassnic_transport::{AtomicOp, KeyFault, Payload, SendRequest, Tx};
use glassnic_wire::command::CommandOpcode;
use glassnic_wire::command::body::{AsyncEvent, CreateQueue, Executed, Traffic};
use glassnic_wire::opcode::Opcode;
use glassnic_wire::{Qpn, Service};

#[derive(Debug)]
struct Nobody;

impl Notifier for Nobody {
    fn completion(&self, _: u32) {}
    fn asynchronous(&self, _: glassnic_events::AsyncEventType, _: Subject) {}
}

/// A world in which nothing leaves.
struct Void;

impl World for Void {
    fn burst(&self, _: &AddressVector, _: Qpn, _: Service, _: u32) -> u32 {
        1
    }
    fn room(&mut self, _: &AddressVector, _: Qpn, _: Service, _: usize) -> bool {
        true
    }
    fn transmit(&mut self, _: [u8; 16], _: &Tx<'_>) {}
    fn store(&mut self, _: u64, _: &Payload<'_>, _: usize, _: usize) -> Result<(), KeyFault> {
        Ok(())
    }
    fn atomic(&mut self, _: u64, _: AtomicOp) -> Result<u64, KeyFault> {
        Ok(0)
    }
}

const GID: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

fn nic() -> Nic {
    let port = Port { gids: vec![Some(GID), None], active_mtu: Mtu::M1024, active: true };
    let memory = ContextMemory::private(Layout::bare(4, 64));
    let limits = Limits { max_pd: 2, max_cq: 2, max_mr: 2, max_ah: 1, max_qp_wr: 16, ..Limits::default() };
    let mut nic = Nic::new(limits, port, memory, Arc::new(Nobody), 11);
    nic.add_qpn_block(3);
    nic
}

fn cap(max_send_wr: u32) -> QpCap {
    QpCap { max_send_wr, max_recv_wr: 4, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 0 }
}

fn init(pd: u32, cq: u32) -> QpInit {
    QpInit { pd, qp_type: QpType::Rc, send_cq: cq, recv_cq: cq, srq: None, cap: cap(4), sq_sig_all: false }
}

fn refused(r: Result<Arc<glassnic_nic::QpShared>, CreateError>) -> Rule {
    match r {
        Err(CreateError::Refused(refusal)) => refusal.rule,
        other => panic!("{other:?}"),
    }
}

fn code(r: &Refusal) -> Errno {
    errno(&r.rule)
}

#[test]
fn limits_are_enforced_as_advertised() {
    let mut nic = nic();
    let (a, b) = (nic.alloc_pd(0).unwrap(), nic.alloc_pd(0).unwrap());
    let full = nic.alloc_pd(0).unwrap_err();
    assert_eq!(full.rule, Rule::LimitReached { kind: ObjectKind::Pd, limit: 2, held: 2 });
    assert_eq!(code(&full), Errno(12));
    nic.dealloc_pd(b, 0).unwrap();
    let (cq, _) = nic.create_cq(16, 0).unwrap();
    assert!(nic.create_cq(0, 0).is_err());
    assert!(nic.create_cq(nic.limits().max_cqe + 1, 0).is_err());
    let many = QpInit { cap: cap(17), ..init(a, cq) };
    let (what, qp_type) = (glassnic_events::Field::MaxSendWr, many.qp_type);
    let rule = refused(nic.create_qp(&many, 0));
    assert_eq!(rule, Rule::CapAboveLimit { what, offered: 17, limit: 16, qp_type });
    assert_eq!(what.limit_of_cap(), Some(Limit::MaxQpWr));
    for _ in 0..4 {
        nic.create_qp(&init(a, cq), 0).unwrap();
    }
    let rule = refused(nic.create_qp(&init(a, cq), 0));
    assert_eq!(rule, Rule::LimitReached { kind: ObjectKind::Qp, limit: 4, held: 4 });
}

#[test]
fn what_is_in_use_stays() {
    let mut nic = nic();
    let pd = nic.alloc_pd(0).unwrap();
    let (cq, _) = nic.create_cq(16, 0).unwrap();
    let qp = nic.create_qp(&init(pd, cq), 0).unwrap();
    for refusal in [nic.dealloc_pd(pd, 0).unwrap_err(), nic.destroy_cq(cq, 0).unwrap_err()] {
        assert_eq!(code(&refusal), Errno(16), "{refusal:?}");
    }
    nic.destroy_qp(qp.qpn, 0).unwrap();
    assert_eq!(code(&nic.destroy_qp(qp.qpn, 0).unwrap_err()), Errno(22));
    let mr = Mr { pd, iova: 0, length: 8, host: 0, access: AccessFlags::LOCAL_WRITE, ..Mr::default() };
    let registered = nic.reg_mr(mr, 0).unwrap();
    assert_ne!(registered.lkey, registered.rkey);
    assert!(nic.dealloc_pd(pd, 0).is_err());
    nic.dereg_mr(registered.handle, 0).unwrap();
    let remote = Mr { access: AccessFlags::REMOTE_WRITE, ..mr };
    assert!(matches!(nic.reg_mr(remote, 0).unwrap_err().rule, Rule::RemoteNeedsLocalWrite { .. }));
    nic.destroy_cq(cq, 0).unwrap();
    nic.dealloc_pd(pd, 0).unwrap();
}

#[test]
fn a_number_is_not_given_to_the_next_qp() {
    let mut nic = nic();
    let pd = nic.alloc_pd(0).unwrap();
    let (cq, _) = nic.create_cq(16, 0).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..500 {
        let qp = nic.create_qp(&init(pd, cq), 0).unwrap();
        assert!(seen.insert(qp.qpn), "QPN {:#x} again", qp.qpn);
        nic.destroy_qp(qp.qpn, 0).unwrap();
    }
}

#[test]
fn modify_is_checked_written_back_and_recorded() {
    let mut nic = nic();
    let pd = nic.alloc_pd(0).unwrap();
    let (cq, _) = nic.create_cq(16, 0).unwrap();
    let qp = nic.create_qp(&init(pd, cq), 0).unwrap();
    let jump = QpAttr { qp_state: QpState::Rts, ..QpAttr::default() };
    let refusal = nic.modify_qp(&mut Void, qp.qpn, AttrMask::STATE, &jump, 5).unwrap_err();
    assert!(matches!(refusal.rule, Rule::NotListedTransition { .. }));
    assert_eq!(qp.state(), QpState::Reset);
    assert!(qp.send().is_err(), "no sends in RESET");
    assert!(qp.post_recv(1, std::iter::empty()).is_err(), "no receives in RESET");

    let to_init = QpAttr {
        qp_state: QpState::Init,
        port_num: 1,
        access: AccessFlags::REMOTE_WRITE,
        ..QpAttr::default()
    };
    let mask = AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::ACCESS_FLAGS;
    nic.modify_qp(&mut Void, qp.qpn, mask, &to_init, 6).unwrap();
    assert_eq!(qp.state(), QpState::Init);
    let image = Image::load(nic.memory().qpc(0).unwrap(), 3).unwrap();
    assert_eq!(image.get(Field::Qpn), qp.qpn.into());
    assert_eq!(image.get(Field::State), QpState::Init.value().into());
    assert_eq!(image.get(Field::Access), AccessFlags::REMOTE_WRITE.bits().into());
    assert_eq!(nic.query_qp(qp.qpn, AttrMask::STATE, 7).unwrap().qp_state, QpState::Init);

    let mut opcodes: Vec<_> = nic.recorder().read(0).iter().filter_map(|r| r.opcode().ok()).collect();
    use CommandOpcode as O;
    // What a command changed may take several records.
    opcodes.dedup();
    let want = [
        [O::AllocPd, O::Executed].as_slice(),
        &[O::CreateCq, O::Executed],
        &[O::CreateQp, O::Executed],
        &[O::Refusal],
        &[O::ModifyQp, O::StateMoved, O::Executed],
        &[O::QueryQp],
    ];
    assert_eq!(opcodes, want.concat());
    let of_modify: Vec<_> = nic
        .recorder()
        .read(0)
        .iter()
        .filter(|r| r.opcode() == Ok(O::Executed))
        .filter_map(|r| r.body::<Executed>())
        .filter(|b| b.command.get() == O::ModifyQp.number())
        .flat_map(|b| changes(&b))
        .map(|c| (c.field.name, c.before().to_vec(), c.after().to_vec()))
        .collect();
    assert!(of_modify.contains(&("state", vec![0], vec![1])), "{of_modify:?}");
}

#[test]
fn a_datagram_may_be_as_long_as_the_mtu_of_the_port() {
    let mut nic = nic();
    let pd = nic.alloc_pd(0).unwrap();
    let (cq, _) = nic.create_cq(16, 0).unwrap();
    let qp = nic.create_qp(&QpInit { qp_type: QpType::Ud, ..init(pd, cq) }, 0).unwrap();
    let init = QpAttr { qp_state: QpState::Init, port_num: 1, ..QpAttr::default() };
    let mask = AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::QKEY;
    nic.modify_qp(&mut Void, qp.qpn, mask, &init, 1).unwrap();
    let rtr = QpAttr { qp_state: QpState::Rtr, ..QpAttr::default() };
    nic.modify_qp(&mut Void, qp.qpn, AttrMask::STATE, &rtr, 2).unwrap();
    let mtu = nic.query_qp(qp.qpn, AttrMask::empty(), 3).unwrap().path_mtu;
    assert_eq!(mtu, nic.port().active_mtu);
    assert_ne!(mtu, QpAttr::default().path_mtu, "the test would see nothing");
}

#[test]
fn no_grh_and_an_empty_gid_are_named() {
    let mut nic = nic();
    let pd = nic.alloc_pd(0).unwrap();
    let bare = AddressVector { port_num: 1, ..AddressVector::default() };
    assert!(matches!(nic.create_ah(pd, &bare, 0).unwrap_err().rule, Rule::NoGrh { port: 1, .. }));
    let empty = AddressVector { is_global: true, sgid_index: 1, ..bare };
    assert!(matches!(nic.create_ah(pd, &empty, 0).unwrap_err().rule, Rule::GidIndexEmpty { index: 1, .. }));
    let beyond = AddressVector { sgid_index: 255, ..empty };
    let rule = nic.create_ah(pd, &beyond, 0).unwrap_err().rule;
    assert!(matches!(rule, Rule::GidIndexBeyond { index: 255, valid, .. } if valid.contains(0)), "{rule:?}");
    let good = AddressVector { is_global: true, dgid: GID, ..bare };
    let ah = nic.create_ah(pd, &good, 0).unwrap();
    assert!(nic.create_ah(pd, &good, 0).is_err(), "max_ah is 1");
    nic.destroy_ah(ah, 0).unwrap();
    assert!(nic.destroy_ah(ah, 0).is_err());
}

#[test]
fn a_destroyed_qp_takes_its_completions_along() {
    let mut nic = nic();
    let pd = nic.alloc_pd(0).unwrap();
    let (cq, queue) = nic.create_cq(16, 0).unwrap();
    let qp = nic.create_qp(&init(pd, cq), 0).unwrap();
    let to_init = QpAttr { qp_state: QpState::Init, port_num: 1, ..QpAttr::default() };
    let mask = AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::ACCESS_FLAGS;
    nic.modify_qp(&mut Void, qp.qpn, mask, &to_init, 0).unwrap();
    let to_err = QpAttr { qp_state: QpState::Err, ..QpAttr::default() };
    nic.modify_qp(&mut Void, qp.qpn, AttrMask::STATE, &to_err, 0).unwrap();
    qp.post_recv(7, std::iter::empty()).unwrap();
    {
        let mut sender = qp.send().unwrap();
        sender.stage(&SendRequest::default(), std::iter::empty()).unwrap();
        sender.commit();
    }
    nic.progress(&mut Void, 1);
    assert_eq!(queue.waiting(), 2, "both are flushed");
    nic.destroy_qp(qp.qpn, 2).unwrap();
    assert_eq!(queue.waiting(), 0);
}

#[test]
fn a_queue_is_resized_only_to_what_it_can_be() {
    let mut nic = nic();
    let pd = nic.alloc_pd(0).unwrap();
    let (cq, queue) = nic.create_cq(4, 0).unwrap();
    let qp = nic.create_qp(&init(pd, cq), 0).unwrap();
    flush_receives(&mut nic, qp.qpn, &qp, 3);
    let what = glassnic_events::Field::Cqe;
    let max = u64::from(nic.limits().max_cqe);
    for (cqe, rule) in [
        (2, Rule::ShrinksBelowUse { what, offered: 2, held: 3 }),
        (0, Rule::OutOfRange { what, offered: 0, min: 1, max }),
        (max as u32 + 1, Rule::OutOfRange { what, offered: max + 1, min: 1, max }),
    ] {
        let refusal = nic.resize_cq(cq, cqe, 0).unwrap_err();
        assert_eq!((refusal.rule, code(&refusal)), (rule, Errno(22)));
        assert_eq!(queue.depth(), 4);
    }
    nic.resize_cq(cq, 3, 0).unwrap();
    assert_eq!((queue.depth(), queue.waiting()), (3, 3));
    assert!(matches!(nic.resize_cq(99, 8, 0).unwrap_err().rule, Rule::BadHandle { .. }));
    let resized =
        nic.recorder().read(0).into_iter().rev().find(|r| r.opcode() == Ok(CommandOpcode::ResizeCq));
    assert_eq!(resized.unwrap().body::<CreateQueue>().unwrap().granted.get(), 3);
}

/// Brings a QP to ERR with this many receives, whose flushed completions come.
fn flush_receives(nic: &mut Nic, qpn: u32, qp: &glassnic_nic::QpShared, count: u64) {
    let to_init = QpAttr { qp_state: QpState::Init, port_num: 1, ..QpAttr::default() };
    let mask = AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::ACCESS_FLAGS;
    nic.modify_qp(&mut Void, qpn, mask, &to_init, 0).unwrap();
    (0..count).for_each(|id| qp.post_recv(id, std::iter::empty()).unwrap());
    let to_err = QpAttr { qp_state: QpState::Err, ..QpAttr::default() };
    nic.modify_qp(&mut Void, qpn, AttrMask::STATE, &to_err, 0).unwrap();
    nic.progress(&mut Void, 1_000);
}

/// Counts the completion events.
#[derive(Debug, Default)]
struct Rung(std::sync::atomic::AtomicU32);

impl Rung {
    fn times(&self) -> u32 {
        self.0.load(std::sync::atomic::Ordering::SeqCst)
    }
}

impl Notifier for Rung {
    fn completion(&self, _: u32) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
    fn asynchronous(&self, _: AsyncEventType, _: Subject) {}
}

#[test]
fn an_event_that_is_held_back_comes_when_its_time_is_up() {
    let rung = Arc::new(Rung::default());
    let port = Port { gids: vec![Some(GID)], active_mtu: Mtu::M1024, active: true };
    let memory = ContextMemory::private(Layout::bare(4, 64));
    let mut nic = Nic::new(Limits::default(), port, memory, rung.clone(), 11);
    nic.add_qpn_block(3);
    let pd = nic.alloc_pd(0).unwrap();
    let (cq, queue) = nic.create_cq(16, 0).unwrap();
    nic.modify_cq(cq, Moderation { count: 4, period_us: 50 }, 0).unwrap();
    queue.arm(false);
    let qp = nic.create_qp(&init(pd, cq), 0).unwrap();
    flush_receives(&mut nic, qp.qpn, &qp, 3);
    assert_eq!((rung.times(), queue.waiting()), (0, 3), "three of four");
    assert_eq!(nic.deadline(), Some(51_000));
    nic.progress(&mut Void, 50_999);
    assert_eq!(rung.times(), 0);
    nic.progress(&mut Void, 51_000);
    assert_eq!((rung.times(), nic.deadline()), (1, None));
    queue.arm(false);
    qp.post_recv(9, std::iter::empty()).unwrap();
    qp.ring();
    nic.progress(&mut Void, 60_000);
    assert_eq!(rung.times(), 1);
    nic.modify_cq(cq, Moderation::default(), 0).unwrap();
    assert_eq!(rung.times(), 2, "nothing is held back any more");
}

#[test]
fn the_first_packet_and_an_overrun_are_recorded_once() {
    let mut nic = nic();
    let pd = nic.alloc_pd(0).unwrap();
    let (cq, _) = nic.create_cq(1, 0).unwrap();
    let init = QpInit { qp_type: QpType::Uc, sq_sig_all: true, ..init(pd, cq) };
    let qp = nic.create_qp(&init, 0).unwrap();
    let ah = AddressVector { is_global: true, dgid: GID, port_num: 1, ..AddressVector::default() };
    let attr = QpAttr { port_num: 1, dest_qp_num: 0x77, sq_psn: 5, ah, ..QpAttr::default() };
    use AttrMask as M;
    let moves = [
        (QpState::Init, M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS),
        (QpState::Rtr, M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN),
        (QpState::Rts, M::SQ_PSN),
    ];
    for (qp_state, mask) in moves {
        let attr = QpAttr { qp_state, ..attr };
        nic.modify_qp(&mut Void, qp.qpn, mask | M::STATE, &attr, 0).unwrap();
    }
    let mut sender = qp.send().unwrap();
    for wr_id in 0..4 {
        let request = SendRequest { wr_id, opcode: WrOpcode::Send, ..SendRequest::default() };
        sender.stage(&request, std::iter::empty()).unwrap();
    }
    sender.commit();
    drop(sender);
    nic.progress(&mut Void, 1);
    assert_eq!(qp.state(), QpState::Err, "the second completion finds no room");
    let records = nic.recorder().read(0);
    let only = |opcode| {
        let mut found = records.iter().filter(|r| r.opcode() == Ok(opcode) && r.qpn() == qp.qpn);
        let first = *found.next().unwrap_or_else(|| panic!("no {opcode:?}"));
        assert!(found.next().is_none(), "{opcode:?} twice");
        first
    };
    let sent: Traffic = only(CommandOpcode::FirstPacketSent).body().unwrap();
    assert_eq!((sent.peer_qpn.get(), sent.psn.get(), sent.opcode), (0x77, 5, Opcode::UC_SEND_ONLY.0));
    let events = records.iter().filter(|r| r.opcode() == Ok(CommandOpcode::AsyncEvent));
    let events: Vec<_> = events.map(|r| r.body::<AsyncEvent>().unwrap()).collect();
    let events: Vec<_> = events.iter().map(|e| (e.event_type.get(), e.handle.get())).collect();
    assert_eq!(events, [(AsyncEventType::CqErr.value(), cq), (AsyncEventType::QpFatal.value(), qp.qpn)]);
}
