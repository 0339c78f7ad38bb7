//! Packets on a cable: captured by tcpdump, dissected by tshark, and judged by GlassNIC's own `wire`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use glassnic_wire::frame::{Ip, parse_frame};
use glassnic_wire::icrc::{self, IpId};
use glassnic_wire::parse_packet;
use rustix::process::Signal;

use crate::place::{CABLE_INTERFACE, End};
use crate::process::{Program, Running};
use crate::product;

/// A capture that goes on.
#[derive(Debug)]
pub struct Capture {
    tcpdump: Running,
    file: PathBuf,
}

/// A packet as two independent judges see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// BTH opcode.
    pub opcode: u8,
    /// BTH destination QP.
    pub dest_qp: u32,
    /// BTH PSN.
    pub psn: u32,
}

impl Capture {
    /// Captures all RoCEv2 packets at one end of a cable, until [`Capture::stop`].
    ///
    /// # Panics
    /// When tcpdump does not start.
    pub fn start(end: &End, name: &str) -> Self {
        let file = product::scratch().join(format!("{name}.pcap"));
        let options = ["tcpdump", "--immediate-mode", "-B", "16384", "-s", "9000", "-U", "-Z", "root"];
        let filter = ["-i", CABLE_INTERFACE, "-w", &file.display().to_string(), "udp", "port", "4791"]
            .map(String::from);
        let program = Program::plain(options).args(filter).at(&end.place);
        let tcpdump = program.limit(Duration::from_secs(120)).start();
        // The file's header is written once the socket listens.
        let started = Instant::now();
        while std::fs::metadata(&file).map_or(0, |file| file.len()) < FILE_HEADER_LEN as u64 {
            assert!(started.elapsed() < Duration::from_secs(10), "tcpdump did not begin: {}", tcpdump.wait());
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { tcpdump, file }
    }

    /// Ends the capture and returns its file.
    ///
    /// # Panics
    /// When tcpdump failed or dropped packets.
    pub fn stop(self) -> PathBuf {
        // What the last program sent may still be on its way through the packet socket.
        std::thread::sleep(Duration::from_millis(200));
        self.tcpdump.signal(Signal::INT);
        let finished = self.tcpdump.wait();
        assert!(
            finished.succeeded() && finished.stderr.contains("0 packets dropped by kernel"),
            "{finished}"
        );
        self.file
    }
}

const FILE_HEADER_LEN: usize = 24;
const RECORD_HEADER_LEN: usize = 16;

/// Judges every packet of a capture with GlassNIC's `wire`: each must be a RoCEv2 packet with the right
/// ICRC for the IP header that was captured.
///
/// # Errors
/// The first packet that is not, by its number and why.
///
/// # Panics
/// When the file is no capture.
pub fn judge_with_wire(file: &Path) -> Result<Vec<Seen>, String> {
    let bytes = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    assert!(bytes.starts_with(&0xa1b2_c3d4_u32.to_le_bytes()), "{} is no little-endian pcap", file.display());
    let mut rest = &bytes[FILE_HEADER_LEN..];
    let mut seen = Vec::new();
    while let Some((header, tail)) = rest.split_at_checked(RECORD_HEADER_LEN) {
        let word =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (captured, original) = (word(8), word(12));
        let number = seen.len() + 1;
        if captured != original {
            return Err(format!("packet {number}: {original} bytes, of which only {captured} were captured"));
        }
        let (frame, tail) = tail.split_at_checked(captured as usize).ok_or("the capture ends in a packet")?;
        seen.push(judge_frame(frame).map_err(|why| format!("packet {number}: {why}"))?);
        rest = tail;
    }
    Ok(seen)
}

fn judge_frame(frame: &[u8]) -> Result<Seen, String> {
    let (headers, datagram) = parse_frame(frame).map_err(|error| error.to_string())?;
    let id = match headers.ip {
        Ip::V4(_) => IpId::Known(headers.ip.id()),
        Ip::V6(_) => IpId::Unknown,
    };
    icrc::check(&headers.flow(), datagram, id).map_err(|error| error.to_string())?;
    let packet = parse_packet(datagram).map_err(|error| error.to_string())?;
    let bth = packet.headers.bth;
    Ok(Seen { opcode: bth.opcode.0, dest_qp: bth.dest_qp.value(), psn: bth.psn.value() })
}

/// Every packet as tshark dissects it.
///
/// # Errors
/// The first packet that tshark does not take for RoCEv2.
///
/// # Panics
/// When tshark cannot be run.
pub fn judge_with_tshark(file: &Path) -> Result<Vec<Seen>, String> {
    let fields = ["infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn"];
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(file).args(["-T", "fields"]);
    tshark.args(fields.iter().flat_map(|field| ["-e", field]));
    let output = tshark.output().unwrap_or_else(|error| panic!("cannot run tshark: {error}"));
    assert!(output.status.success(), "tshark failed:\n{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let packets = text.lines().enumerate().map(|(index, line)| {
        let numbers: Option<Vec<u32>> = line.split('\t').map(number).collect();
        match numbers.as_deref() {
            Some(&[opcode, dest_qp, psn]) if opcode < 0x100 => {
                Ok(Seen { opcode: opcode as u8, dest_qp, psn })
            }
            _ => Err(format!("packet {}: tshark does not dissect it as RoCEv2: {line:?}", index + 1)),
        }
    });
    packets.collect()
}

/// Decimal, or hexadecimal after `0x`.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// How many packets of each opcode there are.
pub fn by_opcode(packets: &[Seen]) -> BTreeMap<u8, usize> {
    let mut counts = BTreeMap::new();
    for packet in packets {
        *counts.entry(packet.opcode).or_default() += 1;
    }
    counts
}
