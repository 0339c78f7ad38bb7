//! Packets that nobody in their right mind would send.

use super::*;
use glassnic_nic::Nic;
use glassnic_sim::fabric::{Flight, PROGRAM_BASE};
use glassnic_transport::UdDest;
use glassnic_wire::opcode::{Kind, OPCODES, Opcode, Position, Service};
use glassnic_wire::{
    Aeth, AtomicAckEth, AtomicEth, Deth, Headers, Psn, Qpn, Reth, Syndrome, pad_for, parse_packet,
};

const RECEIVES: u64 = 6;
const RECEIVE_ID: u64 = 1000;

/// A packet by choices: what they mean is decided when it is sent, by what the victim expects then.
#[derive(Clone, Debug)]
struct Shot {
    opcode: Opcode,
    /// PSN, region, key, address, length of the operation, of the payload, packets, syndrome, all else.
    choices: [u8; 9],
    words: [u32; 4],
    long: u64,
    /// The bytes of the packet are cut here, or one of them is changed.
    broken: Option<(u16, u8)>,
}

fn shot(service: Service) -> impl Strategy<Value = Shot> {
    let of = move |kind: Kind| {
        let fitting = OPCODES.iter().filter(move |i| i.service == service && i.kind == kind);
        fitting.map(|i| i.opcode).collect::<Vec<_>>()
    };
    let kinds = [
        Kind::Send,
        Kind::Write,
        Kind::ReadRequest,
        Kind::CmpSwap,
        Kind::FetchAdd,
        Kind::Ack,
        Kind::ReadResponse,
        Kind::AtomicAck,
    ];
    let present: Vec<_> = kinds.into_iter().map(of).filter(|opcodes| !opcodes.is_empty()).collect();
    let opcode = prop_oneof![
        20 => prop::sample::select(present).prop_flat_map(prop::sample::select),
        1 => any::<u8>().prop_map(Opcode),
    ];
    let broken = prop_oneof![9 => Just(None), 1 => any::<(u16, u8)>().prop_map(Some)];
    (opcode, any::<[u8; 9]>(), any::<[u32; 4]>(), any::<u64>(), broken)
        .prop_map(|(opcode, choices, words, long, broken)| Shot { opcode, choices, words, long, broken })
}

impl Shot {
    fn headers(&self, nic: &mut Nic, victim: &QpShared, r: &Regions) -> (Headers, u32, usize) {
        let [psn, region, key, place, operation, payload, packets, syndrome, rest] = self.choices;
        let [w0, w1, w2, w3] = self.words;
        let attr = nic.query_qp(victim.qpn, Default::default(), 0).expect("it is there");
        let (expected, next) = (attr.rq_psn, attr.sq_psn);
        let is_answer = self
            .opcode
            .info()
            .is_some_and(|i| matches!(i.kind, Kind::Ack | Kind::AtomicAck | Kind::ReadResponse));
        let psns = if is_answer {
            [SQ_PSN, SQ_PSN + 1, SQ_PSN + 2, SQ_PSN + 3, SQ_PSN + 5, next.wrapping_sub(1), next, w0]
        } else {
            let back = |n| expected.wrapping_sub(n);
            [expected, back(1), back(2), back(4), expected + 1, expected + (1 << 23), next, w0]
        };
        let g = r.pick(r.open, region);
        let rkey = pick(&[g.rkey, g.lkey, r.open.rkey, 0, u32::MAX], key, w1);
        let va = address(&g, place, self.long);
        let sizes = [256, 0, 1, 8, 255, 257, 512, 1024, 5000];
        let len = pick(&sizes, payload, (w2 % 9000) as usize);
        let first = self.opcode.info().is_some_and(|i| i.position == Position::First);
        let whole = if first { 512 } else { len as u32 };
        let lens =
            [whole, 0, 1, 8, 300, 700, REGION as u32, 1 << 31, (1 << 31) + 1, u32::MAX - 255, u32::MAX];
        let dma_len = pick(&lens, operation, w3);
        let npsn = pick(&[1, 2, 4, 0, 1 << 22, u32::MAX], packets, w2 % 30);
        let mut h = Headers::new(self.opcode, Qpn::new(victim.qpn), Psn::new(pick(&psns, psn, w0)));
        h.bth.ack_req = rest & 1 != 0;
        h.bth.solicited = rest & 2 != 0;
        h.bth.tver = if rest > 250 { 1 } else { 0 };
        h.bth.pkey = if rest > 245 { w0 as u16 } else { 0xffff };
        let qkey = pick(&[QKEY, 0x8000_0000, 0], key, w1);
        h.deth = h.deth.map(|_| Deth { qkey, src_qp: Qpn::new(w2) });
        h.reth = h.reth.map(|_| Reth { va, rkey, dma_len });
        h.atomic = h.atomic.map(|_| AtomicEth { va, rkey, swap_add: self.long, compare: u64::from(w2) });
        let codes = [0x1f, 0x60, 0x61, 0x62, 0x63, 0x20, 0x3f, 0x64, 0x7f, 0x40];
        let syndrome = Syndrome(pick(&codes, syndrome, w0 as u8));
        h.aeth = h.aeth.map(|_| Aeth { syndrome, msn: w3 & 0xff_ffff });
        h.atomic_ack = h.atomic_ack.map(|_| AtomicAckEth { original: self.long });
        h.imm = h.imm.map(|_| w1);
        h.ieth = h.ieth.map(|_| rkey);
        (h, npsn, len)
    }

