//! The table against the fact file, and every check at the edge where it begins to refuse.

use std::collections::BTreeMap;

use glassnic_events::{AttrMask, Field, IndexSet, Limit, QpState, QpType, Rule, StateSet, Transition};

use super::*;
use crate::attr::{AccessFlags, AddressVector, MigState, Mtu, QpAttr, QpCap};

/// The fact file: one legal move a line, written independently of the table.
const FACTS: &str = include_str!("../../testdata/qp-transitions.csv");

fn by_name<T: Copy>(all: &[T], name: impl Fn(T) -> &'static str, wanted: &str) -> T {
    *all.iter().find(|one| name(**one) == wanted).unwrap_or_else(|| panic!("unknown name {wanted}"))
}

fn mask_of(words: &str) -> AttrMask {
    let bit = |word| AttrMask::from_name(word).unwrap_or_else(|| panic!("unknown attribute {word}"));
    words.split_whitespace().map(bit).fold(AttrMask::empty(), AttrMask::union)
}

type Key = (QpType, QpState, QpState);

fn facts() -> BTreeMap<Key, (AttrMask, AttrMask)> {
    let lines = FACTS.lines().filter(|line| !line.starts_with('#')).skip(1);
    let mut moves = BTreeMap::new();
    for line in lines {
        let fields: Vec<_> = line.split(',').collect();
        let [from, to, qp_type, required, optional] = fields[..] else { panic!("five fields in {line}") };
        let key = (
            by_name(QpType::ALL, QpType::name, qp_type),
            by_name(QpState::ALL, QpState::name, from),
            by_name(QpState::ALL, QpState::name, to),
        );
        let old = moves.insert(key, (mask_of(required), mask_of(optional)));
        assert!(old.is_none(), "{line} is listed twice");
    }
    assert_eq!(moves.len(), 175, "moves in the fact file");
    moves
}

fn every_pair() -> impl Iterator<Item = Key> {
    let states = QpState::ALL;
    QpType::ALL
        .iter()
        .flat_map(move |t| states.iter().flat_map(move |from| states.iter().map(move |to| (*t, *from, *to))))
}

#[test]
fn the_table_is_the_fact_file() {
    let facts = facts();
    for key @ (qp_type, from, to) in every_pair() {
        let ours = arrow(qp_type, from, to).map(|arrow| (arrow.required, arrow.optional));
        assert_eq!(ours, facts.get(&key).copied(), "{qp_type} {from}→{to}");
    }
}

/// Each bit of each row is taken away or added, one at a time.
#[test]
fn every_bit_of_every_row_counts() {
    let facts = facts();
    for (qp_type, from, to) in every_pair() {
        let at = Transition { qp_type, from, to };
        let check = |mask| check_transition(qp_type, from, to, mask);
        let Some(&(required, optional)) = facts.get(&(qp_type, from, to)) else {
            let got = check(AttrMask::STATE);
            assert_eq!(got, Err(Rule::NotListedTransition { at, reachable: reachable(qp_type, from) }));
            assert!(!reachable(qp_type, from).contains(to));
            continue;
        };
        assert!(reachable(qp_type, from).contains(to));
        assert_eq!(check(required), Ok(()), "the state bit may be left out: {qp_type} {at}");
        assert_eq!(check(required | AttrMask::STATE), Ok(()), "{qp_type} {at}");
        assert_eq!(check(required | AttrMask::STATE | optional), Ok(()), "{qp_type} {at}");
        for missing in required.iter() {
            let got = check((required | AttrMask::STATE) - missing);
            assert_eq!(got, Err(Rule::MissingAttrs { at, missing }));
        }
        for forbidden in (AttrMask::all() - required - optional - AttrMask::STATE).iter() {
            let allowed_in = moves_allowing(qp_type, forbidden);
            assert!(!allowed_in.contains(from, to));
            let got = check(required | AttrMask::STATE | forbidden);
            assert_eq!(got, Err(Rule::ForbiddenAttrs { at, forbidden, allowed_in, first_in: allowed_in }));
        }
    }
}

