//! Sending: packets gather in one buffer, runs of equal ones become one segmented send, the rest goes in batches.

use super::control::{Control, Name};
use super::{Family, SocketOptions, Sockets, is_ack, is_request};
use crate::sys::socket::{self, CALL_MAX, Outgoing};
use arrayvec::ArrayVec;
use glassnic_wire::icrc::{self, Flow};
use std::io;
use std::net::IpAddr;

/// Longest packet from BTH to the end of the pad: a path MTU of 4096 and the longest headers.
pub const PACKET_LEN_MAX: usize = 4096 + 128;
/// Packets of a batch.
const PACKETS_MAX: usize = 128;
/// Bytes of the ICRC.
const ICRC_LEN: usize = 4;
const ARENA_LEN: usize = PACKETS_MAX * (PACKET_LEN_MAX + ICRC_LEN);
/// Segments that every kernel with UDP_SEGMENT takes in one send (UDP_MAX_SEGMENTS).
const SEGMENTS_MAX: usize = 64;
/// Bytes of one send: what the IPv4 length field leaves.
const SEND_LEN_MAX: usize = 65507;

/// Where and how a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// Addresses and ports. The source port is replaced by that of the socket, which is the one that goes out.
    pub flow: Flow,
    /// IPv4 TOS or IPv6 traffic class.
    pub tos: u8,
    /// IPv4 TTL or IPv6 hop limit; at least 1.
    pub hop_limit: u8,
    /// Interface index, for link-local destinations; else 0.
    pub scope_id: u32,
    /// The receiver knows that the n-th packet of a segmented send has identification n. Destinations of this host
    /// need not say so: what listens there is one of us.
    pub peer_takes_gso: bool,
}

/// A packet that the path does not carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooBig {
    /// Destination.
    pub dst: IpAddr,
    /// UDP payload length in bytes.
    pub len: usize,
}

/// What became of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlushReport {
    /// Packets that the kernel took.
    pub sent: usize,
    /// Packets that it refused. They are lost, as any packet may be.
    pub dropped: usize,
    /// Packets that stay in the batch, as the socket's buffer is full: flush again later.
    pub pending: usize,
    /// The last packet that was larger than the path's MTU (EMSGSIZE).
    pub too_big: Option<TooBig>,
    /// errno of the last refusal.
    pub errno: Option<i32>,
}

/// One send: a packet, or a run of packets for segmentation.
struct Send {
    path: Path,
    /// Block of QP numbers that it is for.
    block: u16,
    start: usize,
    len: usize,
    /// Length of each segment but the last, ICRC included.
    segment_len: usize,
    segments: usize,
    /// Its last segment is shorter: no more may follow.
    ended: bool,
}

/// Packets on their way out. Reused for ever; allocates once.
pub struct TxBatch {
    options: SocketOptions,
    /// Sorted.
    local: Vec<IpAddr>,
    arena: Vec<u8>,
    used: usize,
    packets: usize,
    sends: Vec<Send>,
}

impl TxBatch {
    /// An empty batch. `local` are this host's addresses ([`crate::iface::local_addresses`]).
    pub fn new(options: SocketOptions, local: Vec<IpAddr>) -> Self {
        let (arena, sends) = (vec![0; ARENA_LEN], Vec::with_capacity(PACKETS_MAX));
        let mut batch = Self { options, local: Vec::new(), arena, used: 0, packets: 0, sends };
        batch.set_local(local);
        batch
    }

    /// The host's addresses have changed.
    pub fn set_local(&mut self, mut local: Vec<IpAddr>) {
        local.sort_unstable();
        self.local = local;
    }

    /// Whether another packet of [`PACKET_LEN_MAX`] fits.
    pub fn room(&self) -> bool {
        self.packets < PACKETS_MAX && self.used + PACKET_LEN_MAX + ICRC_LEN <= self.arena.len()
    }

    /// Packets that wait for a flush.
    pub fn len(&self) -> usize {
        self.packets
    }

