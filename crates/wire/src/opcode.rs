//! The one table of opcodes: what each says about its packet.
//!
//! Parser, builder, responder checks and printer read this table, so that none of them can disagree with
//! another. An opcode is 3 bits of service and 5 bits of operation (IBA §9.2.1, table 38 and annexes A14 for
//! XRC, A17 for RoCEv2 and CNP, A19 for FLUSH and ATOMIC WRITE); the constants are named as in Linux's `ib_pack.h`.

use core::fmt;

/// The opcode byte of the BTH; any byte, known or not.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Opcode(pub u8);

/// The transport service that an opcode belongs to.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Extended reliable connection.
    Xrc,
    /// Congestion notification, between any two RoCEv2 queue pairs.
    Cnp,
}

impl Service {
    const COUNT: usize = 5;

    /// The service's short name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rc => "RC",
            Self::Uc => "UC",
            Self::Ud => "UD",
            Self::Xrc => "XRC",
            Self::Cnp => "CNP",
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a packet is part of. Immediate data and invalidation are headers of it, see [`HeaderSet`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// SEND, with or without immediate data or an R_Key to invalidate.
    Send,
    /// RDMA WRITE, with or without immediate data.
    Write,
    /// RDMA READ request.
    ReadRequest,
    /// RDMA READ response.
    ReadResponse,
    /// Acknowledge: ACK, RNR NAK or NAK, by its syndrome.
    Ack,
    /// Acknowledge of an atomic operation, with the original value.
    AtomicAck,
    /// Compare and swap of 8 bytes.
    CmpSwap,
    /// Fetch and add of 8 bytes.
    FetchAdd,
    /// FLUSH: make earlier writes visible or persistent.
    Flush,
    /// ATOMIC WRITE of 8 bytes.
    AtomicWrite,
    /// Congestion notification.
    Cnp,
}

impl Kind {
    const COUNT: usize = 11;

    const fn has_payload(self) -> bool {
        matches!(self, Self::Send | Self::Write | Self::ReadResponse | Self::AtomicWrite | Self::Cnp)
    }

    const fn is_request(self) -> bool {
        !matches!(self, Self::ReadResponse | Self::Ack | Self::AtomicAck | Self::Cnp)
    }
}

/// Where a packet stands in its message.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Position {
    /// The first of several.
    First,
    /// Neither first nor last.
    Middle,
    /// The last of several.
    Last,
    /// The whole message.
    Only,
}

impl Position {
    const COUNT: usize = 4;

    /// Whether a message begins with this packet.
    pub const fn starts(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// Whether a message ends with this packet.
    pub const fn ends(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }
}

bitflags::bitflags! {
    /// The extension headers that follow the BTH. Bit order is the order on the wire.
    #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
    pub struct HeaderSet: u16 {
        /// Datagram: Q_Key and source QP (8 bytes).
        const DETH = 1 << 0;
        /// XRC: the shared receive queue (4 bytes).
        const XRCETH = 1 << 1;
        /// FLUSH: placement type and selectivity (4 bytes).
        const FETH = 1 << 2;
        /// RDMA: address, R_Key, length (16 bytes).
        const RETH = 1 << 3;
        /// Atomic operands (28 bytes).
        const ATOMIC_ETH = 1 << 4;
        /// Acknowledge: syndrome and MSN (4 bytes).
        const AETH = 1 << 5;
        /// The original value of an atomic operation (8 bytes).
        const ATOMIC_ACK_ETH = 1 << 6;
        /// Immediate data (4 bytes).
        const IMMDT = 1 << 7;
        /// Invalidate: an R_Key (4 bytes).
        const IETH = 1 << 8;
    }
}

impl HeaderSet {
    /// Bytes that these headers take on the wire, without the BTH.
    pub const fn wire_len(self) -> usize {
        const LENS: [usize; 9] = [8, 4, 4, 16, 28, 4, 8, 4, 4];
        let (mut len, mut bit) = (0, 0);
        while bit < LENS.len() {
            if self.bits() & (1 << bit) != 0 {
                len += LENS[bit];
            }
            bit += 1;
        }
        len
    }
}

/// What an opcode says about its packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OpcodeInfo {
    /// The opcode itself.
    pub opcode: Opcode,
    /// Its name without the service: `SEND_ONLY`.
    pub name: &'static str,
    /// The transport service.
    pub service: Service,
    /// The operation.
    pub kind: Kind,
    /// Where the packet stands in its message.
    pub position: Position,
    /// The headers after the BTH.
    pub headers: HeaderSet,
    /// Bytes of BTH and the headers after it.
    pub headers_len: u8,
    /// Whether payload may follow the headers.
    pub payload: bool,
    /// Whether a requester sends it (a responder's answers and CNP are the others).
    pub is_request: bool,
    /// Whether the responder takes a receive from its queue at this packet: SEND FIRST and ONLY, and the end of a
    /// WRITE with immediate data.
    pub consumes_receive: bool,
    /// Whether the receive taken completes with this packet: the end of a SEND, and of a WRITE with immediate data.
    pub completes_receive: bool,
}

