//! What can be wrong, as data.

use glassnic_events::{AsyncEventType, Check, FirstCause, Gid, KeyAccess, PathAttrs, QpState, Refusal};
use serde::Serialize;

use crate::model::{NicModel, NicState, Site};

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Something does not work.
    Error,
    /// It works by luck, or not for long.
    Warning,
    /// Worth a look.
    Hint,
}

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// It is so.
    Certain,
    /// All that can be seen says so.
    Likely,
    /// It may be meant so.
    Possible,
}

/// A process with a NIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Its pid.
    pub pid: u32,
    /// The name of its program.
    pub command: String,
    /// What became of it.
    pub state: NicState,
}

impl Process {
    pub(super) fn of(nic: &NicModel) -> Self {
        Self { pid: nic.pid, command: nic.command.clone(), state: nic.state }
    }
}

/// A QP of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// Whose it is.
    pub process: Process,
    /// Its number.
    pub qpn: u32,
    /// Its state.
    pub state: QpState,
}

/// Something wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its weight.
    pub severity: Severity,
    /// How sure it is.
    pub certainty: Certainty,
    /// The process that is to be changed.
    pub process: Process,
    /// The QP that it is about, where it is about one.
    pub qpn: Option<u32>,
    /// Other processes that it concerns.
    pub others: Vec<u32>,
    /// What it is.
    pub fault: Fault,
}

/// Objects that were made at one place in the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// `QP`, `MR`, …
    pub kind: &'static str,
    /// How many.
    pub count: usize,
    /// Frames of the program that created them, innermost first.
    pub site: Site,
}

