//! The vocabulary says what verbs.h says, and what is packed is what is unpacked.

use crate::*;

/// The numbers of C enumerations have no holes where verbs.h has none.
#[test]
fn numbers_without_holes_count_up() {
    let in_order = |values: Vec<u32>| values == (0..values.len() as u32).collect::<Vec<_>>();
    assert!(in_order(QpState::ALL.iter().map(|s| s.value()).collect()));
    assert!(in_order(WcStatus::ALL.iter().map(|s| s.value()).collect()));
    assert!(in_order(AsyncEventType::ALL.iter().map(|s| s.value()).collect()));
    assert_eq!((QpState::COUNT, WcStatus::ALL.len(), AsyncEventType::ALL.len()), (7, 24, 20));
}

/// The few numbers that everybody knows by heart.
#[test]
fn numbers_are_those_of_verbs() {
    assert_eq!(WcStatus::WrFlushErr.value(), 5);
    assert_eq!(WcStatus::RemAccessErr.value(), 10);
    assert_eq!(WcStatus::RetryExcErr.value(), 12);
    assert_eq!(WcStatus::RnrRetryExcErr.value(), 13);
    assert_eq!(AsyncEventType::QpLastWqeReached.value(), 16);
    assert_eq!(WrOpcode::AtomicFetchAndAdd.value(), 6);
    assert_eq!(WcOpcode::Recv.value(), 128);
    let types = QpType::ALL.iter().map(|t| (t.value(), t.name()));
    let verbs = [(2, "RC"), (3, "UC"), (4, "UD"), (8, "RAW_PACKET"), (9, "XRC_SEND"), (10, "XRC_RECV")];
    assert!(types.filter(|(value, _)| *value > 1).eq(verbs));
}

#[test]
fn types_have_one_place_each_in_tables() {
    let places: Vec<_> = QpType::ALL.iter().map(|t| t.index()).collect();
    assert_eq!(places, (0..QpType::COUNT).collect::<Vec<_>>());
}

#[test]
fn a_number_that_is_no_state_is_kept_in_the_error() {
    assert_eq!(QpState::try_from(6), Ok(QpState::Err));
    let unknown = QpState::try_from(192).expect_err("192 is no state");
    assert_eq!(unknown.to_string(), "192 is not a QpState");
    assert_eq!(QpType::try_from(0x7f31), Err(Unknown { kind: "QpType", value: 0x7f31 }));
}

#[test]
fn a_mask_is_written_as_in_c() {
    assert_eq!((AttrMask::STATE | AttrMask::AV).to_string(), "IBV_QP_STATE|IBV_QP_AV");
    assert_eq!(AttrMask::empty().to_string(), "0");
    assert_eq!(AttrMask::from_bits_retain(1 | 1 << 21).to_string(), "IBV_QP_STATE|0x200000");
    assert_eq!(AttrMask::all().bits(), 0x21f_ffff);
}

#[test]
fn sets_are_written_as_lists() {
    assert_eq!(StateSet::default().to_string(), "none");
    assert_eq!(StateSet::of(&[QpState::Init]).to_string(), "INIT");
    assert_eq!(StateSet::MAY_POST_SEND.to_string(), "RTS, SQD, SQE or ERR");
    assert_eq!(IndexSet::default().with(0).with(3).with(64).to_string(), "0 or 3");
    let moves = TransitionSet::default().with(QpState::Err, QpState::Err).with(QpState::Reset, QpState::Init);
    assert_eq!(moves.to_string(), "RESET→INIT or ERR→ERR");
    assert_eq!(TransitionSet::from_bits(u64::MAX).iter().count(), 49);
}

#[test]
fn receives_may_be_posted_anywhere_but_in_reset() {
    let refused: Vec<_> =
        QpState::ALL.iter().filter(|state| !StateSet::MAY_POST_RECV.contains(**state)).collect();
    assert_eq!(refused, [&QpState::Reset]);
}

/// One refusal of each rule, with other values in each of its fields.
fn one_of_each() -> Vec<Refusal> {
    let made = Rule::CODES.iter().map(|code| {
        let head = u64::from(Call::ModifyQp.value()) | u64::from(*code) << 16 | 0x12 << 32 | 1 << 63;
        Refusal::from_words(&[head, 1, 2, 3, 4]).unwrap_or_else(|| panic!("rule {code} takes small values"))
    });
    made.collect()
}

#[test]
fn a_refusal_survives_its_words() {
    let all = one_of_each();
    for (refusal, code) in all.iter().zip(Rule::CODES) {
        assert_eq!(refusal.rule.code(), *code);
        assert_eq!((refusal.call, refusal.qpn), (Call::ModifyQp, Some(0x12)));
        assert_eq!(Refusal::from_words(&refusal.to_words()), Some(*refusal), "{}", refusal.rule.name());
    }
    let off_qp = Refusal::new(Call::RegMr, Rule::MrRange { addr: u64::MAX, len: 7 });
    assert_eq!(Refusal::from_words(&off_qp.to_words()), Some(off_qp));
    for &from in QpState::ALL {
        for &to in QpState::ALL {
            let moving = off_qp.moving(from, to);
            assert_eq!(Refusal::from_words(&moving.to_words()), Some(moving));
        }
    }
    let no_state = off_qp.to_words()[0] | 1 << 62 | 7 << 56;
    assert_eq!(Refusal::from_words(&[no_state, 1, 2, 3, 4]), None, "7 is no state");
}