impl OpcodeInfo {
    const fn new(
        opcode: Opcode,
        name: &'static str,
        service: Service,
        kind: Kind,
        position: Position,
        headers: HeaderSet,
    ) -> Self {
        let write_imm = matches!(kind, Kind::Write) && headers.contains(HeaderSet::IMMDT);
        let send = matches!(kind, Kind::Send);
        Self {
            opcode,
            name,
            service,
            kind,
            position,
            headers,
            headers_len: (crate::headers::BTH_LEN + headers.wire_len()) as u8,
            payload: kind.has_payload(),
            is_request: kind.is_request(),
            consumes_receive: write_imm || (send && position.starts()),
            completes_receive: write_imm || (send && position.ends()),
        }
    }

    /// Whether the packet carries immediate data.
    pub const fn has_imm(&self) -> bool {
        self.headers.contains(HeaderSet::IMMDT)
    }
}

macro_rules! opcodes {
    ($($id:ident = $value:literal, $service:ident $name:literal, $kind:ident $position:ident $(, $header:ident)*;)*) => {
        impl Opcode {
            $(
                #[doc = concat!(stringify!($service), " ", $name, ", ", stringify!($value), ".")]
                pub const $id: Self = Self($value);
            )*
        }

        /// Every opcode, in the order of their numbers.
        pub const OPCODES: &[OpcodeInfo] = &[$(
            OpcodeInfo::new(
                Opcode::$id, $name, Service::$service, Kind::$kind, Position::$position,
                HeaderSet::empty()$(.union(HeaderSet::$header))*,
            ),
        )*];
    };
}

