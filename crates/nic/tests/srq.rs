//! The commands on shared receive queues: what they refuse, and what an inspector sees of them.

use std::sync::{Arc, Mutex};

use glassnic_events::{AsyncEventType, Errno, Field, Limit, ObjectKind, QpType, Queue, Refusal, Rule, errno};
use glassnic_nic::context::{ContextMemory, Layout};
use glassnic_nic::limits::Limits;
use glassnic_nic::object::{Head, Image, Kind, Srq as Seen};
use glassnic_nic::port::Port;
use glassnic_nic::qpc;
use glassnic_nic::{CreateError, Nic, Notifier, QpInit, SrqAttr, Subject};
use glassnic_transport::Sge;
use glassnic_transport::attr::{Mtu, QpCap};
use glassnic_wire::command::CommandOpcode;
use glassnic_wire::command::body::{AsyncEvent, CreateQp, CreateQueue};

#[derive(Debug, Default)]
struct Heard(Mutex<Vec<(AsyncEventType, Subject)>>);

impl Notifier for Heard {
    fn completion(&self, _: u32) {}
    fn asynchronous(&self, event: AsyncEventType, subject: Subject) {
        self.0.lock().unwrap().push((event, subject));
    }
}

fn nic() -> (Nic, Arc<Heard>) {
    let port = Port { gids: vec![None], active_mtu: Mtu::M1024, active: true };
    let layout = Layout { object_slots: [4; Kind::ALL.len()], ..Layout::bare(4, 64) };
    let limits = Limits { max_srq: 2, max_srq_wr: 16, max_srq_sge: 3, max_qp_wr: 8, ..Limits::default() };
    let heard = Arc::new(Heard::default());
    let mut nic = Nic::new(limits, port, ContextMemory::private(layout), heard.clone(), 11);
    nic.add_qpn_block(3);
    (nic, heard)
}

fn attr(max_wr: u32, max_sge: u32) -> SrqAttr {
    SrqAttr { max_wr, max_sge, limit: 9 }
}

fn sges(n: usize) -> impl ExactSizeIterator<Item = Sge> {
    vec![Sge::default(); n].into_iter()
}

fn code<T: std::fmt::Debug>(r: Result<T, Refusal>) -> (Errno, Rule) {
    let refusal = r.unwrap_err();
    (errno(&refusal.rule), refusal.rule)
}

const EBUSY: Errno = Errno(16);
const EINVAL: Errno = Errno(22);

#[test]
fn limits_are_enforced_as_advertised() {
    let (mut nic, _) = nic();
    let pd = nic.alloc_pd(0).unwrap();
    let above = |what, offered, limit, limit_name| Rule::ExceedsLimit { what, offered, limit, limit_name };
    assert_eq!(
        code(nic.create_srq(pd, &attr(17, 1), 0)),
        (EINVAL, above(Field::SrqMaxWr, 17, 16, Limit::MaxSrqWr))
    );
    assert_eq!(
        code(nic.create_srq(pd, &attr(16, 4), 0)),
        (EINVAL, above(Field::SrqMaxSge, 4, 3, Limit::MaxSrqSge))
    );
    let none = Rule::OutOfRange { what: Field::SrqMaxWr, offered: 0, min: 1, max: 16 };
    assert_eq!(code(nic.create_srq(pd, &attr(0, 1), 0)), (EINVAL, none));
    assert_eq!(code(nic.create_srq(pd + 1, &attr(1, 1), 0)).0, EINVAL);
    let srq = nic.create_srq(pd, &attr(16, 3), 0).unwrap();
    assert_eq!(srq.attr(), SrqAttr { max_wr: 16, max_sge: 3, limit: 0 }, "the limit of create means nothing");
    nic.create_srq(pd, &attr(1, 0), 0).unwrap();
    let full = Rule::LimitReached { kind: ObjectKind::Srq, limit: 2, held: 2 };
    assert_eq!(code(nic.create_srq(pd, &attr(1, 1), 0)), (Errno(12), full));
}

