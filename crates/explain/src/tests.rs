//! Every rule and every check, as a reader sees it.

use glassnic_events::{
    AttrMask, Call, Check, Field, FirstCause, Gid, IndexSet, Limit, ObjectKind, QpState, QpType, Queue,
    Refusal, Rule, StateSet, Transition, TransitionSet, WcStatus, WrOpcode,
};

use crate::{explain, explain_first_cause};

const PEER: Gid = Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 7]);

fn modify(qp_type: QpType, from: QpState, to: QpState, rule: impl Fn(Transition) -> Rule) -> Refusal {
    Refusal::on_qp(Call::ModifyQp, 0x12, rule(Transition { qp_type, from, to })).moving(from, to)
}

fn to_rtr(rule: Rule) -> Refusal {
    modify(QpType::Rc, QpState::Init, QpState::Rtr, |_| rule)
}

fn values() -> Vec<Refusal> {
    let create = |rule| Refusal::new(Call::CreateQp, rule);
    let above = |what, offered, limit, limit_name| Rule::ExceedsLimit { what, offered, limit, limit_name };
    let range = |what, offered, min, max| Rule::OutOfRange { what, offered, min, max };
    vec![
        create(above(Field::MaxSendWr, 50_000, 16_384, Limit::MaxQpWr)),
        create(above(Field::MaxInlineData, 220, 101, Limit::MaxInlineData)),
        Refusal::new(Call::CreateCq, above(Field::CompVector, 9, 3, Limit::NumCompVectors)),
        to_rtr(range(Field::RnrRetry, 10, 0, 7)),
        to_rtr(range(Field::Timeout, 32, 0, 31)),
        to_rtr(range(Field::MinRnrTimer, 32, 0, 31)),
        to_rtr(range(Field::PortNum, 0, 1, 1)),
        to_rtr(range(Field::PortNum, 3, 1, 2)),
        to_rtr(range(Field::PkeyIndex, 1, 0, 0)),
        to_rtr(range(Field::DestQpNum, 0x1000_0000, 0, 0xff_ffff)),
        create(Rule::UnknownValue { what: Field::QpType, value: 0x7f31 }),
        to_rtr(Rule::UnknownValue { what: Field::PathMtu, value: 1024 }),
        Refusal::new(Call::CreateQpEx, Rule::UnknownBits { what: Field::CompMask, bits: 0x5500_0000 }),
        create(Rule::NullPointer { what: Field::RecvCq }),
        Refusal::new(Call::RegMr, Rule::NullPointer { what: Field::Pd }),
        Refusal::new(Call::CreateCq, Rule::ZeroLength { what: Field::Cqe }),
        Refusal::new(Call::CreateQpEx, Rule::MissingField { what: Field::Pd }),
        Refusal::new(Call::CreateSrqEx, Rule::Conflict { what: Field::Xrcd, with: Field::Pd }),
        create(Rule::NotSupported { what: Field::CreateFlags, value: 0x100 }),
        create(Rule::NotForQpType { what: Field::MaxRecvWr, qp_type: QpType::XrcSend }),
        create(Rule::NotForQpType { what: Field::SendCq, qp_type: QpType::XrcRecv }),
        create(Rule::NotForQpType { what: Field::Xrcd, qp_type: QpType::Rc }),
    ]
}

fn transitions() -> Vec<Refusal> {
    use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
    let not_listed = |reachable: &'static [QpState]| {
        move |at| Rule::NotListedTransition { at, reachable: StateSet::of(reachable) }
    };
    let missing = |missing| move |at| Rule::MissingAttrs { at, missing };
    let forbidden = |forbidden, allowed_in| move |at| Rule::ForbiddenAttrs { at, forbidden, allowed_in };
    let late = AttrMask::TIMEOUT | AttrMask::RETRY_CNT;
    let none = TransitionSet::default();
    vec![
        modify(QpType::Rc, Reset, Rts, not_listed(&[Reset, Init])),
        modify(QpType::Rc, Reset, Rtr, not_listed(&[Reset, Init])),
        modify(QpType::Rc, Init, Rts, not_listed(&[Reset, Init, Rtr, Err])),
        modify(QpType::Rc, Reset, Err, not_listed(&[Reset, Init])),
        modify(QpType::Ud, Rts, Sqe, not_listed(&[Reset, Rts, Sqd, Err])),
        modify(QpType::Rc, Rts, Rtr, not_listed(&[Reset, Rts, Sqd, Err])),
        modify(QpType::Rc, Err, Rts, not_listed(&[Reset, Err])),
        modify(QpType::Rc, Rtr, Sqd, not_listed(&[Reset, Rts, Err])),
        modify(QpType::Rc, Init, Rtr, missing(AttrMask::AV | AttrMask::PATH_MTU | AttrMask::RQ_PSN)),
        modify(QpType::Ud, Reset, Init, missing(AttrMask::QKEY)),
        modify(QpType::Rc, Init, Rtr, forbidden(late, none.with(Rtr, Rts).with(Sqd, Sqd))),
        modify(QpType::Uc, Init, Rtr, forbidden(AttrMask::MIN_RNR_TIMER, none)),
        modify(QpType::Rc, Rts, Rts, forbidden(AttrMask::PORT | AttrMask::QKEY, none)),
        modify(QpType::Uc, Sqe, Rts, |_| Rule::StateMismatch { given: Rts, actual: Sqe }),
        modify(QpType::Rc, Sqd, Rts, |at| Rule::StillDraining { at }),
    ]
}

