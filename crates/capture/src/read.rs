//! Capture files: classic pcap and pcapng, of either byte order and any resolution of time.

/// Why bytes are no capture, or no whole one.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// Neither format's magic number.
    #[error("not a pcap or pcapng file")]
    NoCapture,
    /// The file ends within a header, block or packet.
    #[error("the file ends {missing} bytes before the end of its {what}")]
    CutShort {
        /// What is cut short.
        what: &'static str,
        /// Bytes that are missing.
        missing: usize,
    },
    /// A block's length is less than its fields take, or no multiple of 4.
    #[error("a block of type {block:#x} has an impossible length of {len}")]
    BlockLength {
        /// Block type.
        block: u32,
        /// Block total length.
        len: u32,
    },
    /// A packet names an interface that no block before it describes.
    #[error("a packet names interface {0}, which the file does not describe")]
    NoInterface(u32),
}

/// A packet of a capture.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Packet<'a> {
    /// Link type (LINKTYPE value) of its interface.
    pub dlt: u32,
    /// Nanoseconds of the capture's clock, mostly since 1970; `None` for a packet that has no time.
    pub time_ns: Option<u64>,
    /// What was captured.
    pub bytes: &'a [u8],
    /// Bytes of the packet before it was cut.
    pub sent_len: usize,
    /// Its first comment.
    pub comment: Option<&'a str>,
}

/// Units of a second, and what to add to the time.
#[derive(Clone, Copy, Debug)]
struct Clock {
    per_second: u64,
    offset_s: i64,
}

impl Clock {
    fn ns(self, ticks: u64) -> u64 {
        let ns = u128::from(ticks) * 1_000_000_000 / u128::from(self.per_second.max(1));
        let offset = i128::from(self.offset_s) * 1_000_000_000;
        (ns as i128).saturating_add(offset).clamp(0, u64::MAX.into()) as u64
    }
}

#[derive(Clone, Copy, Debug)]
struct Source {
    dlt: u32,
    snap_len: u32,
    clock: Clock,
}

#[derive(Clone, Copy, Debug)]
enum Format {
    Pcap(Source),
    PcapNg,
}

/// The packets of a capture file, in its order. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    big_endian: bool,
    format: Format,
    interfaces: Vec<Source>,
    failed: bool,
}

const MAGIC_US: u32 = 0xa1b2_c3d4;
const MAGIC_NS: u32 = 0xa1b2_3c4d;
const MAGIC_BYTE_ORDER: u32 = 0x1a2b_3c4d;
const PCAP_HEADER_LEN: usize = 24;
const PCAP_PACKET_LEN: usize = 16;

/// Block types of pcapng.
pub(crate) mod block {
    pub(crate) const SECTION: u32 = 0x0a0d_0d0a;
    pub(crate) const INTERFACE: u32 = 1;
    /// Obsolete, and still written by old programs.
    pub(crate) const PACKET: u32 = 2;
    pub(crate) const SIMPLE_PACKET: u32 = 3;
    pub(crate) const ENHANCED_PACKET: u32 = 6;
}

/// Options of pcapng's interface blocks.
pub(crate) mod option {
    pub(crate) const END: u16 = 0;
    pub(crate) const COMMENT: u16 = 1;
    pub(crate) const IF_NAME: u16 = 2;
    pub(crate) const IF_DESCRIPTION: u16 = 3;
    pub(crate) const IF_TSRESOL: u16 = 9;
    pub(crate) const IF_TSOFFSET: u16 = 14;
}

/// Whether bytes begin like a capture file.
pub fn is_capture(bytes: &[u8]) -> bool {
    let Some(magic) = bytes.first_chunk().map(|magic| u32::from_le_bytes(*magic)) else { return false };
    [MAGIC_US, MAGIC_NS, MAGIC_US.swap_bytes(), MAGIC_NS.swap_bytes(), block::SECTION].contains(&magic)
}