#[test]
fn posting_is_bounded_by_size_and_elements() {
    let (mut nic, _) = nic();
    let pd = nic.alloc_pd(0).unwrap();
    let srq = nic.create_srq(pd, &attr(2, 1), 0).unwrap();
    assert_eq!(srq.post(1, sges(2)), Err(Rule::TooManySges { queue: Queue::Srq, offered: 2, max: 1 }));
    srq.post(1, sges(1)).unwrap();
    srq.post(2, sges(0)).unwrap();
    assert_eq!(srq.post(3, sges(1)), Err(Rule::QueueFull { queue: Queue::Srq, depth: 2, silent: 0 }));
    nic.destroy_srq(srq.handle, 0).unwrap();
    assert!(matches!(srq.post(4, sges(1)), Err(Rule::BadHandle { kind: ObjectKind::Srq, .. })));
    assert_eq!(code(nic.destroy_srq(srq.handle, 0)).0, EINVAL);
    assert_eq!(code(nic.query_srq(srq.handle, 0)).0, EINVAL);
    assert_eq!(code(nic.modify_srq(srq.handle, None, Some(1), 0)).0, EINVAL);
}

#[test]
fn a_queue_pair_on_a_shared_queue_has_no_receives_of_its_own() {
    let (mut nic, _) = nic();
    let pd = nic.alloc_pd(0).unwrap();
    let (cq, _) = nic.create_cq(16, 0).unwrap();
    let srq = nic.create_srq(pd, &attr(4, 1), 0).unwrap();
    // Sizes of a receive queue are not looked at, be they beyond every limit.
    let cap = QpCap {
        max_send_wr: 1,
        max_recv_wr: u32::MAX,
        max_send_sge: 1,
        max_recv_sge: u32::MAX,
        ..QpCap::default()
    };
    let init = QpInit {
        pd,
        qp_type: QpType::Rc,
        send_cq: cq,
        recv_cq: cq,
        srq: Some(srq.handle),
        cap,
        sq_sig_all: false,
    };
    let bad = QpInit { srq: Some(srq.handle + 1), ..init };
    let refused = nic.create_qp(&bad, 0);
    assert!(
        matches!(&refused, Err(CreateError::Refused(r)) if matches!(r.rule, Rule::BadHandle { kind: ObjectKind::Srq, .. })),
        "{refused:?}"
    );
    let made: Vec<_> = [QpType::Rc, QpType::Uc, QpType::Ud]
        .into_iter()
        .map(|qp_type| nic.create_qp(&QpInit { qp_type, ..init }, 0).unwrap())
        .collect();
    for qp in &made {
        assert_eq!((qp.cap.max_recv_wr, qp.cap.max_recv_sge), (0, 0));
        assert_eq!(qp.post_recv(1, sges(0)), Err(Rule::ReceivesComeFromSrq { srq: srq.handle }));
    }
    let context = qpc::Image::load(nic.memory().qpc(0).unwrap(), 3).unwrap();
    assert_eq!(context.get(qpc::Field::Srq), srq.handle.into());
    let records = nic.recorder().read(0);
    let created = records.iter().find(|r| r.opcode() == Ok(CommandOpcode::CreateQp)).unwrap();
    assert_eq!(created.body::<CreateQp>().unwrap().srq.get(), srq.handle);

    let (kind, handle) = (ObjectKind::Srq, srq.handle);
    for (n, qp) in made.iter().enumerate() {
        let count = (made.len() - n) as u32;
        let busy = Rule::InUse { kind, handle, by_kind: ObjectKind::Qp, count };
        assert_eq!(code(nic.destroy_srq(handle, 0)), (EBUSY, busy));
        nic.destroy_qp(qp.qpn, 0).unwrap();
    }
    assert_eq!(code(nic.dealloc_pd(pd, 0)).0, EBUSY, "the SRQ holds its PD");
    nic.destroy_srq(handle, 0).unwrap();
    nic.dealloc_pd(pd, 0).unwrap();
}

