//! The transport headers: BTH and the extension headers, parsed to values and written back.
//!
//! ```text
//! BTH (12) | DETH (8) | XRCETH (4) | FETH (4) | RETH (16) | AtomicETH (28) | AETH (4) | AtomicAckETH (8)
//!          | ImmDt (4) | IETH (4) | payload | pad (0..3) | ICRC (4)
//! ```
//!
//! Which of them a packet has is the opcode's row in [`crate::opcode`]. All fields are big-endian. The
//! reserved bits of the BTH are kept; the reserved bytes of DETH and XRCETH are ignored and written as zero, as the
//! specification has it. Nothing here panics, whatever the bytes.

use crate::error::WireError;
use crate::opcode::{HeaderSet, Opcode, OpcodeInfo};
use crate::psn::{Psn, Qpn};
use crate::syndrome::Syndrome;

/// Bytes of the base transport header.
pub const BTH_LEN: usize = 12;

/// Bytes of the ICRC that ends every packet.
pub const ICRC_LEN: usize = 4;

/// The longest headers of any opcode, BTH included.
pub const MAX_HEADERS_LEN: usize = {
    let (mut max, mut row) = (0, 0);
    while row < crate::opcode::OPCODES.len() {
        let len = crate::opcode::OPCODES[row].headers_len as usize;
        if len > max {
            max = len;
        }
        row += 1;
    }
    max
};

/// Base transport header (IBA §9.2).
///
/// ```text
/// 0  opcode            1  SE:1 M:1 PadCnt:2 TVer:4    2  P_Key
/// 4  FECN:1 BECN:1 reserved:6                         5  destination QP
/// 8  A:1 reserved:7                                   9  PSN
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bth {
    /// What the packet is.
    pub opcode: Opcode,
    /// Solicited event: the receive's completion should wake its reader.
    pub solicited: bool,
    /// Migration request.
    pub mig_req: bool,
    /// Bytes of padding after the payload, 0..=3.
    pub pad: u8,
    /// Transport header version, 4 bits; 0.
    pub tver: u8,
    /// Partition key.
    pub pkey: u16,
    /// Forward explicit congestion notification.
    pub fecn: bool,
    /// Backward explicit congestion notification.
    pub becn: bool,
    /// Reserved, 6 bits. The ICRC does not cover it.
    pub resv6: u8,
    /// Destination QP.
    pub dest_qp: Qpn,
    /// The requester wants an acknowledge.
    pub ack_req: bool,
    /// Reserved, 7 bits.
    pub resv7: u8,
    /// Packet sequence number.
    pub psn: Psn,
}

/// RDMA extended transport header.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Reth {
    /// Virtual address at the responder.
    pub va: u64,
    /// R_Key of the responder's region.
    pub rkey: u32,
    /// Length of the whole message in bytes.
    pub dma_len: u32,
}

/// Acknowledge extended transport header.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Aeth {
    /// ACK, RNR NAK or NAK.
    pub syndrome: Syndrome,
    /// Message sequence number, counted modulo 2^24: the low 24 bits are sent.
    pub msn: u32,
}

/// Atomic extended transport header.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AtomicEth {
    /// Virtual address at the responder, a multiple of 8.
    pub va: u64,
    /// R_Key of the responder's region.
    pub rkey: u32,
    /// What to swap in, or to add.
    pub swap_add: u64,
    /// What to compare with (unused by fetch and add).
    pub compare: u64,
}

/// Atomic acknowledge extended transport header.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AtomicAckEth {
    /// The value that memory held before the operation.
    pub original: u64,
}

/// Datagram extended transport header. Its reserved byte is written as zero.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Deth {
    /// Queue key.
    pub qkey: u32,
    /// The sender's QP.
    pub src_qp: Qpn,
}

/// Extended-reliable-connection transport header. Its reserved byte is written as zero.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct XrcEth {
    /// Number of the shared receive queue, 24 bits.
    pub srqn: u32,
}

/// Flush extended transport header: reserved:26, selectivity:2, placement:4.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Feth(pub u32);

