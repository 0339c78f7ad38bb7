//! Context memory: the shared-memory segment of a NIC as the device and an inspector both know it.
//!
//! The segment is an array of 64-bit words, little-endian, which only atomics touch: another process may read it
//! at any time. Its parts, in order, at multiples of 64 bytes:
//!
//! | part | size |
//! |---|---|
//! | header | 4096 bytes; see [`Header`] |
//! | QP contexts | `qp_slots` × 256 bytes; see [`crate::qpc`] |
//! | drivers' blocks of QPs | `qp_slots` × 128 bytes; see [`crate::driver`] |
//! | objects | for each kind, as many as it may have × 64 bytes; see [`crate::object`] |
//! | sites | `site_slots` × 512 bytes: places in the program; see [`ContextMemory::site`] |
//! | flight recorder | `recorder_slots` × 72 bytes; see [`crate::recorder`] |

use std::sync::Arc;

use crate::doorbell::Doorbells;
use crate::object::Kind;
use crate::port::{GID_TABLE_LEN, Port};
use crate::sync::{AtomicU64, Ordering};

/// The first word of a segment: `GLASSNIC` in ASCII.
pub const MAGIC: u64 = u64::from_le_bytes(*b"GLASSNIC");
/// Version of this layout. A reader refuses another.
pub const VERSION: u64 = 4;
/// Bytes of the header.
pub const HEADER_LEN: usize = 4096;
/// Bytes of a QP context.
pub const QPC_LEN: usize = 256;
/// Bytes of a driver's block.
pub const DRIVER_LEN: usize = 128;
/// Bytes of an object's entry.
pub const OBJECT_LEN: usize = 64;
/// Bytes of a site.
pub const SITE_LEN: usize = 512;

/// Words of the header, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Header {
    /// [`MAGIC`]
    Magic = 0,
    /// [`VERSION`]
    Version = 1,
    /// Number of QP contexts.
    QpSlots = 2,
    /// Number of recorder slots.
    RecorderSlots = 3,
    /// Process that owns the NIC.
    Pid = 4,
    /// Its start time, as `/proc/PID/stat` has it, so that a reused pid is not taken for it.
    StartTime = 5,
    /// When the NIC was opened: monotonic clock, nanoseconds.
    OpenedNs = 6,
    /// Records ever written to the flight recorder.
    RecorderNext = 7,
    /// The device's name, 16 bytes, zero-padded (and the next word).
    Name = 8,
    /// 1 while the NIC is open.
    Open = 10,
    /// QP contexts that were ever used: those behind are free.
    QpHigh = 11,
    /// Number of sites.
    SiteSlots = 12,
    /// Sites in use.
    SiteHigh = 13,
    /// Asynchronous events that nobody has taken yet (bits 0–31), and those ever raised (32–63).
    AsyncEvents = 14,
    /// When the oldest event that nobody has taken was raised: monotonic clock, nanoseconds.
    AsyncSinceNs = 15,
    /// A forked child that used what its parent opened: its pid (bits 0–31), and how often (32–63).
    ForkedUse = 16,
    /// The profile's write-back delay, in nanoseconds.
    WriteBackNs = 17,
    /// First of the words that hold how many entries there are for objects, by kind.
    ObjectSlots = 18,
    /// First of the words that say how many entries were ever used, by kind.
    ObjectHigh = 26,
    /// First of the words that hold the command's name, zero-padded.
    Command = 34,
    /// Until when somebody outside wants the process to write its packets for a capture: monotonic clock, nanoseconds. A
    /// word that an inspector writes; it lapses by itself should the inspector die.
    CaptureUntilNs = 42,
    /// The number that whoever started the program gave it, to find its NIC again; 0 for none.
    Run = 43,
    /// An event that somebody outside wants to happen (see [`crate::request`]); 0 once it has, all ones if it cannot. The other
    /// word that an inspector writes.
    EventAsked = 44,
    /// First of the words that hold the port's GID table, two a GID; an empty entry is zero.
    Gids = 64,
}

/// [`Header::Open`] of a NIC that is open.
pub const OPEN: u64 = 1;
/// [`Header::Open`] of a NIC whose process came to its end by exit(3) and had not closed it.
pub const EXITED: u64 = 2;

