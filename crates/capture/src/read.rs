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

#[derive(Clone, Copy, Debug, Default)]
enum Format {
    /// Nothing was read yet.
    #[default]
    Unknown,
    Pcap(Source),
    PcapNg,
}

/// The packets of a capture file, in its order. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    parser: Parser,
    failed: bool,
}

/// What is known of a capture file besides its packets. It keeps no bytes: whoever reads the file hands them over, as many
/// as there are, and takes away those that a step is done with.
#[derive(Clone, Debug, Default)]
pub struct Parser {
    big_endian: bool,
    format: Format,
    interfaces: Vec<Source>,
}

/// A step in a capture file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step<'a> {
    /// So many bytes are done with: a header, a block, a packet.
    Took {
        /// Bytes from the beginning; never 0.
        len: usize,
        /// The packet in them.
        packet: Option<Packet<'a>>,
    },
    /// The next header, block or packet is not whole; nothing is done with. At the end of a file, where some bytes of it are
    /// left, that is [`CaptureError::CutShort`].
    Short {
        /// What is not whole.
        what: &'static str,
        /// Bytes that are missing, as far as is known.
        missing: usize,
    },
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
        let mut reader = Self { rest: bytes, parser: Parser::default(), failed: false };
        let magic = bytes.first_chunk().map(|magic| u32::from_le_bytes(*magic));
        if !is_capture(bytes) {
            return Err(CaptureError::NoCapture);
        }
        if magic != Some(block::SECTION) {
            reader.step()?;
        }
        Ok(reader)
    }

    fn step(&mut self) -> Result<Option<Packet<'a>>, CaptureError> {
        match self.parser.step(self.rest)? {
            Step::Took { len, packet } => {
                self.rest = self.rest.get(len..).unwrap_or_default();
                Ok(packet)
            }
            Step::Short { what, missing } => Err(CaptureError::CutShort { what, missing }),
        }
    }
}

/// The first bytes, if there are so many.
fn cut<'a>(bytes: &'a [u8], len: usize, what: &'static str) -> Result<&'a [u8], Step<'a>> {
    bytes.get(..len).ok_or(Step::Short { what, missing: len.saturating_sub(bytes.len()) })
}

impl Parser {
    /// Takes a step; `bytes` begin where the last one ended.
    ///
    /// # Errors
    /// [`CaptureError`], after which no step makes sense.
    pub fn step<'a>(&mut self, bytes: &'a [u8]) -> Result<Step<'a>, CaptureError> {
        match self.format {
            Format::Unknown => self.begin(bytes),
            Format::Pcap(source) => Ok(self.pcap_packet(source, bytes).unwrap_or_else(|short| short)),
            Format::PcapNg => self.block(bytes),
        }
    }

    fn begin<'a>(&mut self, bytes: &'a [u8]) -> Result<Step<'a>, CaptureError> {
        if let Err(short) = cut(bytes, 4, "header") {
            return Ok(short);
        }
        if !is_capture(bytes) {
            return Err(CaptureError::NoCapture);
        }
        let magic = self.u32(bytes, 0);
        if magic == block::SECTION {
            self.format = Format::PcapNg;
            return self.block(bytes);
        }
        let header = match cut(bytes, PCAP_HEADER_LEN, "header") {
            Ok(header) => header,
            Err(short) => return Ok(short),
        };
        self.big_endian = magic != MAGIC_US && magic != MAGIC_NS;
        let ns = self.u32(header, 0) == MAGIC_NS;
        let clock = Clock { per_second: if ns { 1_000_000_000 } else { 1_000_000 }, offset_s: 0 };
        // The upper bits say how long a frame check sequence is.
        let (snap_len, dlt) = (self.u32(header, 16), self.u32(header, 20) & 0x03ff_ffff);
        self.format = Format::Pcap(Source { dlt, snap_len, clock });
        Ok(Step::Took { len: PCAP_HEADER_LEN, packet: None })
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

    fn pcap_packet<'a>(&self, source: Source, bytes: &'a [u8]) -> Result<Step<'a>, Step<'a>> {
        let header = cut(bytes, PCAP_PACKET_LEN, "packet header")?;
        let word = |at| self.u32(header, at);
        let (seconds, part, captured, sent) = (word(0), word(4), word(8), word(12));
        let ticks = u64::from(seconds) * source.clock.per_second + u64::from(part);
        let bytes = cut(bytes.get(PCAP_PACKET_LEN..).unwrap_or_default(), captured as usize, "packet")?;
        let time_ns = Some(source.clock.ns(ticks));
        let sent_len = sent.max(captured) as usize;
        let packet = Packet { dlt: source.dlt, time_ns, bytes, sent_len, comment: None };
        Ok(Step::Took { len: PCAP_PACKET_LEN + bytes.len(), packet: Some(packet) })
    }

    /// Takes a block.
    fn block<'a>(&mut self, bytes: &'a [u8]) -> Result<Step<'a>, CaptureError> {
        let kind = self.u32(bytes, 0);
        // The byte order stands behind the length that is written in it.
        let header_len = if kind == block::SECTION { 12 } else { 8 };
        if let Err(short) = cut(bytes, header_len, "block header") {
            return Ok(short);
        }
        if kind == block::SECTION {
            let order = bytes.get(8..).and_then(|tail| tail.first_chunk()).copied().unwrap_or_default();
            self.big_endian = u32::from_be_bytes(order) == MAGIC_BYTE_ORDER;
            if !self.big_endian && u32::from_le_bytes(order) != MAGIC_BYTE_ORDER {
                return Err(CaptureError::NoCapture);
            }
            // Interfaces are numbered anew in each section.
            self.interfaces.clear();
        }
        let len = self.u32(bytes, 4);
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
        let whole = match cut(bytes, len as usize, "block") {
            Ok(whole) => whole,
            Err(short) => return Ok(short),
        };
        // Without type, length, and length once more at the end.
        let body = whole.get(8..whole.len() - 4).unwrap_or_default();
        let packet = match kind {
            block::INTERFACE => {
                let interface = self.interface(body);
                self.interfaces.push(interface);
                None
            }
            block::ENHANCED_PACKET => Some(self.packet(self.u32(body, 0), body)?),
            block::PACKET => Some(self.packet(self.u16(body, 0).into(), body)?),
            block::SIMPLE_PACKET => Some(self.simple_packet(body)?),
            _ => None,
        };
        Ok(Step::Took { len: whole.len(), packet })
    }

    fn simple_packet<'a>(&self, body: &'a [u8]) -> Result<Packet<'a>, CaptureError> {
        let source = self.source(0)?;
        let sent = self.u32(body, 0) as usize;
        let snap_len = if source.snap_len == 0 { usize::MAX } else { source.snap_len as usize };
        let captured = body.get(4..).unwrap_or_default();
        let bytes = captured.get(..sent.min(snap_len)).unwrap_or(captured);
        Ok(Packet { dlt: source.dlt, time_ns: None, bytes, sent_len: sent.max(bytes.len()), comment: None })
    }

    fn source(&self, interface: u32) -> Result<Source, CaptureError> {
        self.interfaces.get(interface as usize).copied().ok_or(CaptureError::NoInterface(interface))
    }

    fn packet<'a>(&self, interface: u32, body: &'a [u8]) -> Result<Packet<'a>, CaptureError> {
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
            match self.step() {
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
