//! pcapng, written: one section, interfaces with a clock of nanoseconds, packets with comments.

use glassnic_wire::dissect::DLT_COMMAND;

use crate::read::{block, option};

/// An interface of a capture.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Interface<'a> {
    /// LINKTYPE value.
    pub dlt: u16,
    /// Name.
    pub name: &'a str,
    /// What it is.
    pub description: &'a str,
}

/// RoCEv2 packets, as Ethernet frames.
pub const INTERFACE_OF_PACKETS: Interface<'static> =
    Interface { dlt: 1, name: "roce", description: "RoCEv2 packets" };
/// Command records.
pub const INTERFACE_OF_RECORDS: Interface<'static> =
    Interface { dlt: DLT_COMMAND as u16, name: "commands", description: "command records of the device" };

/// `if_tsresol` of nanoseconds.
const NANOSECONDS: u8 = 9;

/// Makes the bytes of a pcapng file; whoever calls takes them out and writes them.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    out: Vec<u8>,
}

impl Writer {
    /// Begins a file: `application` wrote it, and these are its interfaces, numbered from 0.
    #[must_use]
    pub fn new(application: &str, interfaces: &[Interface<'_>]) -> Self {
        let mut writer = Self::default();
        writer.block(block::SECTION, |body| {
            body.extend(0x1a2b_3c4d_u32.to_le_bytes());
            body.extend([1, 0, 0, 0]);
            // The section's length is not known before its end.
            body.extend(u64::MAX.to_le_bytes());
            // shb_userappl
            put_option(body, 4, application.as_bytes());
            put_option(body, option::END, &[]);
        });
        for interface in interfaces {
            writer.block(block::INTERFACE, |body| {
                body.extend(interface.dlt.to_le_bytes());
                body.extend([0; 2]);
                // No limit to what is captured of a packet.
                body.extend([0; 4]);
                put_option(body, option::IF_NAME, interface.name.as_bytes());
                put_option(body, option::IF_DESCRIPTION, interface.description.as_bytes());
                put_option(body, option::IF_TSRESOL, &[NANOSECONDS]);
                put_option(body, option::END, &[]);
            });
        }
        writer
    }

    /// Appends a packet, whole.
    pub fn packet(&mut self, interface: u32, time_ns: u64, bytes: &[u8], comment: Option<&str>) {
        let len = bytes.len() as u32;
        self.block(block::ENHANCED_PACKET, |body| {
            body.extend(interface.to_le_bytes());
            body.extend(((time_ns >> 32) as u32).to_le_bytes());
            body.extend((time_ns as u32).to_le_bytes());
            body.extend(len.to_le_bytes());
            body.extend(len.to_le_bytes());
            body.extend(bytes);
            pad(body);
            if let Some(comment) = comment {
                put_option(body, option::COMMENT, comment.as_bytes());
                put_option(body, option::END, &[]);
            }
        });
    }

    /// Takes out what has been made since the last time.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    fn block(&mut self, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
        let start = self.out.len();
        self.out.extend(kind.to_le_bytes());
        self.out.extend([0; 4]);
        body(&mut self.out);
        // The length stands at both ends, so that a reader can go backwards.
        let len = ((self.out.len() - start + 4) as u32).to_le_bytes();
        self.out.extend(len);
        if let Some(field) = self.out.get_mut(start + 4..start + 8) {
            field.copy_from_slice(&len);
        }
    }
}

/// Zeros up to a multiple of 4; blocks begin at one, as all that is written has such a length.
fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Longer values are cut: an option has 16 bits of length.
fn put_option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = value.get(..value.len().min(u16::MAX.into())).unwrap_or_default();
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    out.extend(value);
    pad(out);
}
