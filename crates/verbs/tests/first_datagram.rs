//! A process that only polls hears the first datagram that comes to it, whatever it has used before.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use glassnic_verbs::attr::{AccessFlags, AddressVector, Mtu, QpAttr, QpCap};
use glassnic_verbs::events::{AttrMask, QpState, QpType, WcStatus};
use glassnic_verbs::{Context, Cq, Mr, Pd, Qp, QpInit, SendRequest, Sge};

const INNER: &str = "GLASSNIC_TEST_INNER";

struct End {
    memory: Box<[u8]>,
    gid: [u8; 16],
    qp: Qp,
    mr: Mr,
    cq: Cq,
    _pd: Pd,
}

fn end(context: &Context) -> End {
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(16, None).unwrap();
    let memory = vec![0u8; 64].into_boxed_slice();
    let at = memory.as_ptr() as u64;
    let mr = pd.reg_mr(at, 64, at, AccessFlags::LOCAL_WRITE).unwrap();
    let cap = QpCap { max_send_wr: 4, max_recv_wr: 4, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 0 };
    let init = QpInit { qp_type: QpType::Rc, send_cq: &cq, recv_cq: &cq, srq: None, cap, sq_sig_all: true };
    let qp = pd.create_qp(&init).unwrap();
    let gid = context.port().gid(0).expect("a GID");
    End { memory, gid, qp, mr, cq, _pd: pd }
}

impl End {
    fn connect(&self, peer: u32) {
        let init = QpAttr { qp_state: QpState::Init, port_num: 1, ..QpAttr::default() };
        let m = AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::ACCESS_FLAGS;
        self.qp.modify(m, &init).unwrap();
        let rtr = QpAttr {
            qp_state: QpState::Rtr,
            ah: AddressVector {
                is_global: true,
                dgid: self.gid,
                port_num: 1,
                hop_limit: 64,
                ..AddressVector::default()
            },
            path_mtu: Mtu::M1024,
            dest_qp_num: peer,
            rq_psn: 5,
            max_dest_rd_atomic: 1,
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
        self.qp.modify(m, &rtr).unwrap();
        // No retries: a datagram that is not heard is a failure.
        let rts = QpAttr { qp_state: QpState::Rts, timeout: 18, sq_psn: 5, ..QpAttr::default() };
        let m = AttrMask::STATE
            | AttrMask::TIMEOUT
            | AttrMask::RETRY_CNT
            | AttrMask::RNR_RETRY
            | AttrMask::SQ_PSN
            | AttrMask::MAX_QP_RD_ATOMIC;
        self.qp.modify(m, &rts).unwrap();
    }

    fn sge(&self) -> Sge {
        Sge { addr: self.memory.as_ptr() as u64, length: 64, lkey: self.mr.lkey() }
    }

    /// Polls, without a pause, until something has completed.
    fn wait(&self) -> WcStatus {
        let until = Instant::now() + Duration::from_secs(20);
        let mut status = None;
        while status.is_none() {
            self.cq.poll(1, |cqe| status = Some(cqe.completion.status));
            assert!(Instant::now() < until, "no completion");
        }
        status.unwrap()
    }
}

fn say(value: u32) {
    println!("\nsaid {value}");
    std::io::stdout().flush().unwrap();
}

fn hear(from: &mut impl BufRead) -> u32 {
    let mut lines = from.lines().map(|line| line.unwrap());
    lines.find_map(|line| line.strip_prefix("said ").map(|value| value.parse().unwrap())).expect("a value")
}

/// The listener: polls for a while with nothing to hear, says so, and polls on.
#[test]
fn listener() {
    if std::env::var_os(INNER).is_none() {
        return;
    }
    let context = glassnic_verbs::devices().pop().expect("a device").open().unwrap();
    let end = end(&context);
    say(end.qp.qpn());
    end.connect(hear(&mut std::io::stdin().lock()));
    end.qp.post_recv(1, std::iter::once(end.sge())).unwrap();
    let until = Instant::now() + Duration::from_millis(100);
    while Instant::now() < until {
        assert_eq!(end.cq.poll(1, |_| ()), 0);
    }
    say(0);
    assert_eq!(end.wait(), WcStatus::Success);
    // Long enough for the acknowledgement.
    std::thread::sleep(Duration::from_millis(200));
}

/// The environment is read once in a process's life: the sender is a process of its own too.
#[test]
fn sender() {
    if std::env::var_os(INNER).is_none() {
        return;
    }
    let context = glassnic_verbs::devices().pop().expect("a device").open().unwrap();
    let end = end(&context);
    say(end.qp.qpn());
    let mut stdin = std::io::stdin().lock();
    end.connect(hear(&mut stdin));
    say(0);
    hear(&mut stdin);
    {
        let mut sender = end.qp.sender().unwrap();
        sender.stage(&SendRequest::default(), std::iter::once(end.sge())).unwrap();
        sender.commit();
    }
    end.qp.kick();
    assert_eq!(end.wait(), WcStatus::Success);
}

#[test]
fn one_that_only_polls_hears_it() {
    if std::env::var_os(INNER).is_some() {
        return;
    }
    let start = |name: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--nocapture"]).env(INNER, "1").env("GLASSNIC_DEVICES", "glass0=lo");
        command.env("GLASSNIC_LINK", "udp").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let stdin = child.stdin.take().unwrap();
        (child, stdin, stdout)
    };
    let (mut listener, mut to_listener, mut from_listener) = start("listener");
    let (mut sender, mut to_sender, mut from_sender) = start("sender");
    let (a, b) = (hear(&mut from_listener), hear(&mut from_sender));
    writeln!(to_sender, "said {a}").unwrap();
    assert_eq!(hear(&mut from_sender), 0, "connected");
    writeln!(to_listener, "said {b}").unwrap();
    assert_eq!(hear(&mut from_listener), 0, "polling");
    writeln!(to_sender, "said 0").unwrap();
    assert!(sender.wait().unwrap().success(), "the datagram was not heard");
    assert!(listener.wait().unwrap().success());
}
