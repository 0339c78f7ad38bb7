//! Packets of several processes and records of several NICs as one capture.

use std::fs::File;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::time::{SystemTime, UNIX_EPOCH};

use glassnic_capture::{INTERFACE_OF_PACKETS, INTERFACE_OF_RECORDS, Step, Writer};
use glassnic_explain::both;
use glassnic_verbs::inspect::{CAPTURE_MAX, monotonic_ns};
use glassnic_wire::Decoded;
use glassnic_wire::command::{CommandOpcode, CommandRecord};
use glassnic_wire::dissect::{Content, Link, dissect};

use glassnic_inspect::tell;

use crate::{lang, packets};

/// What is in a capture file.
pub(super) struct Merged {
    pub(super) packets: usize,
    pub(super) records: usize,
    /// What is not in it, and why.
    pub(super) problems: Vec<String>,
}

/// Something that the capture shows. A packet stays where it is until its turn comes: there may be gigabytes of them.
struct Entry {
    time_ns: u64,
    from: Source,
}

enum Source {
    /// A block of a file.
    Packet { file: u32, len: u32, at: u64 },
    /// Its place in the list.
    Record(u32),
}

/// Writes one capture to `output`. `files` are processes and their files of packets, which have packets of several NICs in the
/// order in which they were written.
///
/// # Errors
/// Reading and writing.
pub(super) fn merge(
    output: &mut impl Write,
    files: &[(u32, File)],
    records: &[CommandRecord],
) -> io::Result<Merged> {
    let (mut entries, mut parsers, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for (n, (pid, file)) in (0..).zip(files) {
        if file.metadata()?.len() > CAPTURE_MAX {
            problems.push(both!(
                lang(),
                "process {pid} wrote 1 GiB of packets; later ones are missing",
                "进程 {pid} 写了 1 GiB 报文；之后的没有记下"
            ));
        }
        let mut input = file;
        // Its process may have died while it wrote the last one: what is broken ends the file.
        let (parser, _) = packets::each(&mut input, Vec::new(), |(at, len), packet| {
            let from = Source::Packet { file: n, len: len as u32, at };
            entries.push(Entry { time_ns: packet.time_ns.unwrap_or(0), from });
            ControlFlow::Continue(())
        })?;
        parsers.push(parser);
    }
    let packets = entries.len();
    let of_record = |(n, record): (u32, &CommandRecord)| Entry {
        time_ns: record.timestamp_ns(),
        from: Source::Record(n),
    };
    entries.extend((0..).zip(records).map(of_record));
    entries.sort_by_key(|entry| entry.time_ns);
    // Records and packets have the host's monotonic clock; Wireshark shows dates.
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    let offset = since_1970.saturating_sub(monotonic_ns());
    let mut writer = Writer::new("glassnic capture", &[INTERFACE_OF_PACKETS, INTERFACE_OF_RECORDS]);
    let mut block = Vec::new();
    for Entry { time_ns, from } in entries {
        let time_ns = time_ns.saturating_add(offset);
        match from {
            Source::Record(n) => {
                let Some(record) = records.get(n as usize) else { continue };
                writer.packet(1, time_ns, &record.to_bytes(), refusal_of(record).as_deref());
            }
            Source::Packet { file, len, at } => {
                let (Some((_, input)), Some(parser)) =
                    (files.get(file as usize), parsers.get_mut(file as usize))
                else {
                    continue;
                };
                block.resize(len as usize, 0);
                input.read_exact_at(&mut block, at)?;
                let Ok(Step::Took { packet: Some(packet), .. }) = parser.step(&block) else { continue };
                let comment = packet.comment.map(str::to_owned).or_else(|| refusal_in(packet.bytes));
                writer.packet(0, time_ns, packet.bytes, comment.as_deref());
            }
        }
        output.write_all(&writer.take())?;
    }
    output.write_all(&writer.take())?;
    output.flush()?;
    Ok(Merged { packets, records: records.len(), problems })
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

#[cfg(test)]
mod tests {
    use super::*;
    use glassnic_capture::Reader;
    use std::io::Seek;

    /// A file in which packets of two NICs stand in the order in which they were written, each after a head of its own, and
    /// that ends amid a packet.
    fn tap(times: &[[u64; 3]]) -> File {
        let path =
            std::env::temp_dir().join(format!("glassnic-merge-{}-{}", std::process::id(), times.len()));
        let options = File::options().read(true).write(true).create(true).truncate(true).clone();
        let mut file = options.open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        for group in times {
            let mut writer = Writer::new("GlassNIC", &[INTERFACE_OF_PACKETS]);
            for time in group {
                writer.packet(0, *time, &time.to_be_bytes(), (*time == 5).then_some("said before"));
            }
            file.write_all(&writer.take()).unwrap();
        }
        file.write_all(&[6, 0, 0, 0, 60, 0, 0, 0, 1]).unwrap();
        file.rewind().unwrap();
        file
    }

    #[test]
    fn packets_of_all_files_stand_in_the_order_of_their_times() {
        let files = [(1, tap(&[[10, 20, 30], [5, 15, 25]])), (2, tap(&[[1, 16, 40]]))];
        let mut out = Vec::new();
        let merged = merge(&mut out, &files, &[]).unwrap();
        assert_eq!((merged.packets, merged.records, merged.problems.len()), (9, 0, 0));
        let packets: Vec<_> = Reader::new(&out).unwrap().map(Result::unwrap).collect();
        let numbers: Vec<u64> =
            packets.iter().map(|p| u64::from_be_bytes(p.bytes.try_into().unwrap())).collect();
        assert_eq!(numbers, [1, 5, 10, 15, 16, 20, 25, 30, 40]);
        assert_eq!(packets[1].comment, Some("said before"));
        assert!(packets.is_sorted_by_key(|packet| packet.time_ns));
    }
}