/// Words of [`Header::Name`].
const NAME_WORDS: usize = 2;
/// Words of [`Header::Command`].
const COMMAND_WORDS: usize = 8;
/// Kinds of objects.
const KINDS: usize = Kind::ALL.len();

/// Memory that holds a segment.
pub trait Words: Send + Sync {
    /// All of it.
    fn words(&self) -> &[AtomicU64];
}

impl Words for Box<[AtomicU64]> {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

/// How many of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// QP contexts.
    pub qp_slots: usize,
    /// Entries for objects, by [`Kind`].
    pub object_slots: [usize; KINDS],
    /// Sites.
    pub site_slots: usize,
    /// Recorder slots.
    pub recorder_slots: usize,
}

impl Layout {
    /// No objects and sites: QP contexts and a recorder alone.
    #[must_use]
    pub const fn bare(qp_slots: usize, recorder_slots: usize) -> Self {
        Self { qp_slots, object_slots: [0; KINDS], site_slots: 0, recorder_slots }
    }

    /// Bytes of the whole segment.
    #[must_use]
    pub fn len(&self) -> usize {
        self.recorder_at() + self.recorder_slots * crate::recorder::SLOT_LEN
    }

    /// Completion channels that there is room for; as many as there are handles where an inspector is not to see them.
    #[must_use]
    pub fn channels(&self) -> u32 {
        match self.object_slots[Kind::Channel as usize] {
            0 => u32::MAX,
            slots => slots as u32 - 1,
        }
    }

    /// A layout with nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::bare(0, 0)
    }

    fn drivers_at(&self) -> usize {
        HEADER_LEN + self.qp_slots * QPC_LEN
    }

    fn objects_at(&self, kind: Kind) -> usize {
        let before: usize = self.object_slots.iter().take(kind as usize).sum();
        self.drivers_at() + self.qp_slots * DRIVER_LEN + before * OBJECT_LEN
    }

    fn sites_at(&self) -> usize {
        let objects: usize = self.object_slots.iter().sum();
        self.drivers_at() + self.qp_slots * DRIVER_LEN + objects * OBJECT_LEN
    }

    fn recorder_at(&self) -> usize {
        self.sites_at() + self.site_slots * SITE_LEN
    }
}

/// A segment and its layout. Clones are the same, and small: each queue pair has several.
#[derive(Clone)]
pub struct ContextMemory(Arc<Segment>);

struct Segment {
    words: Arc<dyn Words>,
    layout: Layout,
    /// Of its QPs, in the owner's own memory; a reader has none.
    bells: Doorbells,
}

impl std::fmt::Debug for ContextMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContextMemory").field("layout", &self.0.layout).finish_non_exhaustive()
    }
}

impl ContextMemory {
    /// Lays out fresh, zeroed memory. `None` if it is too small for the layout.
    #[must_use]
    pub fn create(words: Arc<dyn Words>, layout: Layout) -> Option<Self> {
        if words.words().len() * 8 < layout.len() {
            return None;
        }
        Some(Self::of(words, layout, layout.qp_slots).laid_out())
    }

    /// Memory of this process alone, for simulations.
    #[must_use]
    pub fn private(layout: Layout) -> Self {
        let words: Box<[AtomicU64]> = (0..layout.len().div_ceil(8)).map(|_| AtomicU64::new(0)).collect();
        Self::of(Arc::new(words), layout, layout.qp_slots).laid_out()
    }

    fn of(words: Arc<dyn Words>, layout: Layout, bells: usize) -> Self {
        Self(Arc::new(Segment { words, layout, bells: Doorbells::new(bells) }))
    }

    /// The doorbells of its QPs.
    pub(crate) fn bells(&self) -> &Doorbells {
        &self.0.bells
    }

    /// Writes the header; the magic number last, so that a reader never sees half of it.
    fn laid_out(self) -> Self {
        self.set(Header::Version, VERSION);
        self.set(Header::QpSlots, self.0.layout.qp_slots as u64);
        self.set(Header::RecorderSlots, self.0.layout.recorder_slots as u64);
        self.set(Header::SiteSlots, self.0.layout.site_slots as u64);
        for (kind, slots) in self.0.layout.object_slots.into_iter().enumerate() {
            self.set_word(Header::ObjectSlots as usize + kind, slots as u64);
        }
        self.set(Header::Open, OPEN);
        self.set(Header::Magic, MAGIC);
        self
    }