    /// Sends it, as a descriptor or, where it is broken, as the bytes that remain of it.
    fn fire(&self, stage: &mut Stage, victim: &QpShared) {
        let regions = stage.regions[1];
        let (headers, npsn, len) = self.headers(&mut stage.fabric.hosts[1].nic, victim, &regions);
        let [from, to] = [0, 1].map(|h| stage.fabric.hosts[h].gids[0]);
        let stranger = self.choices[8] == 100;
        let mut flight = Flight {
            src_gid: if stranger { [7; 16] } else { from },
            dst_gid: to,
            traffic_class: 0,
            hop_limit: 64,
            headers,
            npsn,
            bytes: vec![0x66; len],
        };
        let Some((at, change)) = self.broken else { return stage.fabric.deliver(&flight) };
        let mut bytes = vec![0; 100];
        let Ok(front) = flight.headers.emit(&mut bytes) else { return };
        bytes.truncate(front);
        bytes.extend(&flight.bytes);
        bytes.resize(bytes.len() + usize::from(pad_for(len)) + 4, 0);
        if change < 128 {
            bytes.truncate(usize::from(at) % (bytes.len() + 1));
        } else {
            // Not the QP number: it is to hit the victim.
            let before = [0, 1, 2, 3, 8, 9, 10, 11].get(usize::from(at % 16)).copied();
            let behind = 12 + usize::from(at) % bytes.len().saturating_sub(12).max(1);
            let at = before.unwrap_or(behind);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= change;
            }
        }
        if let Ok(packet) = parse_packet(&bytes) {
            flight = Flight { headers: packet.headers, npsn: 1, bytes: packet.payload.to_vec(), ..flight };
            stage.fabric.deliver(&flight);
        }
    }
}

/// A victim on host 1 in this state, with work posted that its state takes.
fn victim(
    stage: &mut Stage,
    qp_type: QpType,
    state: QpState,
    access: AccessFlags,
    timeout: u8,
) -> Arc<QpShared> {
    let attr = QpAttr { access, timeout, ..attributes(&stage.fabric, 0) };
    let r = stage.regions[1];
    let host = &mut stage.fabric.hosts[1];
    let qp = host.create(qp_type);
    let early =
        if matches!(state, QpState::Sqd | QpState::Sqe | QpState::Err) { QpState::Rts } else { state };
    host.raise_to(&qp, early, &attr);
    for i in 0..RECEIVES {
        // Refused in RESET.
        let posted = qp.post_recv(RECEIVE_ID + i, [r.landing.sge(i * 1024, 1024)].into_iter());
        assert_eq!(posted.is_ok(), early != QpState::Reset);
    }
    let ud = UdDest { av: attr.ah, qpn: Qpn::new(PEER), qkey: QKEY };
    let request = |wr_id, opcode| SendRequest { wr_id, opcode, ud, ..SendRequest::default() };
    if early == QpState::Rts {
        let ops: &[(WrOpcode, u32)] = match qp_type {
            QpType::Rc => &[
                (WrOpcode::Send, 300),
                (WrOpcode::RdmaRead, 700),
                (WrOpcode::AtomicFetchAndAdd, 8),
                (WrOpcode::RdmaWrite, 10),
                (WrOpcode::RdmaRead, 0),
                (WrOpcode::Send, 600),
            ],
            _ => &[(WrOpcode::Send, 100), (WrOpcode::SendWithImm, 200)],
        };
        for (i, (op, len)) in (0..).zip(ops) {
            post_send(&qp, &request(i, *op), &[r.landing.sge(8192 + i * 1024, *len)]).expect("posted");
        }
    }
    stage.fabric.pump();
    let host = &mut stage.fabric.hosts[1];
    let to = QpAttr { qp_state: state, ..QpAttr::default() };
    match state {
        QpState::Sqe => {
            post_send(&qp, &request(90, WrOpcode::Send), &[r.foreign.sge(0, 8)]).expect("posted");
        }
        QpState::Sqd | QpState::Err => {
            host.modify(qp.qpn, glassnic_events::AttrMask::STATE, &to, 0).expect("a legal move");
        }
        _ => {}
    }
    stage.fabric.pump();
    assert_eq!(qp.state(), state);
    qp
}