/// The headers of one packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Headers {
    /// Base transport header.
    pub bth: Bth,
    /// RDMA address.
    pub reth: Option<Reth>,
    /// Acknowledge.
    pub aeth: Option<Aeth>,
    /// Atomic operands.
    pub atomic: Option<AtomicEth>,
    /// Original value of an atomic operation.
    pub atomic_ack: Option<AtomicAckEth>,
    /// Datagram.
    pub deth: Option<Deth>,
    /// XRC.
    pub xrceth: Option<XrcEth>,
    /// Flush.
    pub feth: Option<Feth>,
    /// Immediate data: the four bytes read as big-endian.
    pub imm: Option<u32>,
    /// R_Key to invalidate.
    pub ieth: Option<u32>,
}

/// Takes fields off the front of bytes whose length was checked before; running out is an error all the same.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    #[inline(always)]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        match self.0.split_first_chunk::<N>() {
            Some((chunk, rest)) => {
                self.0 = rest;
                Ok(*chunk)
            }
            None => Err(WireError::Truncated { what: "header", need: N, got: self.0.len() }),
        }
    }

    #[inline(always)]
    fn u32(&mut self) -> Result<u32, WireError> {
        self.take().map(u32::from_be_bytes)
    }

    #[inline(always)]
    fn u64(&mut self) -> Result<u64, WireError> {
        self.take().map(u64::from_be_bytes)
    }
}

/// Puts fields to the front of a buffer whose length was checked before; running out is an error all the same.
struct Writer<'a>(&'a mut [u8]);

impl Writer<'_> {
    #[inline(always)]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) -> Result<(), WireError> {
        let got = self.0.len();
        match core::mem::take(&mut self.0).split_first_chunk_mut::<N>() {
            Some((chunk, rest)) => {
                *chunk = bytes;
                self.0 = rest;
                Ok(())
            }
            None => Err(WireError::NoRoom { need: N, got }),
        }
    }

    #[inline(always)]
    fn u32(&mut self, value: u32) -> Result<(), WireError> {
        self.put(value.to_be_bytes())
    }

    #[inline(always)]
    fn u64(&mut self, value: u64) -> Result<(), WireError> {
        self.put(value.to_be_bytes())
    }
}

const LOW24: u32 = 0x00ff_ffff;

impl Bth {
    #[inline(always)]
    fn from_bytes(bytes: [u8; BTH_LEN]) -> Self {
        let [opcode, flags, pkey0, pkey1, ecn, q0, q1, q2, ack, p0, p1, p2] = bytes;
        Self {
            opcode: Opcode(opcode),
            solicited: flags & 0x80 != 0,
            mig_req: flags & 0x40 != 0,
            pad: flags >> 4 & 3,
            tver: flags & 0xf,
            pkey: u16::from_be_bytes([pkey0, pkey1]),
            fecn: ecn & 0x80 != 0,
            becn: ecn & 0x40 != 0,
            resv6: ecn & 0x3f,
            dest_qp: Qpn::new(u32::from_be_bytes([0, q0, q1, q2])),
            ack_req: ack & 0x80 != 0,
            resv7: ack & 0x7f,
            psn: Psn::new(u32::from_be_bytes([0, p0, p1, p2])),
        }
    }

    #[inline(always)]
    fn to_bytes(self) -> [u8; BTH_LEN] {
        let flags = u8::from(self.solicited) << 7 | u8::from(self.mig_req) << 6 | self.pad << 4 | self.tver;
        let ecn = u8::from(self.fecn) << 7 | u8::from(self.becn) << 6 | self.resv6;
        let ack = u8::from(self.ack_req) << 7 | self.resv7;
        let [pkey0, pkey1] = self.pkey.to_be_bytes();
        let [_, q0, q1, q2] = self.dest_qp.value().to_be_bytes();
        let [_, p0, p1, p2] = self.psn.value().to_be_bytes();
        [self.opcode.0, flags, pkey0, pkey1, ecn, q0, q1, q2, ack, p0, p1, p2]
    }

    #[inline(always)]
    fn check_ranges(&self) -> Result<(), WireError> {
        let fits = self.pad <= 3 && self.tver <= 0xf && self.resv6 <= 0x3f && self.resv7 <= 0x7f;
        if fits { Ok(()) } else { Err(self.range_error()) }
    }

    #[cold]
    fn range_error(&self) -> WireError {
        let (field, value) = match self {
            Self { pad: 4.., .. } => ("PadCnt", self.pad),
            Self { tver: 0x10.., .. } => ("TVer", self.tver),
            Self { resv6: 0x40.., .. } => ("reserved6", self.resv6),
            _ => ("reserved7", self.resv7),
        };
        WireError::FieldRange { field, value: u64::from(value) }
    }
}