/// Bits that no one move takes: where the first of them belongs is told.
#[test]
fn bits_of_different_moves_are_told_apart() {
    let (from, to) = (QpState::Rts, QpState::Rts);
    let forbidden = AttrMask::PORT | AttrMask::SQ_PSN;
    let got = check_transition(QpType::Rc, from, to, AttrMask::STATE | forbidden);
    let Err(Rule::ForbiddenAttrs { forbidden: told, allowed_in, first_in, .. }) = got else {
        panic!("{got:?}")
    };
    assert_eq!((told, allowed_in), (forbidden, moves_allowing(QpType::Rc, forbidden)));
    assert!(allowed_in.is_empty() && first_in.contains(QpState::Reset, QpState::Init), "{first_in}");
}

#[test]
fn the_moves_that_allow_an_attribute_are_told() {
    let timeout = moves_allowing(QpType::Rc, AttrMask::TIMEOUT | AttrMask::SQ_PSN);
    assert_eq!(timeout.to_string(), "RTR→RTS");
    assert_eq!(moves_allowing(QpType::Rc, AttrMask::AV).to_string(), "INIT→RTR or SQD→SQD");
    assert!(moves_allowing(QpType::Uc, AttrMask::MIN_RNR_TIMER).is_empty());
    assert_eq!(reachable(QpType::Rc, QpState::Reset), StateSet::of(&[QpState::Reset, QpState::Init]));
    assert_eq!(reachable(QpType::Rc, QpState::Err), StateSet::of(&[QpState::Reset, QpState::Err]));
}

/// `cur_qp_state` may be given in RTR, RTS, SQD and SQE only.
#[test]
fn cur_state_is_allowed_nowhere_before_rtr() {
    for (qp_type, from, to) in every_pair() {
        if let Some(arrow) = arrow(qp_type, from, to)
            && arrow.allowed().contains(AttrMask::CUR_STATE)
        {
            assert!(matches!(from, QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe));
        }
    }
}

#[test]
fn unknown_bits_of_the_mask_are_named() {
    let mask = AttrMask::from_bits_retain(AttrMask::STATE.bits() | 1 << 21 | 1 << 31);
    let got = check_transition(QpType::Rc, QpState::Reset, QpState::Reset, mask);
    assert_eq!(got, Err(Rule::UnknownBits { what: Field::AttrMask, bits: 1 << 21 | 1 << 31 }));
}

#[test]
fn tables_as_text() {
    let all: Vec<_> = QpType::ALL.iter().map(|t| format!("{t}\n{}", text(*t))).collect();
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn diagrams() {
    let all: Vec<_> = QpType::ALL.iter().map(|t| dot(*t)).collect();
    insta::assert_snapshot!(all.join("\n"));
}

// Values.

const PORTS: [PortFacts; 2] = [
    PortFacts { active_mtu: Mtu::M1024, pkey_count: 2, gid_count: 8, gids: IndexSet(0b1011) },
    PortFacts { active_mtu: Mtu::M4096, pkey_count: 1, gid_count: 1, gids: IndexSet(0b1) },
];

fn device() -> DeviceFacts<'static> {
    DeviceFacts { ports: &PORTS, max_qp_init_rd_atom: 8, max_qp_rd_atom: 16, atomics: true }
}

fn path(port_num: u8) -> AddressVector {
    AddressVector { is_global: true, dgid: [0xfe; 16], port_num, ..AddressVector::default() }
}

/// Attributes that are right for any move of a queue pair on port 1.
fn good(state: QpState) -> QpAttr {
    QpAttr {
        qp_state: state,
        cur_qp_state: state,
        path_mtu: Mtu::M1024,
        dest_qp_num: 0xff_ffff,
        ah: path(1),
        alt_ah: path(2),
        port_num: 1,
        alt_port_num: 2,
        timeout: 31,
        retry_cnt: 7,
        rnr_retry: 7,
        min_rnr_timer: 31,
        alt_timeout: 31,
        max_rd_atomic: 8,
        max_dest_rd_atomic: 16,
        pkey_index: 1,
        access: AccessFlags::all(),
        ..QpAttr::default()
    }
}

/// A call that moves `from`→`to` with everything the table allows, changed by `spoil`.
fn attempt(
    device: &DeviceFacts<'_>,
    (qp_type, from, to): Key,
    spoil: impl Fn(&mut QpAttr),
) -> Result<Transition, Rule> {
    let mask = arrow(qp_type, from, to).expect("a legal move").allowed();
    let mut offered = QpAttr { cur_qp_state: from, ..good(to) };
    spoil(&mut offered);
    check_modify(device, qp_type, &good(from), mask, &offered)
}

