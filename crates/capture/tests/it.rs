//! Files and dumps in, values out, and back.

use std::path::{Path, PathBuf};
use std::process::Command;

use glassnic_capture::{
    CaptureError, INTERFACE_OF_PACKETS, INTERFACE_OF_RECORDS, Reader, Writer, hex, is_capture, lua,
};
use glassnic_wire::command::{CommandFlags, CommandOpcode, CommandRecord, body};
use glassnic_wire::dissect::{Content, Link, Verdict, dissect};
use proptest::prelude::*;

fn captures() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/testdata");
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|ext| ext == "pcap")).collect();
    files.sort();
    files
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// A record of each opcode, with bytes that differ in its body.
fn records() -> Vec<CommandRecord> {
    let made = CommandOpcode::ALL.iter().enumerate().map(|(index, opcode)| {
        let mut bytes = CommandRecord::new(*opcode).to_bytes();
        bytes[12..56].iter_mut().enumerate().for_each(|(at, byte)| *byte = (at + index) as u8);
        let mut record = CommandRecord::from_bytes(&bytes);
        record.set_qpn(0x0012_3456);
        record.set_pd(7);
        record.set_seq(index as u64 + 1);
        record.set_timestamp_ns(5_000_000_000);
        record.set_status(if index == 4 { 22 } else { 0 }, CommandFlags::DONE);
        record
    });
    made.collect()
}

fn pcapng_of(records: &[CommandRecord]) -> Vec<u8> {
    let mut writer = Writer::new("a test", &[INTERFACE_OF_PACKETS, INTERFACE_OF_RECORDS]);
    for record in records {
        writer.packet(1, record.timestamp_ns() + record.seq(), &record.to_bytes(), Some("a comment"));
    }
    writer.take()
}

#[test]
fn every_packet_of_the_captures_is_found_and_its_icrc_good() {
    let mut roce = 0;
    for path in captures() {
        let bytes = std::fs::read(&path).unwrap();
        assert!(is_capture(&bytes));
        for packet in Reader::new(&bytes).unwrap() {
            let packet = packet.unwrap();
            assert_eq!(packet.bytes.len(), packet.sent_len);
            assert!(packet.time_ns.unwrap() > 1_600_000_000_000_000_000);
            let found = dissect(Link::from_dlt(packet.dlt).unwrap(), packet.bytes, packet.sent_len);
            let Ok(found) = found else { continue };
            let Content::Roce(packet) = found.content else { panic!("{}: no packet", path.display()) };
            assert_eq!(packet.icrc, Verdict::Good);
            roce += 1;
        }
    }
    assert_eq!(roce, 1146);
}

#[test]
fn pcap_of_the_other_byte_order_and_of_nanoseconds() {
    let mut file = Vec::new();
    for word in [0xa1b2_3c4d_u32, 0x0002_0004, 0, 0, 65535, 101, 3, 4, 2, 9] {
        file.extend(word.to_be_bytes());
    }
    file.extend([0x45, 0]);
    let packets: Vec<_> = Reader::new(&file).unwrap().map(Result::unwrap).collect();
    assert_eq!(packets.len(), 1);
    assert_eq!((packets[0].dlt, packets[0].time_ns, packets[0].sent_len), (101, Some(3_000_000_004), 9));
    assert_eq!(packets[0].bytes, [0x45, 0]);
}

#[test]
fn what_is_written_is_read_back() {
    let records = records();
    let file = pcapng_of(&records);
    let packets: Vec<_> = Reader::new(&file).unwrap().map(Result::unwrap).collect();
    assert_eq!(packets.len(), records.len());
    for (packet, record) in packets.iter().zip(&records) {
        assert_eq!((packet.dlt, packet.bytes), (147, &record.to_bytes()[..]));
        assert_eq!(packet.time_ns, Some(5_000_000_000 + record.seq()));
    }
}

#[test]
fn a_file_that_ends_early_gives_what_it_has_and_then_an_error() {
    let path = captures().into_iter().find(|path| path.ends_with("rxe-rc-cas.pcap")).unwrap();
    let bytes = std::fs::read(path).unwrap();
    let all = Reader::new(&bytes).unwrap().count();
    let cut: Vec<_> = Reader::new(&bytes[..bytes.len() - 3]).unwrap().collect();
    assert_eq!(cut.len(), all);
    assert_eq!(cut.last(), Some(&Err(CaptureError::CutShort { what: "packet", missing: 3 })));
    let file = pcapng_of(&records()[..2]);
    for len in 0..file.len() {
        let Ok(reader) = Reader::new(&file[..len]) else { continue };
        assert!(reader.filter(|packet| packet.is_ok()).count() < 2);
    }
    assert_eq!(Reader::new(b"no capture").err(), Some(CaptureError::NoCapture));
}

