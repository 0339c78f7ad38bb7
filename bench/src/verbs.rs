//! GlassNIC, through its safe API, as a verbs program would use it: reliable connections, polled completion queues.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use glassnic_verbs::attr::{AccessFlags, AddressVector, Mtu, QpAttr, QpCap};
use glassnic_verbs::events::{AttrMask, QpState, QpType, Refusal, Rule, WcOpcode, WcStatus, WrOpcode};
use glassnic_verbs::{
    Completion, Context, Cq, GID_TABLE_LEN, Mr, Pd, Qp, QpInit, SendFlags, SendRequest, Sge,
};
use serde::{Deserialize, Serialize};

use crate::pair::{Partner, Scale, tell};
use crate::stats::{LARGE, SMALL, bandwidth, latency};

/// Sends posted and not completed at most.
const WINDOW: u64 = 32;
/// Receives kept posted: as many as can be consumed while their completions are polled.
const RECEIVES: u64 = 4 * WINDOW;
/// Reads on their way at most: the device's limit.
const READS: u8 = 16;
/// Words that messages go to.
const DATA: usize = LARGE[1] / 8;
/// Word that a WRITE of a latency goes to.
const PING: usize = DATA;
/// Word that says which phase the first side has finished.
const PHASE: usize = DATA + 8;
/// All words.
const WORDS: usize = DATA + 16;

/// What an end tells the other.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Address {
    qpn: u32,
    gid: [u8; 16],
    memory: u64,
    rkey: u32,
}

/// A QP with its memory.
struct End {
    memory: Box<[AtomicU64]>,
    address: Address,
    /// The other end; our own until we are connected.
    peer: Address,
    sgid_index: u8,
    /// Sends of any kind: posted, completed.
    posted: u64,
    done: u64,
    /// Receives: posted, completed.
    receives: u64,
    received: u64,
    /// The first completion that was none: the others are flushed.
    failed: Option<Completion>,
    qp: Qp,
    mr: Mr,
    cq: Cq,
    _pd: Pd,
}

fn refused(refusal: Refusal) -> anyhow::Error {
    anyhow!("refused: {refusal:?}")
}

fn broken(rule: Rule) -> anyhow::Error {
    anyhow!("refused: {rule:?}")
}

fn open() -> Result<Context> {
    let device = glassnic_verbs::devices().into_iter().next();
    let problems =
        || glassnic_verbs::problems().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let device = device.with_context(|| format!("no device: {}", problems()))?;
    device.open().context("cannot open the device")
}

impl End {
    fn new(context: &Context) -> Result<Self> {
        let port = context.port();
        // IPv4, as UDP is measured over it.
        let is_v4 = |gid: &[u8; 16]| gid.starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
        let find = |i: u8| port.gid(i).filter(is_v4).map(|gid| (i, gid));
        let (sgid_index, gid) =
            (0..GID_TABLE_LEN).find_map(find).context("the loopback interface has no IPv4 address")?;
        let pd = context.alloc_pd().map_err(refused)?;
        let cq = context.create_cq((WINDOW + RECEIVES) as u32, None).map_err(refused)?;
        let memory: Box<[AtomicU64]> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        let (at, len) = (memory.as_ptr().expose_provenance() as u64, 8 * WORDS as u64);
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
        let mr = pd.reg_mr(at, len, at, access).map_err(refused)?;
        let cap = QpCap {
            max_send_wr: WINDOW as u32,
            max_recv_wr: RECEIVES as u32,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: SMALL as u32,
        };
        let init =
            QpInit { qp_type: QpType::Rc, send_cq: &cq, recv_cq: &cq, srq: None, cap, sq_sig_all: true };
        let qp = pd.create_qp(&init).map_err(refused)?;
        let address = Address { qpn: qp.qpn(), gid, memory: at, rkey: mr.rkey() };
        let (posted, done, receives, received, failed) = (0, 0, 0, 0, None);
        let peer = address;
        Ok(Self {
            memory,
            address,
            peer,
            sgid_index,
            posted,
            done,
            receives,
            received,
            failed,
            qp,
            mr,
            cq,
            _pd: pd,
        })
    }