const TO_RTR: Key = (QpType::Rc, QpState::Init, QpState::Rtr);
const TO_RTS: Key = (QpType::Rc, QpState::Rtr, QpState::Rts);
const TO_INIT: Key = (QpType::Rc, QpState::Reset, QpState::Init);

#[test]
fn every_legal_move_passes_with_good_values() {
    for key @ (qp_type, from, to) in every_pair() {
        if arrow(qp_type, from, to).is_some() {
            assert_eq!(attempt(&device(), key, |_| ()), Ok(Transition { qp_type, from, to }));
        }
    }
}

#[test]
fn without_the_state_bit_the_state_stays() {
    let current = good(QpState::Init);
    let offered = QpAttr { qp_state: QpState::Rts, ..good(QpState::Init) };
    let got = check_modify(&device(), QpType::Rc, &current, AttrMask::PKEY_INDEX, &offered);
    assert_eq!(got, Ok(Transition { qp_type: QpType::Rc, from: QpState::Init, to: QpState::Init }));
}

#[test]
fn a_wrong_belief_about_the_state_is_refused() {
    let got = attempt(&device(), TO_RTS, |a| a.cur_qp_state = QpState::Sqe);
    assert_eq!(got, Err(Rule::StateMismatch { given: QpState::Sqe, actual: QpState::Rtr }));
}

/// Each code passes at its greatest value (see `good`) and fails one above.
#[test]
fn codes_end_where_their_bits_end() {
    let over = |what, offered, max| Err(Rule::OutOfRange { what, offered, min: 0, max });
    let d = device();
    assert_eq!(attempt(&d, TO_RTS, |a| a.timeout = 32), over(Field::Timeout, 32, 31));
    assert_eq!(attempt(&d, TO_RTS, |a| a.retry_cnt = 8), over(Field::RetryCnt, 8, 7));
    assert_eq!(attempt(&d, TO_RTS, |a| a.rnr_retry = 8), over(Field::RnrRetry, 8, 7));
    assert_eq!(attempt(&d, TO_RTS, |a| a.min_rnr_timer = 32), over(Field::MinRnrTimer, 32, 31));
    assert_eq!(attempt(&d, TO_RTS, |a| a.alt_timeout = 32), over(Field::AltTimeout, 32, 31));
    assert_eq!(
        attempt(&d, TO_RTR, |a| a.dest_qp_num = 0x100_0000),
        over(Field::DestQpNum, 0x100_0000, 0xff_ffff)
    );
    assert_eq!(attempt(&d, TO_INIT, |a| a.pkey_index = 2), over(Field::PkeyIndex, 2, 1));
    assert_eq!(attempt(&d, TO_RTR, |a| a.alt_pkey_index = 1), over(Field::AltPkeyIndex, 1, 0));
}

#[test]
fn ports_are_counted_from_one() {
    let range = |what, offered| Err(Rule::OutOfRange { what, offered, min: 1, max: 2 });
    let d = device();
    for wrong in [0, 3, 255] {
        let offered = u64::from(wrong);
        assert_eq!(attempt(&d, TO_INIT, |a| a.port_num = wrong), range(Field::PortNum, offered));
        assert_eq!(attempt(&d, TO_RTR, |a| a.ah.port_num = wrong), range(Field::AhPortNum, offered));
        assert_eq!(attempt(&d, TO_RTR, |a| a.alt_port_num = wrong), range(Field::AltPortNum, offered));
        assert_eq!(attempt(&d, TO_RTR, |a| a.alt_ah.port_num = wrong), range(Field::AltAhPortNum, offered));
    }
    let other = Rule::PortMismatch { what: Field::AhPortNum, given: 2, qp_port: 1 };
    assert_eq!(attempt(&d, TO_RTR, |a| a.ah.port_num = 2), Err(other));
    let other = Rule::PortMismatch { what: Field::AltAhPortNum, given: 1, qp_port: 2 };
    assert_eq!(attempt(&d, TO_RTR, |a| a.alt_ah.port_num = 1), Err(other));
}

