//! What can be wrong with bytes, or with headers that are to become bytes.

use crate::opcode::{HeaderSet, Opcode};

/// Why bytes are no packet, record or frame, or why headers cannot be emitted.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes end before `what` does.
    #[error("{what} needs {need} bytes, {got} are there")]
    Truncated {
        /// The header or field that is cut short.
        what: &'static str,
        /// Bytes needed.
        need: usize,
        /// Bytes present.
        got: usize,
    },
    /// The opcode is none of the table's.
    #[error("opcode {:#04x} is not known", .0.0)]
    UnknownOpcode(Opcode),
    /// Payload and pad together are not a multiple of four bytes (IBA §9.2.1).
    #[error("{0} bytes of payload and pad are no multiple of 4")]
    Misaligned(usize),
    /// The pad count is more than the payload, or not 0..=3.
    #[error("a pad of {pad} bytes does not fit {len} bytes of payload and pad")]
    Pad {
        /// BTH PadCnt.
        pad: u8,
        /// Bytes between the headers and the ICRC.
        len: usize,
    },
    /// The opcode carries no payload, but there is one.
    #[error("{opcode} carries no payload, but {len} bytes follow its headers")]
    UnexpectedPayload {
        /// The opcode of the packet.
        opcode: Opcode,
        /// Bytes between the headers and the ICRC.
        len: usize,
    },
    /// The headers given are not those that the opcode has.
    #[error("{opcode}: header missing [{missing:?}], not allowed [{unexpected:?}]")]
    HeaderMismatch {
        /// The opcode to emit.
        opcode: Opcode,
        /// Headers that the opcode has and that were not given.
        missing: HeaderSet,
        /// Headers that were given and that the opcode does not have.
        unexpected: HeaderSet,
    },
    /// A field's value does not fit its bits on the wire.
    #[error("{field} = {value:#x} does not fit its field")]
    FieldRange {
        /// The field, by its name in the header.
        field: &'static str,
        /// The value offered.
        value: u64,
    },
    /// The buffer to write to is too short.
    #[error("{need} bytes do not fit a buffer of {got}")]
    NoRoom {
        /// Bytes needed.
        need: usize,
        /// Bytes offered.
        got: usize,
    },
    /// The ICRC in the packet is not that of its bytes.
    #[error("ICRC {found:#010x} in the packet, {computed:#010x} computed")]
    Icrc {
        /// ICRC computed, with the expected IPv4 identification or 0.
        computed: u32,
        /// ICRC in the packet.
        found: u32,
    },
    /// The frame is not IPv4 or IPv6 with UDP, has IP options, or is a fragment.
    #[error("not a plain UDP frame: {0}")]
    NotUdp(&'static str),
    /// UDP goes to another port than RoCEv2's, and what it carries is no command record.
    #[error("UDP to port {0}; RoCEv2 goes to port 4791")]
    OtherPort(u16),
    /// A length field says other than the bytes present.
    #[error("{what} says {says} bytes, {got} are there")]
    Length {
        /// Whose length field.
        what: &'static str,
        /// Its value.
        says: usize,
        /// What is there.
        got: usize,
    },
    /// The command record's opcode is none of the table's.
    #[error("command opcode {0:#06x} is not known")]
    UnknownCommand(u16),
    /// The datagram is no MAD of connection management.
    #[error("no message of connection management: {what} {value:#x}")]
    NoCmMad {
        /// The field of the MAD's header that says so.
        what: &'static str,
        /// Its value.
        value: u16,
    },
}