#[test]
fn values_keep_their_order_and_width() {
    let rule = Rule::OutOfRange { what: Field::Timeout, offered: u64::MAX, min: 3, max: 1 << 40 };
    let words = Refusal::on_qp(Call::ModifyQp, 0xff_ffff, rule).to_words();
    assert_eq!(words[1..], [u64::from(Field::Timeout.value()), u64::MAX, 3, 1 << 40]);
    let mut bytes = [0; 16];
    bytes[0] = 0xfe;
    bytes[15] = 1;
    let refusal = Refusal::new(Call::ModifyQp, Rule::NoRoute { dgid: Gid(bytes) });
    assert_eq!(refusal.to_words()[1..3], [0xfe << 56, 1]);
    assert_eq!(Refusal::from_words(&refusal.to_words()), Some(refusal));
}

/// Words come from memory that others write.
#[test]
fn words_that_mean_nothing_give_nothing() {
    let head = u64::from(Call::ModifyQp.value());
    assert_eq!(Refusal::from_words(&[0; REFUSAL_WORDS]), None, "no call has number 0");
    assert_eq!(Refusal::from_words(&[head | 0xffff << 16, 0, 0, 0, 0]), None, "no such rule");
    let words = |first| [head | 23 << 16, first, 1, 0, 0];
    assert!(Refusal::from_words(&words(6)).is_some());
    assert_eq!(Refusal::from_words(&words(7)), None, "no such state");
    assert_eq!(Refusal::from_words(&words(1 << 32)), None, "wider than its field");

    // Whatever is read can be written again and read the same.
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for i in 0..200_000_u64 {
        let words = core::array::from_fn(|place| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // Small values often, so that some get through.
            let value = random >> (random % 61);
            if place == 0 { value & 0xfeff_ffff_007f_007f | (i % 97) << 16 } else { value }
        });
        if let Some(refusal) = Refusal::from_words(&words) {
            assert_eq!(Refusal::from_words(&refusal.to_words()), Some(refusal));
        }
    }
}

/// Every rule's errno, in one place to be looked over.
#[test]
fn every_rule_has_an_errno_that_verbs_give() {
    let of = |wanted: Errno| {
        let rules = one_of_each().into_iter().map(|refusal| refusal.rule);
        rules.filter(|rule| errno(rule) == wanted).map(|rule| rule.name()).collect::<Vec<_>>()
    };
    assert_eq!(of(Errno::ENOMEM), ["QueueFull", "LimitReached", "NoMemory", "MemlockExceeded"]);
    assert_eq!(of(Errno::EBUSY), ["InUse"]);
    assert_eq!(of(Errno::EFAULT), ["MemoryNotMapped", "MemoryNotWritable"]);
    assert_eq!(of(Errno::EOPNOTSUPP), ["UnknownBits", "NotSupported"]);
    assert_eq!(of(Errno::ENODATA), ["GidIndexEmpty"]);
    assert_eq!(of(Errno::ENETUNREACH), ["NoRoute"]);
    assert_eq!(of(Errno::ETIMEDOUT), ["NeighbourUnresolved"]);
    assert_eq!(of(Errno::ENODEV), ["ForkedChild"]);
    assert_eq!(of(Errno::EIO), ["DeviceGone"]);
    assert_eq!(of(Errno::EPERM), ["NotPermitted"]);
    assert_eq!(of(Errno::ENOENT), ["KeyUnknown"]);
    assert_eq!(of(Errno::EINVAL).len(), Rule::CODES.len() - 16, "all the others");

    let unknown = |what| errno(&Rule::UnknownBits { what, bits: 1 });
    assert_eq!(unknown(Field::Access), Errno::EINVAL);
    assert_eq!(unknown(Field::AttrMask), Errno::EOPNOTSUPP);
}

#[test]
fn errnos_know_their_names() {
    assert_eq!(Errno::EINVAL.to_string(), "EINVAL");
    assert_eq!(Errno(117).to_string(), "errno 117");
}

#[test]
fn names_of_calls_are_those_of_the_man_pages() {
    assert_eq!(Call::ModifyQp.to_string(), "ibv_modify_qp");
    let others = Call::ALL.iter().filter(|call| !call.name().starts_with("ibv_"));
    let others: Vec<_> = others.map(|call| call.name()).collect();
    assert_eq!(
        others,
        ["glassnic_poll_op", "glassnic_wait_op", "glassnic_safe_modify"],
        "our own extensions, as glassnic.h names them"
    );
    assert_eq!(Field::MaxInlineData.name(), "cap.max_inline_data");
}

/// Two members of one list with one name could not be told apart in a text.
#[test]
fn names_are_not_shared() {
    fn distinct(names: impl Iterator<Item = &'static str>) -> bool {
        let mut names: Vec<_> = names.collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        names.len() == count
    }
    assert!(distinct(Call::ALL.iter().map(|x| x.name())));
    assert!(distinct(Field::ALL.iter().map(|x| x.name())));
    assert!(distinct(Limit::ALL.iter().map(|x| x.name())));
    assert!(distinct(ObjectKind::ALL.iter().map(|x| x.name())));
    assert!(distinct(Check::ALL.iter().map(|x| x.name())));
    assert!(distinct(DropReason::ALL.iter().map(|x| x.name())));
}

#[test]
fn a_list_is_a_sink() {
    let event = Event::Retransmit { qpn: 1, psn: 2 };
    let mut seen = Vec::new();
    EventSink::event(&mut &mut seen, 7, &event);
    NoSink.event(8, &event);
    assert_eq!(seen, [(7, event)]);
}