#[test]
fn tshark_reads_what_is_written_and_every_field_of_every_record() {
    let records = records();
    let path = scratch("records.pcapng");
    std::fs::write(&path, pcapng_of(&records)).unwrap();
    let output = tshark(&path, &["-V"]);
    let blocks: Vec<&str> = output.split("GlassNIC command record: ").skip(1).collect();
    assert!(output.matches("a comment").count() >= records.len());
    assert_eq!(blocks.len(), records.len(), "{output}");
    for (block, record) in blocks.iter().zip(&records) {
        let opcode = record.opcode().unwrap();
        assert!(block.contains(&format!("Opcode: {opcode} ({:#06x})", opcode.number())), "{block}");
        assert!(block.contains("QPN: 0x00123456"), "{block}");
        for field in
            body::info(opcode).iter().flat_map(|body| body.fields).filter(|field| !field.is_reserved())
        {
            assert!(block.contains(&format!("{}: ", field.name)), "{opcode} {}:\n{block}", field.name);
        }
    }
    // Every field by its name for filters, with its value.
    for record in &records {
        let opcode = record.opcode().unwrap();
        for field in
            body::info(opcode).iter().flat_map(|body| body.fields).filter(|field| !field.is_reserved())
        {
            let Some(number) = field.number(&record.to_bytes()) else { continue };
            if !matches!(opcode, CommandOpcode::ModifyQp | CommandOpcode::CreateQp) {
                continue;
            }
            let name = lua::filter_name(opcode, field).unwrap();
            let filter = format!("glassnic.opcode == {} && {name} == {number}", opcode.number());
            assert_eq!(tshark(&path, &["-Y", &filter]).lines().count(), 1, "{filter}");
        }
    }
    let refused = tshark(&path, &["-Y", "glassnic.refused"]);
    assert!(
        refused.contains("MODIFY_QP qpn 0x123456 pd 0x7 EINVAL") && refused.lines().count() == 1,
        "{refused}"
    );
}

#[test]
fn the_dissector_reads_a_printed_create_qp_and_takes_no_harm_from_short_ones() {
    let path = scratch("printed.pcapng");
    let mut record = CommandRecord::new(CommandOpcode::CreateQp);
    record.set_pd(0x48);
    let mut writer = Writer::new("a test", &[INTERFACE_OF_RECORDS]);
    writer.packet(0, 0, &record.to_bytes(), None);
    writer.packet(0, 1, &record.to_bytes()[..66], None);
    writer.packet(0, 2, &[0xff; 72], None);
    std::fs::write(&path, writer.take()).unwrap();
    let lines = tshark(&path, &[]);
    assert!(lines.contains("CREATE_QP qpn 0x000000 pd 0x48"), "{lines}");
    assert!(lines.contains("opcode 0xffff"), "{lines}");
    let fields = ["-T", "fields", "-e", "glassnic.opcode", "-e", "glassnic.qpn", "-e", "glassnic.pd"];
    assert_eq!(tshark(&path, &fields).lines().next(), Some("0x0004\t0x00000000\t0x00000048"));
    assert_eq!(tshark(&path, &["-Y", "glassnic.short"]).lines().count(), 1);
}

/// What tshark prints with the dissector; a fault in Lua shows in its text or on standard error.
fn tshark(file: &Path, words: &[&str]) -> String {
    let script = format!("lua_script:{}", dissector_path().display());
    let mut command = Command::new("tshark");
    let output = command.args(["-X", &script, "-r"]).arg(file).args(words).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run tshark (package tshark): {error}"));
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{errors}");
    for stream in [&text, &errors] {
        assert!(!stream.contains("Lua Error") && !stream.contains("Lua:"), "{stream}");
    }
    text.into_owned()
}

fn dissector_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wireshark/glassnic.lua")
}

#[test]
fn the_dissector_that_is_checked_in_is_that_of_the_tables() {
    if std::env::var_os("GLASSNIC_UPDATE").is_some() {
        std::fs::write(dissector_path(), lua::dissector()).unwrap();
    }
    let checked_in = std::fs::read_to_string(dissector_path()).unwrap_or_default();
    assert!(
        checked_in == lua::dissector(),
        "wireshark/glassnic.lua is out of date: GLASSNIC_UPDATE=1 cargo test -p glassnic-capture"
    );
}