/// `value`, where it fits 24 bits.
#[inline(always)]
fn checked_24(field: &'static str, value: u32) -> Result<u32, WireError> {
    if value > LOW24 { Err(WireError::FieldRange { field, value: u64::from(value) }) } else { Ok(value) }
}

impl Headers {
    /// The headers of a packet before its fields are filled in: P_Key 0xFFFF, each extension header that the
    /// opcode has present and zero, all else zero.
    pub fn new(opcode: Opcode, dest_qp: Qpn, psn: Psn) -> Self {
        let set = opcode.info().map_or(HeaderSet::empty(), |info| info.headers);
        let has = |header| set.contains(header);
        Self {
            bth: Bth {
                opcode,
                solicited: false,
                mig_req: false,
                pad: 0,
                tver: 0,
                pkey: 0xffff,
                fecn: false,
                becn: false,
                resv6: 0,
                dest_qp,
                ack_req: false,
                resv7: 0,
                psn,
            },
            reth: has(HeaderSet::RETH).then(Reth::default),
            aeth: has(HeaderSet::AETH).then(Aeth::default),
            atomic: has(HeaderSet::ATOMIC_ETH).then(AtomicEth::default),
            atomic_ack: has(HeaderSet::ATOMIC_ACK_ETH).then(AtomicAckEth::default),
            deth: has(HeaderSet::DETH).then(Deth::default),
            xrceth: has(HeaderSet::XRCETH).then(XrcEth::default),
            feth: has(HeaderSet::FETH).then(Feth::default),
            imm: has(HeaderSet::IMMDT).then_some(0),
            ieth: has(HeaderSet::IETH).then_some(0),
        }
    }

    /// Bytes that the headers take on the wire: those of the opcode, or of a BTH alone where it is unknown.
    #[expect(clippy::len_without_is_empty, reason = "headers are never empty: there is always a BTH")]
    pub fn len(&self) -> usize {
        self.bth.opcode.info().map_or(BTH_LEN, |info| usize::from(info.headers_len))
    }

    /// Which extension headers are given.
    pub fn present(&self) -> HeaderSet {
        let bit = |given: bool, header: HeaderSet| if given { header } else { HeaderSet::empty() };
        bit(self.reth.is_some(), HeaderSet::RETH)
            | bit(self.aeth.is_some(), HeaderSet::AETH)
            | bit(self.atomic.is_some(), HeaderSet::ATOMIC_ETH)
            | bit(self.atomic_ack.is_some(), HeaderSet::ATOMIC_ACK_ETH)
            | bit(self.deth.is_some(), HeaderSet::DETH)
            | bit(self.xrceth.is_some(), HeaderSet::XRCETH)
            | bit(self.feth.is_some(), HeaderSet::FETH)
            | bit(self.imm.is_some(), HeaderSet::IMMDT)
            | bit(self.ieth.is_some(), HeaderSet::IETH)
    }

