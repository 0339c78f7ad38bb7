//! The 72-byte command record: what a driver hands to the device, and what the flight recorder keeps.
//!
//! Little-endian throughout. The head and the tail are the same for all; the 44 bytes between belong to the opcode.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 2 | opcode, [`CommandOpcode`]; CREATE_QP = 0x0004 |
//! | 2 | 2 | status and flags: errno in bits 0..=11 (0: executed), [`CommandFlags`] in bits 12..=15 |
//! | 4 | 4 | QPN, or 0 before one is given, or where no QP is meant |
//! | 8 | 4 | handle of the PD, or of the object meant where it is no QP |
//! | 12 | 44 | the opcode's fields: a [`Body`] |
//! | 56 | 8 | event sequence number |
//! | 64 | 8 | time of the host's monotonic clock, in nanoseconds |
//!
//! Each body's offsets stand at its fields in [`body`], and as data in [`Body::FIELDS`], which decoders walk.

pub mod body;
mod opcode;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::WireError;

pub use body::Body;
pub use opcode::CommandOpcode;

/// Bytes of a record.
pub const RECORD_LEN: usize = 72;
/// Offset of the opcode's own fields.
pub const BODY_OFFSET: usize = 12;
/// Bytes of the opcode's own fields.
pub const BODY_LEN: usize = 44;

bitflags::bitflags! {
    /// The flag bits of the status field.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct CommandFlags: u16 {
        /// The device has executed or refused it; without this it is still on its way.
        const DONE = 1 << 15;
        /// Submitted without waiting.
        const ASYNC = 1 << 14;
        /// Submitted under one doorbell with the record after it.
        const BATCH = 1 << 13;
    }
}

/// The bits of the status field that hold an errno.
const ERRNO_MASK: u16 = 0x0fff;

/// One record. Any 72 bytes are one, and keep their value; [`CommandRecord::opcode`] says whether the opcode is known.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq, Unaligned)]
#[repr(C)]
pub struct CommandRecord {
    opcode: U16,
    status: U16,
    qpn: U32,
    pd: U32,
    body: [u8; BODY_LEN],
    seq: U64,
    timestamp_ns: U64,
}

const _: () = {
    use core::mem::{align_of, offset_of, size_of};
    assert!(size_of::<CommandRecord>() == RECORD_LEN && align_of::<CommandRecord>() == 1);
    assert!(offset_of!(CommandRecord, status) == 2);
    assert!(offset_of!(CommandRecord, qpn) == 4);
    assert!(offset_of!(CommandRecord, pd) == 8);
    assert!(offset_of!(CommandRecord, body) == BODY_OFFSET);
    assert!(offset_of!(CommandRecord, seq) == 56);
    assert!(offset_of!(CommandRecord, timestamp_ns) == 64);
};

impl CommandRecord {
    /// A record with an empty body, not executed yet, sequence number and time zero.
    pub fn new(opcode: CommandOpcode) -> Self {
        Self {
            opcode: opcode.number().into(),
            status: 0.into(),
            qpn: 0.into(),
            pd: 0.into(),
            body: [0; BODY_LEN],
            seq: 0.into(),
            timestamp_ns: 0.into(),
        }
    }

    /// A record with a body of the opcode's type.
    ///
    /// # Errors
    ///
    /// [`WireError::UnknownCommand`] where bodies of this type do not go with `opcode`.
    pub fn with_body<B: Body>(opcode: CommandOpcode, body: &B) -> Result<Self, WireError> {
        let mut record = Self::new(opcode);
        record.set_body(body)?;
        Ok(record)
    }

    /// The record that these bytes are.
    pub fn from_bytes(bytes: &[u8; RECORD_LEN]) -> Self {
        zerocopy::transmute!(*bytes)
    }

