//! `glassnic decode`, as a person and a script use it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What a CREATE_QP looks like in print: 100 of its 106 bytes, in a UDP packet that never was one.
/// `second` is the line in which the opcode and the handle stand.
fn printed(second: &str) -> String {
    let zeros = |line: usize, n: usize| format!("{line:04x} {}\n", vec!["00"; n].join(" "));
    let head = "0000 00 11 22 33 44 55 00 11 22 33 44 56 08 00 45 00\n\
                0010 00 5c 00 01 00 00 40 11 77 cb c0 a8 01 01 c0 a8\n";
    format!("{head}{second}\n{}{}{}{}", zeros(0x30, 16), zeros(0x40, 16), zeros(0x50, 16), zeros(0x60, 4))
}

const WITH_GAPS: &str = "0020 01 02 04 00 00 00 00 00 00 00 48 00 00 00 00 00";
const WITHOUT_GAPS: &str = "0020 01 02 04 00 00 00 00 48 00 00 00 00 00 00 00 00";

fn decode(input: &[u8], words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_glassnic"));
    command.args(["decode", "-"]).args(words);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn captures() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/wire/testdata");
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|ext| ext == "pcap")).collect()
}

#[test]
fn a_printed_create_qp_in_full() {
    insta::assert_snapshot!(stdout(&decode(printed(WITH_GAPS).as_bytes(), &[])));
}

#[test]
fn one_without_gaps_whose_line_breaks_were_lost() {
    let one_line = printed(WITHOUT_GAPS).replace('\n', " ");
    insta::assert_snapshot!(stdout(&decode(one_line.as_bytes(), &[])));
}

#[test]
fn a_printed_create_qp_as_json() {
    for second in [WITH_GAPS, WITHOUT_GAPS] {
        let text = stdout(&decode(printed(second).as_bytes(), &["--json"]));
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let command = &json["command"];
        assert_eq!(command["opcode"], "CREATE_QP");
        assert_eq!(
            (&command["opcode_number"], &command["qpn"], &command["pd"]),
            (&4.into(), &0.into(), &72.into())
        );
        let odd = json["odd"].as_array().unwrap().iter();
        let odd: Vec<_> = odd.map(|odd| odd["what"].as_str().unwrap()).take(4).collect();
        assert_eq!(odd, ["ipv4_checksum", "missing_bytes", "no_udp_header", "command_in_frame"]);
        assert_eq!(json["ip"]["checksum_expected"], 0xf73c);
    }
}

#[test]
fn every_packet_of_every_capture() {
    let (mut good, mut files) = (0, 0);
    for path in captures() {
        let bytes = std::fs::read(&path).unwrap();
        for line in stdout(&decode(&bytes, &["--json"])).lines() {
            let json: serde_json::Value = serde_json::from_str(line).unwrap();
            if json["error"].is_null() {
                assert_eq!(json["roce"]["icrc"]["verdict"], "good", "{}: {line}", path.display());
                assert_eq!(json["odd"], serde_json::json!([]));
                good += 1;
            }
        }
        stdout(&decode(&bytes, &[]));
        files += 1;
    }
    assert!(good == 1146 && files > 30, "{good} packets in {files} files");
}

#[test]
fn a_packet_in_full_and_with_a_wrong_icrc() {
    let path = captures().into_iter().find(|path| path.ends_with("rxe-rc-cas.pcap")).unwrap();
    let bytes = std::fs::read(path).unwrap();
    let mut frame = bytes[40..40 + 86].to_vec();
    let dump = |frame: &[u8]| frame.iter().map(|byte| format!("{byte:02x} ")).collect::<String>();
    insta::assert_snapshot!(stdout(&decode(dump(&frame).as_bytes(), &[])));
    frame[60] ^= 1;
    let text = stdout(&decode(dump(&frame).as_bytes(), &[]));
    assert!(text.contains("ICRC          wrong: expected 0x"), "{text}");
    // The same from the IP header on.
    let text = stdout(&decode(dump(&frame[14..]).as_bytes(), &[]));
    assert!(text.starts_with("72 bytes, raw IP\n"), "{text}");
}

#[test]
fn what_is_no_frame_is_one_line_and_status_2() {
    let arp = format!("{} 08 06 {}", ["ff"; 12].join(" "), ["00"; 46].join(" "));
    let cases: [(&[u8], &str); 6] = [
        (b"", "no hexadecimal digits"),
        (b"hello", "line 1: \"hello\" is no hexadecimal byte"),
        (b"00 11", "neither RoCEv2 nor a command record: Ethernet header needs 6 bytes, 2 are there"),
        (&[0, 1, 2, 0xff], "neither a hexadecimal dump nor a pcap or pcapng file"),
        (&[0xd4, 0xc3, 0xb2, 0xa1, 2], "the file ends 19 bytes before the end of its header"),
        (arp.as_bytes(), "neither RoCEv2 nor a command record: not a plain UDP frame: another EtherType"),
    ];
    for (input, why) in cases {
        let output = decode(input, &[]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{why}: {text}");
        assert_eq!(text, format!("glassnic: standard input: {why}\n"));
        assert!(output.stdout.is_empty());
    }
    let absent =
        Command::new(env!("CARGO_BIN_EXE_glassnic")).args(["decode", "/proc/absent"]).output().unwrap();
    assert_eq!(absent.status.code(), Some(2));
}

#[test]
fn a_capture_that_ends_early_is_shown_as_far_as_it_goes() {
    let path = captures().into_iter().find(|path| path.ends_with("rxe-rc-cas.pcap")).unwrap();
    let bytes = std::fs::read(path).unwrap();
    let output = decode(&bytes[..bytes.len() - 5], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 9);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text, "glassnic: standard input: the file ends 5 bytes before the end of its packet\n");
}

/// 256 MiB through a process that may have 128.
#[test]
fn a_capture_of_any_length_takes_little_memory() {
    use glassnic_capture::{INTERFACE_OF_PACKETS, INTERFACE_OF_RECORDS, Writer};
    use glassnic_wire::command::{CommandOpcode, CommandRecord, body};
    const FRAMES: usize = 4096;
    let limited = format!("ulimit -v 131072; exec {} decode -", env!("CARGO_BIN_EXE_glassnic"));
    let mut command = Command::new("sh");
    command.args(["-c", &limited]).env("GLASSNIC_LANG", "en");
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        let mut writer = Writer::new("test", &[INTERFACE_OF_PACKETS, INTERFACE_OF_RECORDS]);
        let record = CommandRecord::with_body(CommandOpcode::CreateQp, &body::CreateQp::default()).unwrap();
        writer.packet(1, 0, &record.to_bytes(), None);
        for _ in 0..FRAMES {
            writer.packet(0, 0, &[0; 1 << 16], None);
            stdin.write_all(&writer.take()).unwrap();
        }
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = stdout(&output);
    assert_eq!(text.lines().count(), FRAMES + 1);
    assert!(text.lines().next().unwrap().contains("CREATE_QP"), "{}", text.lines().next().unwrap());
}
