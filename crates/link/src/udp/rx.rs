//! Receiving: batches of messages, each of which may be several merged packets.

use super::control::{parse, parse_name};
use super::{Family, Sockets, is_ack, is_request};
use crate::sys::socket::{self, CALL_MAX, Incoming};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Messages that one call receives.
pub const MESSAGES_MAX: usize = CALL_MAX;

/// Largest message: as many merged packets as the length field allows.
const MESSAGE_LEN_MAX: usize = 1 << 16;

/// One packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Sender, with the scope of a link-local address.
    pub src: SocketAddr,
    /// The address that it was sent to.
    pub dst: IpAddr,
    /// Interface that it came in by.
    pub ifindex: u32,
    /// IPv4 TOS or IPv6 traffic class.
    pub tos: u8,
    /// IPv4 TTL or IPv6 hop limit.
    pub ttl: u8,
    /// Its place among merged packets: the IPv4 identification if the sender was one of us.
    pub segment: u16,
    /// UDP payload: BTH to ICRC.
    pub bytes: &'a [u8],
}

/// Buffers for received packets. Reused for ever; its memory is touched only as far as it is used.
pub struct RxBatch {
    messages: Vec<Incoming>,
    filled: usize,
    /// By [`Family`]: something came with the last look, so that more may wait.
    flowing: [bool; 2],
}

impl Default for RxBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl RxBatch {
    /// An empty batch.
    pub fn new() -> Self {
        let messages = (0..MESSAGES_MAX).map(|_| Incoming::new(MESSAGE_LEN_MAX)).collect();
        Self { messages, filled: 0, flowing: [false; 2] }
    }

    /// Take what has arrived on the socket of a family, without waiting, in place of what was here before. Returns the
    /// number of messages, 0 if there is none, or no such socket. There may be more: after a look that found nothing, one
    /// alone is asked for, as that is what whoever polls for an answer waits for.
    ///
    /// # Errors
    /// System calls.
    pub fn receive(&mut self, sockets: &Sockets, family: Family) -> io::Result<usize> {
        self.filled = 0;
        let Some(fd) = sockets.fd(family) else { return Ok(0) };
        let flowing = &mut self.flowing[family as usize];
        let wanted = if *flowing { self.messages.len() } else { 1 };
        loop {
            match socket::receive_many(fd, &mut self.messages[..wanted]) {
                Ok(filled) => {
                    (self.filled, *flowing) = (filled, true);
                    return Ok(filled);
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => {
                        *flowing = false;
                        return Ok(0);
                    }
                    // An ICMP error of an earlier send is of no interest.
                    Some(libc::EINTR | libc::ECONNREFUSED) => {}
                    _ => return Err(error),
                },
            }
        }
    }

    /// The packets, in order of arrival; but for an acknowledgement behind requests that it was sent with ([`super::TxBatch`] puts it
    /// there), which comes first, so that it is known by the time that the application sees the rest. Requests and
    /// acknowledgements are numbered apart (IBA 9.7.1).
    pub fn datagrams(&self) -> impl Iterator<Item = Datagram<'_>> {
        self.messages.iter().take(self.filled).filter_map(split).flatten()
    }
}

/// The packets of a message; `None` for one that lacks what we need.
fn split(message: &Incoming) -> Option<impl Iterator<Item = Datagram<'_>>> {
    let src = parse_name(&message.name)?;
    let received = parse(message.control.0.get(..message.control_len)?);
    let dst = received.dst?;
    let bytes = message.payload.get(..message.len).filter(|_| !message.truncated)?;
    let stride = received.stride.unwrap_or(bytes.len()).max(1);
    let packets = bytes.chunks(stride).enumerate();
    let last = packets.len().saturating_sub(1);
    let is_behind =
        is_ack(bytes.get(last * stride..)?) && packets.clone().take(last).all(|(_, p)| is_request(p));
    let behind = if is_behind { last } else { 0 };
    let packets = packets.clone().skip(behind).chain(packets.take(behind));
    Some(packets.map(move |(segment, bytes)| Datagram {
        src,
        dst,
        ifindex: received.ifindex,
        tos: received.tos,
        ttl: received.ttl,
        segment: segment as u16,
        bytes,
    }))
}