#[test]
fn modify_changes_all_that_it_names_or_nothing() {
    let (mut nic, heard) = nic();
    let pd = nic.alloc_pd(0).unwrap();
    let srq = nic.create_srq(pd, &attr(4, 1), 0).unwrap();
    (0..3).for_each(|n| srq.post(n, sges(1)).unwrap());
    let mut modify = |max_wr, limit| nic.modify_srq(srq.handle, max_wr, limit, 5);
    let shrinks = Rule::ShrinksBelowUse { what: Field::SrqMaxWr, offered: 2, held: 3 };
    assert_eq!(code(modify(Some(2), None)), (EINVAL, shrinks));
    assert_eq!(code(modify(Some(17), None)).0, EINVAL);
    assert_eq!(code(modify(Some(0), None)).0, EINVAL);
    let beyond = Rule::OutOfRange { what: Field::SrqLimit, offered: 5, min: 0, max: 4 };
    assert_eq!(code(modify(None, Some(5))), (EINVAL, beyond));
    // A size that is right does not change where the limit is wrong.
    assert_eq!(code(modify(Some(8), Some(9))).0, EINVAL);
    assert_eq!(srq.attr(), SrqAttr { max_wr: 4, max_sge: 1, limit: 0 });
    modify(Some(8), Some(3)).unwrap();
    assert_eq!(srq.attr(), SrqAttr { max_wr: 8, max_sge: 1, limit: 3 });
    assert!(heard.0.lock().unwrap().is_empty());
    // Below a limit that is armed it could never be reached.
    (3..8).for_each(|n| srq.post(n, sges(1)).unwrap());
    modify(None, Some(8)).unwrap();
    modify(Some(16), None).unwrap();
    assert_eq!(nic.query_srq(srq.handle, 6).unwrap(), SrqAttr { max_wr: 16, max_sge: 1, limit: 8 });
    let low = Rule::OutOfRange { what: Field::SrqMaxWr, offered: 7, min: 8, max: 16 };
    assert_eq!(code(nic.modify_srq(srq.handle, Some(7), None, 6)), (EINVAL, low));

    nic.modify_srq(srq.handle, None, Some(9), 7).unwrap();
    let told = (AsyncEventType::SrqLimitReached, Subject::Srq(srq.handle));
    assert_eq!(*heard.0.lock().unwrap(), [told]);
    assert_eq!(srq.attr().limit, 0);
}

#[test]
fn an_inspector_sees_the_queue_and_what_was_done_with_it() {
    let (mut nic, _) = nic();
    let pd = nic.alloc_pd(0).unwrap();
    let srq = nic.create_srq(pd, &attr(4, 2), 7).unwrap();
    let load = |nic: &Nic| Image::load(nic.memory(), Kind::Srq, 0);
    srq.post(1, sges(2)).unwrap();
    srq.post(2, sges(2)).unwrap();
    nic.modify_srq(srq.handle, Some(10), Some(2), 8).unwrap();
    let image = load(&nic).unwrap();
    let seen = [Seen::Depth, Seen::MaxSge, Seen::Posted, Seen::Limit, Seen::EverPosted]
        .map(|field| image.get(field));
    assert_eq!(seen, [10, 2, 2, 2, 2]);
    assert_eq!((image.get(Head::Handle), image.get(Head::Pd)), (srq.handle.into(), pd.into()));
    assert_eq!(nic.holders(ObjectKind::Srq).len(), 1);
    nic.modify_srq(srq.handle, None, Some(3), 9).unwrap();
    nic.query_srq(srq.handle, 10).unwrap();
    nic.destroy_srq(srq.handle, 11).unwrap();
    assert!(load(&nic).is_none() && nic.holders(ObjectKind::Srq).is_empty());

    let records = nic.recorder().read(0);
    let of = |opcode| records.iter().filter(move |r| r.opcode() == Ok(opcode));
    use CommandOpcode as O;
    for (opcode, count) in [(O::CreateSrq, 1), (O::ModifySrq, 2), (O::QuerySrq, 1), (O::DestroySrq, 1)] {
        assert_eq!(of(opcode).count(), count, "{opcode}");
        assert!(of(opcode).all(|r| r.pd() == srq.handle));
    }
    let bodies: Vec<CreateQueue> = of(O::ModifySrq).filter_map(|r| r.body()).collect();
    assert_eq!((bodies[0].granted.get(), bodies[0].limit.get(), bodies[0].max_sge.get()), (10, 2, 2));
    let event: AsyncEvent = of(O::AsyncEvent).next().unwrap().body().unwrap();
    let want = (AsyncEventType::SrqLimitReached.value(), srq.handle);
    assert_eq!((event.event_type.get(), event.handle.get()), want);
}
