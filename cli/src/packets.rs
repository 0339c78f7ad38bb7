//! The packets of a capture file, read piece by piece: it may be of any length.

use std::io::{self, Read};
use std::ops::ControlFlow;

use glassnic_capture::{CaptureError, Packet, Parser, Step};

/// Longer blocks carry no packets.
const BLOCK_MAX: usize = 1 << 24;
/// Bytes that are read at once.
pub(crate) const CHUNK: u64 = 1 << 18;

/// How the reading of a capture ended.
#[derive(Debug)]
pub(crate) enum End {
    /// With the file, or because enough was seen.
    Well,
    /// It is not whole, or no capture.
    Broken(CaptureError),
    /// A block is longer than 16 MiB.
    TooLong,
}

/// Hands every packet of a capture that begins with `bytes` to `take`, with the place of its block in the file: where it begins,
/// and its length. What the parser knows at the end can read each block again.
///
/// # Errors
/// Reading.
pub(crate) fn each(
    input: &mut dyn Read,
    mut bytes: Vec<u8>,
    mut take: impl FnMut((u64, usize), Packet<'_>) -> ControlFlow<()>,
) -> io::Result<(Parser, End)> {
    let (mut parser, mut at, mut before) = (Parser::default(), 0, 0u64);
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        match parser.step(rest) {
            Err(error) => return Ok((parser, End::Broken(error))),
            Ok(Step::Took { len, packet }) => {
                let place = (before + at as u64, len);
                at += len;
                if let Some(packet) = packet
                    && take(place, packet).is_break()
                {
                    return Ok((parser, End::Well));
                }
            }
            Ok(Step::Short { what, missing }) => {
                if rest.len() > BLOCK_MAX {
                    return Ok((parser, End::TooLong));
                }
                before += at as u64;
                bytes.drain(..at);
                at = 0;
                let read = input.take(CHUNK).read_to_end(&mut bytes)?;
                match (read, bytes.is_empty()) {
                    (0, true) => return Ok((parser, End::Well)),
                    (0, false) => return Ok((parser, End::Broken(CaptureError::CutShort { what, missing }))),
                    _ => {}
                }
            }
        }
    }
}