#[test]
fn an_address_needs_a_global_route_and_a_gid() {
    let d = device();
    let no_grh = |what, port| Err(Rule::NoGrh { what, port });
    assert_eq!(attempt(&d, TO_RTR, |a| a.ah.is_global = false), no_grh(Field::AhIsGlobal, 1));
    assert_eq!(attempt(&d, TO_RTR, |a| a.alt_ah.is_global = false), no_grh(Field::AltAhIsGlobal, 2));
    for index in [0, 1, 3] {
        assert!(attempt(&d, TO_RTR, |a| a.ah.sgid_index = index).is_ok());
    }
    for index in [2, 4, 7] {
        let empty = Rule::GidIndexEmpty { port: 1, index, valid: PORTS[0].gids };
        assert_eq!(attempt(&d, TO_RTR, |a| a.ah.sgid_index = index), Err(empty));
    }
    let beyond = Rule::GidIndexBeyond { port: 1, index: 8, len: 8, valid: PORTS[0].gids };
    assert_eq!(attempt(&d, TO_RTR, |a| a.ah.sgid_index = 8), Err(beyond));
    assert_eq!(attempt(&d, TO_RTR, |a| a.ah.dgid = [0; 16]), Err(Rule::GidZero { what: Field::AhDgid }));
}

#[test]
fn a_path_mtu_must_fit_the_port() {
    for mtu in Mtu::ALL {
        let got = attempt(&device(), TO_RTR, |a| a.path_mtu = mtu);
        let above = Rule::MtuAbovePort { offered: mtu.bytes(), active_mtu: 1024, port: 1 };
        assert_eq!(got.err(), (mtu > Mtu::M1024).then_some(above));
    }
}

#[test]
fn read_depths_are_those_of_the_device() {
    let d = device();
    let above =
        |what, offered, limit, limit_name| Err(Rule::ExceedsLimit { what, offered, limit, limit_name });
    let got = attempt(&d, TO_RTS, |a| a.max_rd_atomic = 9);
    assert_eq!(got, above(Field::MaxRdAtomic, 9, 8, Limit::MaxQpInitRdAtom));
    let got = attempt(&d, TO_RTR, |a| a.max_dest_rd_atomic = 17);
    assert_eq!(got, above(Field::MaxDestRdAtomic, 17, 16, Limit::MaxQpRdAtom));
}

#[test]
fn access_flags_are_known_and_served() {
    let with = |bits| move |a: &mut QpAttr| a.access = AccessFlags::from_bits_retain(bits);
    let unknown = Rule::UnknownBits { what: Field::QpAccessFlags, bits: 1 << 10 };
    assert_eq!(attempt(&device(), TO_INIT, with(1 << 10 | 1)), Err(unknown));
    assert!(attempt(&device(), TO_INIT, with(1 << 29)).is_ok(), "a hint may be ignored");
    let none = DeviceFacts { atomics: false, ..device() };
    let refused = Rule::AtomicsUnsupported { what: Field::QpAccessFlags };
    assert_eq!(attempt(&none, TO_INIT, with(AccessFlags::REMOTE_ATOMIC.bits())), Err(refused));
    assert!(attempt(&none, TO_INIT, with(AccessFlags::REMOTE_WRITE.bits())).is_ok());
}

#[test]
fn a_draining_queue_can_only_be_stopped() {
    let current = QpAttr { sq_draining: true, ..good(QpState::Sqd) };
    let check = |to, mask| {
        let offered = QpAttr { cur_qp_state: QpState::Sqd, ..good(to) };
        check_modify(&device(), QpType::Rc, &current, mask, &offered)
    };
    let draining =
        |to| Rule::StillDraining { at: Transition { qp_type: QpType::Rc, from: QpState::Sqd, to } };
    assert_eq!(check(QpState::Rts, AttrMask::STATE), Err(draining(QpState::Rts)));
    assert_eq!(check(QpState::Sqd, AttrMask::STATE | AttrMask::TIMEOUT), Err(draining(QpState::Sqd)));
    for to in [QpState::Sqd, QpState::Reset, QpState::Err] {
        assert!(check(to, AttrMask::STATE).is_ok(), "{to}");
    }
}