impl<'a> Reader<'a> {
    /// Begins to read a file.
    ///
    /// # Errors
    /// [`CaptureError::NoCapture`], or [`CaptureError::CutShort`] in the header of a pcap file.
    pub fn new(bytes: &'a [u8]) -> Result<Self, CaptureError> {
        if !is_capture(bytes) {
            return Err(CaptureError::NoCapture);
        }
        let format = Format::PcapNg;
        let mut reader =
            Self { rest: bytes, big_endian: false, format, interfaces: Vec::new(), failed: false };
        let magic = reader.u32(bytes, 0);
        if magic != block::SECTION {
            reader.big_endian = magic != MAGIC_US && magic != MAGIC_NS;
            let header = reader.cut(PCAP_HEADER_LEN, "header")?;
            let ns = reader.u32(header, 0) == MAGIC_NS;
            let clock = Clock { per_second: if ns { 1_000_000_000 } else { 1_000_000 }, offset_s: 0 };
            // The upper bits say how long a frame check sequence is.
            let (snap_len, dlt) = (reader.u32(header, 16), reader.u32(header, 20) & 0x03ff_ffff);
            reader.format = Format::Pcap(Source { dlt, snap_len, clock });
        }
        Ok(reader)
    }

    /// 0 where bytes are missing: callers have checked the length.
    fn u32(&self, bytes: &[u8], at: usize) -> u32 {
        let word = bytes.get(at..).and_then(|tail| tail.first_chunk()).copied().unwrap_or_default();
        if self.big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
    }

    fn u16(&self, bytes: &[u8], at: usize) -> u16 {
        let half = bytes.get(at..).and_then(|tail| tail.first_chunk()).copied().unwrap_or_default();
        if self.big_endian { u16::from_be_bytes(half) } else { u16::from_le_bytes(half) }
    }

    fn cut(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], CaptureError> {
        let missing = len.saturating_sub(self.rest.len());
        let (taken, rest) =
            self.rest.split_at_checked(len).ok_or(CaptureError::CutShort { what, missing })?;
        self.rest = rest;
        Ok(taken)
    }

