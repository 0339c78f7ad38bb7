//! Pictures of fixed recorders: legible whatever there is in them.

use glassnic_events::{AttrMask, Call, Cause, Check, Event, Field, FirstCause, Refusal, Rule, WcStatus};
use glassnic_verbs::qpc::{Field as F, Image};
use glassnic_wire::command::{CommandOpcode as Op, body};

use super::*;
use crate::testing::Device;

/// What goes wrong in a life.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Good,
    Refused,
    Fails,
}

fn create(device: &mut Device, qpn: u32) {
    let create =
        body::CreateQp { qp_type: 2, max_send_wr: 16.into(), max_recv_wr: 500.into(), ..Default::default() };
    device.image = Image::default();
    let command = device.begin(Op::CreateQp, qpn, &create);
    let fields = [
        (F::Qpn, qpn.into()),
        (F::QpType, 2),
        (F::SqDepth, 16),
        (F::RqDepth, 500),
        (F::CreatedNs, device.now),
    ];
    device.end(&command, &fields);
}

fn modify(device: &mut Device, qpn: u32, from: QpState, to: QpState, mask: AttrMask) {
    let b = body::ModifyQp {
        attr_mask: (mask | AttrMask::STATE).bits().into(),
        from_state: from.value() as u8,
        to_state: to.value() as u8,
        port_num: 1,
        path_mtu: 3,
        dest_qpn_or_qkey: 0x4321.into(),
        rq_psn: 0xabc.into(),
        sq_psn: 0xdef.into(),
        timeout: 14,
        retry_cnt: 7,
        rnr_retry: 7,
        ..Default::default()
    };
    let command = device.begin(Op::ModifyQp, qpn, &b);
    device
        .recorder()
        .event(device.now, &Event::StateMoved { qpn, from, to, cause: Cause::Modify, wr_id: None });
    device.end(
        &command,
        &[(F::State, to.value().into()), (F::PortNum, 1), (F::Timeout, u64::from(to.value() > 2) * 14)],
    );
}

fn connect(device: &mut Device, qpn: u32, fate: Fate) {
    use AttrMask as M;
    modify(device, qpn, QpState::Reset, QpState::Init, M::PORT | M::PKEY_INDEX | M::ACCESS_FLAGS);
    device.recorder().event(device.now + 10, &Event::FirstPost { qpn, send: false, opcode: None });
    if fate == Fate::Refused {
        let rule = Rule::OutOfRange { what: Field::Timeout, offered: 40, min: 0, max: 31 };
        let refusal = Refusal::on_qp(Call::ModifyQp, qpn, rule).moving(QpState::Init, QpState::Rtr);
        device.now += 40_000;
        device.recorder().refused(device.now, &refusal, 77);
    }
    device.now += 3_000_000;
    modify(device, qpn, QpState::Init, QpState::Rtr, M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN);
    modify(device, qpn, QpState::Rtr, QpState::Rts, M::SQ_PSN | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY);
}

fn work(device: &mut Device, qpn: u32, fate: Fate) {
    let recorder = device.recorder();
    device.now += 20_000;
    recorder.event(device.now, &Event::FirstPost { qpn, send: true, opcode: None });
    let sent = Event::FirstPacketSent { qpn, to_qpn: 0x4321, opcode: 4, psn: 0xdef };
    recorder.event(device.now + 2000, &sent);
    recorder.event(device.now + 9000, &Event::FirstPacket { qpn, from_qpn: None, psn: 0xabc });
    device.now += 400_000_000;
    if fate == Fate::Fails {
        recorder.event(device.now, &Event::Timeout { qpn, psn: 0xdef, retry_left: 6 });
        device.now += 67_000_000;
        let (status, check) = (WcStatus::RetryExcErr, Check::RetryExhausted);
        let cause = FirstCause { status, check, psn: Some(0xdef), wr_id: Some(1) };
        recorder.event(device.now, &Event::FirstError { qpn, cause });
        let (from, to) = (QpState::Rts, QpState::Err);
        recorder.event(
            device.now,
            &Event::StateMoved { qpn, from, to, cause: Cause::RequesterError, wr_id: Some(7) },
        );
    }
}

fn destroy(device: &mut Device, qpn: u32) {
    for _ in 0..3 {
        let query = body::QueryQp { state: 3, sq_used: 2.into(), attr_mask: 1.into(), ..Default::default() };
        let command = device.begin(Op::QueryQp, qpn, &query);
        device.end(&command, &[]);
    }
    let command = device.begin(
        Op::DestroyQp,
        qpn,
        &body::DestroyQp { sq_tail: 5.into(), sq_head: 5.into(), ..Default::default() },
    );
    device.end(&command, &[(F::Qpn, 0), (F::QpType, 0), (F::State, 0), (F::SqDepth, 0)]);
}

