//! `glassnic decode`: what a frame is, or every frame of a capture.

mod model;
mod text;

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;

use glassnic_capture::{CaptureError, Packet, Reader, hex, is_capture};
use glassnic_wire::dissect::{Dissection, Link, dissect};

/// More than anybody looks at in one piece, and less than fills the memory of a small machine.
const FILE_MAX: u64 = 1 << 30;

/// A frame of the input, with what it is.
pub(super) struct Seen<'a> {
    /// Counted from 1.
    number: usize,
    /// Nanoseconds of the capture's clock.
    time_ns: Option<u64>,
    /// Bytes before the capture cut it.
    sent_len: usize,
    bytes: &'a [u8],
    link: Option<Link>,
    found: Result<Dissection<'a>, String>,
}

/// Prints the frames of a file, or of standard input for `-`.
///
/// # Errors
/// One line: the file cannot be read, is neither dump nor capture, or holds neither a RoCEv2 packet nor a command record.
pub(crate) fn decode(file: &Path, json: bool) -> Result<(), String> {
    let name = if file.as_os_str() == "-" { "standard input".into() } else { file.display().to_string() };
    let bytes = read(file).map_err(|error| format!("{name}: {error}"))?;
    let frames = match is_capture(&bytes) {
        true => Vec::new(),
        false => hex::parse(&dump(&bytes, &name)?).map_err(|error| format!("{name}: {error}"))?,
    };
    let (seen, end) = match is_capture(&bytes) {
        true => of_capture(&bytes).map_err(|error| format!("{name}: {error}"))?,
        false => (of_dump(&frames), None),
    };
    if !seen.iter().any(|frame| frame.found.is_ok()) {
        let first = seen.iter().find_map(|frame| frame.found.as_ref().err().cloned());
        let why = first.or(end.map(|error| error.to_string())).unwrap_or_else(|| "no frame is in it".into());
        let which = if seen.len() > 1 { "the first: " } else { "" };
        return Err(format!("{name}: neither RoCEv2 nor a command record: {which}{why}"));
    }
    print(&seen, json).map_err(|error| format!("standard output: {error}"))?;
    // What is whole has been shown; that the file is not must not go unseen.
    end.map_or(Ok(()), |error| Err(format!("{name}: {error}")))
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match file.as_os_str() == "-" {
        true => io::stdin().lock().take(FILE_MAX + 1).read_to_end(&mut bytes)?,
        false => File::open(file)?.take(FILE_MAX + 1).read_to_end(&mut bytes)?,
    };
    if bytes.len() as u64 > FILE_MAX {
        return Err(io::Error::new(
            ErrorKind::FileTooLarge,
            "longer than 1 GiB; tshark and editcap(1) cut captures",
        ));
    }
    Ok(bytes)
}

fn dump(bytes: &[u8], name: &str) -> Result<String, String> {
    let neither = || format!("{name}: neither a hexadecimal dump nor a pcap or pcapng file");
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text.to_owned()),
        _ => Err(neither()),
    }
}

fn of_dump(frames: &[Vec<u8>]) -> Vec<Seen<'_>> {
    frames.iter().enumerate().map(|(index, bytes)| of_bytes(index + 1, bytes)).collect()
}

/// A dump does not say what a frame begins with. Only a command record is 72 bytes of a known opcode, and hardly any
/// Ethernet frame makes sense as an IP packet.
fn of_bytes(number: usize, bytes: &[u8]) -> Seen<'_> {
    let link = match is_record(bytes) {
        true => Link::Command,
        false
            if dissect(Link::Ethernet, bytes, bytes.len()).is_err()
                && dissect(Link::RawIp, bytes, bytes.len()).is_ok() =>
        {
            Link::RawIp
        }
        false => Link::Ethernet,
    };
    let found = dissect(link, bytes, bytes.len()).map_err(|error| error.to_string());
    Seen { number, time_ns: None, sent_len: bytes.len(), bytes, link: Some(link), found }
}

fn is_record(bytes: &[u8]) -> bool {
    use glassnic_wire::command::{CommandRecord, RECORD_LEN};
    bytes.len() == RECORD_LEN && CommandRecord::parse(bytes).is_ok_and(|record| record.opcode().is_ok())
}

/// The frames, and why there are no more, if the file is not whole.
fn of_capture(bytes: &[u8]) -> Result<(Vec<Seen<'_>>, Option<CaptureError>), CaptureError> {
    let (mut seen, mut end) = (Vec::new(), None);
    for packet in Reader::new(bytes)? {
        match packet {
            Ok(packet) => seen.push(of_packet(seen.len() + 1, packet)),
            Err(error) => end = Some(error),
        }
    }
    Ok((seen, end))
}

fn of_packet(number: usize, packet: Packet<'_>) -> Seen<'_> {
    let Packet { dlt, time_ns, bytes, sent_len, .. } = packet;
    let link = Link::from_dlt(dlt);
    let found = match link {
        Some(link) => dissect(link, bytes, sent_len).map_err(|error| error.to_string()),
        None => Err(format!("link type {dlt} is none that carries RoCEv2")),
    };
    Seen { number, time_ns, sent_len, bytes, link, found }
}

/// One frame in full, or several with a line for each; as JSON, one object a line.
fn print(seen: &[Seen<'_>], json: bool) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let first = seen.first().and_then(|frame| frame.time_ns);
    let mut all = || {
        for frame in seen {
            match (json, seen.len()) {
                (true, _) => writeln!(out, "{}", model::json(frame))?,
                (false, 1) => write!(out, "{}", text::full(frame))?,
                (false, _) => writeln!(out, "{}", text::line(frame, first))?,
            }
        }
        out.flush()
    };
    match all() {
        // Somebody has seen enough: head(1), or a pager that was closed.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