    /// Reads a segment that somebody else made. `None` if it is not one, or of another version, or cut short.
    #[must_use]
    pub fn open(words: Arc<dyn Words>) -> Option<Self> {
        let at = |h: Header| words.words().get(h as usize).map(|w| w.load(Ordering::Acquire));
        if at(Header::Magic)? != MAGIC || at(Header::Version)? != VERSION {
            return None;
        }
        let count = |word: usize| {
            let n = words.words().get(word)?.load(Ordering::Acquire);
            usize::try_from(n).ok().filter(|n| *n <= 1 << 24)
        };
        let mut object_slots = [0; KINDS];
        for (kind, slots) in object_slots.iter_mut().enumerate() {
            *slots = count(Header::ObjectSlots as usize + kind)?;
        }
        let layout = Layout {
            qp_slots: count(Header::QpSlots as usize)?,
            object_slots,
            site_slots: count(Header::SiteSlots as usize)?,
            recorder_slots: count(Header::RecorderSlots as usize)?,
        };
        (words.words().len() * 8 >= layout.len()).then(|| Self::of(words, layout, 0))
    }

    /// Its layout.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.0.layout
    }

    /// A word of the header.
    #[must_use]
    pub fn get(&self, at: Header) -> u64 {
        self.0.words.words().get(at as usize).map_or(0, |w| w.load(Ordering::Acquire))
    }

    /// Sets a word of the header.
    pub fn set(&self, at: Header, value: u64) {
        self.set_word(at as usize, value);
    }

    fn set_word(&self, at: usize, value: u64) {
        if let Some(w) = self.0.words.words().get(at) {
            w.store(value, Ordering::Release);
        }
    }

    /// The device's name, as far as it is one.
    #[must_use]
    pub fn name(&self) -> String {
        self.text(Header::Name, NAME_WORDS)
    }

    /// Sets the device's name, of which the first 16 bytes count.
    pub fn set_name(&self, name: &str) {
        self.set_text(Header::Name as usize, NAME_WORDS, name);
    }

    /// The name of the process's program.
    #[must_use]
    pub fn command(&self) -> String {
        self.text(Header::Command, COMMAND_WORDS)
    }

    /// Sets the name of the process's program, of which the first 64 bytes count.
    pub fn set_command(&self, name: &str) {
        self.set_text(Header::Command as usize, COMMAND_WORDS, name);
    }

    /// The GID at an index of the port's table; zero where there is none.
    #[must_use]
    pub fn gid(&self, index: u8) -> [u8; 16] {
        let mut gid = [0; 16];
        if index < GID_TABLE_LEN {
            let at = Header::Gids as usize + 2 * usize::from(index);
            for (to, word) in gid.as_chunks_mut::<8>().0.iter_mut().zip(self.0.words.words().iter().skip(at))
            {
                *to = word.load(Ordering::Relaxed).to_le_bytes();
            }
        }
        gid
    }

    /// Shows the port's GID table.
    pub(crate) fn set_gids(&self, port: &Port) {
        for index in 0..GID_TABLE_LEN {
            let gid = port.gid(index).unwrap_or_default();
            for (half, bytes) in gid.as_chunks::<8>().0.iter().enumerate() {
                let at = Header::Gids as usize + 2 * usize::from(index) + half;
                self.set_word(at, u64::from_le_bytes(*bytes));
            }
        }
    }

    fn text(&self, at: Header, words: usize) -> String {
        text(self.0.words.words().get(at as usize..at as usize + words).unwrap_or_default())
    }

    fn set_text(&self, at: usize, count: usize, text: &str) {
        let words = self.0.words.words().get(at..at + count).unwrap_or_default();
        let mut bytes = text.bytes();
        for word in words {
            let value: [u8; 8] = std::array::from_fn(|_| bytes.next().unwrap_or(0));
            word.store(u64::from_le_bytes(value), Ordering::Release);
        }
    }

    /// Entries for objects of a kind that were ever used: those behind are free.
    #[must_use]
    pub fn high(&self, kind: Kind) -> usize {
        let word = self.0.words.words().get(Header::ObjectHigh as usize + kind as usize);
        let slots = self.0.layout.object_slots[kind as usize];
        word.map_or(0, |w| (w.load(Ordering::Acquire) as usize).min(slots))
    }

    /// Says that this many entries of a kind have been used.
    pub fn raise_high(&self, kind: Kind, high: u64) {
        if let Some(w) = self.0.words.words().get(Header::ObjectHigh as usize + kind as usize) {
            w.fetch_max(high, Ordering::Release);
        }
    }

    /// A word of the header as the atomic that it is.
    pub(crate) fn counter(&self, at: Header) -> Option<&AtomicU64> {
        self.0.words.words().get(at as usize)
    }

    /// The words of the QP context in this slot.
    #[must_use]
    pub fn qpc(&self, slot: usize) -> Option<&[AtomicU64]> {
        if slot >= self.0.layout.qp_slots {
            return None;
        }
        let start = (HEADER_LEN + slot * QPC_LEN) / 8;
        self.0.words.words().get(start..start + QPC_LEN / 8)
    }

    /// The words of the driver's block of this slot.
    #[must_use]
    pub fn driver(&self, slot: usize) -> Option<&[AtomicU64]> {
        let at = self.0.layout.drivers_at() + slot * DRIVER_LEN;
        (slot < self.0.layout.qp_slots).then(|| self.part(at, DRIVER_LEN))?
    }

    /// The words of an object's entry.
    #[must_use]
    pub fn object(&self, kind: Kind, index: usize) -> Option<&[AtomicU64]> {
        let at = self.0.layout.objects_at(kind) + index * OBJECT_LEN;
        (index < self.0.layout.object_slots[kind as usize]).then(|| self.part(at, OBJECT_LEN))?
    }

    /// The words of a recorder slot.
    pub(crate) fn recorder(&self, slot: usize) -> Option<&[AtomicU64]> {
        let len = crate::recorder::SLOT_LEN;
        self.part(self.0.layout.recorder_at() + slot * len, len)
    }

    fn part(&self, at: usize, len: usize) -> Option<&[AtomicU64]> {
        self.0.words.words().get(at / 8..(at + len) / 8)
    }
}