    fn next_packet(&mut self) -> Result<Option<Packet<'a>>, CaptureError> {
        match self.format {
            Format::Pcap(source) => self.pcap_packet(source).map(Some),
            Format::PcapNg => self.block(),
        }
    }

    fn pcap_packet(&mut self, source: Source) -> Result<Packet<'a>, CaptureError> {
        let header = self.cut(PCAP_PACKET_LEN, "packet header")?;
        let word = |at| self.u32(header, at);
        let (seconds, part, captured, sent) = (word(0), word(4), word(8), word(12));
        let ticks = u64::from(seconds) * source.clock.per_second + u64::from(part);
        let bytes = self.cut(captured as usize, "packet")?;
        let time_ns = Some(source.clock.ns(ticks));
        Ok(Packet { dlt: source.dlt, time_ns, bytes, sent_len: sent.max(captured) as usize, comment: None })
    }

    /// Takes a block; `None` for one that is no packet.
    fn block(&mut self) -> Result<Option<Packet<'a>>, CaptureError> {
        let kind = self.u32(self.rest, 0);
        if kind == block::SECTION {
            let order = self.rest.get(8..).and_then(|tail| tail.first_chunk()).copied().unwrap_or_default();
            self.big_endian = u32::from_be_bytes(order) == MAGIC_BYTE_ORDER;
            if !self.big_endian && u32::from_le_bytes(order) != MAGIC_BYTE_ORDER {
                return Err(CaptureError::NoCapture);
            }
            // Interfaces are numbered anew in each section.
            self.interfaces.clear();
        }
        if self.rest.len() < 8 {
            return Err(CaptureError::CutShort { what: "block header", missing: 8 - self.rest.len() });
        }
        let len = self.u32(self.rest, 4);
        let least: usize = match kind {
            block::SECTION => 28,
            block::INTERFACE => 20,
            block::PACKET | block::ENHANCED_PACKET => 32,
            block::SIMPLE_PACKET => 16,
            _ => 12,
        };
        if !len.is_multiple_of(4) || (len as usize) < least {
            return Err(CaptureError::BlockLength { block: kind, len });
        }
        let whole = self.cut(len as usize, "block")?;
        // Without type, length, and length once more at the end.
        let body = whole.get(8..whole.len() - 4).unwrap_or_default();
        match kind {
            block::INTERFACE => {
                let interface = self.interface(body);
                self.interfaces.push(interface);
                Ok(None)
            }
            block::ENHANCED_PACKET => self.packet(self.u32(body, 0), body).map(Some),
            block::PACKET => self.packet(self.u16(body, 0).into(), body).map(Some),
            block::SIMPLE_PACKET => {
                let source = self.source(0)?;
                let sent = self.u32(body, 0) as usize;
                let snap_len = if source.snap_len == 0 { usize::MAX } else { source.snap_len as usize };
                let captured = body.get(4..).unwrap_or_default();
                let bytes = captured.get(..sent.min(snap_len)).unwrap_or(captured);
                Ok(Some(Packet {
                    dlt: source.dlt,
                    time_ns: None,
                    bytes,
                    sent_len: sent.max(bytes.len()),
                    comment: None,
                }))
            }
            _ => Ok(None),
        }
    }

    fn source(&self, interface: u32) -> Result<Source, CaptureError> {
        self.interfaces.get(interface as usize).copied().ok_or(CaptureError::NoInterface(interface))
    }

    fn packet(&self, interface: u32, body: &'a [u8]) -> Result<Packet<'a>, CaptureError> {
        let source = self.source(interface)?;
        let ticks = u64::from(self.u32(body, 4)) << 32 | u64::from(self.u32(body, 8));
        let (captured, sent) = (self.u32(body, 12) as usize, self.u32(body, 16) as usize);
        let data = body.get(20..).unwrap_or_default();
        let missing = captured.saturating_sub(data.len());
        let bytes = data.get(..captured).ok_or(CaptureError::CutShort { what: "packet", missing })?;
        let time_ns = Some(source.clock.ns(ticks));
        let options = data.get(captured.next_multiple_of(4)..).unwrap_or_default();
        let mut comments = self.options(options).filter(|(code, _)| *code == option::COMMENT);
        let comment = comments.next().and_then(|(_, text)| std::str::from_utf8(text).ok());
        Ok(Packet { dlt: source.dlt, time_ns, bytes, sent_len: sent.max(captured), comment })
    }

    /// The options of a block, up to the end or to the first that makes no sense.
    fn options<'o>(&self, mut rest: &'o [u8]) -> impl Iterator<Item = (u16, &'o [u8])> {
        std::iter::from_fn(move || {
            let len = usize::from(self.u16(rest, 2));
            let (code, value) = (self.u16(rest, 0), rest.get(4..4 + len)?);
            rest = rest.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
            (code != option::END).then_some((code, value))
        })
    }

    fn interface(&self, body: &[u8]) -> Source {
        let mut clock = Clock { per_second: 1_000_000, offset_s: 0 };
        for (code, value) in self.options(body.get(8..).unwrap_or_default()) {
            match (code, value) {
                (option::IF_TSRESOL, [power, ..]) => clock.per_second = per_second(*power),
                (option::IF_TSOFFSET, value) if value.len() == 8 => {
                    let (a, b) = (u64::from(self.u32(value, 0)), u64::from(self.u32(value, 4)));
                    clock.offset_s = if self.big_endian { a << 32 | b } else { b << 32 | a } as i64;
                }
                _ => {}
            }
        }
        Source { dlt: self.u16(body, 0).into(), snap_len: self.u32(body, 4), clock }
    }
}

/// Units of a second by `if_tsresol`: a negative power of ten, or with the highest bit of two.
fn per_second(power: u8) -> u64 {
    let (base, power) = if power & 0x80 == 0 { (10u64, power) } else { (2, power & 0x7f) };
    base.checked_pow(power.into()).unwrap_or(u64::MAX)
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Packet<'a>, CaptureError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.failed && !self.rest.is_empty() {
            match self.next_packet() {
                Ok(None) => {}
                Ok(Some(packet)) => return Some(Ok(packet)),
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}