fn paths() -> Vec<Refusal> {
    let valid = IndexSet::default().with(0).with(1).with(3);
    vec![
        to_rtr(Rule::NoGrh { what: Field::AhIsGlobal, port: 1 }),
        to_rtr(Rule::GidIndexEmpty { port: 1, index: 5, valid }),
        to_rtr(Rule::GidZero { what: Field::AhDgid }),
        to_rtr(Rule::PortMismatch { what: Field::AhPortNum, given: 0, qp_port: 1 }),
        to_rtr(Rule::MtuAbovePort { offered: 4096, active_mtu: 1024, port: 1 }),
        to_rtr(Rule::NoRoute { dgid: PEER }),
        to_rtr(Rule::NeighbourUnresolved { dgid: PEER }),
        to_rtr(Rule::AtomicsUnsupported { what: Field::QpAccessFlags }),
    ]
}

fn posts() -> Vec<Refusal> {
    let send = |rule| Refusal::on_qp(Call::PostSend, 0x12, rule);
    let recv = |rule| Refusal::on_qp(Call::PostRecv, 0x12, rule);
    let mut all = vec![
        recv(Rule::WrongState { state: QpState::Reset, needs: StateSet::MAY_POST_RECV }),
        send(Rule::WrongState { state: QpState::Init, needs: StateSet::MAY_POST_SEND }),
        Refusal::on_qp(
            Call::AttachMcast,
            0x12,
            Rule::WrongState { state: QpState::Reset, needs: StateSet::of(&[QpState::Init, QpState::Rtr]) },
        ),
    ];
    for queue in Queue::ALL {
        all.push(send(Rule::QueueFull { queue: *queue, depth: 128 }));
    }
    for queue in [Queue::Send, Queue::Recv, Queue::Srq] {
        all.push(send(Rule::TooManySges { queue, offered: 5, max: 4 }));
    }
    all.push(send(Rule::InlineTooLarge { offered: 220, max: 64 }));
    for opcode in WrOpcode::ALL {
        all.push(send(Rule::BadOpcode { opcode: *opcode, qp_type: QpType::XrcRecv }));
    }
    all.extend([
        send(Rule::BadAtomic { remote_addr: 0x7f00_0004, length: 8 }),
        send(Rule::MessageTooLong { offered: 1025, max: 1024 }),
        recv(Rule::ReceivesComeFromSrq { srq: 3 }),
    ]);
    all
}

fn memory() -> Vec<Refusal> {
    let reg = |rule| Refusal::new(Call::RegMr, rule);
    vec![
        reg(Rule::MrRange { addr: u64::MAX - 15, len: 4096 }),
        reg(Rule::MemoryNotMapped { addr: 0x7f00_0000, len: 4096 }),
        reg(Rule::MemoryNotWritable { addr: 0x7f00_0000, len: 4096 }),
        reg(Rule::RemoteNeedsLocalWrite { access: 2 }),
        Refusal::new(Call::BindMw, Rule::MwBindNotPermitted { lkey: 0x1234 }),
        Refusal::new(Call::BindMw, Rule::MwTypeMismatch { given: 2, needs: 1 }),
        Refusal::on_qp(Call::PostSend, 0x12, Rule::MwTypeMismatch { given: 1, needs: 2 }),
    ]
}

