//! Queue pair states, types, transitions between states, and the attribute mask of `ibv_modify_qp(3)`.

use core::fmt;

named_enum! {
    /// State of a queue pair. Numbers of `enum ibv_qp_state`; IBA volume 1, section 10.3.1.
    pub enum QpState {
        /// Newly created or reset: nothing may be posted, packets are dropped.
        Reset = 0 "RESET",
        /// Port and access are known: receives may be posted, packets are still dropped.
        Init = 1 "INIT",
        /// Ready to receive: the peer is known and requests are answered.
        Rtr = 2 "RTR",
        /// Ready to send.
        Rts = 3 "RTS",
        /// The send queue drains: no new send is started.
        Sqd = 4 "SQD",
        /// The send queue stopped at an error; receiving goes on. Only for UC, UD and the like.
        Sqe = 5 "SQE",
        /// Everything is flushed with an error.
        Err = 6 "ERR",
    }
}

/// A queue pair begins in RESET.
impl Default for QpState {
    fn default() -> Self {
        Self::Reset
    }
}

impl QpState {
    /// Number of states.
    pub const COUNT: usize = Self::ALL.len();

    /// Position in tables that are indexed by state.
    pub const fn index(self) -> usize {
        self as usize
    }
}

named_enum! {
    /// Transport service of a queue pair. Numbers of `enum ibv_qp_type`, and of the kernel's `enum ib_qp_type`
    /// for the two that user programs cannot create.
    pub enum QpType {
        /// Subnet management (QP 0). Only present so that the tables are whole.
        Smi = 0 "SMI",
        /// General services (QP 1): connection management datagrams.
        Gsi = 1 "GSI",
        /// Reliable connected.
        Rc = 2 "RC",
        /// Unreliable connected.
        Uc = 3 "UC",
        /// Unreliable datagram.
        Ud = 4 "UD",
        /// Whole Ethernet frames.
        RawPacket = 8 "RAW_PACKET",
        /// Initiator half of extended reliable connected.
        XrcSend = 9 "XRC_SEND",
        /// Target half of extended reliable connected.
        XrcRecv = 10 "XRC_RECV",
    }
}

impl QpType {
    /// Number of types.
    pub const COUNT: usize = Self::ALL.len();

    /// Position in tables that are indexed by type (the C numbers have holes).
    pub const fn index(self) -> usize {
        match self {
            Self::Smi => 0,
            Self::Gsi => 1,
            Self::Rc => 2,
            Self::Uc => 3,
            Self::Ud => 4,
            Self::RawPacket => 5,
            Self::XrcSend => 6,
            Self::XrcRecv => 7,
        }
    }

    /// True for the services that have one fixed peer (RC, UC, both halves of XRC).
    pub const fn is_connected(self) -> bool {
        matches!(self, Self::Rc | Self::Uc | Self::XrcSend | Self::XrcRecv)
    }
}

bitflags::bitflags! {
    /// Which attributes a call to `ibv_modify_qp(3)` means. Bits of `enum ibv_qp_attr_mask`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct AttrMask: u32 {
        /// `qp_state`
        const STATE = 1 << 0;
        /// `cur_qp_state`
        const CUR_STATE = 1 << 1;
        /// `en_sqd_async_notify`
        const EN_SQD_ASYNC_NOTIFY = 1 << 2;
        /// `qp_access_flags`
        const ACCESS_FLAGS = 1 << 3;
        /// `pkey_index`
        const PKEY_INDEX = 1 << 4;
        /// `port_num`
        const PORT = 1 << 5;
        /// `qkey`
        const QKEY = 1 << 6;
        /// `ah_attr`
        const AV = 1 << 7;
        /// `path_mtu`
        const PATH_MTU = 1 << 8;
        /// `timeout`
        const TIMEOUT = 1 << 9;
        /// `retry_cnt`
        const RETRY_CNT = 1 << 10;
        /// `rnr_retry`
        const RNR_RETRY = 1 << 11;
        /// `rq_psn`
        const RQ_PSN = 1 << 12;
        /// `max_rd_atomic`
        const MAX_QP_RD_ATOMIC = 1 << 13;
        /// `alt_ah_attr`, `alt_pkey_index`, `alt_port_num`, `alt_timeout`
        const ALT_PATH = 1 << 14;
        /// `min_rnr_timer`
        const MIN_RNR_TIMER = 1 << 15;
        /// `sq_psn`
        const SQ_PSN = 1 << 16;
        /// `max_dest_rd_atomic`
        const MAX_DEST_RD_ATOMIC = 1 << 17;
        /// `path_mig_state`
        const PATH_MIG_STATE = 1 << 18;
        /// `cap`
        const CAP = 1 << 19;
        /// `dest_qp_num`
        const DEST_QPN = 1 << 20;
        /// `rate_limit`
        const RATE_LIMIT = 1 << 25;
    }
}