    /// Takes the QP from RESET to RTS, and posts its receives.
    fn connect(&mut self, peer: Address) -> Result<()> {
        self.peer = peer;
        let access = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
        let init = QpAttr { qp_state: QpState::Init, port_num: 1, access, ..QpAttr::default() };
        let mask = AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::ACCESS_FLAGS;
        self.qp.modify(mask, &init).map_err(refused)?;
        let rtr = QpAttr {
            qp_state: QpState::Rtr,
            ah: AddressVector {
                is_global: true,
                sgid_index: self.sgid_index,
                dgid: peer.gid,
                port_num: 1,
                hop_limit: 64,
                ..AddressVector::default()
            },
            path_mtu: Mtu::M4096,
            dest_qp_num: peer.qpn,
            rq_psn: peer.qpn,
            max_dest_rd_atomic: READS,
            min_rnr_timer: 12,
            ..QpAttr::default()
        };
        let mask = AttrMask::STATE
            | AttrMask::AV
            | AttrMask::PATH_MTU
            | AttrMask::DEST_QPN
            | AttrMask::RQ_PSN
            | AttrMask::MAX_DEST_RD_ATOMIC
            | AttrMask::MIN_RNR_TIMER;
        self.qp.modify(mask, &rtr).map_err(refused)?;
        let rts = QpAttr {
            qp_state: QpState::Rts,
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            sq_psn: self.address.qpn,
            max_rd_atomic: READS,
            ..QpAttr::default()
        };
        let mask = AttrMask::STATE
            | AttrMask::TIMEOUT
            | AttrMask::RETRY_CNT
            | AttrMask::RNR_RETRY
            | AttrMask::SQ_PSN
            | AttrMask::MAX_QP_RD_ATOMIC;
        self.qp.modify(mask, &rts).map_err(refused)?;
        self.refill()
    }

    /// Keeps [`RECEIVES`] receives posted.
    fn refill(&mut self) -> Result<()> {
        while self.receives - self.received < RECEIVES {
            let sge = Sge { addr: self.address.memory, length: 8 * DATA as u32, lkey: self.mr.lkey() };
            self.qp.post_recv(0, std::iter::once(sge)).map_err(broken)?;
            self.receives += 1;
        }
        Ok(())
    }

    /// Takes what has completed.
    fn poll(&mut self) -> Result<()> {
        let (done, received, failed) = (&mut self.done, &mut self.received, &mut self.failed);
        self.cq.poll(WINDOW as u32, |cqe| match (cqe.completion.status, cqe.completion.opcode) {
            (WcStatus::Success, WcOpcode::Recv) => *received += 1,
            (WcStatus::Success, _) => *done += 1,
            _ => *failed = failed.or(Some(cqe.completion)),
        });
        match self.failed {
            None => Ok(()),
            Some(Completion { status, vendor_err, .. }) => {
                bail!("a work request completed with {status:?}, vendor error {vendor_err}")
            }
        }
    }

    /// Posts a request on the data words of both ends.
    fn post(&mut self, opcode: WrOpcode, size: usize) -> Result<()> {
        let req = self.request(opcode, 0);
        let sge = Sge { addr: self.address.memory, length: size as u32, lkey: self.mr.lkey() };
        {
            let mut sender = self.qp.sender().map_err(broken)?;
            sender.stage(&req, std::iter::once(sge)).map_err(broken)?;
            sender.commit();
        }
        self.posted += 1;
        self.qp.kick();
        Ok(())
    }

    /// Posts one word inline, a WRITE to `word` of the other end.
    fn post_word(&mut self, opcode: WrOpcode, word: usize, value: u64) -> Result<()> {
        while self.posted - self.done >= WINDOW {
            self.poll()?;
        }
        let req = self.request(opcode, word);
        {
            let mut sender = self.qp.sender().map_err(broken)?;
            let fill = |out: &mut [u8]| out.copy_from_slice(&value.to_ne_bytes());
            sender.stage_inline(&req, SMALL as u64, fill).map_err(broken)?;
            sender.commit();
        }
        self.posted += 1;
        self.qp.kick();
        Ok(())
    }

