//! Verbs put together from records, in both languages.

use glassnic_events::{
    AsyncEventType, AttrMask, Cause, Check, Event, QpState, QpType, Refusal, Rule, StateSet, Transition,
    WcStatus,
};
use glassnic_verbs::qpc;

use super::text::{Style, write};
use super::*;
use crate::testing::Device;

const QPN: u32 = 0x1234;

fn life() -> Device {
    use CommandOpcode as Op;
    use qpc::Field as F;
    let mut device = Device::new(64);
    let create =
        body::CreateQp { qp_type: 2, max_send_wr: 16.into(), max_recv_wr: 500.into(), ..Default::default() };
    let command = device.begin(Op::CreateQp, QPN, &create);
    device.end(&command, &[(F::Qpn, QPN.into()), (F::QpType, 2), (F::SqDepth, 16), (F::RqDepth, 500)]);
    let mask = AttrMask::STATE | AttrMask::PORT | AttrMask::ACCESS_FLAGS | AttrMask::PKEY_INDEX;
    let init = body::ModifyQp {
        attr_mask: mask.bits().into(),
        to_state: 1,
        port_num: 1,
        access: 3,
        ..Default::default()
    };
    let command = device.begin(Op::ModifyQp, QPN, &init);
    let moved = Event::StateMoved {
        qpn: QPN,
        from: QpState::Reset,
        to: QpState::Init,
        cause: Cause::Modify,
        wr_id: None,
    };
    device.recorder().event(device.now, &moved);
    device.end(&command, &[(F::State, 1), (F::PortNum, 1), (F::Access, 3)]);
    let rule = Rule::NotListedTransition {
        at: Transition { qp_type: QpType::Rc, from: QpState::Init, to: QpState::Rts },
        reachable: StateSet::of(&[QpState::Reset, QpState::Init, QpState::Rtr, QpState::Err]),
    };
    let refusal = Refusal::on_qp(Call::ModifyQp, QPN, rule).moving(QpState::Init, QpState::Rts);
    device.now += 1000;
    device.recorder().refused(device.now, &refusal, 77);
    let to_err = body::ModifyQp { attr_mask: 1.into(), from_state: 1, to_state: 6, ..Default::default() };
    let command = device.begin(Op::ModifyQp, QPN, &to_err);
    for wr_id in 0..3 {
        let (status, check) = (WcStatus::WrFlushErr, Check::Flushed);
        device.recorder().event(device.now, &Event::CompletionError { qpn: QPN, wr_id, status, check });
    }
    device.end(&command, &[(F::State, 6)]);
    let command =
        device.begin(Op::QueryQp, QPN, &body::QueryQp { state: 6, sq_used: 2.into(), ..Default::default() });
    device.end(&command, &[]);
    let sent = Event::FirstPacketSent { qpn: QPN, to_qpn: 0x4321, opcode: 4, psn: 9 };
    device.recorder().event(device.now, &sent);
    let came = Event::FirstPacket { qpn: QPN, from_qpn: None, psn: 7 };
    device.recorder().event(device.now, &came);
    let overrun = Event::Async { event: AsyncEventType::CqErr, subject: 0x100, qpn: Some(QPN) };
    device.recorder().event(device.now, &overrun);
    let gone: Vec<_> =
        [F::Qpn, F::QpType, F::State, F::SqDepth, F::RqDepth, F::PortNum, F::Access].map(|f| (f, 0)).to_vec();
    let command = device.begin(
        Op::DestroyQp,
        QPN,
        &body::DestroyQp { sq_tail: 5.into(), sq_head: 3.into(), ..Default::default() },
    );
    device.end(&command, &gone);
    device
}

fn steps(lang: Lang, device: &Device) -> Vec<Step> {
    let mut tracer = Tracer::new(lang, 42);
    let mut steps = tracer.feed(&device.records(1));
    steps.extend(tracer.feed(&[]));
    assert_eq!(tracer.finish(), []);
    steps
}