/// Writes the C names, joined by `|`, as they would stand in a program: `IBV_QP_STATE|IBV_QP_AV`.
impl fmt::Display for AttrMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("0");
        }
        let mut rest = self.bits();
        let mut separator = "";
        for (name, bit) in self.iter_names() {
            write!(f, "{separator}IBV_QP_{name}")?;
            separator = "|";
            rest &= !bit.bits();
        }
        if rest != 0 {
            write!(f, "{separator}{rest:#x}")?;
        }
        Ok(())
    }
}

/// A set of queue pair states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StateSet(u8);

impl StateSet {
    /// The states in which receives may be posted (IBA C10-20 and the `ibv_post_recv(3)` of Linux).
    pub const MAY_POST_RECV: Self =
        Self::of(&[QpState::Init, QpState::Rtr, QpState::Rts, QpState::Sqd, QpState::Sqe, QpState::Err]);
    /// The states in which sends may be posted; in SQD they wait, in SQE and ERR they are flushed.
    pub const MAY_POST_SEND: Self = Self::of(&[QpState::Rts, QpState::Sqd, QpState::Sqe, QpState::Err]);

    /// The set of these states.
    pub const fn of(states: &[QpState]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < states.len() {
            bits |= 1 << states[i] as u8;
            i += 1;
        }
        Self(bits)
    }

    /// The set whose bit *n* means the state with number *n*; unknown bits are dropped.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 0x7f)
    }

    /// One bit a state, bit *n* for the state with number *n*.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Is this state in the set?
    pub const fn contains(self, state: QpState) -> bool {
        self.0 & (1 << state as u8) != 0
    }

    /// Is no state in the set?
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The same set with one state more.
    #[must_use]
    pub const fn with(self, state: QpState) -> Self {
        Self(self.0 | 1 << state as u8)
    }

    /// The members in the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = QpState> {
        QpState::ALL.iter().copied().filter(move |state| self.contains(*state))
    }
}

/// Writes `INIT, RTR or RTS`.
impl fmt::Display for StateSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_list(f, self.iter().count(), self.iter())
    }
}

/// A move of a queue pair of a type from one state to another (or to the same).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transition {
    /// The type of the queue pair: it decides which attributes belong to the move.
    pub qp_type: QpType,
    /// The state it is in.
    pub from: QpState,
    /// The state asked for.
    pub to: QpState,
}

/// Writes `RESET→INIT`.
impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}→{}", self.from, self.to)
    }
}

/// A set of (from, to) pairs of states, for queue pairs of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TransitionSet(u64);

impl TransitionSet {
    const USED: u64 = (1 << (QpState::COUNT * QpState::COUNT)) - 1;

    const fn bit(from: QpState, to: QpState) -> u64 {
        1 << (from.index() * QpState::COUNT + to.index())
    }

    /// The set with bit `from * 7 + to` for each pair; unknown bits are dropped.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits & Self::USED)
    }

    /// One bit a pair: bit `from * 7 + to`.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Is the pair in the set?
    pub const fn contains(self, from: QpState, to: QpState) -> bool {
        self.0 & Self::bit(from, to) != 0
    }

    /// The same set with one pair more.
    #[must_use]
    pub const fn with(self, from: QpState, to: QpState) -> Self {
        Self(self.0 | Self::bit(from, to))
    }

    /// Is no pair in the set?
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The pairs, by `from` and then by `to`.
    pub fn iter(self) -> impl Iterator<Item = (QpState, QpState)> {
        QpState::ALL
            .iter()
            .flat_map(|from| QpState::ALL.iter().map(move |to| (*from, *to)))
            .filter(move |(from, to)| self.contains(*from, *to))
    }
}

/// Writes `RTR→RTS, RTS→RTS or SQD→RTS`.
impl fmt::Display for TransitionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrows = self.iter().map(|(from, to)| Transition { qp_type: QpType::Rc, from, to });
        write_list(f, self.iter().count(), arrows)
    }
}

/// `a, b or c`; `none` for an empty list.
pub(crate) fn write_list<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    count: usize,
    items: impl Iterator<Item = T>,
) -> fmt::Result {
    if count == 0 {
        return f.write_str("none");
    }
    for (i, item) in items.enumerate() {
        match i {
            0 => write!(f, "{item}")?,
            _ if i + 1 == count => write!(f, " or {item}")?,
            _ => write!(f, ", {item}")?,
        }
    }
    Ok(())
}
