//! Packets of several processes and records of several NICs as one capture.

use std::time::{SystemTime, UNIX_EPOCH};

use glassnic_capture::{INTERFACE_OF_PACKETS, INTERFACE_OF_RECORDS, Reader, Writer};
use glassnic_explain::both;
use glassnic_verbs::inspect::{CAPTURE_MAX, monotonic_ns};
use glassnic_wire::Decoded;
use glassnic_wire::command::{CommandOpcode, CommandRecord};
use glassnic_wire::dissect::{Content, Link, dissect};

use glassnic_inspect::tell;

use crate::lang;

/// A capture file, and what is in it.
pub(super) struct Merged {
    pub(super) bytes: Vec<u8>,
    pub(super) packets: usize,
    pub(super) records: usize,
    /// What is not in it, and why.
    pub(super) problems: Vec<String>,
}

struct Entry {
    time_ns: u64,
    interface: u32,
    bytes: Vec<u8>,
    comment: Option<String>,
}

/// `files` are processes and their files of packets.
pub(super) fn merge(files: &[(u32, Vec<u8>)], records: &[CommandRecord]) -> Merged {
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    for (pid, file) in files {
        if file.len() as u64 > CAPTURE_MAX {
            problems.push(both!(
                lang(),
                "process {pid} wrote 1 GiB of packets; later ones are missing",
                "进程 {pid} 写了 1 GiB 报文；之后的没有记下"
            ));
        }
        // Its process may have died while it wrote the last one.
        let packets = Reader::new(file).into_iter().flatten().map_while(Result::ok);
        entries.extend(packets.map(|packet| Entry {
            time_ns: packet.time_ns.unwrap_or(0),
            interface: 0,
            bytes: packet.bytes.to_vec(),
            comment: packet.comment.map(str::to_owned).or_else(|| refusal_in(packet.bytes)),
        }));
    }
    let packets = entries.len();
    entries.extend(records.iter().map(|record| Entry {
        time_ns: record.timestamp_ns(),
        interface: 1,
        bytes: record.to_bytes().to_vec(),
        comment: refusal_of(record),
    }));
    entries.sort_by_key(|entry| entry.time_ns);
    // Records and packets have the host's monotonic clock; Wireshark shows dates.
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    let offset = since_1970.saturating_sub(monotonic_ns());
    let mut writer = Writer::new("glassnic capture", &[INTERFACE_OF_PACKETS, INTERFACE_OF_RECORDS]);
    for entry in entries {
        let Entry { time_ns, interface, bytes, comment } = entry;
        writer.packet(interface, time_ns.saturating_add(offset), &bytes, comment.as_deref());
    }
    Merged { bytes: writer.take(), packets, records: records.len(), problems }
}

/// What a packet refuses.
fn refusal_in(frame: &[u8]) -> Option<String> {
    let found = dissect(Link::Ethernet, frame, frame.len()).ok()?;
    let Content::Roce(packet) = found.content else { return None };
    let syndrome = packet.headers.aeth?.syndrome;
    matches!(syndrome.decode(), Decoded::Nak(_) | Decoded::Rnr { .. })
        .then(|| both!(lang(), "refused by the responder: {syndrome}", "被响应方拒绝：{syndrome}"))
}

/// What a record says of something that was refused or failed.
fn refusal_of(record: &CommandRecord) -> Option<String> {
    use CommandOpcode as Op;
    let told = matches!(
        record.opcode().ok()?,
        Op::Refusal
            | Op::CompletionError
            | Op::FirstError
            | Op::NakSent
            | Op::NakReceived
            | Op::PacketDropped
    );
    told.then(|| {
        let told = tell(lang(), record);
        format!("{} {}: {}", told.subject, told.what, told.how)
    })
}