opcodes! {
    RC_SEND_FIRST = 0x00, Rc "SEND_FIRST", Send First;
    RC_SEND_MIDDLE = 0x01, Rc "SEND_MIDDLE", Send Middle;
    RC_SEND_LAST = 0x02, Rc "SEND_LAST", Send Last;
    RC_SEND_LAST_WITH_IMMEDIATE = 0x03, Rc "SEND_LAST_WITH_IMMEDIATE", Send Last, IMMDT;
    RC_SEND_ONLY = 0x04, Rc "SEND_ONLY", Send Only;
    RC_SEND_ONLY_WITH_IMMEDIATE = 0x05, Rc "SEND_ONLY_WITH_IMMEDIATE", Send Only, IMMDT;
    RC_RDMA_WRITE_FIRST = 0x06, Rc "RDMA_WRITE_FIRST", Write First, RETH;
    RC_RDMA_WRITE_MIDDLE = 0x07, Rc "RDMA_WRITE_MIDDLE", Write Middle;
    RC_RDMA_WRITE_LAST = 0x08, Rc "RDMA_WRITE_LAST", Write Last;
    RC_RDMA_WRITE_LAST_WITH_IMMEDIATE = 0x09, Rc "RDMA_WRITE_LAST_WITH_IMMEDIATE", Write Last, IMMDT;
    RC_RDMA_WRITE_ONLY = 0x0a, Rc "RDMA_WRITE_ONLY", Write Only, RETH;
    RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE = 0x0b, Rc "RDMA_WRITE_ONLY_WITH_IMMEDIATE", Write Only, RETH, IMMDT;
    RC_RDMA_READ_REQUEST = 0x0c, Rc "RDMA_READ_REQUEST", ReadRequest Only, RETH;
    RC_RDMA_READ_RESPONSE_FIRST = 0x0d, Rc "RDMA_READ_RESPONSE_FIRST", ReadResponse First, AETH;
    RC_RDMA_READ_RESPONSE_MIDDLE = 0x0e, Rc "RDMA_READ_RESPONSE_MIDDLE", ReadResponse Middle;
    RC_RDMA_READ_RESPONSE_LAST = 0x0f, Rc "RDMA_READ_RESPONSE_LAST", ReadResponse Last, AETH;
    RC_RDMA_READ_RESPONSE_ONLY = 0x10, Rc "RDMA_READ_RESPONSE_ONLY", ReadResponse Only, AETH;
    RC_ACKNOWLEDGE = 0x11, Rc "ACKNOWLEDGE", Ack Only, AETH;
    RC_ATOMIC_ACKNOWLEDGE = 0x12, Rc "ATOMIC_ACKNOWLEDGE", AtomicAck Only, AETH, ATOMIC_ACK_ETH;
    RC_COMPARE_SWAP = 0x13, Rc "COMPARE_SWAP", CmpSwap Only, ATOMIC_ETH;
    RC_FETCH_ADD = 0x14, Rc "FETCH_ADD", FetchAdd Only, ATOMIC_ETH;
    RC_SEND_LAST_WITH_INVALIDATE = 0x16, Rc "SEND_LAST_WITH_INVALIDATE", Send Last, IETH;
    RC_SEND_ONLY_WITH_INVALIDATE = 0x17, Rc "SEND_ONLY_WITH_INVALIDATE", Send Only, IETH;
    RC_FLUSH = 0x1c, Rc "FLUSH", Flush Only, FETH, RETH;
    RC_ATOMIC_WRITE = 0x1d, Rc "ATOMIC_WRITE", AtomicWrite Only, RETH;

    UC_SEND_FIRST = 0x20, Uc "SEND_FIRST", Send First;
    UC_SEND_MIDDLE = 0x21, Uc "SEND_MIDDLE", Send Middle;
    UC_SEND_LAST = 0x22, Uc "SEND_LAST", Send Last;
    UC_SEND_LAST_WITH_IMMEDIATE = 0x23, Uc "SEND_LAST_WITH_IMMEDIATE", Send Last, IMMDT;
    UC_SEND_ONLY = 0x24, Uc "SEND_ONLY", Send Only;
    UC_SEND_ONLY_WITH_IMMEDIATE = 0x25, Uc "SEND_ONLY_WITH_IMMEDIATE", Send Only, IMMDT;
    UC_RDMA_WRITE_FIRST = 0x26, Uc "RDMA_WRITE_FIRST", Write First, RETH;
    UC_RDMA_WRITE_MIDDLE = 0x27, Uc "RDMA_WRITE_MIDDLE", Write Middle;
    UC_RDMA_WRITE_LAST = 0x28, Uc "RDMA_WRITE_LAST", Write Last;
    UC_RDMA_WRITE_LAST_WITH_IMMEDIATE = 0x29, Uc "RDMA_WRITE_LAST_WITH_IMMEDIATE", Write Last, IMMDT;
    UC_RDMA_WRITE_ONLY = 0x2a, Uc "RDMA_WRITE_ONLY", Write Only, RETH;
    UC_RDMA_WRITE_ONLY_WITH_IMMEDIATE = 0x2b, Uc "RDMA_WRITE_ONLY_WITH_IMMEDIATE", Write Only, RETH, IMMDT;

    UD_SEND_ONLY = 0x64, Ud "SEND_ONLY", Send Only, DETH;
    UD_SEND_ONLY_WITH_IMMEDIATE = 0x65, Ud "SEND_ONLY_WITH_IMMEDIATE", Send Only, DETH, IMMDT;

    CNP = 0x81, Cnp "CNP", Cnp Only;

    XRC_SEND_FIRST = 0xa0, Xrc "SEND_FIRST", Send First, XRCETH;
    XRC_SEND_MIDDLE = 0xa1, Xrc "SEND_MIDDLE", Send Middle, XRCETH;
    XRC_SEND_LAST = 0xa2, Xrc "SEND_LAST", Send Last, XRCETH;
    XRC_SEND_LAST_WITH_IMMEDIATE = 0xa3, Xrc "SEND_LAST_WITH_IMMEDIATE", Send Last, XRCETH, IMMDT;
    XRC_SEND_ONLY = 0xa4, Xrc "SEND_ONLY", Send Only, XRCETH;
    XRC_SEND_ONLY_WITH_IMMEDIATE = 0xa5, Xrc "SEND_ONLY_WITH_IMMEDIATE", Send Only, XRCETH, IMMDT;
    XRC_RDMA_WRITE_FIRST = 0xa6, Xrc "RDMA_WRITE_FIRST", Write First, XRCETH, RETH;
    XRC_RDMA_WRITE_MIDDLE = 0xa7, Xrc "RDMA_WRITE_MIDDLE", Write Middle, XRCETH;
    XRC_RDMA_WRITE_LAST = 0xa8, Xrc "RDMA_WRITE_LAST", Write Last, XRCETH;
    XRC_RDMA_WRITE_LAST_WITH_IMMEDIATE = 0xa9, Xrc "RDMA_WRITE_LAST_WITH_IMMEDIATE", Write Last, XRCETH, IMMDT;
    XRC_RDMA_WRITE_ONLY = 0xaa, Xrc "RDMA_WRITE_ONLY", Write Only, XRCETH, RETH;
    XRC_RDMA_WRITE_ONLY_WITH_IMMEDIATE = 0xab, Xrc "RDMA_WRITE_ONLY_WITH_IMMEDIATE", Write Only, XRCETH, RETH, IMMDT;
    XRC_RDMA_READ_REQUEST = 0xac, Xrc "RDMA_READ_REQUEST", ReadRequest Only, XRCETH, RETH;
    XRC_RDMA_READ_RESPONSE_FIRST = 0xad, Xrc "RDMA_READ_RESPONSE_FIRST", ReadResponse First, AETH;
    XRC_RDMA_READ_RESPONSE_MIDDLE = 0xae, Xrc "RDMA_READ_RESPONSE_MIDDLE", ReadResponse Middle;
    XRC_RDMA_READ_RESPONSE_LAST = 0xaf, Xrc "RDMA_READ_RESPONSE_LAST", ReadResponse Last, AETH;
    XRC_RDMA_READ_RESPONSE_ONLY = 0xb0, Xrc "RDMA_READ_RESPONSE_ONLY", ReadResponse Only, AETH;
    XRC_ACKNOWLEDGE = 0xb1, Xrc "ACKNOWLEDGE", Ack Only, AETH;
    XRC_ATOMIC_ACKNOWLEDGE = 0xb2, Xrc "ATOMIC_ACKNOWLEDGE", AtomicAck Only, AETH, ATOMIC_ACK_ETH;
    XRC_COMPARE_SWAP = 0xb3, Xrc "COMPARE_SWAP", CmpSwap Only, XRCETH, ATOMIC_ETH;
    XRC_FETCH_ADD = 0xb4, Xrc "FETCH_ADD", FetchAdd Only, XRCETH, ATOMIC_ETH;
    XRC_SEND_LAST_WITH_INVALIDATE = 0xb6, Xrc "SEND_LAST_WITH_INVALIDATE", Send Last, XRCETH, IETH;
    XRC_SEND_ONLY_WITH_INVALIDATE = 0xb7, Xrc "SEND_ONLY_WITH_INVALIDATE", Send Only, XRCETH, IETH;
}