/// What is wrong. The QP is that of the finding, unless said otherwise; times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The QP is in RESET or INIT, and its peer is ready, and perhaps sends.
    NotReady {
        /// Where it is.
        state: QpState,
        /// For how long.
        age_ns: u64,
        /// The end that is ready.
        peer: Who,
        /// Packets of the peer that nobody has acknowledged.
        unanswered: u32,
        /// Times that the peer waited for an acknowledgement in vain.
        timeouts: u32,
        /// What a modify to RTR needs to know of the peer: first PSN, path MTU, GID.
        psn: u32,
        /// In bytes.
        path_mtu: u32,
        /// The GID that the peer sends from.
        gid: Option<Gid>,
        /// The last modify of it that was refused.
        refused: Option<Refusal>,
    },
    /// It and a QP of another process are in INIT, and both for long.
    BothInInit {
        /// For how long it is.
        age_ns: u64,
        /// The other.
        other: Who,
        /// For how long the other is.
        other_age_ns: u64,
    },
    /// No QP has the number that it is connected to.
    PeerMissing {
        /// That number.
        dest_qpn: u32,
        /// At this GID, which is one of this host.
        dgid: Gid,
        /// The process that had the QP, and how long ago it destroyed it.
        destroyed: Option<(Process, u64)>,
        /// Packets that nobody has acknowledged.
        unanswered: u32,
    },
    /// The peer's process is gone.
    PeerGone {
        /// What is left of it.
        peer: Who,
    },
    /// The peer is connected to another QP.
    PeerElsewhere {
        /// The peer.
        peer: Who,
        /// The number that it is connected to.
        its_dest: u32,
    },
    /// The peer is of another type.
    TypeMismatch {
        /// Its type.
        qp_type: String,
        /// The peer.
        peer: Who,
        /// The peer's.
        peer_type: String,
    },
    /// It begins to send at another PSN than the peer expects.
    PsnMismatch {
        /// The peer.
        peer: Who,
        /// Where it begins.
        sq_psn: u32,
        /// What the peer expects.
        peer_rq_psn: u32,
    },
    /// Path MTUs differ; in bytes.
    MtuMismatch {
        /// The peer.
        peer: Who,
        /// Its own.
        path_mtu: u32,
        /// The peer's.
        peer_path_mtu: u32,
    },
    /// It may have more reads outstanding than the peer serves.
    RdAtomicMismatch {
        /// The peer.
        peer: Who,
        /// Its own.
        max_rd_atomic: u8,
        /// The peer's.
        max_dest_rd_atomic: u8,
    },
    /// It sends to another address than the peer has.
    GidMismatch {
        /// The peer.
        peer: Who,
        /// Where it sends to.
        dgid: Gid,
        /// The peer's.
        peer_gid: Gid,
    },
    /// Datagrams were thrown away because of their Q_Key.
    QkeyMismatch {
        /// The QP's Q_Key.
        qkey: u32,
        /// Packets thrown away, for this and other reasons.
        dropped: u32,
    },
    /// Its first error.
    Failed {
        /// What came first.
        cause: FirstCause,
        /// The state that it is in; `None` if it was destroyed.
        state: Option<QpState>,
        /// Where it was connected to.
        path: Option<PathAttrs>,
        /// The access that was turned down, at this end or at the peer.
        access: Option<KeyAccess>,
        /// The peer.
        peer: Option<Who>,
        /// The peer's first error, or the check behind its NAK.
        peer_check: Option<Check>,
        /// How long before the error the memory was deregistered that the access was to.
        deregistered_ns: Option<u64>,
    },
    /// Messages come in, and no receive is posted.
    NoReceive {
        /// The peer.
        peer: Option<Who>,
        /// For how long.
        since_ns: u64,
        /// Receives ever posted.
        posted: u32,
        /// The SRQ that they should come from.
        srq: Option<u32>,
        /// RNR NAKs sent.
        rnr_sent: u32,
        /// The service repeats them; else they are lost.
        reliable: bool,
    },
    /// The peer is not ready again and again, and the QP never gives up.
    RnrLoop {
        /// The GID of the peer.
        dgid: Gid,
        /// Its number.
        dest_qpn: u32,
        /// For how long.
        since_ns: u64,
        /// RNR NAKs that came in.
        received: u32,
        /// `rnr_retry`.
        rnr_retry: u8,
    },
    /// The send queue is full of finished requests that no completion gives back.
    QueueFull {
        /// Slots.
        depth: u32,
        /// Finished requests that wait for a signalled one.
        unsignalled: u32,
    },
    /// More can complete at once than a CQ holds.
    CqTooSmall {
        /// Its handle.
        cq: u32,
        /// More CQs of the same place, of which the same is true.
        alike: u32,
        /// What it holds.
        depth: u32,
        /// What can complete.
        worst: u32,
        /// QPs that report to it.
        qps: Vec<u32>,
        /// A completion found no room.
        overrun: bool,
        /// Where it was created.
        site: Site,
    },
    /// A thread sleeps for an event of a CQ that holds completions.
    AsleepOverCompletions {
        /// Its handle.
        cq: u32,
        /// Completions that it holds.
        waiting: u32,
        /// Those that it held when it was armed.
        armed_with: u32,
        /// `none`, `solicited` or `next`.
        armed: &'static str,
        /// The thread.
        thread: u32,
        /// For how long.
        asleep_ns: u64,
    },
    /// A destroy waits for acknowledgements.
    DestroyWaits {
        /// `CQ` or `QP`.
        kind: String,
        /// The object.
        handle: u32,
        /// Events taken and not acknowledged.
        events: u32,
        /// The thread that waits.
        thread: u32,
        /// For how long.
        since_ns: u64,
    },
    /// Asynchronous events say that something failed, and nobody reads them.
    AsyncUnread {
        /// How many wait.
        waiting: u32,
        /// For how long.
        since_ns: u64,
        /// Which, the oldest first, as far as the recorder has them.
        events: Vec<AsyncEventType>,
    },
    /// A forked child uses what its parent opened.
    ForkedUse {
        /// The child.
        child: u32,
        /// How often.
        times: u32,
    },
    /// Threads modify the QP at once.
    Overlaps {
        /// How often.
        times: u32,
        /// Two of them.
        threads: [u32; 2],
    },
    /// The QP was queried before the device had written its context back.
    EarlyQueries {
        /// How often.
        times: u32,
        /// How long the device takes.
        write_back_ns: u64,
    },
    /// Calls were refused.
    Refused {
        /// The last of them.
        refusal: Refusal,
        /// How many of the kind.
        times: usize,
        /// How long ago the last was.
        ago_ns: u64,
        /// Whether the QP is where it was ever since.
        stayed: bool,
    },
    /// There are almost as many as there may be.
    NearLimit {
        /// `QP`, `CQ`, …
        kind: &'static str,
        /// How many there are.
        held: usize,
        /// How many there may be.
        limit: usize,
        /// Where most of them were made.
        sites: Vec<Group>,
    },
    /// The process ended, or closed its NIC, and left these.
    LeftBehind {
        /// By site, most first.
        groups: Vec<Group>,
    },
    /// Many objects of one place in the program that nothing uses.
    Piled {
        /// Which.
        group: Group,
        /// Why they look leaked.
        pile: Pile,
        /// The age of the oldest.
        age_ns: u64,
    },
    /// One place in the program makes more and more objects, and destroys none.
    Growing {
        /// Which.
        group: Group,
        /// How many there were at the first look.
        before: usize,
        /// How long before the last that was.
        span_ns: u64,
    },
    /// QPs that have carried nothing yet.
    Idle {
        /// Their numbers.
        qpns: Vec<u32>,
        /// Their state.
        state: QpState,
        /// The age of the oldest.
        age_ns: u64,
        /// Where they were made.
        site: Site,
    },
}