    fn request(&self, opcode: WrOpcode, word: usize) -> SendRequest {
        let remote_addr = self.peer.memory + 8 * word as u64;
        SendRequest {
            opcode,
            flags: SendFlags::SIGNALED,
            remote_addr,
            rkey: self.peer.rkey,
            ..Default::default()
        }
    }

    fn word(&self, word: usize) -> u64 {
        self.memory[word].load(Ordering::Acquire)
    }

    /// Sends the `trip`-th message of a ping-pong.
    fn ping(&mut self, way: Way, trip: u64) -> Result<()> {
        match way {
            Way::Send => self.post_word(WrOpcode::Send, 0, trip),
            Way::Write | Way::WriteMemoryOnly => {
                self.post_word(WrOpcode::RdmaWrite, PING, trip)?;
                if way == Way::WriteMemoryOnly {
                    self.drain()?;
                }
                Ok(())
            }
        }
    }

    /// Waits for the `trip`-th message of a ping-pong; `messages` have been received before it began.
    fn await_ping(&mut self, way: Way, trip: u64, messages: u64) -> Result<()> {
        match way {
            Way::Send => {
                while self.received < messages + trip {
                    self.poll()?;
                }
                self.refill()?;
            }
            Way::Write => {
                while self.word(PING) != trip {
                    self.poll()?;
                }
            }
            Way::WriteMemoryOnly => {
                while self.word(PING) != trip {
                    std::hint::spin_loop();
                }
            }
        }
        Ok(())
    }

    /// Waits for the completions of all that was posted.
    fn drain(&mut self) -> Result<()> {
        while self.done < self.posted {
            self.poll()?;
        }
        Ok(())
    }
}

/// How the messages of a ping-pong go and are waited for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    /// SEND; the receive's completion is polled.
    Send,
    /// WRITE; memory is polled, and the CQ too.
    Write,
    /// WRITE; only memory is polled.
    WriteMemoryOnly,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Send => "SEND",
            Self::Write => "WRITE",
            Self::WriteMemoryOnly => "WRITE, memory only",
        }
    }
}

/// The operations whose bandwidth is measured.
const OPERATIONS: [(WrOpcode, &str); 3] =
    [(WrOpcode::Send, "SEND"), (WrOpcode::RdmaWrite, "WRITE"), (WrOpcode::RdmaRead, "READ")];

/// The measuring end, and the other one where it lives in this process.
struct First {
    end: End,
    other: Option<End>,
}

impl First {
    /// Takes what has completed, at the other end too.
    fn poll(&mut self) -> Result<()> {
        self.end.poll()?;
        if let Some(other) = &mut self.other {
            other.poll()?;
            other.refill()?;
        }
        Ok(())
    }

    fn ping_pong(&mut self, way: Way, trips: impl Iterator<Item = bool>) -> Result<()> {
        let before = self.end.received;
        let before_other = self.other.as_ref().map_or(0, |other| other.received);
        let mut samples = Vec::new();
        for (trip, counts) in (1..).zip(trips) {
            let start = Instant::now();
            self.end.ping(way, trip)?;
            if let Some(other) = &mut self.other {
                other.await_ping(way, trip, before_other)?;
                other.ping(way, trip)?;
            }
            self.end.await_ping(way, trip, before)?;
            if counts {
                samples.push(start.elapsed());
            }
        }
        self.drain()?;
        tell(&latency(way.name(), &mut samples, 2))
    }

    fn drain(&mut self) -> Result<()> {
        while self.end.done < self.end.posted {
            self.poll()?;
        }
        Ok(())
    }

    fn read_latency(&mut self, scale: Scale) -> Result<()> {
        let mut samples = Vec::new();
        for counts in scale.trips() {
            let start = Instant::now();
            self.end.post(WrOpcode::RdmaRead, SMALL)?;
            self.drain()?;
            if counts {
                samples.push(start.elapsed());
            }
        }
        // A whole round trip is one READ.
        tell(&latency("READ", &mut samples, 1))
    }

