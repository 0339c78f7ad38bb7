//! Two QPs of one process talk, through each link that leads there.

use std::process::Command;
use std::time::{Duration, Instant};

use glassnic_verbs::attr::{AccessFlags, AddressVector, Mtu, QpAttr, QpCap};
use glassnic_verbs::events::{AttrMask, Check, QpState, QpType, Queue, Rule, WcStatus, WrOpcode};
use glassnic_verbs::{Context, Cq, Mr, Pd, Qp, QpInit, SendFlags, SendRequest, Sge};

/// Runs a test of this file in a process of its own, as the environment is read once in a process's life.
fn in_process(name: &str, link: &str, body: fn()) {
    const INNER: &str = "GLASSNIC_TEST_INNER";
    if std::env::var_os(INNER).is_some() {
        return body();
    }
    let out = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(INNER, "1")
        .env("GLASSNIC_DEVICES", "glass0=lo")
        .env("GLASSNIC_LINK", link)
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
}

struct End {
    cq: Cq,
    qp: Qp,
    mr: Mr,
    memory: Box<[u8]>,
    pd: Pd,
}

const LEN: usize = 1 << 20;

fn end(context: &Context, qp_type: QpType) -> End {
    end_that_signals(context, qp_type, true)
}

fn end_that_signals(context: &Context, qp_type: QpType, sq_sig_all: bool) -> End {
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(256, None).unwrap();
    let memory = vec![0u8; LEN].into_boxed_slice();
    let all = AccessFlags::LOCAL_WRITE
        | AccessFlags::REMOTE_WRITE
        | AccessFlags::REMOTE_READ
        | AccessFlags::REMOTE_ATOMIC;
    let at = memory.as_ptr() as u64;
    let mr = pd.reg_mr(at, LEN as u64, at, all).unwrap();
    let cap =
        QpCap { max_send_wr: 64, max_recv_wr: 64, max_send_sge: 4, max_recv_sge: 4, max_inline_data: 64 };
    let init = QpInit { qp_type, send_cq: &cq, recv_cq: &cq, srq: None, cap, sq_sig_all };
    let qp = pd.create_qp(&init).unwrap();
    End { cq, qp, mr, memory, pd }
}

fn connect(a: &End, b: &End, gid: [u8; 16]) {
    let access = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ | AccessFlags::REMOTE_ATOMIC;
    let init = QpAttr { qp_state: QpState::Init, port_num: 1, access, ..QpAttr::default() };
    let m = AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::ACCESS_FLAGS;
    a.qp.modify(m, &init).unwrap();
    let ah =
        AddressVector { is_global: true, dgid: gid, port_num: 1, hop_limit: 64, ..AddressVector::default() };
    let rtr = QpAttr {
        qp_state: QpState::Rtr,
        ah,
        path_mtu: Mtu::M4096,
        dest_qp_num: b.qp.qpn(),
        rq_psn: b.qp.qpn() & 0xffff,
        max_dest_rd_atomic: 4,
        min_rnr_timer: 12,
        ..QpAttr::default()
    };
    let m = AttrMask::STATE
        | AttrMask::AV
        | AttrMask::PATH_MTU
        | AttrMask::DEST_QPN
        | AttrMask::RQ_PSN
        | AttrMask::MAX_DEST_RD_ATOMIC
        | AttrMask::MIN_RNR_TIMER;
    a.qp.modify(m, &rtr).unwrap();
    let rts = QpAttr {
        qp_state: QpState::Rts,
        timeout: 14,
        retry_cnt: 7,
        rnr_retry: 7,
        sq_psn: a.qp.qpn() & 0xffff,
        max_rd_atomic: 4,
        ..QpAttr::default()
    };
    let m = AttrMask::STATE
        | AttrMask::TIMEOUT
        | AttrMask::RETRY_CNT
        | AttrMask::RNR_RETRY
        | AttrMask::SQ_PSN
        | AttrMask::MAX_QP_RD_ATOMIC;
    a.qp.modify(m, &rts).unwrap();
}

fn post(e: &End, req: &SendRequest, len: usize) {
    let sge = Sge { addr: e.memory.as_ptr() as u64, length: len as u32, lkey: e.mr.lkey() };
    {
        let mut s = e.qp.sender().unwrap();
        s.stage(req, std::iter::once(sge)).unwrap();
        s.commit();
    }
    e.qp.kick();
}

/// Polls both ends until `e` has a completion.
fn wait(e: &End, other: &End) -> (WcStatus, u64, u32) {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let mut got = None;
        e.cq.poll(1, |c| got = Some((c.completion.status, c.completion.wr_id, c.completion.byte_len)));
        if let Some(got) = got {
            return got;
        }
        other.qp.kick();
        assert!(Instant::now() < until, "no completion");
    }
}