/// [`OPCODES`] by number.
static BY_NUMBER: [Option<OpcodeInfo>; 256] = {
    let mut table = [None; 256];
    let mut row = 0;
    while row < OPCODES.len() {
        let number = OPCODES[row].opcode.0 as usize;
        assert!(table[number].is_none(), "each opcode once");
        table[number] = Some(OPCODES[row]);
        row += 1;
    }
    table
};

/// The number that stands for "no such opcode" in [`BY_MEANING`]: reserved, and not in the table.
const NONE: u8 = 0xff;

/// Extras a caller may ask for: none, immediate data, invalidate.
const EXTRAS: usize = 3;

/// [`OPCODES`] by service, kind, position and extra header.
static BY_MEANING: [u8; Service::COUNT * Kind::COUNT * Position::COUNT * EXTRAS] = {
    let mut table = [NONE; Service::COUNT * Kind::COUNT * Position::COUNT * EXTRAS];
    let mut row = 0;
    while row < OPCODES.len() {
        let info = &OPCODES[row];
        assert!(info.opcode.0 != NONE);
        let extra = info.headers.intersection(HeaderSet::IMMDT.union(HeaderSet::IETH));
        let Some(extra) = extra_index(extra) else {
            panic!("no opcode has both immediate data and an R_Key to invalidate")
        };
        let slot = meaning_index(info.service, info.kind, info.position, extra);
        assert!(table[slot] == NONE, "each meaning once");
        table[slot] = info.opcode.0;
        row += 1;
    }
    table
};

const fn extra_index(extra: HeaderSet) -> Option<usize> {
    const IMMDT: u16 = HeaderSet::IMMDT.bits();
    const IETH: u16 = HeaderSet::IETH.bits();
    match extra.bits() {
        0 => Some(0),
        IMMDT => Some(1),
        IETH => Some(2),
        _ => None,
    }
}

const fn meaning_index(service: Service, kind: Kind, position: Position, extra: usize) -> usize {
    ((service as usize * Kind::COUNT + kind as usize) * Position::COUNT + position as usize) * EXTRAS + extra
}

impl Opcode {
    /// The row of the table, or `None` for an opcode that is not in it.
    pub fn info(self) -> Option<&'static OpcodeInfo> {
        BY_NUMBER[usize::from(self.0)].as_ref()
    }

    /// The opcode of a service for an operation, a position, and one more header: none, `IMMDT` or `IETH`.
    ///
    /// `None` where the table has no such opcode, as for a UC read or immediate data in a FIRST packet.
    pub fn find(service: Service, kind: Kind, position: Position, extra: HeaderSet) -> Option<Self> {
        let number = BY_MEANING[meaning_index(service, kind, position, extra_index(extra)?)];
        (number != NONE).then_some(Self(number))
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.info() {
            Some(OpcodeInfo { service: Service::Cnp, name, .. }) => f.write_str(name),
            Some(info) => write!(f, "{} {}", info.service, info.name),
            None => write!(f, "opcode {:#04x}", self.0),
        }
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opcode({:#04x} {self})", self.0)
    }
}