/// `count` QPs side by side; of the later ones each seventh is refused something, each ninth fails, and each tenth is
/// never destroyed.
fn source(count: u32, slots: usize) -> Source {
    let mut device = Device::new(slots);
    let fate = |i: u32| match i {
        2.. if i.is_multiple_of(7) => Fate::Refused,
        2.. if i.is_multiple_of(9) => Fate::Fails,
        _ => Fate::Good,
    };
    let qpn = |i: u32| 0x1234 + i * 0x113;
    (0..count).for_each(|i| create(&mut device, qpn(i)));
    (0..count).for_each(|i| connect(&mut device, qpn(i), fate(i)));
    (0..count).for_each(|i| work(&mut device, qpn(i), fate(i)));
    (0..count).filter(|i| i % 10 != 9).for_each(|i| destroy(&mut device, qpn(i)));
    Source { pid: 4242, command: "ib_<write>&bw".into(), device: "glass0".into(), records: device.records(1) }
}

/// Every word is inside the picture, and none lies on another.
fn assert_legible(scene: &Scene) {
    let texts: Vec<_> = scene.texts().collect();
    for (i, text) in texts.iter().enumerate() {
        let area = text.area();
        let inside = area.x >= 0.0
            && area.y >= 0.0
            && area.x + area.width <= scene.width
            && area.y + area.height <= scene.height;
        assert!(inside, "outside: {text:?} {area:?} of {} × {}", scene.width, scene.height);
        for other in &texts[i + 1..] {
            assert!(!area.overlaps(&other.area()), "overlap: {text:?}\n{other:?}");
        }
    }
}

/// Well-formed, and of this many words.
fn parse(svg: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(svg).unwrap();
    assert_eq!(document.root_element().tag_name().name(), "svg");
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    texts.filter_map(|node| node.text().map(str::to_owned)).collect()
}

fn drawn(lang: Lang, sources: &[Source]) -> (String, Vec<String>) {
    let scene = picture(lang, sources);
    assert_legible(&scene);
    let svg = write(&scene);
    // To look at: GLASSNIC_PICTURES=/tmp cargo test -p glassnic-inspect draw
    if let Ok(folder) = std::env::var("GLASSNIC_PICTURES") {
        let name = format!("{folder}/{}-{}-{}.svg", sources.len(), svg.len(), lang.code());
        std::fs::write(name, &svg).unwrap();
    }
    let words = parse(&svg);
    (svg, words)
}

#[test]
fn one_queue_pair() {
    let (svg, words) = drawn(Lang::En, &[source(1, 256)]);
    for said in ["QP 0x1234", "insert", "change", "look up", "remove", "RTS", "RESET → INIT", "unlinked"] {
        assert!(words.iter().any(|word| word == said), "no {said}: {words:?}");
    }
    assert!(words[0].contains("ib_<write>&bw"), "{words:?}");
    insta::assert_snapshot!(svg);
}

#[test]
fn two_hundred_queue_pairs() {
    let (svg, words) = drawn(Lang::En, &[source(200, 8192)]);
    let has = |said: &str| words.iter().any(|word| word.contains(said));
    // What is the same is said once, with how often it was.
    assert!(has("× 1") && has("more like it") && has("more operations"), "{words:?}");
    assert!(has("1 EINVAL") || has("2 EINVAL"), "{words:?}");
    assert!(words.len() < 400, "{}", words.len());
    insta::assert_snapshot!(svg);
}

#[test]
fn what_goes_wrong_is_numbered_and_told_in_full() {
    for lang in Lang::ALL {
        let (_, words) = drawn(*lang, &[source(8, 1024)]);
        let all = words.join("\n");
        assert!(all.contains("1 EINVAL"), "{all}");
        assert!(all.contains("ibv_modify_qp(QP 0x19b9 INIT→RTR)"), "{all}");
    }
    let (_, words) = drawn(Lang::Zh, &[source(3, 512), source(2, 512)]);
    assert!(words.iter().any(|word| word.contains("四种操作")), "{words:?}");
}

#[test]
fn no_record_is_no_reason_to_fail() {
    let empty = Source { pid: 1, command: "a\u{1}b".into(), device: String::new(), records: Vec::new() };
    drawn(Lang::En, &[]);
    drawn(Lang::Zh, &[empty.clone(), empty]);
    // Half of it was overwritten.
    let (_, words) = drawn(Lang::En, &[source(40, 256)]);
    assert!(words.iter().any(|word| word.contains("records were overwritten")), "{words:?}");
    let long = Source { command: "x".repeat(400), ..source(1, 256) };
    drawn(Lang::En, &[long]);
    let nonsense = (0..300u16).map(|n| {
        let mut bytes = [0xff; glassnic_wire::command::RECORD_LEN];
        bytes[..2].copy_from_slice(&n.to_le_bytes());
        bytes[4..8].copy_from_slice(&u32::from(n % 5).to_le_bytes());
        bytes[56..64].copy_from_slice(&u64::from(n).to_le_bytes());
        glassnic_wire::command::CommandRecord::from_bytes(&bytes)
    });
    drawn(
        Lang::En,
        &[Source {
            pid: u32::MAX,
            command: String::new(),
            device: String::new(),
            records: nonsense.collect(),
        }],
    );
}