fn everything() {
    let device = glassnic_verbs::devices().pop().expect("a device");
    let context = device.open().unwrap();
    let gid = context.port().gid(0).expect("a GID");
    let (mut a, b) = (end(&context, QpType::Rc), end(&context, QpType::Rc));
    connect(&a, &b, gid);
    connect(&b, &a, gid);
    for (i, byte) in a.memory.iter_mut().enumerate() {
        *byte = (i * 7 + i / 256) as u8;
    }
    let remote =
        SendRequest { remote_addr: b.memory.as_ptr() as u64, rkey: b.mr.rkey(), ..SendRequest::default() };
    for len in [0, 1, 4095, 4096, 4097, LEN] {
        let sge = Sge { addr: b.memory.as_ptr() as u64, length: LEN as u32, lkey: b.mr.lkey() };
        b.qp.post_recv(len as u64, std::iter::once(sge)).unwrap();
        post(&a, &SendRequest { wr_id: 1, flags: SendFlags::SIGNALED, ..SendRequest::default() }, len);
        assert_eq!(wait(&b, &a), (WcStatus::Success, len as u64, len as u32));
        assert_eq!(wait(&a, &b).0, WcStatus::Success);
        assert!(a.memory[..len] == b.memory[..len], "SEND of {len}");
        post(&a, &SendRequest { opcode: WrOpcode::RdmaWrite, ..remote }, len);
        assert_eq!(wait(&a, &b).0, WcStatus::Success);
        a.memory[..len].fill(0);
        post(&a, &SendRequest { opcode: WrOpcode::RdmaRead, ..remote }, len);
        assert_eq!(wait(&a, &b), (WcStatus::Success, 0, len as u32));
        assert!(a.memory[..len] == b.memory[..len], "READ of {len}");
        assert!(len == 0 || a.memory[..len].iter().any(|x| *x != 0) || len == 1);
    }
    let before = u64::from_ne_bytes(*b.memory.first_chunk().unwrap());
    post(&a, &SendRequest { opcode: WrOpcode::AtomicFetchAndAdd, compare_add: 5, ..remote }, 8);
    assert_eq!(wait(&a, &b).0, WcStatus::Success);
    assert_eq!(u64::from_ne_bytes(*a.memory.first_chunk().unwrap()), before);
    assert_eq!(u64::from_ne_bytes(*b.memory.first_chunk().unwrap()), before.wrapping_add(5));
    // A wrong key breaks both queue pairs, and says why on both sides.
    post(&a, &SendRequest { opcode: WrOpcode::RdmaWrite, rkey: b.mr.lkey(), wr_id: 9, ..remote }, 8);
    assert_eq!(wait(&a, &b), (WcStatus::RemAccessErr, 9, 0));
    assert_eq!((a.qp.state(), b.qp.state()), (QpState::Err, QpState::Err));
    let [at_a, at_b] = [&a, &b].map(|end| context.take_failure(end.qp.qpn()).expect("failed"));
    assert_eq!((at_a.cause.check, at_b.cause.check), (Check::NakRemoteAccess, Check::RkeyUnknown));
    assert_eq!(at_a.path.map(|path| path.dest_qp_num), Some(b.qp.qpn()));
    let access = at_b.access.expect("it was an access");
    assert_eq!((access.key, access.len), (b.mr.lkey(), 8));
    assert!(access.region.is_some_and(|region| region.other_key), "{access:?}");
    assert_eq!(context.take_failure(b.qp.qpn()), None, "it is told once");
    assert!(a.pd.destroy().is_err(), "the PD is in use");
}

/// A program that never signals fills its send queue with requests that are long done, and is told so.
fn silent_sends() {
    let device = glassnic_verbs::devices().pop().expect("a device");
    let context = device.open().unwrap();
    let gid = context.port().gid(0).expect("a GID");
    let [a, b] = [0; 2].map(|_| end_that_signals(&context, QpType::Rc, false));
    connect(&a, &b, gid);
    connect(&b, &a, gid);
    let write = SendRequest {
        opcode: WrOpcode::RdmaWrite,
        remote_addr: b.memory.as_ptr() as u64,
        rkey: b.mr.rkey(),
        ..SendRequest::default()
    };
    (0..64).for_each(|_| post(&a, &write, 8));
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        a.cq.poll(1, |cqe| panic!("{cqe:?}"));
        let refused = a.qp.sender().unwrap().stage(&write, std::iter::empty()).unwrap_err();
        let Rule::QueueFull { queue: Queue::Send, depth: 64, silent } = refused else {
            panic!("{refused:?}")
        };
        if silent == 64 {
            break;
        }
        assert!(Instant::now() < until, "{silent} are done");
    }
}

#[test]
fn sends_that_never_signal() {
    in_process("sends_that_never_signal", "", silent_sends);
}

#[test]
fn in_memory() {
    in_process("in_memory", "", everything);
}

#[test]
fn over_udp() {
    in_process("over_udp", "udp", everything);
}
