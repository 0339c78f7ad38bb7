//! Every rule and every check, as a reader sees it.

use glassnic_events::{
    AsyncEventType, AttrMask, Call, Check, Failure, FirstCause, Gid, KeyAccess, Leftover, ObjectKind,
    PathAttrs, PeerState, QpState, QpType, Refusal, Region, Rule, Transition, WcStatus,
};

use crate::samples::{cause, causes, refusals};
use crate::{
    End, Lang, explain, explain_failure_in, explain_first_cause, explain_first_cause_in, explain_in,
    explain_leftover_in, json,
};

#[test]
fn every_rule_has_a_sample() {
    let mut codes: Vec<_> = refusals().iter().map(|refusal| refusal.rule.code()).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes, Rule::CODES);
}

fn rules_in(lang: Lang) -> String {
    let lines: Vec<_> = refusals().iter().map(|refusal| explain_in(lang, refusal).to_string()).collect();
    lines.join("\n")
}

fn checks_in(lang: Lang) -> String {
    let lines: Vec<_> =
        causes().map(|cause| explain_first_cause_in(lang, 0x12, &cause).to_string()).collect();
    lines.join("\n")
}

#[test]
fn every_rule_in_words() {
    insta::assert_snapshot!(rules_in(Lang::En));
}

#[test]
fn every_rule_in_chinese() {
    insta::assert_snapshot!(rules_in(Lang::Zh));
}

#[test]
fn every_check_in_words() {
    insta::assert_snapshot!(checks_in(Lang::En));
}

#[test]
fn every_check_in_chinese() {
    insta::assert_snapshot!(checks_in(Lang::Zh));
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

/// The same shape everywhere: one line, parts that can be joined, nothing empty; and no English in Chinese but names.
#[test]
fn sentences_join_to_one_line() {
    for lang in Lang::ALL {
        let causes = causes().map(|cause| explain_first_cause_in(*lang, 1, &cause));
        for said in refusals().iter().map(|refusal| explain_in(*lang, refusal)).chain(causes) {
            for part in [&said.subject, &said.what, &said.remedy] {
                assert!(!part.is_empty() && !part.contains('\n') && !part.contains("  "), "{said}");
                assert!(!part.ends_with(['.', ' ', '。']), "{said}");
            }
            for part in [&said.what, &said.remedy] {
                assert_eq!(!part.is_ascii(), *lang == Lang::Zh || part.contains(['→', 'µ', '·']), "{said}");
                let english =
                    [" the ", " is ", " of ", " a ", " or ", " and "].iter().any(|w| part.contains(w));
                assert!(!english || *lang == Lang::En, "{said}");
            }
        }
    }
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

/// Every call on a queue pair says where it is, and where a refused move leaves it.
#[test]
fn the_state_is_told() {
    let full = Rule::QueueFull { queue: glassnic_events::Queue::Send, depth: 4, silent: 0 };
    let said = explain(&Refusal::on_qp(Call::PostSend, 0x12, full).in_state(QpState::Rts));
    assert_eq!((said.subject.as_str(), said.after), ("ibv_post_send(QP 0x12 RTS)", None));
    let moving = Refusal::on_qp(Call::ModifyQp, 0x12, full).moving(QpState::Init, QpState::Rtr);
    let [en, zh] = [Lang::En, Lang::Zh].map(|lang| explain_in(lang, &moving).after);
    assert_eq!(en.as_deref(), Some("the QP stays in INIT"));
    assert_eq!(zh.as_deref(), Some("QP 仍处于 INIT"));
}

#[test]
fn the_language_is_the_one_asked_for_else_that_of_the_locale() {
    let locale = |lang| [None, Some(""), Some(lang)];
    for (asked, lang, choice) in [
        (None, "zh_CN.UTF-8", Lang::Zh),
        (None, "zh", Lang::Zh),
        (None, "zh_TW.Big5@x", Lang::Zh),
        (None, "C.UTF-8", Lang::En),
        (None, "de_DE", Lang::En),
        (None, "zhuang", Lang::En),
        (Some("en"), "zh_CN.UTF-8", Lang::En),
        (Some("zh"), "C", Lang::Zh),
        (Some("ZH-cn"), "C", Lang::Zh),
        (Some(""), "zh_CN", Lang::Zh),
        (Some("fr"), "zh_CN", Lang::Zh),
    ] {
        assert_eq!(Lang::choose(asked, locale(lang)), choice, "{asked:?} {lang}");
    }
    assert_eq!(Lang::choose(None, [Some("C"), None, Some("zh_CN")]), Lang::En, "LC_ALL comes first");
    assert_eq!(Lang::choose(None, []), Lang::En);
}

fn failures() -> Vec<Failure> {
    let path = PathAttrs {
        dgid: Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 7]),
        sgid_index: 1,
        path_mtu: 1024,
        dest_qp_num: 0x4321,
        timeout: 14,
        ack_timeout_ns: Some(4096 << 14),
        retry_cnt: 7,
        rnr_retry: 0,
    };
    let region = Region { start: 0x7000, len: 4096, access: 1, pd: 2, other_key: false };
    let of = |check, region| {
        let access = KeyAccess { check, key: 0x1234, addr: 0x7f80, len: 256, pd: 1, region };
        Failure {
            qpn: 0x12,
            state: QpState::Err,
            cause: cause(check),
            path: Some(path),
            // Checks of keys have the low numbers.
            access: Some(access).filter(|_| check < Check::ReceiveTooSmall),
            peer: None,
        }
    };
    let waits = PathAttrs { timeout: 0, ack_timeout_ns: None, ..path };
    vec![
        of(Check::RetryExhausted, None),
        Failure { path: Some(waits), ..of(Check::RetryExhausted, None) },
        of(Check::RnrExhausted, None),
        of(Check::NakRemoteAccess, None),
        of(Check::RkeyBounds, Some(region)),
        of(Check::RkeyAccess, Some(region)),
        of(Check::LkeyPd, Some(region)),
        of(Check::LkeyUnknown, None),
        of(Check::RkeyUnknown, Some(Region { other_key: true, ..region })),
        Failure { path: None, access: None, ..of(Check::RkeyBounds, None) },
        Failure { peer: peer(Some(QpState::Init), 0, None), ..of(Check::RetryExhausted, None) },
        Failure { peer: peer(Some(QpState::Rts), 0, None), ..of(Check::RetryExhausted, None) },
        Failure { peer: peer(None, 0, None), ..of(Check::RetryExhausted, None) },
        Failure { peer: peer(Some(QpState::Rtr), 0, Some(1)), ..of(Check::RnrExhausted, None) },
        Failure { peer: peer(Some(QpState::Rts), 16, Some(3_200_000)), ..of(Check::RnrExhausted, None) },
    ]
}