/// 100 bytes that differ, in the forms in which programs print them.
fn dump_of(bytes: &[u8], form: &str) -> String {
    let lines = bytes.chunks(16).enumerate().map(|(line, chunk)| {
        let at = line * 16;
        let pairs: Vec<String> = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
        let words: Vec<String> =
            chunk.chunks(2).map(|pair| pair.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
        // Characters that could pass for bytes.
        let text = "ab cd 12 0010";
        match form {
            "bare" => pairs.join(" "),
            "words" => words.join(" "),
            "solid" => pairs.concat(),
            "offsets" => format!("{at:04x} {}", pairs.join(" ")),
            "wireshark" => format!("{at:04x}   {}   {text}", pairs.join(" ")),
            "xxd" => format!("{at:08x}: {}  {text}", words.join(" ")),
            "tcpdump" => format!("\t0x{at:04x}:  {}", words.join(" ")),
            "hexdump -C" => {
                let (left, right) = pairs.split_at(pairs.len().min(8));
                format!("{at:08x}  {}  {}  |{text}|", left.join(" "), right.join(" "))
            }
            "c" => pairs.iter().map(|byte| format!("0x{byte}, ")).collect(),
            _ => panic!("{form}"),
        }
    });
    let mut lines: Vec<String> = lines.collect();
    if form == "hexdump -C" {
        lines.push(format!("{:08x}", bytes.len()));
    }
    lines.join("\n")
}

#[test]
fn dumps_of_every_form_are_the_same_bytes() {
    let bytes: Vec<u8> = (0..100).map(|n: u8| n.wrapping_mul(37)).collect();
    for form in ["bare", "words", "solid", "offsets", "wireshark", "xxd", "tcpdump", "hexdump -C", "c"] {
        let text = dump_of(&bytes, form);
        assert_eq!(hex::parse(&text), Ok(vec![bytes.clone()]), "{form}:\n{text}");
        let crlf = text.replace('\n', "\r\n") + "\r\n\r\n";
        assert_eq!(hex::parse(&crlf), Ok(vec![bytes.clone()]), "{form}");
    }
    // Line breaks lost on the way, as in pages that were saved as text.
    let one_line = dump_of(&bytes, "offsets").replace('\n', " ");
    assert_eq!(hex::parse(&one_line), Ok(vec![bytes.clone()]));
    let two = format!("{0}\n{0}", dump_of(&bytes, "offsets"));
    assert_eq!(hex::parse(&two), Ok(vec![bytes.clone(), bytes]));
    let repeated =
        "00000000  01 02 03 04 05 06 07 08  09 0a 0b 0c 0d 0e 0f 10  |................|\n*\n00000040";
    assert_eq!(hex::parse(repeated).unwrap()[0].len(), 64);
}

#[test]
fn what_is_no_dump_is_refused_with_its_line() {
    let cases = [
        ("", "no hexadecimal digits"),
        ("00 11\n22 xy", "line 2: \"xy\" is no hexadecimal byte"),
        ("hello", "line 1: \"hello\" is no hexadecimal byte"),
        ("0000 00 11\n0010 22 33", "line 2: offset 0x10 follows 0x2 bytes"),
        ("00 1", "line 1: \"1\" is no hexadecimal byte"),
        ("0000 00 11 0010 22", "line 1: offset 0x10 follows 0x2 bytes"),
    ];
    for (text, why) in cases {
        assert_eq!(hex::parse(text).unwrap_err().to_string(), why);
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "[0-9a-f x:*|\n]{0,200}") {
        let _ = hex::parse(&text);
    }

    #[test]
    fn no_unicode_panics(text: String) {
        let _ = hex::parse(&text);
    }

    #[test]
    fn no_file_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), magic in 0usize..4) {
        let magics = [0xa1b2_c3d4_u32, 0xa1b2_3c4d, 0x0a0d_0d0a, 0xd4c3_b2a1];
        let file = [&magics[magic].to_le_bytes(), &bytes[..]].concat();
        if let Ok(reader) = Reader::new(&file) {
            prop_assert!(reader.count() <= file.len());
        }
    }

    #[test]
    fn no_damage_panics(at in 0usize..2000, byte: u8, cut in 0usize..2000) {
        let mut file = pcapng_of(&records()[..10]);
        let at = at % file.len();
        file[at] = byte;
        file.truncate(cut.max(4));
        if let Ok(reader) = Reader::new(&file) {
            prop_assert!(reader.count() <= 2000);
        }
    }
}
