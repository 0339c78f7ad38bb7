//! A packet descriptor as bytes: what travels in a shared-memory ring, and in the queue between QPs of one process.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 1 | kind: 1 descriptor with its payload, 2 descriptor with spans, 3 RoCEv2 datagram that came to the wrong process |
//! | 1 | 1 | traffic class |
//! | 2 | 1 | hop limit |
//! | 3 | 1 | number of spans |
//! | 4 | 4 | packets it stands for |
//! | 8 | 16 | source GID |
//! | 24 | 16 | destination GID |
//! | 40 | … | BTH and extension headers as on the wire (a datagram: to its end) |
//! | … | … | payload, or spans of 12 bytes: address, length |

use arrayvec::ArrayVec;
use glassnic_transport::wqe::MAX_SGE;
use glassnic_transport::{Incoming, Payload, Span, Tx, TxPayload};
use glassnic_wire::{Headers, MAX_HEADERS_LEN, parse_packet};

use crate::sys;

/// Payload that travels in the record; longer ones are fetched from where they lie, in one copy.
pub(crate) const INLINE_MAX: usize = 8192;
const HEAD: usize = 40;
const SPAN_LEN: usize = 12;
/// Longest record.
pub(crate) const RECORD_MAX: usize = HEAD + MAX_HEADERS_LEN + INLINE_MAX;

const INLINE: u8 = 1;
const SPANS: u8 = 2;
const DATAGRAM: u8 = 3;

/// The spans of a record.
pub(crate) type Spans = ArrayVec<Span, MAX_SGE>;

/// Writes a descriptor into `out`, which is emptied first. False if its headers are not those of its opcode.
pub(crate) fn encode(src_gid: [u8; 16], tx: &Tx<'_>, out: &mut Vec<u8>) -> bool {
    out.clear();
    let len = tx.payload.len();
    let by_span = matches!(tx.payload, TxPayload::Spans(_)) && len > INLINE_MAX;
    let spans = match tx.payload {
        TxPayload::Spans(s) if by_span => s.len() as u8,
        _ => 0,
    };
    let kind = if by_span { SPANS } else { INLINE };
    out.extend([kind, tx.path.traffic_class, tx.path.hop_limit, spans]);
    out.extend(tx.npsn.to_le_bytes());
    out.extend(src_gid);
    out.extend(tx.path.dgid);
    let mut headers = [0; MAX_HEADERS_LEN];
    let Ok(n) = tx.headers.emit(&mut headers) else { return false };
    out.extend(&headers[..n]);
    match tx.payload {
        TxPayload::Bytes(b) => out.extend(b),
        TxPayload::Spans(list) if by_span => {
            for s in list {
                out.extend(s.addr.to_le_bytes());
                out.extend(s.len.to_le_bytes());
            }
        }
        TxPayload::Spans(list) => {
            let mut at = out.len();
            out.resize(at + len, 0);
            for s in list {
                sys::load(s.addr, &mut out[at..at + s.len as usize]);
                at += s.len as usize;
            }
        }
    }
    true
}

/// Writes a datagram that belongs to another process, whose ICRC was right.
pub(crate) fn encode_datagram(
    src: [u8; 16],
    dst: [u8; 16],
    tos: u8,
    ttl: u8,
    datagram: &[u8],
    out: &mut Vec<u8>,
) {
    out.clear();
    out.extend([DATAGRAM, tos, ttl, 0]);
    out.extend(1u32.to_le_bytes());
    out.extend(src);
    out.extend(dst);
    out.extend(datagram);
}

/// Reads a record and hands it to `f`; nothing happens if it is not one. `source` names the process it came from.
pub(crate) fn decode<T>(record: &[u8], source: u32, f: impl FnOnce(&Incoming<'_>) -> T) -> Option<T> {
    let (head, rest) = record.split_first_chunk::<HEAD>()?;
    let npsn = u32::from_le_bytes(*head[4..].first_chunk()?);
    let (src_gid, dst_gid) = (*head[8..].first_chunk()?, *head[24..].first_chunk()?);
    let mut spans = Spans::new();
    let (headers, payload) = match head[0] {
        DATAGRAM => {
            let packet = parse_packet(rest).ok()?;
            (packet.headers, Payload::Bytes(packet.payload))
        }
        INLINE => {
            let (headers, at) = Headers::parse(rest).ok()?;
            (headers, Payload::Bytes(rest.get(at..)?))
        }
        SPANS => {
            let (headers, at) = Headers::parse(rest).ok()?;
            let list = rest.get(at..)?;
            if list.len() != usize::from(head[3]) * SPAN_LEN {
                return None;
            }
            let mut total = 0u64;
            for s in list.as_chunks::<SPAN_LEN>().0 {
                let span = Span {
                    addr: u64::from_le_bytes(*s.first_chunk()?),
                    len: u32::from_le_bytes(*s[8..].first_chunk()?),
                };
                total += u64::from(span.len);
                spans.try_push(span).ok()?;
            }
            if total > u64::from(u32::MAX) {
                return None;
            }
            (headers, Payload::Spans { source, spans: &spans })
        }
        _ => return None,
    };
    let inc =
        Incoming { src_gid, dst_gid, traffic_class: head[1], hop_limit: head[2], headers, npsn, payload };
    Some(f(&inc))
}