fn peer(state: Option<QpState>, receives_posted: u32, empty_ns: Option<u64>) -> Option<PeerState> {
    Some(PeerState { pid: 7, state, dest_qp_num: 0x12, expected_psn: 0x100, receives_posted, empty_ns })
}

fn leftovers() -> [Leftover; 4] {
    [
        Leftover::Objects { kind: ObjectKind::Qp, count: 3, first: 0x12, site: 1 },
        Leftover::Objects { kind: ObjectKind::CompChannel, count: 1, first: 4, site: 0 },
        Leftover::Completions { cq: 7, count: 2, qpn: 0x12, wr_id: 9, status: WcStatus::RemAccessErr },
        Leftover::AsyncEvents { count: 1, event: AsyncEventType::QpFatal, subject: 0x12 },
    ]
}

#[test]
fn what_is_left_in_a_line_each() {
    let site = "open_connection+0x12 (server+0x1512)\nmain+0x80";
    let line = |lang, left: &Leftover| {
        let site = matches!(left, Leftover::Objects { site: 1, .. }).then_some(site);
        explain_leftover_in(lang, End::Exit, left, site).to_string()
    };
    let lines = |lang| leftovers().iter().map(|left| line(lang, left)).collect::<Vec<_>>();
    insta::assert_snapshot!([lines(Lang::En), lines(Lang::Zh)].concat().join("\n"));
}

#[test]
fn programs_are_told_in_json() {
    let of_rule = |code| refusals().into_iter().find(|refusal| refusal.rule.code() == code).unwrap();
    let of_refusal = |refusal: &Refusal| json::refusal(refusal, &explain(refusal));
    let failure = failures()[10];
    let left = leftovers()[0];
    let lines = [
        of_refusal(&of_rule(2)),
        of_refusal(&of_rule(20)),
        of_refusal(&of_rule(80)),
        json::failure(&failure, &explain_failure_in(Lang::En, &failure)),
        json::leftover(&left, &explain_leftover_in(Lang::En, End::Exit, &left, None)),
    ];
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_refusal_says_who_holds_a_limit_and_where_in_a_list_it_is() {
    for lang in Lang::ALL {
        let mut said = explain_in(*lang, &refusals()[0]);
        let before = said.what.clone();
        said.add_holder(8, "connect+0x1\nmain");
        said.add_place_in_list(2);
        assert!(
            said.what.starts_with(&before) && said.what.contains("8") && said.what.contains("connect+0x1")
        );
        assert!(
            said.what.contains("bad_wr") && said.what.contains('3') && !said.what.contains("main"),
            "{said}"
        );
    }
}

#[test]
fn failures_with_their_values() {
    let lines = |lang| failures().iter().map(|f| explain_failure_in(lang, f).to_string()).collect::<Vec<_>>();
    insta::assert_snapshot!([lines(Lang::En), lines(Lang::Zh)].concat().join("\n"));
}

#[test]
fn an_access_of_another_check_is_not_told() {
    let mut failure = failures()[4];
    failure.cause.check = Check::RkeyPd;
    assert!(!explain_failure_in(Lang::En, &failure).what.contains("bytes at"));
}
