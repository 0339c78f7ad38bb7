//! Connection management: the messages that make and end connections (IBA §12), in the MADs that carry them (§13.4).
//!
//! A MAD is a UD payload of 256 bytes between the two QPs 1: 24 bytes of header, and 232 of message. Each message is a table
//! of its fields; struct, parser and builder are made of it.

mod fields;
mod messages;
mod reason;
mod service;

pub use fields::Field;
pub use messages::{
    Apr, Drep, Dreq, Lap, MESSAGES, MRA_OF_LAP, MRA_OF_REP, MRA_OF_REQ, Message, MessageInfo, Mra,
    REJ_OF_NONE, REJ_OF_REP, REJ_OF_REQ, Rej, Rep, Req, Rtu, SidrRep, SidrReq,
};
pub use reason::{RejReason, SidrStatus};
pub use service::{IP_HEADER_LEN, IpHeader, PortSpace, ServiceId};

use crate::error::WireError;

/// Bytes of a MAD.
pub const MAD_LEN: usize = 256;
/// Bytes of its header.
pub const MAD_HEADER_LEN: usize = 24;
/// Bytes of a message.
pub const MESSAGE_LEN: usize = MAD_LEN - MAD_HEADER_LEN;
/// Q_Key of QP 1, the general services interface (§10.2.5).
pub const QP1_QKEY: u32 = 0x8001_0000;
/// The number of the general services QP.
pub const QP1: u32 = 1;

/// Management class of connection management.
const CLASS: u8 = 7;
/// `Send()`, the only method of the class.
const METHOD_SEND: u8 = 3;

/// The header of a MAD, base version 1 (§13.4.3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MadHeader {
    /// Version of the format of MADs, 1.
    pub base_version: u8,
    /// Management class.
    pub class: u8,
    /// Version of the class's format.
    pub class_version: u8,
    /// What to do.
    pub method: u8,
    /// Status, 0 in a request.
    pub status: u16,
    /// The class's own.
    pub class_specific: u16,
    /// The sender's number of an exchange.
    pub tid: u64,
    /// Which message.
    pub attribute: u16,
    /// A part of what the attribute names.
    pub modifier: u32,
}

impl MadHeader {
    /// That of a message of connection management.
    #[must_use]
    pub const fn of_cm(tid: u64, attribute: u16) -> Self {
        Self {
            base_version: 1,
            class: CLASS,
            class_version: 2,
            method: METHOD_SEND,
            status: 0,
            class_specific: 0,
            tid,
            attribute,
            modifier: 0,
        }
    }

    fn parse(b: &[u8; MAD_HEADER_LEN]) -> Self {
        Self {
            base_version: b[0],
            class: b[1],
            class_version: b[2],
            method: b[3],
            status: u16::from_be_bytes([b[4], b[5]]),
            class_specific: u16::from_be_bytes([b[6], b[7]]),
            tid: u64::from_be_bytes([b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]]),
            attribute: u16::from_be_bytes([b[16], b[17]]),
            modifier: u32::from_be_bytes([b[20], b[21], b[22], b[23]]),
        }
    }

    fn emit(&self) -> [u8; MAD_HEADER_LEN] {
        let mut out = [0; MAD_HEADER_LEN];
        out[..4].copy_from_slice(&[self.base_version, self.class, self.class_version, self.method]);
        out[4..6].copy_from_slice(&self.status.to_be_bytes());
        out[6..8].copy_from_slice(&self.class_specific.to_be_bytes());
        out[8..16].copy_from_slice(&self.tid.to_be_bytes());
        out[16..18].copy_from_slice(&self.attribute.to_be_bytes());
        out[20..].copy_from_slice(&self.modifier.to_be_bytes());
        out
    }
}

/// A MAD of connection management.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mad {
    /// The number of the exchange, chosen by whoever began it.
    pub tid: u64,
    /// What it says.
    pub message: Message,
}

impl Mad {
    /// Takes a UD payload apart.
    ///
    /// # Errors
    /// Fewer than 256 bytes; another class, version or method; a message that nobody knows.
    pub fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let short = WireError::Truncated { what: "MAD", need: MAD_LEN, got: payload.len() };
        let Some((header, rest)) = payload.split_first_chunk() else { return Err(short) };
        let Some(message) = rest.first_chunk::<MESSAGE_LEN>() else { return Err(short) };
        let header = MadHeader::parse(header);
        let want = MadHeader::of_cm(header.tid, header.attribute);
        for (what, value, wanted) in [
            ("base version", header.base_version, want.base_version),
            ("management class", header.class, want.class),
            ("class version", header.class_version, want.class_version),
            ("method", header.method, want.method),
        ] {
            if value != wanted {
                return Err(WireError::NoCmMad { what, value: value.into() });
            }
        }
        let attribute = header.attribute;
        let message = Message::parse(header.attribute, message)
            .ok_or(WireError::NoCmMad { what: "attribute", value: attribute })?;
        Ok(Self { tid: header.tid, message })
    }

    /// The UD payload.
    #[must_use]
    pub fn emit(&self) -> [u8; MAD_LEN] {
        let mut out = [0; MAD_LEN];
        let (header, message) = out.split_at_mut(MAD_HEADER_LEN);
        header.copy_from_slice(&MadHeader::of_cm(self.tid, self.message.info().attribute).emit());
        message.copy_from_slice(&self.message.emit());
        out
    }
}