    /// Sends that they make up, each of one packet or several.
    #[cfg(test)]
    pub(super) fn send_count(&self) -> usize {
        self.sends.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Append a packet. `build` writes it from BTH to the end of the pad into a buffer of [`PACKET_LEN_MAX`] bytes of
    /// unspecified content, and returns its length; the ICRC is appended here. A length of 0 appends nothing.
    ///
    /// # Panics
    /// Without [`TxBatch::room`], or where `build` returns more than it was given: our bugs both.
    pub fn push(&mut self, path: &Path, build: impl FnOnce(&mut [u8]) -> usize) {
        assert!(self.room(), "flush before pushing more");
        let mut path = *path;
        path.flow.sport = self.options.port;
        let start = self.used;
        let transport_len = build(&mut self.arena[start..start + PACKET_LEN_MAX]);
        assert!(transport_len <= PACKET_LEN_MAX, "a packet longer than its buffer");
        if transport_len == 0 {
            return;
        }
        let len = transport_len + ICRC_LEN;
        if self.goes_before(&path, len) {
            self.insert(&path, len);
        } else {
            let place = self.place(&path, len);
            self.seal(&path.flow, place, start, len);
        }
        self.used += len;
        self.packets += 1;
    }

    /// Write the ICRC of a packet.
    fn seal(&mut self, flow: &Flow, place: u16, start: usize, len: usize) {
        let (transport, icrc) = self.arena[start..start + len].split_at_mut(len - ICRC_LEN);
        icrc.copy_from_slice(&icrc::compute(flow, place, transport).to_le_bytes());
    }

    /// Whether a longer packet at the end of the arena shares a send with the acknowledgement before it, ahead of it as
    /// only the last segment may be shorter. Requests and acknowledgements are numbered apart (IBA 9.7.1): any order will
    /// do, and a receiver takes the answers of a message first.
    fn goes_before(&self, path: &Path, len: usize) -> bool {
        let fresh = &self.arena[self.used..];
        self.sends.last().is_some_and(|send| {
            send.segments == 1
                && !send.ended
                && send.segment_len < len
                && send.path == *path
                && send.block == qpn_block(fresh)
                && is_ack(&self.arena[send.start..])
                && is_request(fresh)
        })
    }

    /// Put the packet at the end of the arena before the only one of the last send.
    fn insert(&mut self, path: &Path, len: usize) {
        let Some(send) = self.sends.last_mut() else { return };
        let (start, behind) = (send.start, send.len);
        (send.len, send.segment_len, send.segments, send.ended) = (len + behind, len, 2, true);
        self.arena[start..start + behind + len].rotate_left(behind);
        self.seal(&path.flow, 0, start, len);
        self.seal(&path.flow, 1, start + len, behind);
    }

    /// Find the send for a packet of `len` bytes at the end of the arena; returns its place there, which becomes
    /// its IPv4 identification.
    fn place(&mut self, path: &Path, len: usize) -> u16 {
        let joins = self.takes_segments(path);
        let block = qpn_block(&self.arena[self.used..]);
        match self.sends.last_mut() {
            Some(send)
                if joins
                    && !send.ended
                    && send.path == *path
                    // The kernel steers a send as a whole.
                    && send.block == block
                    && len <= send.segment_len
                    && send.segments < SEGMENTS_MAX
                    && send.len + len <= SEND_LEN_MAX =>
            {
                send.ended = len < send.segment_len;
                send.len += len;
                send.segments += 1;
                send.segments as u16 - 1
            }
            _ => {
                let send = Send {
                    path: *path,
                    block,
                    start: self.used,
                    len,
                    segment_len: len,
                    segments: 1,
                    ended: !joins,
                };
                self.sends.push(send);
                0
            }
        }
    }

    fn takes_segments(&self, path: &Path) -> bool {
        self.options.gso && (path.peer_takes_gso || self.is_local(path.flow.dst))
    }

    fn is_local(&self, addr: IpAddr) -> bool {
        let addr = addr.to_canonical();
        addr.is_loopback() || self.local.binary_search(&addr).is_ok()
    }

    /// Send all that waits. What the kernel refuses is dropped and counted, except when its buffer is full.
    pub fn flush(&mut self, sockets: &Sockets) -> FlushReport {
        let mut report = FlushReport::default();
        let mut next = 0;
        // A pending ICMP error is reported once, in place of a send that has nothing to do with it.
        let mut retried = false;
        while let Some(first) = self.sends.get(next) {
            let family = family(&first.path);
            let group = self.sends[next..]
                .iter()
                .take(CALL_MAX)
                .take_while(|send| self::family(&send.path) == family);
            let outcome = match sockets.fd(family) {
                Some(fd) => self.send_group(fd, next, group.count()),
                None => Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT)),
            };
            let error = match outcome {
                Ok(sent) => {
                    report.sent +=
                        self.sends[next..next + sent].iter().map(|send| send.segments).sum::<usize>();
                    next += sent;
                    retried = false;
                    continue;
                }
                Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
            };
            match error {
                libc::EINTR => continue,
                libc::EAGAIN => break,
                libc::ECONNREFUSED if !retried => {
                    retried = true;
                    continue;
                }
                libc::EMSGSIZE => {
                    report.too_big = Some(TooBig { dst: first.path.flow.dst, len: first.segment_len });
                }
                _ => {}
            }
            report.errno = Some(error);
            report.dropped += first.segments;
            next += 1;
            retried = false;
        }
        self.forget(next);
        report.pending = self.packets;
        report
    }

    fn send_group(&self, fd: std::os::fd::BorrowedFd<'_>, first: usize, count: usize) -> io::Result<usize> {
        let sends = &self.sends[first..first + count];
        let address = |send: &Send| {
            let flow = &send.path.flow;
            let mut control = Control::for_path(&send.path);
            if send.segments > 1 {
                control.push_segment_size(send.segment_len as u16);
            }
            (Name::new(flow.dst, flow.dport, send.path.scope_id), control)
        };
        let outgoing = |send: &Send, name, control| Outgoing {
            name,
            control,
            payload: &self.arena[send.start..send.start + send.len],
        };
        if let [send] = sends {
            let (name, control) = address(send);
            return socket::send_many(fd, &[outgoing(send, name.bytes(), control.bytes())]);
        }
        let addresses: ArrayVec<_, CALL_MAX> = sends.iter().map(address).collect();
        let messages: ArrayVec<_, CALL_MAX> = sends
            .iter()
            .zip(&addresses)
            .map(|(send, (name, control))| outgoing(send, name.bytes(), control.bytes()))
            .collect();
        socket::send_many(fd, &messages)
    }

    /// Drop the first sends, and move what remains to the front.
    fn forget(&mut self, count: usize) {
        let gone: usize = self.sends.drain(..count).map(|send| send.segments).sum();
        self.packets -= gone;
        let start = self.sends.first().map_or(self.used, |send| send.start);
        self.arena.copy_within(start..self.used, 0);
        self.used -= start;
        for send in &mut self.sends {
            send.start -= start;
        }
    }
}

/// The upper half of the BTH's destination QP number (bytes 5 to 7), by which processes share the numbers.
fn qpn_block(packet: &[u8]) -> u16 {
    match packet {
        [_, _, _, _, _, high, middle, ..] => u16::from_be_bytes([*high, *middle]) >> 4,
        _ => 0,
    }
}

fn family(path: &Path) -> Family {
    if path.flow.is_v4() { Family::V4 } else { Family::V6 }
}
