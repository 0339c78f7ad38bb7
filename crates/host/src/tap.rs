//! Packets for a capture: what leaves this process, and what comes to it from other hosts, as frames in a pcapng file.
//!
//! A tap is open while somebody asks for it: `GLASSNIC_CAPTURE` names a folder for the life of the process, or a command
//! writes into a NIC's segment until when it wants packets ([`Header::CaptureUntilNs`](glassnic_nic::context::Header)).
//! Packets within a host are written as they would look on a wire. Each is written once, where it is sent.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use glassnic_capture::frames::{Descriptor, frames};
use glassnic_capture::{INTERFACE_OF_PACKETS, Writer};
use glassnic_transport::{Tx, TxPayload};
use glassnic_wire::frame::{FrameHeaders, Ip, MAX_FRAME_HEADERS_LEN, ROCE_PORT};
use glassnic_wire::icrc::Flow;
use glassnic_wire::ip;

use crate::sys;

/// The folder for taps, for the life of the process.
pub(crate) const VARIABLE: &str = "GLASSNIC_CAPTURE";
/// Bytes that a process writes at most: a forgotten capture must not fill the memory.
pub(crate) const FILE_MAX: u64 = 1 << 30;

/// The name of a process's file.
pub(crate) fn file_name(pid: u32) -> String {
    format!("tap-{pid}.pcapng")
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Tap {
    file: File,
    path: PathBuf,
    writer: Writer,
    written: u64,
    payload: Vec<u8>,
}

impl Tap {
    /// Opens the tap that the environment asks for.
    pub(crate) fn from_env() -> Option<Box<Self>> {
        Self::open(Path::new(&std::env::var_os(VARIABLE)?))
    }

    /// Opens a tap in a folder; another program that this process was before may have written there.
    pub(crate) fn open(folder: &Path) -> Option<Box<Self>> {
        let path = folder.join(file_name(std::process::id()));
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(&path);
        let writer = Writer::new("GlassNIC", &[INTERFACE_OF_PACKETS]);
        let mut tap = Self { file: file.ok()?, path, writer, written: 0, payload: Vec::new() };
        // That there is a file says that there is a process.
        tap.flush();
        Some(Box::new(tap))
    }

    /// Nobody reads the file any more.
    pub(crate) fn discard(self) {
        let _ = std::fs::remove_file(&self.path);
    }

    /// A descriptor leaves.
    pub(crate) fn sent(&mut self, now_ns: u64, src_gid: [u8; 16], tx: &Tx<'_>) {
        if self.written > FILE_MAX {
            return;
        }
        let payload = match tx.payload {
            TxPayload::Bytes(bytes) => bytes,
            TxPayload::Spans(spans) => {
                self.payload.resize(tx.payload.len(), 0);
                let mut at = 0;
                for span in spans {
                    sys::load(span.addr, &mut self.payload[at..at + span.len as usize]);
                    at += span.len as usize;
                }
                &self.payload
            }
        };
        let (src, dst) = (ip::ip_from_gid(src_gid), ip::ip_from_gid(tx.path.dgid));
        let descriptor = Descriptor {
            flow: Flow { src, dst, sport: ROCE_PORT, dport: ROCE_PORT },
            traffic_class: tx.path.traffic_class,
            hop_limit: if tx.path.hop_limit == 0 { 64 } else { tx.path.hop_limit },
            headers: tx.headers,
            npsn: tx.npsn,
            payload,
        };
        let writer = &mut self.writer;
        // What cannot be written as packets is none that a peer would take either.
        let _ = frames(&descriptor, |frame| writer.packet(0, now_ns, frame, None));
    }

    /// A datagram has come from another host; with the IPv4 identification that its ICRC was made with, where it is right.
    pub(crate) fn received(&mut self, now_ns: u64, datagram: &Datagram<'_>, id: Option<u16>) {
        let Datagram { src, sport, dst, tos, ttl, bytes } = *datagram;
        if self.written > FILE_MAX {
            return;
        }
        let flow = Flow { src, dst, sport, dport: ROCE_PORT };
        let Ok(mut outer) = FrameHeaders::roce(&flow, bytes.len(), id.unwrap_or(0)) else { return };
        match &mut outer.ip {
            Ip::V4(v4) => {
                (v4.tos, v4.ttl) = (tos, ttl);
                v4.checksum = v4.computed_checksum();
            }
            Ip::V6(v6) => (v6.tclass, v6.hop_limit) = (tos, ttl),
        }
        let mut frame = vec![0; MAX_FRAME_HEADERS_LEN];
        let Ok(len) = outer.emit(&mut frame) else { return };
        frame.truncate(len);
        frame.extend(bytes);
        let comment = if id.is_none() { Some("dropped: the ICRC is wrong") } else { None };
        self.writer.packet(0, now_ns, &frame, comment);
    }

    /// Hands what there is to the file.
    pub(crate) fn flush(&mut self) {
        let bytes = self.writer.take();
        if !bytes.is_empty() {
            self.written += bytes.len() as u64;
            // A full disk ends the capture, not the program.
            if self.file.write_all(&bytes).is_err() {
                self.written = u64::MAX;
            }
        }
    }
}

/// A datagram as it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram<'a> {
    pub(crate) src: IpAddr,
    pub(crate) sport: u16,
    pub(crate) dst: IpAddr,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    /// BTH to ICRC.
    pub(crate) bytes: &'a [u8],
}