#[test]
fn migration_is_asked_for_with_an_alternate_path_and_never_armed_by_a_program() {
    let check = |path_mig_state, alt_port_num, mask| {
        let current = QpAttr { alt_port_num, ..good(QpState::Rts) };
        let offered = QpAttr { path_mig_state, alt_port_num: 1, alt_ah: path(1), ..good(QpState::Rts) };
        check_modify(&device(), QpType::Rc, &current, AttrMask::PATH_MIG_STATE | mask, &offered).err()
    };
    let at = Transition { qp_type: QpType::Rc, from: QpState::Rts, to: QpState::Rts };
    let (none, alt) = (AttrMask::empty(), AttrMask::ALT_PATH);
    assert_eq!(check(MigState::Rearm, 0, none), Some(Rule::MissingAttrs { at, missing: alt }));
    assert_eq!(check(MigState::Rearm, 0, alt), None);
    assert_eq!(check(MigState::Rearm, 1, none), None);
    assert_eq!(check(MigState::Migrated, 0, none), None);
    let armed = Rule::OutOfRange { what: Field::PathMigState, offered: 2, min: 0, max: 1 };
    assert_eq!(check(MigState::Armed, 1, none), Some(armed));
}

#[test]
fn an_address_vector_in_sqd_may_change_the_port() {
    let current = good(QpState::Sqd);
    let offered = QpAttr { ah: path(2), ..good(QpState::Sqd) };
    let check = |mask| check_modify(&device(), QpType::Rc, &current, mask, &offered);
    assert!(check(AttrMask::AV).is_ok());
    let other = Rule::PortMismatch { what: Field::AhPortNum, given: 2, qp_port: 1 };
    assert_eq!(check(AttrMask::AV | AttrMask::PORT), Err(other));

    let mut after = current;
    apply(AttrMask::AV, &offered, &mut after);
    assert_eq!((after.port_num, after.ah), (2, path(2)));
}

// Applying.

/// Attributes in which every field differs from the default and from `good`.
fn distinct() -> QpAttr {
    QpAttr {
        qp_state: QpState::Rts,
        cur_qp_state: QpState::Rts,
        path_mtu: Mtu::M2048,
        path_mig_state: MigState::Armed,
        qkey: 0x1111_1111,
        rq_psn: 0x22_2222,
        sq_psn: 0x33_3333,
        dest_qp_num: 0x44_4444,
        access: AccessFlags::REMOTE_READ,
        cap: QpCap { max_send_wr: 5, max_recv_wr: 6, max_send_sge: 7, max_recv_sge: 8, max_inline_data: 9 },
        ah: AddressVector { flow_label: 0xf_ffff, ..path(3) },
        alt_ah: path(4),
        pkey_index: 10,
        alt_pkey_index: 11,
        en_sqd_async_notify: true,
        sq_draining: false,
        max_rd_atomic: 12,
        max_dest_rd_atomic: 13,
        min_rnr_timer: 14,
        port_num: 3,
        timeout: 15,
        retry_cnt: 4,
        rnr_retry: 5,
        alt_port_num: 4,
        alt_timeout: 16,
        rate_limit: 17,
    }
}

#[test]
fn all_bits_together_copy_everything() {
    let mut current = QpAttr::default();
    apply(AttrMask::all(), &distinct(), &mut current);
    assert_eq!(current, distinct());
}

#[test]
fn no_bit_copies_nothing() {
    let mut current = good(QpState::Rtr);
    apply(AttrMask::empty(), &distinct(), &mut current);
    assert_eq!(current, good(QpState::Rtr));
}

/// What one bit writes, a different bit does not: applying the bits one after another writes each field once.
#[test]
fn each_bit_copies_its_own_fields() {
    for (name, bit) in AttrMask::all().iter_names() {
        let mut only = QpAttr::default();
        apply(bit, &distinct(), &mut only);
        let mut all_but = distinct();
        apply(bit, &QpAttr::default(), &mut all_but);
        let changes_state = bit == AttrMask::CUR_STATE;
        assert_eq!(only == QpAttr::default(), changes_state, "{name}");
        assert_eq!(all_but == distinct(), changes_state, "{name}");

        let mut back = only;
        apply(bit, &QpAttr::default(), &mut back);
        assert_eq!(back, QpAttr::default(), "{name} writes what it read");
    }
}

#[test]
fn sequence_numbers_keep_the_bits_that_packets_carry() {
    let mut current = QpAttr::default();
    let offered = QpAttr { rq_psn: 0xab12_3456, sq_psn: u32::MAX, ..QpAttr::default() };
    apply(AttrMask::RQ_PSN | AttrMask::SQ_PSN, &offered, &mut current);
    assert_eq!((current.rq_psn, current.sq_psn), (0x12_3456, 0xff_ffff));
}
