//! Work requests that make no sense, posted by a program that does not care.

use super::*;
use glassnic_events::AttrMask;
use glassnic_transport::{SendFlags, Sge, UdDest};
use glassnic_wire::Qpn;

const DEPTH: u32 = 32;
const MAX_SGE: usize = 4;
const MAX_INLINE: u64 = 64;
const MAX_MESSAGE: u64 = 1 << 31;

/// A scatter/gather element by choices.
#[derive(Clone, Debug)]
struct Piece {
    /// Region, address, length, key.
    choices: [u8; 4],
    addr: u64,
    words: [u32; 2],
}

impl Piece {
    fn sge(&self, r: &Regions) -> Sge {
        let [region, place, length, lkey] = self.choices;
        let g = r.pick(r.landing, region);
        let max = u32::MAX;
        let lengths = [8, 0, 1, 256, 700, 1024, REGION as u32, REGION as u32 + 1, 1 << 31, max - 7, max];
        Sge {
            addr: address(&g, place, self.addr),
            length: pick(&lengths, length, self.words[0]),
            lkey: pick(&[g.lkey, g.rkey, r.landing.lkey, 0, u32::MAX], lkey, self.words[1]),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Send { opcode: WrOpcode, flags: u32, inline: bool, choices: [u8; 6], far: u64, pieces: Vec<Piece> },
    Receive(Vec<Piece>),
    Run(u32),
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let piece = (any::<[u8; 4]>(), any::<u64>(), any::<[u32; 2]>())
        .prop_map(|(choices, addr, words)| Piece { choices, addr, words });
    prop_oneof![
        6 => prop::collection::vec(piece.clone(), 0..=3),
        1 => prop::collection::vec(piece, 4..7),
    ]
}

fn step(qp_type: QpType) -> impl Strategy<Value = Step> {
    let fitting: Vec<_> = WrOpcode::ALL.iter().copied().filter(|op| has(qp_type, *op)).collect();
    let opcode = prop_oneof![6 => prop::sample::select(fitting), 1 => prop::sample::select(WrOpcode::ALL)];
    let send = (opcode, any::<u32>(), 0..6, any::<[u8; 6]>(), any::<u64>(), pieces());
    prop_oneof![
        6 => send.prop_map(|(opcode, flags, inline, choices, far, pieces)| {
            Step::Send { opcode, flags, inline: inline == 0, choices, far, pieces }
        }),
        2 => pieces().prop_map(Step::Receive),
        2 => (0u32..1_000_000).prop_map(Step::Run),
    ]
}

/// The operations of a service, by `ibv_post_send(3)`.
fn has(qp_type: QpType, op: WrOpcode) -> bool {
    match op {
        WrOpcode::Send | WrOpcode::SendWithImm => true,
        WrOpcode::RdmaWrite | WrOpcode::RdmaWriteWithImm | WrOpcode::BindMw | WrOpcode::LocalInv => {
            qp_type != QpType::Ud
        }
        WrOpcode::RdmaRead
        | WrOpcode::AtomicCmpAndSwp
        | WrOpcode::AtomicFetchAndAdd
        | WrOpcode::SendWithInv
        | WrOpcode::Flush
        | WrOpcode::AtomicWrite => qp_type == QpType::Rc,
        _ => false,
    }
}

fn request(
    stage: &Stage,
    peer: u32,
    opcode: WrOpcode,
    flags: u32,
    choices: [u8; 6],
    far: u64,
) -> SendRequest {
    let r = &stage.regions[0];
    let [region, place, key, gid, number, q] = choices;
    let g = r.pick(r.open, region);
    let rkey = pick(&[g.rkey, g.lkey, r.open.rkey, 0, u32::MAX], key, far as u32);
    let gids = stage.fabric.hosts[0].gids;
    let dgid = pick(&[gids[0], gids[1], [0; 16], [0xff; 16]], gid, [far as u8; 16]);
    let numbers = [peer, PEER, stage.bystanders[0].0.qpn, 0, 1, 0xff_ffff];
    SendRequest {
        opcode,
        flags: SendFlags::from_bits_retain(flags),
        imm: rkey,
        remote_addr: address(&g, place, far),
        rkey,
        compare_add: far,
        swap: far,
        ud: UdDest {
            av: AddressVector {
                is_global: number < 250,
                sgid_index: pick(&[0, 1, 2, 63, 255], gid, far as u8),
                dgid,
                flow_label: far as u32,
                sl: gid,
                static_rate: gid,
                port_num: pick(&[1, 0, 2], number, gid),
                ..AddressVector::default()
            },
            qpn: Qpn::new(pick(&numbers, number, far as u32)),
            qkey: pick(&[QKEY, 0x8000_0000, 0], q, far as u32),
        },
        ..SendRequest::default()
    }
}

/// A queue pair on host 1 and its peer on host 0, which has receives.
fn connected(stage: &mut Stage, qp_type: QpType, state: QpState) -> [Arc<QpShared>; 2] {
    let [peer, qp] = [0, 1].map(|h| stage.fabric.hosts[h].create(qp_type));
    let attr = QpAttr { access: REMOTE, timeout: 12, rnr_retry: 2, ..attributes(&stage.fabric, 1) };
    let attr = QpAttr { rq_psn: SQ_PSN, ..attr };
    let ofpeer = QpAttr { dest_qp_num: qp.qpn, ..attr };
    stage.fabric.hosts[0].raise_to(&peer, QpState::Rts, &ofpeer);
    let ah = AddressVector { dgid: stage.fabric.hosts[0].gids[0], ..attr.ah };
    stage.fabric.hosts[1].raise_to(&qp, state, &QpAttr { dest_qp_num: peer.qpn, ah, ..attr });
    for i in 0..24 {
        peer.post_recv(i, [stage.regions[0].landing.sge(0, 1100)].into_iter()).expect("posted");
    }
    [peer, qp]
}

/// What was posted and taken.
struct Accepted {
    wr_id: u64,
    opcode: WrOpcode,
    inline: bool,
    sges: Vec<Sge>,
    request: SendRequest,
}

fn endure(qp_type: QpType, state: QpState, steps: &[Step]) {
    let mut stage = Stage::new();
    let [peer, qp] = connected(&mut stage, qp_type, state);
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    let mut done = Vec::new();
    for (wr_id, step) in (0..).zip(steps) {
        match step {
            Step::Run(ns) => stage.fabric.run_until(stage.fabric.now + u64::from(*ns)),
            Step::Receive(pieces) => {
                let sges: Vec<_> = pieces.iter().map(|p| p.sge(&stage.regions[1])).collect();
                let before = qp.used();
                let taken = qp.post_recv(wr_id, sges.iter().copied()).is_ok();
                qp.ring();
                let right = qp.state() != QpState::Reset && sges.len() <= MAX_SGE && before.1 < DEPTH;
                assert_eq!(taken, right, "{sges:?} in {}", qp.state());
                assert_eq!(qp.used(), (before.0, before.1 + u32::from(taken)));
                receives.extend(taken.then_some(wr_id));
            }
            Step::Send { opcode, flags, inline, choices, far, pieces } => {
                let mut req = request(&stage, peer.qpn, *opcode, *flags, *choices, *far);
                req.wr_id = wr_id;
                let sges: Vec<_> = pieces.iter().map(|p| p.sge(&stage.regions[1])).collect();
                let post = Accepted { wr_id, opcode: *opcode, inline: *inline, sges, request: req };
                if offer(&qp, &post) {
                    sends.push(post);
                }
            }
        }
        done.extend(stage.completions(1, qp.qpn));
    }
    stage.fabric.run_until(stage.fabric.now + 2_000_000_000);
    done.extend(stage.completions(1, qp.qpn));
    if qp.state() != QpState::Reset {
        let err = QpAttr { qp_state: QpState::Err, ..QpAttr::default() };
        stage.fabric.hosts[1].modify(qp.qpn, AttrMask::STATE, &err, 0).expect("to ERR");
    }
    stage.fabric.run_until(stage.fabric.now + 1_000_000);
    done.extend(stage.completions(1, qp.qpn));
    check_done(&stage, qp_type, &sends, &receives, &done);
    assert_eq!(qp.used(), (0, 0), "every slot came back");
    let [far, near] = stage.regions;
    stage.untouched_but_for(0, &[far.open, far.landing]);
    stage.untouched_but_for(1, &[near.open, near.landing]);
    stage.bystanders_still_work();
}

/// Posts it. It is taken exactly if the rules of `ibv_post_send(3)` say so, and otherwise leaves no trace.
fn offer(qp: &QpShared, post: &Accepted) -> bool {
    let before = qp.used();
    let length: u64 = post.sges.iter().map(|s| u64::from(s.length)).sum();
    let taken = match qp.send() {
        Err(_) => false,
        Ok(mut sender) => {
            let staged = if post.inline {
                sender.stage_inline(&post.request, length, |to| to.fill(0x5a))
            } else {
                sender.stage(&post.request, post.sges.iter().copied())
            };
            sender.commit();
            staged.is_ok()
        }
    };
    let state = matches!(qp.state(), QpState::Rts | QpState::Sqd | QpState::Sqe | QpState::Err);
    let size =
        if post.inline { length <= MAX_INLINE } else { post.sges.len() <= MAX_SGE && length <= MAX_MESSAGE };
    let right = state && size && has(qp.qp_type, post.opcode) && before.0 < DEPTH;
    assert_eq!(taken, right, "{:?} {:?} in {}", post.opcode, post.sges, qp.state());
    assert_eq!(qp.used(), (before.0 + u32::from(taken), before.1));
    taken
}

/// Each request completes once and in order; and what succeeds was permitted.
fn check_done(stage: &Stage, qp_type: QpType, sends: &[Accepted], receives: &[u64], done: &[Completion]) {
    let is_send = |c: &&Completion| sends.iter().any(|s| s.wr_id == c.wr_id);
    let (of_sends, of_receives): (Vec<_>, Vec<_>) = done.iter().partition(is_send);
    let ids = |list: &[&Completion]| list.iter().map(|c| c.wr_id).collect::<Vec<_>>();
    assert_eq!(ids(&of_sends), sends.iter().map(|s| s.wr_id).collect::<Vec<_>>(), "sends");
    assert_eq!(ids(&of_receives), receives, "receives");
    let [far, near] = &stage.regions;
    for (c, s) in of_sends.iter().zip(sends).filter(|(c, _)| c.status == WcStatus::Success) {
        let atomic = matches!(s.opcode, WrOpcode::AtomicCmpAndSwp | WrOpcode::AtomicFetchAndAdd);
        let fetches = atomic || s.opcode == WrOpcode::RdmaRead;
        assert!(!(fetches && s.inline), "{c:?}: the answer has no place");
        let needs = if fetches { AccessFlags::LOCAL_WRITE } else { AccessFlags::empty() };
        for sge in s.sges.iter().filter(|sge| sge.length > 0 && !s.inline) {
            let own = [near.open, near.landing, near.readable];
            let len = u64::from(sge.length);
            let opens = |g: &Grant| g.lkey == sge.lkey && inside(g, sge.addr, len, needs);
            assert!(own.iter().any(opens), "{c:?} with {sge:?}");
        }
        let len: u64 = s.sges.iter().map(|s| u64::from(s.length)).sum();
        let right = match s.opcode {
            WrOpcode::RdmaRead => AccessFlags::REMOTE_READ,
            WrOpcode::RdmaWrite | WrOpcode::RdmaWriteWithImm => AccessFlags::REMOTE_WRITE,
            _ if atomic => AccessFlags::REMOTE_ATOMIC,
            _ => continue,
        };
        assert!(!atomic || len == 8 && s.request.remote_addr.is_multiple_of(8), "{c:?}");
        // A sender on UC does not learn what became of it.
        let told = qp_type == QpType::Rc && len > 0;
        let opens = |g: &Grant| g.rkey == s.request.rkey && inside(g, s.request.remote_addr, len, right);
        assert!(!told || [far.open, far.readable].iter().any(opens), "{c:?}");
    }
}

fn inside(g: &Grant, addr: u64, len: u64, needs: AccessFlags) -> bool {
    g.access.contains(needs)
        && addr >= g.addr
        && addr.checked_add(len).is_some_and(|end| end <= g.addr + g.len)
}

fn state() -> impl Strategy<Value = QpState> {
    prop_oneof![
        8 => Just(QpState::Rts),
        1 => prop::sample::select(vec![QpState::Reset, QpState::Init, QpState::Rtr, QpState::Sqd, QpState::Err]),
    ]
}

proptest! {
    #![proptest_config(config(600, 3))]

    #[test]
    fn an_rc_queue_pair_endures_any_posts(state in state(), steps in prop::collection::vec(step(QpType::Rc), 1..40)) {
        endure(QpType::Rc, state, &steps);
    }

    #[test]
    fn a_uc_queue_pair_endures_any_posts(state in state(), steps in prop::collection::vec(step(QpType::Uc), 1..40)) {
        endure(QpType::Uc, state, &steps);
    }

    #[test]
    fn a_ud_queue_pair_endures_any_posts(state in state(), steps in prop::collection::vec(step(QpType::Ud), 1..40)) {
        endure(QpType::Ud, state, &steps);
    }
}