fn objects() -> Vec<Refusal> {
    let in_use = |kind, handle, by_kind, count| Rule::InUse { kind, handle, by_kind, count };
    vec![
        Refusal::new(Call::CreateCq, Rule::LimitReached { kind: ObjectKind::Cq, limit: 4096, held: 4026 }),
        Refusal::new(Call::CreateQp, Rule::NoMemory { kind: ObjectKind::Qp, bytes: 1 << 20 }),
        Refusal::new(Call::RegMr, Rule::MemlockExceeded { needed: 524_288, limit: 65_536 }),
        Refusal::new(Call::DeallocPd, in_use(ObjectKind::Pd, 1, ObjectKind::Mr, 1)),
        Refusal::new(Call::DestroyCq, in_use(ObjectKind::Cq, 7, ObjectKind::Qp, 2)),
        Refusal::new(Call::DestroyCq, in_use(ObjectKind::Cq, 7, ObjectKind::Event, 1)),
        Refusal::on_qp(Call::DestroyQp, 0x12, Rule::BadHandle { kind: ObjectKind::Qp, handle: 0x12 }),
        Refusal::new(Call::CreateQp, Rule::OtherContext { kind: ObjectKind::Cq, handle: 3 }),
        Refusal::on_qp(
            Call::PostSend,
            0x12,
            Rule::OtherPd { kind: ObjectKind::Ah, handle: 4, pd: 1, needs: 2 },
        ),
        Refusal::new(Call::ResizeCq, Rule::ShrinksBelowUse { what: Field::Cqe, offered: 1, held: 7 }),
        Refusal::on_qp(Call::AttachMcast, 0x12, Rule::NotMulticast { gid: PEER }),
        Refusal::on_qp(Call::DetachMcast, 0x12, Rule::NotAttached { gid: Gid([0xff; 16]) }),
        Refusal::new(Call::AllocPd, Rule::ForkedChild { opened_by: 10, caller: 12 }),
        Refusal::new(Call::CreateQp, Rule::DeviceGone {}),
        Refusal::on_qp(Call::ModifyQp, 0x12, Rule::NotPermitted { what: Field::Qkey }),
    ]
}

fn samples() -> Vec<Refusal> {
    [values(), transitions(), paths(), posts(), memory(), objects()].concat()
}

#[test]
fn every_rule_has_a_sample() {
    let mut codes: Vec<_> = samples().iter().map(|refusal| refusal.rule.code()).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes, Rule::CODES);
}

#[test]
fn every_rule_in_words() {
    let lines: Vec<_> = samples().iter().map(|refusal| explain(refusal).to_string()).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

/// All bits of the mask have a field to be named by.
#[test]
fn every_attribute_has_a_field() {
    for bit in AttrMask::all().iter() {
        let at = Transition { qp_type: QpType::Rc, from: QpState::Init, to: QpState::Rtr };
        let said = explain(&Refusal::on_qp(Call::ModifyQp, 1, Rule::MissingAttrs { at, missing: bit }));
        assert!(!said.remedy.contains("the field behind it"), "{bit}");
    }
}

/// The same shape everywhere: one line, parts that can be joined, nothing empty.
#[test]
fn sentences_join_to_one_line() {
    let causes = Check::ALL.iter().map(|check| explain_first_cause(1, &cause(*check)));
    for said in samples().iter().map(explain).chain(causes) {
        for part in [&said.subject, &said.what, &said.remedy] {
            assert!(!part.is_empty() && !part.contains('\n') && !part.contains("  "), "{said}");
            assert!(!part.ends_with('.') && !part.ends_with(' '), "{said}");
        }
    }
}

fn cause(check: Check) -> FirstCause {
    FirstCause { wr_id: Some(7), psn: Some(0x1234), status: WcStatus::RemAccessErr, check }
}

#[test]
fn every_check_in_words() {
    let lines: Vec<_> =
        Check::ALL.iter().map(|check| explain_first_cause(0x12, &cause(*check)).to_string()).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn what_is_not_known_is_left_out() {
    let cause =
        FirstCause { wr_id: None, psn: None, status: WcStatus::WrFlushErr, check: Check::ModifiedToErr };
    insta::assert_snapshot!(
        explain_first_cause(0x12, &cause),
        @"QP 0x12: the program moved the QP to ERR (IBV_WC_WR_FLUSH_ERR); this is what the program asked for; flushed requests are no fault"
    );
}
