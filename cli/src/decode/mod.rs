//! `glassnic decode`: what a frame is, or every frame of a capture.

mod model;
mod text;
mod words;

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;

use glassnic_capture::{CaptureError, Packet, Reader, hex, is_capture};
use glassnic_explain::{Lang, both};
use glassnic_wire::dissect::{Dissection, Link, dissect};

use crate::{fault, lang, out};

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
    let lang = lang();
    let name = match file.as_os_str() == "-" {
        true => lang.pick("standard input", "标准输入").to_owned(),
        false => file.display().to_string(),
    };
    let of_file = |why: String| both!(lang, "{name}: {why}", "{name}：{why}");
    let bytes = read(file).map_err(|error| fault(&name, &error))?;
    let frames = match is_capture(&bytes) {
        true => Vec::new(),
        false => {
            let text = dump(lang, &bytes).map_err(of_file)?;
            hex::parse(&text).map_err(|error| of_file(words::hex_error(lang, &error)))?
        }
    };
    let (seen, end) = match is_capture(&bytes) {
        true => of_capture(lang, &bytes).map_err(|error| of_file(words::capture_error(lang, error)))?,
        false => (of_dump(lang, &frames), None),
    };
    let end = end.map(|error| words::capture_error(lang, error));
    if !seen.iter().any(|frame| frame.found.is_ok()) {
        let first = seen.iter().find_map(|frame| frame.found.as_ref().err().cloned());
        let none = || lang.pick("no frame is in it", "其中没有帧").to_owned();
        let why = first.or(end).unwrap_or_else(none);
        let which = if seen.len() > 1 { lang.pick("the first: ", "第一帧：") } else { "" };
        return Err(of_file(both!(
            lang,
            "neither RoCEv2 nor a command record: {which}{why}",
            "既不是 RoCEv2 也不是命令记录：{which}{why}"
        )));
    }
    // Somebody may have seen enough: head(1), or a pager that was closed.
    let _ = out::written(print(lang, &seen, json))?;
    // What is whole has been shown; that the file is not must not go unseen.
    end.map_or(Ok(()), |why| Err(of_file(why)))
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
            lang().pick(
                "longer than 1 GiB; tshark and editcap(1) cut captures",
                "超过 1 GiB；可用 tshark 或 editcap(1) 截取",
            ),
        ));
    }
    Ok(bytes)
}

fn dump(lang: Lang, bytes: &[u8]) -> Result<String, String> {
    let neither = || {
        lang.pick(
            "neither a hexadecimal dump nor a pcap or pcapng file",
            "既不是十六进制转储，也不是 pcap 或 pcapng 文件",
        )
        .to_owned()
    };
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text.to_owned()),
        _ => Err(neither()),
    }
}

fn of_dump(lang: Lang, frames: &[Vec<u8>]) -> Vec<Seen<'_>> {
    frames.iter().enumerate().map(|(index, bytes)| of_bytes(lang, index + 1, bytes)).collect()
}

/// A dump does not say what a frame begins with. Only a command record is 72 bytes of a known opcode, and hardly any
/// Ethernet frame makes sense as an IP packet.
fn of_bytes(lang: Lang, number: usize, bytes: &[u8]) -> Seen<'_> {
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
    let found = dissect(link, bytes, bytes.len()).map_err(|error| words::neither(lang, &error));
    Seen { number, time_ns: None, sent_len: bytes.len(), bytes, link: Some(link), found }
}

fn is_record(bytes: &[u8]) -> bool {
    use glassnic_wire::command::{CommandRecord, RECORD_LEN};
    bytes.len() == RECORD_LEN && CommandRecord::parse(bytes).is_ok_and(|record| record.opcode().is_ok())
}

/// The frames, and why there are no more, if the file is not whole.
fn of_capture(lang: Lang, bytes: &[u8]) -> Result<(Vec<Seen<'_>>, Option<CaptureError>), CaptureError> {
    let (mut seen, mut end) = (Vec::new(), None);
    for packet in Reader::new(bytes)? {
        match packet {
            Ok(packet) => seen.push(of_packet(lang, seen.len() + 1, packet)),
            Err(error) => end = Some(error),
        }
    }
    Ok((seen, end))
}

fn of_packet(lang: Lang, number: usize, packet: Packet<'_>) -> Seen<'_> {
    let Packet { dlt, time_ns, bytes, sent_len, .. } = packet;
    let link = Link::from_dlt(dlt);
    let found = match link {
        Some(link) => dissect(link, bytes, sent_len).map_err(|error| words::neither(lang, &error)),
        None => {
            Err(both!(lang, "link type {dlt} is none that carries RoCEv2", "链路类型 {dlt} 不承载 RoCEv2"))
        }
    };
    Seen { number, time_ns, sent_len, bytes, link, found }
}

/// One frame in full, or several with a line for each; as JSON, one object a line.
fn print(lang: Lang, seen: &[Seen<'_>], json: bool) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let first = seen.first().and_then(|frame| frame.time_ns);
    for frame in seen {
        match (json, seen.len()) {
            (true, _) => writeln!(out, "{}", model::json(lang, frame))?,
            (false, 1) => write!(out, "{}", text::full(lang, frame))?,
            (false, _) => writeln!(out, "{}", text::line(lang, frame, first))?,
        }
    }
    out.flush()
}
