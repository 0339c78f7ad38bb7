//! A whole packet: what UDP port 4791 carries, from the BTH to the ICRC.

use crate::error::WireError;
use crate::headers::{Headers, ICRC_LEN};

/// A packet whose structure is right. The ICRC is another question: [`crate::icrc`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Packet<'a> {
    /// BTH and extension headers.
    pub headers: Headers,
    /// The payload, without pad and ICRC.
    pub payload: &'a [u8],
}

/// Takes a UDP payload apart: headers, payload, pad, ICRC.
///
/// Only the structure is judged, as far as it can be without knowing the queue pair. A TVer other than 0, a strange
/// P_Key, or a FIRST packet shorter than the path MTU are for the receiver to refuse.
///
/// # Errors
///
/// An unknown opcode; fewer bytes than headers and ICRC take; payload and pad that are no multiple of 4; a pad
/// without as much payload; payload after an opcode that carries none.
#[inline]
pub fn parse_packet(udp_payload_with_icrc: &[u8]) -> Result<Packet<'_>, WireError> {
    let (headers, info) = Headers::parse_with_info(udp_payload_with_icrc)?;
    let start = usize::from(info.headers_len);
    let got = udp_payload_with_icrc.len();
    let truncated = WireError::Truncated { what: "ICRC", need: start + ICRC_LEN, got };
    let end = got.checked_sub(ICRC_LEN).ok_or(truncated)?;
    let padded = udp_payload_with_icrc.get(start..end).ok_or(truncated)?;
    if !padded.len().is_multiple_of(4) {
        return Err(WireError::Misaligned(padded.len()));
    }
    if !info.payload && !padded.is_empty() {
        return Err(WireError::UnexpectedPayload { opcode: info.opcode, len: padded.len() });
    }
    // A pad of n goes with a payload of 4 - n or more, so the padded length decides alone.
    let pad = headers.bth.pad;
    let payload = padded
        .len()
        .checked_sub(usize::from(pad))
        .and_then(|len| padded.get(..len))
        .ok_or(WireError::Pad { pad, len: padded.len() })?;
    Ok(Packet { headers, payload })
}

/// The pad that a payload of `len` bytes needs, 0..=3.
pub const fn pad_for(len: usize) -> u8 {
    (len.wrapping_neg() & 3) as u8
}

impl Packet<'_> {
    /// Bytes of the packet from the BTH to the end of the pad, without ICRC.
    pub fn len_without_icrc(&self) -> usize {
        self.headers.len() + self.payload.len() + usize::from(self.headers.bth.pad)
    }

    /// Writes headers, payload and pad (zeros) to the front of `out` and says how many bytes they took.
    /// The four bytes of ICRC that must follow are the caller's: [`crate::icrc::compute`].
    ///
    /// # Errors
    ///
    /// As [`Headers::emit`]; [`WireError::Pad`] where BTH PadCnt is not what the payload needs;
    /// [`WireError::UnexpectedPayload`].
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, WireError> {
        let pad = self.headers.bth.pad;
        if pad != pad_for(self.payload.len()) {
            return Err(WireError::Pad { pad, len: self.payload.len() + usize::from(pad) });
        }
        let opcode = self.headers.bth.opcode;
        if !self.payload.is_empty() && opcode.info().is_some_and(|info| !info.payload) {
            return Err(WireError::UnexpectedPayload { opcode, len: self.payload.len() });
        }
        let start = self.headers.emit(out)?;
        let len = start + self.payload.len() + usize::from(pad);
        let got = out.len();
        let rest = out.get_mut(start..len).ok_or(WireError::NoRoom { need: len, got })?;
        let Some((payload, pad)) = rest.split_at_mut_checked(self.payload.len()) else {
            return Err(WireError::NoRoom { need: len, got });
        };
        payload.copy_from_slice(self.payload);
        pad.fill(0);
        Ok(len)
    }
}
