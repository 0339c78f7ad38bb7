//! An example of each rule and of each check, with values as programs meet them: what the catalogue shows.

use glassnic_events::{
    AttrMask, Call, Check, Field, FirstCause, Gid, IndexSet, Limit, ObjectKind, QpState, QpType, Queue,
    Refusal, Rule, StateSet, Transition, TransitionSet, WcStatus, WrOpcode,
};

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
    let cap = |what, offered, limit, qp_type| Rule::CapAboveLimit { what, offered, limit, qp_type };
    let range = |what, offered, min, max| Rule::OutOfRange { what, offered, min, max };
    vec![
        create(cap(Field::MaxSendWr, 50_000, 16_384, QpType::Rc)),
        create(cap(Field::MaxInlineData, 220, 101, QpType::Ud)),
        to_rtr(above(Field::MaxRdAtomic, 32, 16, Limit::MaxQpInitRdAtom)),
        Refusal::new(Call::CreateCq, above(Field::CompVector, 9, 3, Limit::NumCompVectors)),
        to_rtr(range(Field::RnrRetry, 10, 0, 7)),
        to_rtr(range(Field::Timeout, 32, 0, 31)),
        to_rtr(range(Field::MinRnrTimer, 32, 0, 31)),
        to_rtr(range(Field::PortNum, 0, 1, 1)),
        to_rtr(range(Field::PortNum, 3, 1, 2)),
        to_rtr(range(Field::PkeyIndex, 1, 0, 0)),
        Refusal::new(Call::CreateCq, range(Field::Cqe, -1_i64 as u64, 1, 4_194_303)),
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
        create(Rule::NotSupported { what: Field::QpType, value: 9 }),
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
    let forbidden = |forbidden, allowed_in, first_in| {
        move |at| Rule::ForbiddenAttrs { at, forbidden, allowed_in, first_in }
    };
    let late = AttrMask::TIMEOUT | AttrMask::RETRY_CNT;
    let none = TransitionSet::default();
    let later = none.with(Rtr, Rts).with(Sqd, Sqd);
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
        modify(QpType::Rc, Init, Rtr, forbidden(late, later, later)),
        modify(QpType::Uc, Init, Rtr, forbidden(AttrMask::MIN_RNR_TIMER, none, none)),
        modify(
            QpType::Rc,
            Rts,
            Rts,
            forbidden(AttrMask::PORT | AttrMask::SQ_PSN, none, none.with(Reset, Init).with(Init, Init)),
        ),
        modify(QpType::Uc, Sqe, Rts, |_| Rule::StateMismatch { given: Rts, actual: Sqe }),
        Refusal::on_qp(Call::SafeModify, 0x12, Rule::StateMismatch { given: Init, actual: Rtr })
            .moving(Rtr, Rtr),
        modify(QpType::Rc, Sqd, Rts, |at| Rule::StillDraining { at }),
    ]
}

fn paths() -> Vec<Refusal> {
    let valid = IndexSet::default().with(0).with(1).with(3);
    vec![
        to_rtr(Rule::NoGrh { what: Field::AhIsGlobal, port: 1 }),
        to_rtr(Rule::GidIndexEmpty { port: 1, index: 5, valid }),
        to_rtr(Rule::GidIndexBeyond { port: 1, index: 40, len: 16, valid }),
        to_rtr(Rule::GidZero { what: Field::AhDgid }),
        to_rtr(Rule::PortMismatch { what: Field::AhPortNum, given: 0, qp_port: 1 }),
        to_rtr(Rule::MtuAbovePort { offered: 4096, active_mtu: 1024, port: 1 }),
        to_rtr(Rule::NoRoute { dgid: PEER }),
        to_rtr(Rule::NeighbourUnresolved { dgid: PEER }),
        to_rtr(Rule::AtomicsUnsupported { what: Field::QpAccessFlags }),
    ]
}

