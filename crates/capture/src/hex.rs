//! Hexadecimal dumps, as people paste them: with or without offsets, with or without a column of characters.
//!
//! Read are what hexdump -C, xxd, tcpdump -x, Wireshark and text2pcap(1) print, bare bytes, and all of these when their line
//! breaks were lost. An offset that goes back to 0 begins a new frame.

/// Why text is no dump.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HexError {
    /// There is not one byte in it.
    #[error("no hexadecimal digits")]
    Empty,
    /// A word that is neither bytes nor an offset.
    #[error("line {line}: {word:?} is no hexadecimal byte")]
    NotHex {
        /// Counted from 1.
        line: usize,
        /// The word, cut if it is long.
        word: String,
    },
    /// An offset that does not fit the bytes before it.
    #[error("line {line}: offset {offset:#x} follows {got:#x} bytes")]
    Offset {
        /// Counted from 1.
        line: usize,
        /// The offset.
        offset: usize,
        /// Bytes before it.
        got: usize,
    },
    /// More than any frame has.
    #[error("line {line}: a frame of more than {MAX_LEN} bytes")]
    TooLong {
        /// Counted from 1.
        line: usize,
    },
}

/// Bytes that a frame may have. The largest that Linux hands to a capture is 256 KiB.
pub const MAX_LEN: usize = 1 << 20;

/// The frames of a dump.
///
/// # Errors
/// The first word that makes no sense.
pub fn parse(text: &str) -> Result<Vec<Vec<u8>>, HexError> {
    let mut dump = Dump { frames: Vec::new(), frame: Vec::new(), last: Vec::new(), repeats: false };
    let style = Style::of(text);
    for (index, line) in text.lines().enumerate() {
        dump.line(index + 1, line, style)?;
    }
    dump.close();
    if dump.frames.is_empty() { Err(HexError::Empty) } else { Ok(dump.frames) }
}

/// How a dump is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// Offsets, then bytes in words of 2 digits: a longer word is an offset wherever it stands.
    Bytes,
    /// An offset at the beginning of each line, then words of any even length.
    Words,
    /// No offsets.
    Bare,
}

impl Style {
    fn of(text: &str) -> Self {
        let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty() && *line != "*");
        let first = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
        let second = |line: &str| line.split_whitespace().nth(1).map(str::len);
        if lines().all(|line| first(line).ends_with(':') || first(line).starts_with("0x")) {
            return Self::Words;
        }
        let has_offset =
            |line: &str| offset(&first(line)).is_some() && second(line).is_none_or(|len| len == 2);
        let two_digits = lines().next().and_then(second) == Some(2);
        if two_digits && lines().all(has_offset) {
            return Self::Bytes;
        }
        // Words of four digits, of which the first of each line counts up: an offset without a colon.
        let offsets: Option<Vec<usize>> = lines().map(|line| offset(&first(line))).collect();
        match offsets.as_deref() {
            Some([0, rest @ ..]) if !rest.is_empty() && rest.is_sorted() && rest[0] > 0 => Self::Words,
            _ => Self::Bare,
        }
    }
}

/// The value of a word that can be an offset: three digits or more, perhaps with `0x` and a colon.
fn offset(word: &str) -> Option<usize> {
    let digits = word.trim_end_matches(':');
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    (digits.len() > 2).then(|| usize::from_str_radix(digits, 16).ok())?
}

struct Dump {
    frames: Vec<Vec<u8>>,
    frame: Vec<u8>,
    /// The bytes of the last line.
    last: Vec<u8>,
    /// A `*` stands for lines like the last one, up to the next offset.
    repeats: bool,
}

impl Dump {
    fn close(&mut self) {
        if !self.frame.is_empty() {
            self.frames.push(std::mem::take(&mut self.frame));
        }
    }

    fn line(&mut self, number: usize, line: &str, style: Style) -> Result<(), HexError> {
        let line = line.split('|').next().unwrap_or_default().trim();
        if line == "*" {
            self.repeats = true;
            return Ok(());
        }
        let mut begun = self.frame.len();
        for (index, (word, gap)) in words(line).enumerate() {
            let here = self.frame.len().saturating_sub(begun);
            // Where there are offsets there may be a column of characters, which a gap sets apart; some programs leave
            // one in the middle of 16 bytes, too.
            if style != Style::Bare && here > 0 && (gap > 2 || gap == 2 && here != 8) {
                break;
            }
            let can_be_offset = index == 0 && style != Style::Bare || style == Style::Bytes && word.len() > 2;
            if can_be_offset && let Some(offset) = offset(word) {
                self.go_to(number, offset)?;
                begun = self.frame.len();
                continue;
            }
            match bytes(word) {
                Some(bytes) => self.frame.extend(bytes),
                None if style != Style::Bare && here > 0 => break,
                None => {
                    let word = word.chars().take(20).collect();
                    return Err(HexError::NotHex { line: number, word });
                }
            }
            if self.frame.len() > MAX_LEN {
                return Err(HexError::TooLong { line: number });
            }
        }
        self.last = self.frame.get(begun..).unwrap_or_default().to_vec();
        Ok(())
    }

    fn go_to(&mut self, line: usize, offset: usize) -> Result<(), HexError> {
        if std::mem::take(&mut self.repeats) && !self.last.is_empty() && offset > self.frame.len() {
            if offset > MAX_LEN {
                return Err(HexError::TooLong { line });
            }
            let missing = offset - self.frame.len();
            let repeated: Vec<u8> = self.last.iter().copied().cycle().take(missing).collect();
            self.frame.extend(repeated);
        }
        if offset == 0 {
            self.close();
        }
        let got = self.frame.len();
        if offset == got { Ok(()) } else { Err(HexError::Offset { line, offset, got }) }
    }
}

/// The words of a line, each with the number of blanks before it.
fn words(line: &str) -> impl Iterator<Item = (&str, usize)> {
    let mut gap = 0;
    line.split([' ', '\t']).filter_map(move |word| {
        gap += 1;
        (!word.is_empty()).then(|| (word, std::mem::take(&mut gap)))
    })
}

/// The bytes of a word: pairs of digits, perhaps after `0x`, between colons, or before a comma.
fn bytes(word: &str) -> Option<Vec<u8>> {
    let word = word.trim_end_matches(',');
    let word = word.strip_prefix("0x").unwrap_or(word);
    let mut all = Vec::new();
    for part in word.split([':', '-']) {
        if part.is_empty() || !part.len().is_multiple_of(2) || !part.is_ascii() {
            return None;
        }
        for pair in part.as_bytes().chunks_exact(2) {
            let digit = |byte: &u8| char::from(*byte).to_digit(16);
            let [high, low] = pair else { return None };
            all.push((digit(high)? << 4 | digit(low)?) as u8);
        }
    }
    Some(all)
}