fn told(lang: Lang, hex: bool) -> String {
    let steps = steps(lang, &life());
    let style = Style { lang, hex, began_ns: 5_000_000 };
    steps.iter().map(|step| write(style, step)).collect()
}

#[test]
fn a_life_in_english() {
    insta::assert_snapshot!(told(Lang::En, false));
}

#[test]
fn a_life_in_chinese() {
    insta::assert_snapshot!(told(Lang::Zh, true));
}

#[test]
fn json_has_numbers_as_numbers() {
    let steps = steps(Lang::En, &life());
    let json = serde_json::to_value(&steps).unwrap();
    let modify = &json[1];
    assert_eq!((&modify["kind"], &modify["call"]), (&"verb".into(), &"ibv_modify_qp".into()));
    assert_eq!((modify["qpn"].as_u64(), modify["took_ns"].as_u64()), (Some(0x1234), Some(1500)));
    assert_eq!(modify["changes"][0]["field"], "state");
    assert_eq!(
        (modify["changes"][0]["old_value"].as_u64(), modify["changes"][0]["new_value"].as_u64()),
        (Some(0), Some(1))
    );
    assert_eq!((modify["status"]["errno"].as_u64(), modify["doorbell"].as_bool()), (Some(0), Some(true)));
    assert_eq!(modify["record"]["opcode_number"].as_u64(), Some(5));
    assert_eq!(json[2]["status"]["name"], "EINVAL");
    assert!(json[2]["record"].is_null() && json[2]["doorbell"] == false);
    assert_eq!(json[5]["kind"], "event");
}

#[test]
fn what_was_overwritten_is_counted() {
    let mut device = Device::new(4);
    for _ in 0..10 {
        let command = device.begin(CommandOpcode::QueryQp, QPN, &body::QueryQp::default());
        device.end(&command, &[]);
    }
    let steps = steps(Lang::En, &device);
    assert!(matches!(steps[0], Step::Lost { records: 16, .. }), "{steps:?}");
    assert_eq!(steps.len(), 3);
    let said = write(Style { lang: Lang::En, hex: false, began_ns: 0 }, &steps[0]);
    assert!(said.contains("16 records lost"), "{said}");
}

#[test]
fn a_verb_is_whole_although_it_comes_in_pieces() {
    let device = life();
    let mut tracer = Tracer::new(Lang::En, 42);
    let mut found = Vec::new();
    for record in device.records(1) {
        found.extend(tracer.feed(&[record]));
    }
    found.extend(tracer.feed(&[]));
    assert_eq!(found, steps(Lang::En, &device));
    // A process that died in the middle of a command.
    let mut tracer = Tracer::new(Lang::En, 42);
    assert_eq!(tracer.feed(&device.records(1)[..1]), []);
    assert_eq!(tracer.feed(&[]), []);
    let Step::Verb(verb) = &tracer.finish()[0] else { panic!() };
    assert_eq!((verb.took_ns, verb.call.as_str()), (None, "ibv_create_qp"));
}

#[test]
fn nonsense_does_no_harm() {
    let bytes = [0xff; glassnic_wire::command::RECORD_LEN];
    for opcode in (0..0x110).chain([0xffff]) {
        let mut bytes = bytes;
        bytes[..2].copy_from_slice(&u16::to_le_bytes(opcode));
        let mut tracer = Tracer::new(Lang::Zh, 1);
        let mut steps = tracer.feed(&[CommandRecord::from_bytes(&bytes)]);
        steps.extend(tracer.finish());
        for step in steps {
            assert!(!write(Style { lang: Lang::Zh, hex: true, began_ns: 0 }, &step).is_empty());
        }
    }
}

#[test]
fn every_command_has_its_verb() {
    for opcode in CommandOpcode::ALL.iter().filter(|opcode| opcode.is_command()) {
        assert!(act::call(*opcode).is_some(), "{opcode}");
    }
}