fn states(qp_type: QpType) -> impl Strategy<Value = QpState> {
    // States in which nothing is taken are tried less often.
    let sqe = if qp_type == QpType::Rc { QpState::Rts } else { QpState::Sqe };
    let quiet = vec![QpState::Reset, QpState::Init, QpState::Err];
    prop_oneof![
        5 => prop::sample::select(vec![QpState::Rts, QpState::Rtr, QpState::Sqd, sqe]),
        1 => prop::sample::select(quiet),
    ]
}

#[derive(Clone, Debug)]
struct Attack {
    state: QpState,
    rights: u8,
    timeout: u8,
    /// Each shot, and the nanoseconds that pass after it.
    shots: Vec<(Shot, u32)>,
}

fn attack(qp_type: QpType, service: Service) -> impl Strategy<Value = Attack> {
    let pause = prop_oneof![3 => Just(0), 1 => 0u32..100_000];
    let shots = prop::collection::vec((shot(service), pause), 1..16);
    let timeout = prop::sample::select(vec![0, 0, 1, 14]);
    (states(qp_type), any::<u8>(), timeout, shots).prop_map(|(state, rights, timeout, shots)| Attack {
        state,
        rights,
        timeout,
        shots,
    })
}

fn survive(qp_type: QpType, attack: &Attack) {
    let mut stage = Stage::new();
    let rights = if attack.rights < 128 { 0b1110 } else { u32::from(attack.rights) & 0b1110 };
    let access = AccessFlags::from_bits_truncate(rights);
    let qp = victim(&mut stage, qp_type, attack.state, access, attack.timeout);
    stage.fabric.hosts[1].poll();
    for (shot, pause) in &attack.shots {
        shot.fire(&mut stage, &qp);
        if *pause > 0 {
            stage.fabric.run_until(stage.fabric.now + u64::from(*pause));
        }
    }
    stage.fabric.run_until(stage.fabric.now + 10_000_000_000);
    let done = stage.completions(1, qp.qpn);

    // Of the unreliable services no peer can move a queue pair, and RC goes nowhere but to ERR.
    let state = qp.state();
    let takes = matches!(attack.state, QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe);
    let may_fail = qp_type == QpType::Rc && takes;
    assert!(state == attack.state || may_fail && state == QpState::Err, "{} became {state}", attack.state);
    check_completions(qp_type, state, &done);

    let r = stage.regions[1];
    let writes = access.intersects(AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC);
    let connected = qp_type.is_connected();
    let open = (writes && connected && takes).then_some(r.open);
    let landing = takes.then_some(r.landing);
    let allowed: Vec<_> = open.into_iter().chain(landing).collect();
    stage.untouched_but_for(1, &allowed);
    stage.untouched_but_for(0, &[]);
    check_answers(&stage, access);
    stage.bystanders_still_work();
}

/// In order, each once, and flushed only where all is flushed.
fn check_completions(qp_type: QpType, state: QpState, done: &[Completion]) {
    let (receives, sends): (Vec<&Completion>, Vec<&Completion>) =
        done.iter().partition(|c| c.wr_id >= RECEIVE_ID);
    for list in [&receives, &sends] {
        assert!(list.is_sorted_by(|a, b| a.wr_id < b.wr_id), "{list:?}");
        let failed = list.iter().position(|c| c.status != WcStatus::Success).unwrap_or(list.len());
        let flushed = list.iter().skip(failed + 1).all(|c| c.status == WcStatus::WrFlushErr);
        assert!(flushed, "{list:?}");
        assert!(failed == list.len() || matches!(state, QpState::Err | QpState::Sqe), "{list:?}");
    }
    for r in receives.iter().filter(|r| r.status == WcStatus::Success) {
        let whole_write = r.opcode == glassnic_transport::WcOpcode::RecvRdmaWithImm;
        assert!(r.byte_len <= 1024 || whole_write, "{r:?}");
    }
    if state == QpState::Err && qp_type == QpType::Rc && !done.is_empty() {
        let last = receives.last().map(|r| r.wr_id);
        assert_eq!(last, Some(RECEIVE_ID + RECEIVES - 1), "in ERR every receive is flushed");
    }
}