/// Why objects look leaked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pile {
    /// QPs that never left RESET.
    NeverModified,
    /// Regions of the same memory.
    SameMemory {
        /// First address.
        addr: u64,
        /// Bytes.
        length: u64,
    },
    /// CQs that no QP reports to, PDs that nothing belongs to.
    Unused,
    /// Address handles of the same destination.
    SameDestination {
        /// It.
        dgid: Gid,
    },
}

impl Fault {
    /// The name of the rule that found it.
    #[must_use]
    pub const fn rule(&self) -> &'static str {
        match self {
            Self::NotReady { .. } => "peer_not_ready",
            Self::BothInInit { .. } => "both_in_init",
            Self::PeerMissing { .. } => "peer_missing",
            Self::PeerGone { .. } => "peer_gone",
            Self::PeerElsewhere { .. } => "qpn_mismatch",
            Self::TypeMismatch { .. } => "type_mismatch",
            Self::PsnMismatch { .. } => "psn_mismatch",
            Self::MtuMismatch { .. } => "mtu_mismatch",
            Self::RdAtomicMismatch { .. } => "rd_atomic_mismatch",
            Self::GidMismatch { .. } => "gid_mismatch",
            Self::QkeyMismatch { .. } => "qkey_mismatch",
            Self::Failed { access: Some(KeyAccess { region: Some(region), .. }), .. } if region.other_key => {
                "keys_mixed_up"
            }
            Self::Failed { deregistered_ns: Some(_), .. } => "memory_deregistered",
            Self::Failed { .. } => "first_error",
            Self::NoReceive { .. } => "no_receive",
            Self::RnrLoop { .. } => "rnr_loop",
            Self::QueueFull { .. } => "queue_full_unsignalled",
            Self::CqTooSmall { overrun: true, .. } => "cq_overrun",
            Self::CqTooSmall { .. } => "cq_too_small",
            Self::AsleepOverCompletions { .. } => "asleep_over_completions",
            Self::DestroyWaits { .. } => "destroy_waits",
            Self::AsyncUnread { .. } => "async_events_unread",
            Self::ForkedUse { .. } => "forked_child",
            Self::Overlaps { .. } => "concurrent_modify",
            Self::EarlyQueries { .. } => "early_query",
            Self::Refused { .. } => "refused",
            Self::NearLimit { .. } => "near_limit",
            Self::LeftBehind { .. } => "left_behind",
            Self::Piled { .. } => "leak",
            Self::Growing { .. } => "growth",
            Self::Idle { .. } => "idle_qp",
        }
    }
}
