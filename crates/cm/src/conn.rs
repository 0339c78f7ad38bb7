//! A connection: what is known of it, and what is sent again.

use glassnic_wire::cm::{Message, ServiceId};

use crate::timing;

/// Our number of a connection or question: the local communication id of its messages.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ConnId(pub u32);

/// Where a connection is (IBA §12.9.6).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// We asked; no answer so far.
    ReqSent,
    /// We asked, and were asked to wait.
    ReqWaits,
    /// The other side asked; the program is to answer.
    ReqReceived,
    /// We accepted; the other side is not ready yet.
    RepSent,
    /// The other side accepted; the program is to establish.
    RepReceived,
    /// Both are ready.
    Established,
    /// We asked to end it.
    DreqSent,
    /// The other side asked to end it; the program is to agree.
    DreqReceived,
    /// It is over, but packets may be on their way.
    TimeWait,
    /// We asked for a QP.
    SidrSent,
    /// The other side asked for a QP; the program is to answer.
    SidrReceived,
    /// We answered that; the answer may be asked for again.
    SidrAnswered,
    /// It is over, and nothing is left to be done.
    Over,
}

/// The way between the two ports.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Path {
    /// Our port.
    pub sgid: [u8; 16],
    /// The other.
    pub dgid: [u8; 16],
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Service level, 4 bits.
    pub sl: u8,
    /// Static rate, as `enum ibv_rate` numbers it.
    pub rate: u8,
    /// Path MTU, as `enum ibv_mtu` numbers it.
    pub mtu: u8,
}

/// What the two sides agree on: from our QP's point of view.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Terms {
    /// Our QP.
    pub qpn: u32,
    /// The first PSN that we send.
    pub psn: u32,
    /// The other QP.
    pub dest_qpn: u32,
    /// The first PSN that it sends.
    pub dest_psn: u32,
    /// UC instead of RC.
    pub unreliable: bool,
    /// Reads and atomics that we have on their way at a time.
    pub initiator_depth: u8,
    /// Reads and atomics that we take at a time.
    pub responder_resources: u8,
    /// `retry_cnt` of our QP.
    pub retry_count: u8,
    /// `rnr_retry` of our QP.
    pub rnr_retry_count: u8,
    /// `timeout` of our QP.
    pub ack_timeout: u8,
    /// The other side takes its receives from an SRQ.
    pub srq: bool,
    /// The other side has end-to-end flow control.
    pub flow_control: bool,
}

/// What is sent again, and when.
#[derive(Clone, Debug)]
pub(crate) struct Again {
    /// When, monotonic ns.
    pub at: u64,
    /// The wait that ends then.
    pub delay: u64,
    /// How often it was sent.
    pub tries: u8,
    /// When it was sent first.
    pub since: u64,
}

impl Again {
    pub(crate) fn first(now: u64) -> Self {
        let delay = timing::FIRST_DELAY_NS;
        Self { at: now.saturating_add(delay), delay, tries: 1, since: now }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Conn {
    /// Who gets its events; 0 for nobody any more.
    pub token: u64,
    pub state: State,
    /// We asked for it.
    pub active: bool,
    /// The other side's number of it.
    pub remote: Option<u32>,
    /// The exchange's number.
    pub tid: u64,
    /// Where messages go, and whence they must come: our port, the other.
    pub ports: ([u8; 16], [u8; 16]),
    pub path: Path,
    pub service: ServiceId,
    pub terms: Terms,
    /// GUID of the other device.
    pub remote_guid: u64,
    /// What was said last, to be said again when a timer or a duplicate asks for it.
    pub said: Option<Box<Message>>,
    /// The timer of that, or of TIMEWAIT.
    pub again: Option<Again>,
    /// The listener that it came through, until the program has taken the event.
    pub waits_at: Option<u64>,
}
