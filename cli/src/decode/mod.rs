//! `glassnic decode`: what a frame is, or every frame of a capture.

mod model;
mod show;
mod text;
mod words;

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;

use glassnic_capture::{Packet, hex, is_capture};
use glassnic_explain::{Lang, both};
use glassnic_wire::dissect::{Dissection, Link, dissect};

use crate::out::Reader;
use crate::packets::{self, CHUNK, End};
use crate::{fault, lang};
use show::Shower;

/// A dump of more is none that anybody reads.
const DUMP_MAX: u64 = 1 << 26;

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

/// Prints the frames of a file, or of standard input for `-`. A capture is read piece by piece: it may be of any length.
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
    let unread = |error: io::Error| fault(&name, &error);
    let mut input: Box<dyn Read> = match file.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(file).map_err(unread)?),
    };
    let mut shower = Shower::new(lang, json);
    let mut bytes = Vec::new();
    input.by_ref().take(CHUNK).read_to_end(&mut bytes).map_err(unread)?;
    let end = if is_capture(&bytes) {
        match capture(lang, &mut *input, bytes, &mut shower) {
            Err(Broken::Read(error)) => return Err(unread(error)),
            Err(Broken::Capture(why)) => Some(why),
            Err(Broken::Print(why)) => return Err(why),
            Ok(Reader::Gone) => return Ok(()),
            Ok(Reader::Reads) => None,
        }
    } else {
        input.take(DUMP_MAX).read_to_end(&mut bytes).map_err(unread)?;
        if bytes.len() as u64 > DUMP_MAX {
            let why = lang.pick("a dump of more than 64 MiB; cut it", "转储超过 64 MiB；请截短");
            return Err(of_file(why.to_owned()));
        }
        let text = dump(lang, &bytes).map_err(of_file)?;
        let frames = hex::parse(&text).map_err(|error| of_file(words::hex_error(lang, &error)))?;
        for (index, bytes) in frames.iter().enumerate() {
            // Somebody may have seen enough: head(1), or a pager that was closed.
            if shower.take(&of_bytes(lang, index + 1, bytes))? == Reader::Gone {
                return Ok(());
            }
        }
        None
    };
    if shower.finish()? == Reader::Gone {
        return Ok(());
    }
    if let Some(why) = end.as_ref().filter(|_| shower.count() == 0) {
        return Err(of_file(why.clone()));
    }
    if !shower.has_found() {
        let none = || lang.pick("no frame is in it", "其中没有帧").to_owned();
        let which = if shower.count() > 1 { lang.pick("the first: ", "第一帧：") } else { "" };
        let why = shower.first_problem().or(end).unwrap_or_else(none);
        return Err(of_file(both!(
            lang,
            "neither RoCEv2 nor a command record: {which}{why}",
            "既不是 RoCEv2 也不是命令记录：{which}{why}"
        )));
    }
    // What is whole has been shown; that the file is not must not go unseen.
    end.map_or(Ok(()), |why| Err(of_file(why)))
}

/// Why a capture was not shown to its end, in words.
enum Broken {
    /// It cannot be read.
    Read(io::Error),
    /// It is not whole.
    Capture(String),
    /// Nothing can be written.
    Print(String),
}

/// Shows the frames of a capture that begins with these bytes.
fn capture(lang: Lang, input: &mut dyn Read, bytes: Vec<u8>, shower: &mut Shower) -> Result<Reader, Broken> {
    let mut unprinted = None;
    let mut reader = Reader::Reads;
    let (_, end) = packets::each(input, bytes, |_, packet| {
        match shower.take(&of_packet(lang, shower.count() + 1, packet)) {
            Ok(Reader::Reads) => return ControlFlow::Continue(()),
            Ok(Reader::Gone) => reader = Reader::Gone,
            Err(why) => unprinted = Some(why),
        }
        ControlFlow::Break(())
    })
    .map_err(Broken::Read)?;
    if let Some(why) = unprinted {
        return Err(Broken::Print(why));
    }
    match end {
        End::Well => Ok(reader),
        End::Broken(error) => Err(Broken::Capture(words::capture_error(lang, error))),
        End::TooLong => {
            Err(Broken::Capture(lang.pick("a block is longer than 16 MiB", "有一个块超过 16 MiB").to_owned()))
        }
    }
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
