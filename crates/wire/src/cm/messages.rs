//! The tables of fields: IBA §12.6 (RC, UC), §12.11 (SIDR).

use super::MESSAGE_LEN;
use super::fields::{Field, Value, get, put};

/// A message as data: its attribute, its name and its fields.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MessageInfo {
    /// Attribute id in the MAD's header.
    pub attribute: u16,
    /// The name that the specification has for it.
    pub name: &'static str,
    /// The fields, in the order of their offsets. The last one is the private data.
    pub fields: &'static [Field],
}

macro_rules! messages {
    ($(
        $(#[$doc:meta])*
        $name:ident = $attribute:literal, $word:literal {
            $($(#[$field_doc:meta])* $field:ident: $type:ty = $byte:literal + $bit:literal, $bits:literal;)*
        }
        bytes {
            $($(#[$bytes_doc:meta])* $bytes:ident: $len:literal = $at:literal;)*
        }
    )*) => {
        $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
            $($(#[$bytes_doc])* pub $bytes: [u8; $len],)*
        }

        impl Default for $name {
            /// All fields zero.
            fn default() -> Self {
                Self::parse(&[0; MESSAGE_LEN])
            }
        }

        impl $name {
            /// What it is, as data.
            pub const INFO: MessageInfo = MessageInfo {
                attribute: $attribute,
                name: $word,
                fields: &[
                    $(Field { name: stringify!($field), bit: $byte * 8 + $bit, bits: $bits },)*
                    $(Field { name: stringify!($bytes), bit: $at * 8, bits: $len * 8 },)*
                ],
            };

            fn parse(message: &[u8; MESSAGE_LEN]) -> Self {
                Self {
                    $($field: <$type>::from_bits(get(
                        message,
                        Field { name: stringify!($field), bit: $byte * 8 + $bit, bits: $bits },
                    )),)*
                    $($bytes: message.get($at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; $len]),)*
                }
            }

            fn emit(&self) -> [u8; MESSAGE_LEN] {
                let mut message = [0; MESSAGE_LEN];
                $(put(
                    &mut message,
                    Field { name: stringify!($field), bit: $byte * 8 + $bit, bits: $bits },
                    self.$field.to_bits(),
                );)*
                $(if let Some(to) = message.get_mut($at..$at + $len) {
                    to.copy_from_slice(&self.$bytes);
                })*
                message
            }
        }

        impl From<$name> for Message {
            fn from(message: $name) -> Self {
                Self::$name(message)
            }
        }
        )*

        /// Any message.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum Message {
            $($(#[$doc])* $name($name),)*
        }

        /// Every message.
        pub const MESSAGES: &[MessageInfo] = &[$($name::INFO),*];

        impl Message {
            /// Reads the message of an attribute; `None` for an attribute that nobody knows.
            pub(super) fn parse(attribute: u16, message: &[u8; MESSAGE_LEN]) -> Option<Self> {
                match attribute {
                    $($attribute => Some(Self::$name($name::parse(message))),)*
                    _ => None,
                }
            }

            pub(super) fn emit(&self) -> [u8; MESSAGE_LEN] {
                match self {
                    $(Self::$name(message) => message.emit(),)*
                }
            }

            /// What it is, as data.
            #[must_use]
            pub const fn info(&self) -> MessageInfo {
                match self {
                    $(Self::$name(_) => $name::INFO,)*
                }
            }
        }
    };
}

/// What an MRA answers.
pub const MRA_OF_REQ: u8 = 0;
/// What an MRA answers.
pub const MRA_OF_REP: u8 = 1;
/// What an MRA answers.
pub const MRA_OF_LAP: u8 = 2;
/// What a REJ rejects.
pub const REJ_OF_REQ: u8 = 0;
/// What a REJ rejects.
pub const REJ_OF_REP: u8 = 1;
/// What a REJ rejects: no message, but the time that one took.
pub const REJ_OF_NONE: u8 = 2;

messages! {
    /// Asks for a connection (§12.6.5).
    Req = 0x0010, "REQ" {
        /// The sender's number of the connection.
        local_comm_id: u32 = 0 + 0, 32;
        /// Whom it is for.
        service_id: u64 = 8 + 0, 64;
        /// GUID of the sender's device.
        local_ca_guid: u64 = 16 + 0, 64;
        /// Q_Key of the sender's QP; RD only.
        local_qkey: u32 = 28 + 0, 32;
        /// The sender's QP.
        local_qpn: u32 = 32 + 0, 24;
        /// Reads and atomics that the sender takes at a time.
        responder_resources: u8 = 35 + 0, 8;
        /// The sender's end-to-end context; RD only.
        local_eecn: u32 = 36 + 0, 24;
        /// Reads and atomics that the sender will have on their way at a time.
        initiator_depth: u8 = 39 + 0, 8;
        /// The receiver's end-to-end context; RD only.
        remote_eecn: u32 = 40 + 0, 24;
        /// How soon the receiver has to answer: 4.096 µs · 2^n.
        remote_cm_response_timeout: u8 = 43 + 0, 5;
        /// 0 RC, 1 UC, 2 RD, 3 what [`Self::extended_transport_type`] says.
        transport_service_type: u8 = 43 + 5, 2;
        /// The sender's QP has end-to-end flow control.
        end_to_end_flow_control: bool = 43 + 7, 1;
        /// The first PSN that the sender will send.
        starting_psn: u32 = 44 + 0, 24;
        /// How soon the sender answers: 4.096 µs · 2^n.
        local_cm_response_timeout: u8 = 47 + 0, 5;
        /// `retry_cnt` of the receiver's QP.
        retry_count: u8 = 47 + 5, 3;
        /// The partition.
        pkey: u16 = 48 + 0, 16;
        /// Path MTU: 1 is 256 bytes, 5 is 4096.
        path_mtu: u8 = 50 + 0, 4;
        /// The sender's end-to-end context is connected already; RD only.
        rdc_exists: bool = 50 + 4, 1;
        /// `rnr_retry` of the receiver's QP.
        rnr_retry_count: u8 = 50 + 5, 3;
        /// How often either side sends a message again.
        max_cm_retries: u8 = 51 + 0, 4;
        /// The sender's QP takes its receives from an SRQ.
        srq: bool = 51 + 4, 1;
        /// 1 XRC.
        extended_transport_type: u8 = 51 + 5, 3;
        /// LID of the sender's port; 0xffff with a GRH on RoCE.
        primary_local_lid: u16 = 52 + 0, 16;
        /// LID of the receiver's port.
        primary_remote_lid: u16 = 54 + 0, 16;
        /// GID of the sender's port.
        primary_local_gid: [u8; 16] = 56 + 0, 128;
        /// GID of the receiver's port.
        primary_remote_gid: [u8; 16] = 72 + 0, 128;
        /// Flow label of the path.
        primary_flow_label: u32 = 88 + 0, 20;
        /// Reserved; kept as it came, for Linux fills it.
        primary_reserved: u8 = 90 + 4, 6;
        /// Static rate of the path.
        primary_packet_rate: u8 = 91 + 2, 6;
        /// Traffic class of the path.
        primary_traffic_class: u8 = 92 + 0, 8;
        /// Hop limit of the path.
        primary_hop_limit: u8 = 93 + 0, 8;
        /// Service level of the path.
        primary_sl: u8 = 94 + 0, 4;
        /// The path stays within its subnet.
        primary_subnet_local: bool = 94 + 4, 1;
        /// `timeout` of the receiver's QP.
        primary_local_ack_timeout: u8 = 95 + 0, 5;
        /// The same of another path, all zero if there is none.
        alternate_local_lid: u16 = 96 + 0, 16;
        /// See the primary path.
        alternate_remote_lid: u16 = 98 + 0, 16;
        /// See the primary path.
        alternate_local_gid: [u8; 16] = 100 + 0, 128;
        /// See the primary path.
        alternate_remote_gid: [u8; 16] = 116 + 0, 128;
        /// See the primary path.
        alternate_flow_label: u32 = 132 + 0, 20;
        /// See the primary path.
        alternate_packet_rate: u8 = 135 + 2, 6;
        /// See the primary path.
        alternate_traffic_class: u8 = 136 + 0, 8;
        /// See the primary path.
        alternate_hop_limit: u8 = 137 + 0, 8;
        /// See the primary path.
        alternate_sl: u8 = 138 + 0, 4;
        /// See the primary path.
        alternate_subnet_local: bool = 138 + 4, 1;
        /// See the primary path.
        alternate_local_ack_timeout: u8 = 139 + 0, 5;
    }
    bytes {
        /// The program's.
        private_data: 92 = 140;
    }

    /// Asks to wait (§12.6.6).
    Mra = 0x0011, "MRA" {
        /// The sender's number of the connection.
        local_comm_id: u32 = 0 + 0, 32;
        /// The receiver's.
        remote_comm_id: u32 = 4 + 0, 32;
        /// Which message it answers: [`MRA_OF_REQ`] and its like.
        message_mraed: u8 = 8 + 0, 2;
        /// How long to wait: 4.096 µs · 2^n.
        service_timeout: u8 = 9 + 0, 5;
    }
    bytes {
        /// The program's.
        private_data: 222 = 10;
    }

    /// Turns a connection down (§12.6.7).
    Rej = 0x0012, "REJ" {
        /// The sender's number of the connection.
        local_comm_id: u32 = 0 + 0, 32;
        /// The receiver's; 0 where it is not known.
        remote_comm_id: u32 = 4 + 0, 32;
        /// Which message it answers: [`REJ_OF_REQ`] and its like.
        message_rejected: u8 = 8 + 0, 2;
        /// Bytes of [`Self::info`] that mean something.
        info_len: u8 = 9 + 0, 7;
        /// Why: [`super::RejReason`].
        reason: u16 = 10 + 0, 16;
    }
    bytes {
        /// More of the reason.
        info: 72 = 12;
        /// The program's.
        private_data: 148 = 84;
    }

    /// Accepts a connection (§12.6.8).
    Rep = 0x0013, "REP" {
        /// The sender's number of the connection.
        local_comm_id: u32 = 0 + 0, 32;
        /// The receiver's.
        remote_comm_id: u32 = 4 + 0, 32;
        /// Q_Key of the sender's QP; RD only.
        local_qkey: u32 = 8 + 0, 32;
        /// The sender's QP.
        local_qpn: u32 = 12 + 0, 24;
        /// The sender's end-to-end context; RD only.
        local_eecn: u32 = 16 + 0, 24;
        /// The first PSN that the sender will send.
        starting_psn: u32 = 20 + 0, 24;
        /// Reads and atomics that the sender takes at a time.
        responder_resources: u8 = 24 + 0, 8;
        /// Reads and atomics that the sender will have on their way at a time.
        initiator_depth: u8 = 25 + 0, 8;
        /// How long the sender's device may take to acknowledge: 4.096 µs · 2^n.
        target_ack_delay: u8 = 26 + 0, 5;
        /// What became of the alternate path.
        failover_accepted: u8 = 26 + 5, 2;
        /// The sender's QP has end-to-end flow control.
        end_to_end_flow_control: bool = 26 + 7, 1;
        /// `rnr_retry` of the receiver's QP.
        rnr_retry_count: u8 = 27 + 0, 3;
        /// The sender's QP takes its receives from an SRQ.
        srq: bool = 27 + 3, 1;
        /// GUID of the sender's device.
        local_ca_guid: u64 = 28 + 0, 64;
    }
    bytes {
        /// The program's.
        private_data: 196 = 36;
    }

    /// Says that the sender of a REQ is ready (§12.6.9).
    Rtu = 0x0014, "RTU" {
        /// The sender's number of the connection.
        local_comm_id: u32 = 0 + 0, 32;
        /// The receiver's.
        remote_comm_id: u32 = 4 + 0, 32;
    }
    bytes {
        /// The program's.
        private_data: 224 = 8;
    }

    /// Asks to end a connection (§12.6.10).
    Dreq = 0x0015, "DREQ" {
        /// The sender's number of the connection.
        local_comm_id: u32 = 0 + 0, 32;
        /// The receiver's.
        remote_comm_id: u32 = 4 + 0, 32;
        /// The receiver's QP.
        remote_qpn: u32 = 8 + 0, 24;
    }
    bytes {
        /// The program's.
        private_data: 220 = 12;
    }

    /// Agrees to that (§12.6.11).
    Drep = 0x0016, "DREP" {
        /// The sender's number of the connection.
        local_comm_id: u32 = 0 + 0, 32;
        /// The receiver's.
        remote_comm_id: u32 = 4 + 0, 32;
    }
    bytes {
        /// The program's.
        private_data: 224 = 8;
    }

    /// Asks for the QP behind a service (§12.11.1).
    SidrReq = 0x0017, "SIDR_REQ" {
        /// The sender's number of the question.
        request_id: u32 = 0 + 0, 32;
        /// The partition.
        pkey: u16 = 4 + 0, 16;
        /// Whom it is for.
        service_id: u64 = 8 + 0, 64;
    }
    bytes {
        /// The program's.
        private_data: 216 = 16;
    }

    /// Answers that (§12.11.2).
    SidrRep = 0x0018, "SIDR_REP" {
        /// The number of the question.
        request_id: u32 = 0 + 0, 32;
        /// Whether there is a QP: [`super::SidrStatus`].
        status: u8 = 4 + 0, 8;
        /// Bytes of [`Self::info`] that mean something.
        info_len: u8 = 5 + 0, 8;
        /// The QP.
        qpn: u32 = 8 + 0, 24;
        /// The service.
        service_id: u64 = 12 + 0, 64;
        /// Q_Key of the QP.
        qkey: u32 = 20 + 0, 32;
    }
    bytes {
        /// More of the status.
        info: 72 = 24;
        /// The program's.
        private_data: 136 = 96;
    }

    /// Offers another path for a connection (§12.8.1).
    Lap = 0x0019, "LAP" {
        /// The sender's number of the connection.
        local_comm_id: u32 = 0 + 0, 32;
        /// The receiver's.
        remote_comm_id: u32 = 4 + 0, 32;
        /// The receiver's QP.
        remote_qpn: u32 = 12 + 0, 24;
        /// How soon the receiver has to answer: 4.096 µs · 2^n.
        remote_cm_response_timeout: u8 = 15 + 0, 5;
        /// LID of the sender's port.
        alternate_local_lid: u16 = 20 + 0, 16;
        /// LID of the receiver's port.
        alternate_remote_lid: u16 = 22 + 0, 16;
        /// GID of the sender's port.
        alternate_local_gid: [u8; 16] = 24 + 0, 128;
        /// GID of the receiver's port.
        alternate_remote_gid: [u8; 16] = 40 + 0, 128;
        /// Flow label of the path.
        alternate_flow_label: u32 = 56 + 0, 20;
        /// Traffic class of the path.
        alternate_traffic_class: u8 = 59 + 0, 8;
        /// Hop limit of the path.
        alternate_hop_limit: u8 = 60 + 0, 8;
        /// Static rate of the path.
        alternate_packet_rate: u8 = 61 + 2, 6;
        /// Service level of the path.
        alternate_sl: u8 = 62 + 0, 4;
        /// The path stays within its subnet.
        alternate_subnet_local: bool = 62 + 4, 1;
        /// `timeout` of the receiver's QP.
        alternate_local_ack_timeout: u8 = 63 + 0, 5;
    }
    bytes {
        /// The program's.
        private_data: 168 = 64;
    }

    /// Answers that (§12.8.2).
    Apr = 0x001a, "APR" {
        /// The sender's number of the connection.
        local_comm_id: u32 = 0 + 0, 32;
        /// The receiver's.
        remote_comm_id: u32 = 4 + 0, 32;
        /// Bytes of [`Self::info`] that mean something.
        info_len: u8 = 8 + 0, 8;
        /// 0 if the path was loaded.
        status: u8 = 9 + 0, 8;
    }
    bytes {
        /// More of the status.
        info: 72 = 12;
        /// The program's.
        private_data: 148 = 84;
    }
}

impl Message {
    /// The receiver's number of the connection, for messages that name one.
    #[must_use]
    pub const fn remote_comm_id(&self) -> Option<u32> {
        match self {
            Self::Mra(m) => Some(m.remote_comm_id),
            Self::Rej(m) => Some(m.remote_comm_id),
            Self::Rep(m) => Some(m.remote_comm_id),
            Self::Rtu(m) => Some(m.remote_comm_id),
            Self::Dreq(m) => Some(m.remote_comm_id),
            Self::Drep(m) => Some(m.remote_comm_id),
            Self::SidrRep(m) => Some(m.request_id),
            Self::Lap(m) => Some(m.remote_comm_id),
            Self::Apr(m) => Some(m.remote_comm_id),
            Self::Req(_) | Self::SidrReq(_) => None,
        }
    }

    /// The service that is asked for, for messages that ask for one.
    #[must_use]
    pub const fn wanted_service(&self) -> Option<u64> {
        match self {
            Self::Req(m) => Some(m.service_id),
            Self::SidrReq(m) => Some(m.service_id),
            _ => None,
        }
    }
}