    /// Writes the headers to the front of `out` and says how many bytes they took.
    ///
    /// # Errors
    ///
    /// An opcode that is not in the table, extension headers that are not the opcode's, a field value that does
    /// not fit its bits, a buffer that is too short. `out` may then be partly written.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, WireError> {
        let opcode = self.bth.opcode;
        let info = opcode.info().ok_or(WireError::UnknownOpcode(opcode))?;
        let present = self.present();
        if present != info.headers {
            return Err(WireError::HeaderMismatch {
                opcode,
                missing: info.headers - present,
                unexpected: present - info.headers,
            });
        }
        let len = usize::from(info.headers_len);
        let got = out.len();
        let out = out.get_mut(..len).ok_or(WireError::NoRoom { need: len, got })?;
        self.bth.check_ranges()?;
        let mut w = Writer(out);
        w.put(self.bth.to_bytes())?;
        if !info.headers.is_empty() {
            self.emit_extensions(&mut w)?;
        }
        Ok(len)
    }

    /// The extension headers that are given, in the order of the wire.
    #[inline]
    fn emit_extensions(&self, w: &mut Writer<'_>) -> Result<(), WireError> {
        if let Some(deth) = self.deth {
            w.u32(deth.qkey)?;
            w.u32(deth.src_qp.value())?;
        }
        if let Some(xrceth) = self.xrceth {
            w.u32(checked_24("SRQ number", xrceth.srqn)?)?;
        }
        if let Some(Feth(feth)) = self.feth {
            w.u32(feth)?;
        }
        if let Some(reth) = self.reth {
            w.u64(reth.va)?;
            w.u32(reth.rkey)?;
            w.u32(reth.dma_len)?;
        }
        if let Some(atomic) = self.atomic {
            w.u64(atomic.va)?;
            w.u32(atomic.rkey)?;
            w.u64(atomic.swap_add)?;
            w.u64(atomic.compare)?;
        }
        if let Some(aeth) = self.aeth {
            w.u32(u32::from(aeth.syndrome.0) << 24 | (aeth.msn & LOW24))?;
        }
        if let Some(atomic_ack) = self.atomic_ack {
            w.u64(atomic_ack.original)?;
        }
        if let Some(imm) = self.imm {
            w.u32(imm)?;
        }
        if let Some(rkey) = self.ieth {
            w.u32(rkey)?;
        }
        Ok(())
    }

    /// Reads the headers at the front of `bytes`, and says where the payload begins.
    ///
    /// # Errors
    ///
    /// An opcode that is not in the table, or fewer bytes than its headers take.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), WireError> {
        let (headers, info) = Self::parse_with_info(bytes)?;
        Ok((headers, usize::from(info.headers_len)))
    }

    // Inlined into its few callers: the headers are built where they stay, and not copied out of a result.
    #[inline(always)]
    pub(crate) fn parse_with_info(bytes: &[u8]) -> Result<(Self, &'static OpcodeInfo), WireError> {
        let Some(bth) = bytes.first_chunk::<BTH_LEN>() else {
            return Err(WireError::Truncated { what: "BTH", need: BTH_LEN, got: bytes.len() });
        };
        let bth = Bth::from_bytes(*bth);
        let info = bth.opcode.info().ok_or(WireError::UnknownOpcode(bth.opcode))?;
        let need = usize::from(info.headers_len);
        let Some(extensions) = bytes.get(BTH_LEN..need) else {
            return Err(WireError::Truncated { what: info.name, need, got: bytes.len() });
        };
        let mut headers = Self {
            bth,
            reth: None,
            aeth: None,
            atomic: None,
            atomic_ack: None,
            deth: None,
            xrceth: None,
            feth: None,
            imm: None,
            ieth: None,
        };
        if !info.headers.is_empty() {
            headers.parse_extensions(info.headers, Reader(extensions))?;
        }
        Ok((headers, info))
    }

    /// The extension headers of `set`, in the order of the wire.
    #[inline(always)]
    fn parse_extensions(&mut self, set: HeaderSet, mut r: Reader<'_>) -> Result<(), WireError> {
        if set.contains(HeaderSet::DETH) {
            let (qkey, word) = (r.u32()?, r.u32()?);
            self.deth = Some(Deth { qkey, src_qp: Qpn::new(word) });
        }
        if set.contains(HeaderSet::XRCETH) {
            self.xrceth = Some(XrcEth { srqn: r.u32()? & LOW24 });
        }
        if set.contains(HeaderSet::FETH) {
            self.feth = Some(Feth(r.u32()?));
        }
        if set.contains(HeaderSet::RETH) {
            self.reth = Some(Reth { va: r.u64()?, rkey: r.u32()?, dma_len: r.u32()? });
        }
        if set.contains(HeaderSet::ATOMIC_ETH) {
            let (va, rkey) = (r.u64()?, r.u32()?);
            self.atomic = Some(AtomicEth { va, rkey, swap_add: r.u64()?, compare: r.u64()? });
        }
        if set.contains(HeaderSet::AETH) {
            let word = r.u32()?;
            self.aeth = Some(Aeth { syndrome: Syndrome((word >> 24) as u8), msn: word & LOW24 });
        }
        if set.contains(HeaderSet::ATOMIC_ACK_ETH) {
            self.atomic_ack = Some(AtomicAckEth { original: r.u64()? });
        }
        if set.contains(HeaderSet::IMMDT) {
            self.imm = Some(r.u32()?);
        }
        if set.contains(HeaderSet::IETH) {
            self.ieth = Some(r.u32()?);
        }
        Ok(())
    }
}