/// Zero-padded bytes as text.
fn text(words: &[AtomicU64]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.load(Ordering::Acquire).to_le_bytes()).collect();
    let len = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}

/// A place in the program where objects are made: the frames above the verb, in text, so that it can be read after the
/// process is gone. The first word of its slot is a hash of the return addresses, never 0.
impl ContextMemory {
    /// The number of a site with this hash, counted from 1; where it is new, `text` is asked for its frames. `None` when
    /// the table is full.
    pub fn site(&self, hash: u64, text: impl FnOnce() -> String) -> Option<u32> {
        let hash = hash.max(1);
        let high = self.get(Header::SiteHigh) as usize;
        let of = |n: usize| self.part(self.0.layout.sites_at() + n * SITE_LEN, SITE_LEN);
        let known = |n: &usize| of(*n).is_some_and(|w| w[0].load(Ordering::Relaxed) == hash);
        if let Some(n) = (0..high.min(self.0.layout.site_slots)).find(known) {
            return Some(n as u32 + 1);
        }
        let words = of(high).filter(|_| high < self.0.layout.site_slots)?;
        let at = (self.0.layout.sites_at() + high * SITE_LEN) / 8 + 1;
        self.set_text(at, SITE_LEN / 8 - 1, &text());
        words[0].store(hash, Ordering::Release);
        self.set(Header::SiteHigh, high as u64 + 1);
        Some(high as u32 + 1)
    }

    /// The frames of a site, innermost first, one a line.
    #[must_use]
    pub fn site_text(&self, site: u32) -> Option<String> {
        let n = (site as usize).checked_sub(1).filter(|n| *n < self.0.layout.site_slots)?;
        let words = self.part(self.0.layout.sites_at() + n * SITE_LEN, SITE_LEN)?;
        (words[0].load(Ordering::Acquire) != 0).then(|| text(&words[1..]))
    }
}