    /// One round of a bandwidth: from the first post to the last completion.
    fn stream(&mut self, opcode: WrOpcode, size: usize, count: usize) -> Result<Duration> {
        let window = if opcode == WrOpcode::RdmaRead { READS.into() } else { WINDOW };
        let start = Instant::now();
        for _ in 0..count {
            while self.end.posted - self.end.done >= window {
                self.poll()?;
            }
            self.end.post(opcode, size)?;
        }
        self.drain()?;
        Ok(start.elapsed())
    }
}

/// Both ends in this process and thread.
pub(crate) fn alone(scale: Scale) -> Result<()> {
    let context = open()?;
    let (mut a, mut b) = (End::new(&context)?, End::new(&context)?);
    a.connect(b.address)?;
    b.connect(a.address)?;
    let mut first = First { end: a, other: Some(b) };
    first.ping_pong(Way::Send, scale.trips())?;
    first.ping_pong(Way::Write, scale.trips())?;
    first.read_latency(scale)?;
    for (opcode, name) in OPERATIONS {
        for size in LARGE {
            let count = scale.messages(size);
            let rounds =
                scale.rounds().map(|_| first.stream(opcode, size, count)).collect::<Result<Vec<_>>>()?;
            tell(&bandwidth(name, size, &rounds, count * size))?;
        }
    }
    Ok(())
}

/// Round trips where only memory is polled: each may take a nap of the background thread. They are fewer than those
/// of the ping-pong before, whose last number still stands in memory.
fn slow_trips(scale: Scale) -> impl Iterator<Item = bool> {
    let warm_up = scale.of(20);
    (0..scale.of(200) + warm_up).map(move |trip| trip >= warm_up)
}

/// One end in each of two processes.
pub(crate) fn pair(partner: &mut Partner, scale: Scale) -> Result<()> {
    let context = open()?;
    let mut end = End::new(&context)?;
    let theirs = partner.exchange(&end.address)?;
    end.connect(theirs)?;
    partner.meet()?;
    if partner.first { first(end, partner, scale) } else { second(end, partner, scale) }
}

fn first(end: End, partner: &mut Partner, scale: Scale) -> Result<()> {
    let mut first = First { end, other: None };
    first.ping_pong(Way::Send, scale.trips())?;
    partner.meet()?;
    first.ping_pong(Way::Write, scale.trips())?;
    partner.meet()?;
    first.read_latency(scale)?;
    let mut phase = 0;
    let mut next_phase = |first: &mut First| {
        phase += 1;
        first.end.post_word(WrOpcode::RdmaWrite, PHASE, phase)?;
        first.drain()
    };
    next_phase(&mut first)?;
    for (opcode, name) in OPERATIONS {
        for size in LARGE {
            let count = scale.messages(size);
            let mut rounds = Vec::new();
            for _ in scale.rounds() {
                partner.meet()?;
                rounds.push(first.stream(opcode, size, count)?);
                next_phase(&mut first)?;
            }
            tell(&bandwidth(name, size, &rounds, count * size))?;
        }
    }
    partner.meet()?;
    first.ping_pong(Way::WriteMemoryOnly, slow_trips(scale))?;
    partner.meet()
}

fn second(mut end: End, partner: &mut Partner, scale: Scale) -> Result<()> {
    answer(&mut end, Way::Send, scale.trips())?;
    partner.meet()?;
    answer(&mut end, Way::Write, scale.trips())?;
    partner.meet()?;
    serve(&mut end, 1)?;
    let phases = OPERATIONS.len() * LARGE.len() * scale.rounds().len();
    for phase in 2..2 + phases as u64 {
        partner.meet()?;
        serve(&mut end, phase)?;
    }
    partner.meet()?;
    answer(&mut end, Way::WriteMemoryOnly, slow_trips(scale))?;
    partner.meet()
}

/// Answers the messages of a ping-pong.
fn answer(end: &mut End, way: Way, trips: impl Iterator<Item = bool>) -> Result<()> {
    let before = end.received;
    for (trip, _) in (1..).zip(trips) {
        end.await_ping(way, trip, before)?;
        end.ping(way, trip)?;
    }
    end.drain()
}

/// Polls and posts receives until the first side says that a phase is over.
fn serve(end: &mut End, phase: u64) -> Result<()> {
    while end.word(PHASE) != phase {
        end.poll()?;
        end.refill()?;
    }
    Ok(())
}