fn posts() -> Vec<Refusal> {
    let send = |rule| Refusal::on_qp(Call::PostSend, 0x12, rule).in_state(QpState::Rts);
    let recv = |rule| Refusal::on_qp(Call::PostRecv, 0x12, rule).in_state(QpState::Init);
    let mut all = vec![
        recv(Rule::WrongState { state: QpState::Reset, needs: StateSet::MAY_POST_RECV })
            .in_state(QpState::Reset),
        send(Rule::WrongState { state: QpState::Init, needs: StateSet::MAY_POST_SEND })
            .in_state(QpState::Init),
        Refusal::on_qp(
            Call::AttachMcast,
            0x12,
            Rule::WrongState { state: QpState::Reset, needs: StateSet::of(&[QpState::Init, QpState::Rtr]) },
        ),
    ];
    for queue in Queue::ALL {
        all.push(send(Rule::QueueFull { queue: *queue, depth: 128, silent: 0 }));
    }
    all.push(send(Rule::QueueFull { queue: Queue::Send, depth: 128, silent: 127 }));
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
        Refusal::new(Call::MemcpyDm, Rule::NotMultiple { what: Field::DmOffset, offered: 3, of: 4 }),
        Refusal::new(Call::AdviseMr, Rule::KeyUnknown { lkey: 0x1234 }),
        Refusal::new(Call::AdviseMr, Rule::NotOnDemand { lkey: 0x1234 }),
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

/// At least one refusal of each rule.
pub(crate) fn refusals() -> Vec<Refusal> {
    [values(), transitions(), paths(), posts(), memory(), objects()].concat()
}

/// A failure of each check.
pub(crate) fn causes() -> impl Iterator<Item = FirstCause> {
    Check::ALL.iter().map(|check| cause(*check))
}

/// A request that failed this check.
pub(crate) fn cause(check: Check) -> FirstCause {
    FirstCause { wr_id: Some(7), psn: Some(0x1234), status: status(check), check }
}

/// The status that a program sees, as an example: some checks have more than one.
fn status(check: Check) -> WcStatus {
    use Check as C;
    match check {
        C::None => WcStatus::Success,
        C::LkeyUnknown | C::LkeyPd | C::LkeyBounds | C::LkeyAccess | C::MemoryGone => WcStatus::LocProtErr,
        C::RkeyUnknown
        | C::RkeyPd
        | C::RkeyBounds
        | C::RkeyAccess
        | C::QpAccess
        | C::MwOtherQp
        | C::MwUnbound
        | C::NakRemoteAccess => WcStatus::RemAccessErr,
        C::RkeyInvalidated => WcStatus::RemAccessErr,
        C::AtomicUnaligned
        | C::InvalidateRefused
        | C::NoReceive
        | C::TooManyReads
        | C::OpcodeSequence
        | C::OpcodeUnsupported
        | C::PacketLength
        | C::SrqUnknown
        | C::NakInvalidRequest => WcStatus::RemInvReqErr,
        C::ReceiveTooSmall | C::MessageTooLong => WcStatus::LocLenErr,
        C::NoResources | C::NakRemoteOperational => WcStatus::RemOpErr,
        C::RetryExhausted | C::NoPath | C::PeerGone => WcStatus::RetryExcErr,
        C::RnrExhausted => WcStatus::RnrRetryExcErr,
        C::BadResponse => WcStatus::BadRespErr,
        C::BadAh | C::BadOperation | C::OwnInvalidateRefused => WcStatus::LocQpOpErr,
        C::MwBind | C::MwBindRight | C::MwBindLocalWrite | C::MwBindPd | C::MwBindBounds | C::MwBound => {
            WcStatus::MwBindErr
        }
        C::DeviceFatal | C::Provoked => WcStatus::FatalErr,
        C::ModifiedToErr | C::CqOverrun | C::Flushed => WcStatus::WrFlushErr,
    }
}