/// Nothing is read, and no value of an atomic told, without the queue pair's own right.
fn check_answers(stage: &Stage, access: AccessFlags) {
    for h in stage.fabric.hosts[1].ground.sent.iter().filter(|h| h.bth.dest_qp.value() == PEER) {
        let needs = match h.bth.opcode.info().map(|i| i.kind) {
            Some(Kind::ReadResponse) => AccessFlags::REMOTE_READ,
            Some(Kind::AtomicAck) => AccessFlags::REMOTE_ATOMIC,
            _ => continue,
        };
        assert!(access.contains(needs), "{:?} was answered", h.bth.opcode);
    }
}

/// The attack is an attack: with the first choice everywhere it is a message that arrives.
#[test]
fn the_first_choice_everywhere_is_a_right_packet() {
    for (qp_type, opcode, expected) in [
        (QpType::Rc, Opcode::RC_SEND_ONLY, RECEIVE_ID),
        (QpType::Uc, Opcode::UC_SEND_ONLY, RECEIVE_ID),
        (QpType::Ud, Opcode::UD_SEND_ONLY, RECEIVE_ID),
        (QpType::Rc, Opcode::RC_ACKNOWLEDGE, 0),
    ] {
        let mut stage = Stage::new();
        let qp = victim(&mut stage, qp_type, QpState::Rts, REMOTE, 0);
        stage.fabric.hosts[1].poll();
        let mut shot = Shot { opcode, choices: [0; 9], words: [0; 4], long: 0, broken: None };
        // The last packet of the first SEND is acknowledged.
        shot.choices[0] = if expected == 0 { RIGHT + 1 } else { 0 };
        shot.fire(&mut stage, &qp);
        let done = stage.completions(1, qp.qpn);
        let first = done.first().map(|c| (c.wr_id, c.status));
        assert_eq!(first, Some((expected, WcStatus::Success)), "{opcode:?}");
    }
    let mut stage = Stage::new();
    let qp = victim(&mut stage, QpType::Rc, QpState::Rts, REMOTE, 0);
    let opcode = Opcode::RC_RDMA_WRITE_ONLY;
    let shot = Shot { opcode, choices: [0; 9], words: [0; 4], long: 0, broken: None };
    shot.fire(&mut stage, &qp);
    let at = stage.regions[1].open.addr - PROGRAM_BASE;
    assert_eq!(stage.fabric.hosts[1].bytes(at, 256), [0x66; 256]);
}

/// Chance seldom makes these two.
#[test]
fn an_answer_to_nothing_is_ignored_and_a_short_one_is_a_bad_one() {
    for (opcode, psn, payload, expected) in [
        (Opcode::RC_ACKNOWLEDGE, 6, 0, &[][..]),
        (
            Opcode::RC_RDMA_READ_RESPONSE_FIRST,
            2,
            RIGHT + 3,
            &[(0, WcStatus::Success), (1, WcStatus::BadRespErr), (2, WcStatus::WrFlushErr)],
        ),
    ] {
        let mut stage = Stage::new();
        let qp = victim(&mut stage, QpType::Rc, QpState::Rts, REMOTE, 0);
        let choices = [RIGHT + psn, 0, 0, 0, 0, payload, 0, 0, 0];
        Shot { opcode, choices, words: [0; 4], long: 0, broken: None }.fire(&mut stage, &qp);
        let done = stage.completions(1, qp.qpn);
        let sends: Vec<_> = done.iter().map(|c| (c.wr_id, c.status)).take(3).collect();
        assert_eq!(sends, expected, "{opcode:?}");
    }
}

proptest! {
    #![proptest_config(config(3000, 1))]

    #[test]
    fn an_rc_queue_pair_survives_any_packets(attack in attack(QpType::Rc, Service::Rc)) {
        survive(QpType::Rc, &attack);
    }
}

proptest! {
    #![proptest_config(config(1200, 2))]

    #[test]
    fn a_uc_queue_pair_survives_any_packets(attack in attack(QpType::Uc, Service::Uc)) {
        survive(QpType::Uc, &attack);
    }

    #[test]
    fn a_ud_queue_pair_survives_any_packets(attack in attack(QpType::Ud, Service::Ud)) {
        survive(QpType::Ud, &attack);
    }
}