    /// The record at the front of `bytes`.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`] where there are fewer than 72 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let short = WireError::Truncated { what: "command record", need: RECORD_LEN, got: bytes.len() };
        bytes.first_chunk().map(Self::from_bytes).ok_or(short)
    }

    /// The record's bytes.
    pub fn to_bytes(&self) -> [u8; RECORD_LEN] {
        zerocopy::transmute!(*self)
    }

    /// What the record is.
    ///
    /// # Errors
    ///
    /// [`WireError::UnknownCommand`] for a number that is not in the table.
    pub fn opcode(&self) -> Result<CommandOpcode, WireError> {
        let number = self.opcode_number();
        CommandOpcode::from_number(number).ok_or(WireError::UnknownCommand(number))
    }

    /// The opcode's number, known or not.
    pub fn opcode_number(&self) -> u16 {
        self.opcode.get()
    }

    /// The errno of the outcome; 0 where it was executed, or was not yet.
    pub fn errno(&self) -> u16 {
        self.status.get() & ERRNO_MASK
    }

    /// The flags.
    pub fn flags(&self) -> CommandFlags {
        CommandFlags::from_bits_truncate(self.status.get())
    }

    /// Sets the errno, of which the low 12 bits count, and the flags.
    pub fn set_status(&mut self, errno: u16, flags: CommandFlags) {
        self.status = (errno & ERRNO_MASK | flags.bits()).into();
    }

    /// The QP meant, or 0. A device that reads a foreign record must not take it for 24 bits.
    pub fn qpn(&self) -> u32 {
        self.qpn.get()
    }

    /// Sets the QP meant.
    pub fn set_qpn(&mut self, qpn: u32) {
        self.qpn = qpn.into();
    }

    /// The handle of the PD, or of the object meant.
    pub fn pd(&self) -> u32 {
        self.pd.get()
    }

    /// Sets the handle of the PD, or of the object meant.
    pub fn set_pd(&mut self, pd: u32) {
        self.pd = pd.into();
    }

    /// The event sequence number.
    pub fn seq(&self) -> u64 {
        self.seq.get()
    }

    /// Sets the event sequence number.
    pub fn set_seq(&mut self, seq: u64) {
        self.seq = seq.into();
    }

    /// The time, in nanoseconds of the host's monotonic clock.
    pub fn timestamp_ns(&self) -> u64 {
        self.timestamp_ns.get()
    }

    /// Sets the time, in nanoseconds of the host's monotonic clock.
    pub fn set_timestamp_ns(&mut self, ns: u64) {
        self.timestamp_ns = ns.into();
    }

    /// The 44 bytes of the opcode's fields.
    pub fn body_bytes(&self) -> &[u8; BODY_LEN] {
        &self.body
    }

    /// The opcode's fields; `None` where they are not those of a `B`.
    pub fn body<B: Body>(&self) -> Option<B> {
        let opcode = CommandOpcode::from_number(self.opcode_number())?;
        B::OPCODES.contains(&opcode).then(|| B::from_body(self.body))
    }

    /// Sets the opcode's fields.
    ///
    /// # Errors
    ///
    /// [`WireError::UnknownCommand`] where a `B` does not go with the record's opcode.
    pub fn set_body<B: Body>(&mut self, body: &B) -> Result<(), WireError> {
        if !B::OPCODES.contains(&self.opcode()?) {
            return Err(WireError::UnknownCommand(self.opcode_number()));
        }
        self.body = body.to_body();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::body::{Field, ModifyQp, Nak};
    use super::*;

    #[test]
    fn a_bare_create_qp() {
        // Opcode 4 and PD 0x48, no number yet, all else zero.
        let mut bytes = [0; RECORD_LEN];
        bytes[0] = 0x04;
        bytes[8] = 0x48;
        let record = CommandRecord::from_bytes(&bytes);
        assert_eq!(record.opcode(), Ok(CommandOpcode::CreateQp));
        assert_eq!((record.qpn(), record.pd()), (0, 0x48));
        let mut made = CommandRecord::new(CommandOpcode::CreateQp);
        made.set_pd(0x48);
        assert_eq!(made.to_bytes(), bytes);
    }

    #[test]
    fn fields_lie_where_the_table_says() {
        let mut record = CommandRecord::new(CommandOpcode::ModifyQp);
        record.set_status(22, CommandFlags::DONE | CommandFlags::BATCH);
        record.set_qpn(0x0012_3456);
        record.set_pd(7);
        record.set_seq(0x0102_0304_0506_0708);
        record.set_timestamp_ns(9);
        let body = ModifyQp { attr_mask: 0x81.into(), to_state: 3, port_num: 1, ..ModifyQp::default() };
        record.set_body(&body).unwrap();
        let bytes = record.to_bytes();
        assert_eq!(bytes[..12], [5, 0, 22, 0xa0, 0x56, 0x34, 0x12, 0, 7, 0, 0, 0]);
        assert_eq!((bytes[12], bytes[17], bytes[55]), (0x81, 3, 1));
        assert_eq!(bytes[56..], [8, 7, 6, 5, 4, 3, 2, 1, 9, 0, 0, 0, 0, 0, 0, 0]);
        let back = CommandRecord::parse(&bytes).unwrap();
        assert_eq!(back, record);
        assert_eq!(back.body::<ModifyQp>(), Some(body));
        assert_eq!((back.errno(), back.flags()), (22, CommandFlags::DONE | CommandFlags::BATCH));
    }

    #[test]
    fn a_body_goes_with_its_opcodes_only() {
        let record = CommandRecord::new(CommandOpcode::DestroyQp);
        assert_eq!(record.body::<ModifyQp>(), None);
        assert!(CommandRecord::with_body(CommandOpcode::DestroyQp, &ModifyQp::default()).is_err());
        assert!(CommandRecord::with_body(CommandOpcode::NakSent, &Nak::default()).is_ok());
    }

    #[test]
    fn numbers_and_names_are_in_order_and_come_back() {
        assert!(CommandOpcode::ALL.is_sorted_by(|a, b| a < b));
        for opcode in CommandOpcode::ALL {
            assert_eq!(CommandOpcode::from_number(opcode.number()), Some(*opcode));
            assert_eq!(opcode.is_command(), opcode.number() < 0x100);
        }
        let qp = [
            CommandOpcode::CreateQp,
            CommandOpcode::ModifyQp,
            CommandOpcode::QueryQp,
            CommandOpcode::DestroyQp,
        ];
        assert_eq!(qp.map(CommandOpcode::number), [4, 5, 6, 7]);
        assert_eq!(qp.map(CommandOpcode::name), ["CREATE_QP", "MODIFY_QP", "QUERY_QP", "DESTROY_QP"]);
    }

    #[test]
    fn too_short_or_unknown_is_an_error() {
        for len in 0..RECORD_LEN {
            assert!(matches!(
                CommandRecord::parse(&vec![0; len]),
                Err(WireError::Truncated { need: 72, .. })
            ));
        }
        let record = CommandRecord::from_bytes(&[0xff; RECORD_LEN]);
        assert_eq!(record.opcode(), Err(WireError::UnknownCommand(0xffff)));
        assert_eq!(record.to_bytes(), [0xff; RECORD_LEN]);
    }

    #[test]
    fn fields_fill_their_bodies_without_a_gap() {
        fn end(fields: &[Field]) -> usize {
            fields.iter().fold(BODY_OFFSET, |at, field| {
                assert_eq!(field.offset, at, "{}", field.name);
                at + field.len
            })
        }
        assert_eq!(end(ModifyQp::FIELDS), BODY_OFFSET + BODY_LEN);
        assert_eq!(end(body::CreateQp::FIELDS), BODY_OFFSET + BODY_LEN);
        assert_eq!(end(body::DestroyQp::FIELDS), BODY_OFFSET + BODY_LEN);
        assert_eq!(end(Nak::FIELDS), BODY_OFFSET + BODY_LEN);
    }
}
